// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "runtime/sdk/test_chain.h"

namespace snf {
namespace {

class Step final : public NetworkFunction {
 public:
  explicit Step(NfOptions& options)
      : id_(options.Text("id", "x", "LETTER", "its name in packets")[0]),
        has_timer_(options.Flag("timer", false, "sets timers")),
        is_sided_(options.Flag("sided", false, "has two sides")),
        is_holder_(options.Flag("holder", false, "waits without a piece")) {
    if (options.Flag("state", true, "keeps state")) {
      packets_ = declare<uint64_t>("packets");
      log_ = declare_blob("log", 20);
      piece_ = declare<uint64_t>("piece");
    }
    const int64_t pieces = options.Integer("pool", 0, 0, 100, "pieces");
    if (pieces > 0) {
      pool_ = declare_pool("pieces", 10, static_cast<uint32_t>(9 + pieces));
    }
  }

  FlowScope flow_scope() const override {
    return is_sided_ ? FlowScope::kInsideEndpoint : FlowScope::kConnection;
  }
  bool has_timer() const override { return has_timer_; }
  bool may_wait(const FlowState& flow) const override {
    return pool_.has_value() && !(is_holder_ && flow.has(*piece_));
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"denied", "other"};
    return kReasons;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"clean", "suspicious",
                                                   "odd"};
    return kLabels;
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::string text(AsText(packet.bytes()));
    if (text.find(std::string{id_} + ":take") != text.npos && !TryTake(flow)) {
      return Verdict::wait(*pool_);
    }
    if (packets_.has_value()) flow.put(*packets_, flow.get(*packets_) + 1);
    count(counter_);
    if (const size_t dot = text.find('.'); dot != text.npos) {
      packet.bytes()[dot] = static_cast<std::byte>(id_);
    }
    verdict_ = Verdict::forward();
    for (size_t at = text.find(' '); at != text.npos;
         at = text.find(' ', at + 1)) {
      if (text[at + 1] != id_ || text[at + 2] != ':') continue;
      const size_t begin = at + 3;
      Obey(text.substr(begin, text.find(' ', begin) - begin), flow);
    }
    return verdict_;
  }

  void on_timer(FlowState& flow) override {
    Emit(flow, "timer");
    const std::span<const std::byte> log = GetLog(flow);
    if (!log.empty() && log[0] == std::byte{'*'}) {
      flow.set_timer(Milliseconds(log.size()));
    }
    if (!log.empty() && log[0] == std::byte{'!'}) flow.end();
    if (packets_.has_value()) flow.put(*packets_, flow.get(*packets_) + 100);
  }
  void on_end(FlowState& flow) override {
    Give(flow);
    Emit(flow, "end");
  }
  void on_alias_refused(FlowState& flow, AliasResult) override {
    Emit(flow, "refused");
    if (has_timer_) flow.cancel_timer();
  }

 private:
  // Returns false if the packet is to wait.
  bool TryTake(FlowState& flow) {
    if (flow.has(*piece_)) return true;
    const auto piece = flow.take(*pool_, {.first = 0, .last = 65'535});
    if (piece.has_value()) {
      flow.put(*piece_, *piece);
    } else if (!flow.is_exhausted(*pool_)) {
      return false;
    } else {
      Emit(flow, "none");
    }
    return true;
  }
  void Give(FlowState& flow) {
    if (!pool_.has_value() || !flow.has(*piece_)) return;
    flow.give_back(*pool_, static_cast<uint32_t>(flow.get(*piece_)));
    flow.erase(*piece_);
  }
  std::span<const std::byte> GetLog(const FlowState& flow) const {
    if (!log_.has_value()) return {};
    return flow.get(*log_);
  }
  void Emit(FlowState& flow, const std::string& what) {
    const std::string frame = id_ + what;
    flow.emit(std::as_bytes(std::span(frame)));
  }

  void Obey(const std::string& word, FlowState& flow) {
    const size_t digits = word.find_first_of("0123456789");
    const std::string verb = word.substr(0, digits);
    const int64_t number =
        digits == word.npos ? 0 : std::atoll(word.c_str() + digits);
    if (verb == "drop") verdict_ = Verdict::drop(0);
    if (verb == "other") verdict_ = Verdict::drop(1);
    if (verb == "consume") verdict_ = Verdict::consume();
    if (verb == "suspicious") verdict_ = Verdict::forward(1);
    if (verb == "odd") verdict_ = Verdict::forward(2);
    if (verb == "idle") flow.set_idle_timeout(Milliseconds(number));
    if (verb == "end") flow.end();
    if (verb == "alias") flow.set_alias({}, static_cast<uint64_t>(number));
    if (verb == "give") Give(flow);
    if (verb == "timer") flow.set_timer(Milliseconds(number));
    if (verb == "cancel") flow.cancel_timer();
    if (!packets_.has_value()) return;
    const auto packets = flow.get(*packets_);
    if (verb == "parity") verdict_ = Verdict::forward(packets % 2 * 2);
    if (verb == "emit") Emit(flow, std::to_string(packets));
    if (verb == "forget") flow.erase(*log_);
    if (verb == "note") {
      flow.patch(*log_, static_cast<uint32_t>(GetLog(flow).size()),
                 std::as_bytes(std::span(&id_, 1)));
    }
    if (verb == "log") {
      flow.patch(*log_, static_cast<uint32_t>(number),
                 std::as_bytes(std::span(word)));
    }
    if (verb == "again" || verb == "bye") {
      const std::string stars(static_cast<size_t>(number),
                              verb == "again" ? '*' : '!');
      flow.put(*log_, std::as_bytes(std::span(stars)));
      flow.set_timer(Milliseconds(number));
    }
  }

  char id_;
  bool has_timer_;
  bool is_sided_;
  bool is_holder_;
  std::optional<PoolId> pool_;
  std::optional<Slot<uint64_t>> packets_;
  std::optional<Slot<uint64_t>> piece_;
  std::optional<Blob> log_;
  Counter counter_ = declare_counter("packets", "that it saw");
  Verdict verdict_ = Verdict::forward();
};
SNF_REGISTER_NF(Step, "step", "does what packets say");

}  // namespace
}  // namespace snf
