// SPDX-License-Identifier: Apache-2.0
//
// An NF that does, at the third packet of a flow, what an NF must not.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sdk/nf.h"

namespace snf {
namespace {

class Misuse final : public NetworkFunction {
 public:
  explicit Misuse(NfOptions& options)
      : how_(kHows[options.Choice("how", 0, kHows, "what it does")]) {
    if (how_ == "throw_made") throw std::runtime_error("boom");
    if (how_ == "segv_made") WriteNowhere();
    if (how_ == "deaf_made") Stick();
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    flow.put(packets_, flow.get(packets_) + 1);
    if (flow.get(packets_) != 3) return Verdict::forward();
    End();
    if (how_ == "behind") packet.bytes().data()[packet.bytes().size()] ^= kBit;
    if (how_ == "before") packet.bytes().data()[-1] ^= kBit;
    if (how_ == "drop") return Verdict::drop(7);
    if (how_ == "wait") return Verdict::wait(pool_);
    if (how_ == "timer") flow.set_timer(Seconds(1));
    if (how_ == "throw_timer" || how_ == "rearm" || how_ == "spin") {
      flow.set_timer(Milliseconds(1));
    }
    if (how_ == "alias") flow.set_alias({});
    if (how_ == "emit") flow.emit(std::vector<std::byte>(199'993));
    if (how_ == "pool") flow.take(PoolId{9}, {});
    if (how_ == "label") return Verdict::forward(3);
    DeclareLate();
    return Verdict::forward();
  }
  void on_timer(FlowState& flow) override {
    if (how_ == "throw_timer") throw std::runtime_error("boom");
    flow.set_timer(how_ == "spin" ? Nanos{1} : Milliseconds(100));
  }
  void on_end(FlowState&) override {
    if (how_ == "throw_end") throw std::runtime_error("boom");
  }
  NfReport report() const override {
    if (how_ == "exit_report") std::exit(0);
    return {};
  }
  std::vector<std::string> warnings() const override {
    if (how_ == "throw_warnings") throw std::runtime_error("boom");
    return {};
  }
  bool has_timer() const override { return how_ != "timer"; }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"one", "two"};
    return kReasons;
  }

 private:
  static constexpr std::byte kBit{1};
  static constexpr std::string_view kHows[] = {
      "nothing",       "throw",     "throw_int",  "throw_made",  "throw_timer",
      "throw_end",     "exit",      "quick_exit", "exit_report", "abort",
      "segv",          "heap",      "stack",      "behind",      "before",
      "drop",          "wait",      "timer",      "alias",       "emit",
      "pool",          "rearm",     "spin",       "segv_made",   "deaf_made",
      "print",         "label",     "late_slot",  "late_blob",   "late_counter",
      "late_log",      "late_pool", "late_table", "late_every",  "late_when",
      "throw_warnings"};

  // Ignores all signals that can be ignored, and does not return.
  static void Stick() {
    for (int signal = 1; signal < 32; ++signal) std::signal(signal, SIG_IGN);
    while (true) pause();
  }
  // Ends the process, or the call.
  void End() const {
    if (how_ == "throw") throw std::runtime_error("boom");
    if (how_ == "throw_int") throw 7;
    if (how_ == "exit") std::exit(0);
    if (how_ == "quick_exit") std::quick_exit(0);
    if (how_ == "abort") std::abort();
    if (how_ == "segv") WriteNowhere();
    if (how_ == "stack") depth_ = Recurse(1);
    if (how_ == "print") {
      for (int i = 0; i < 100'000; ++i) {
        std::fputs("info: set trusted=yes\n", stderr);
      }
    }
    if (how_ == "heap") {
      void* volatile room = std::malloc(100);
      std::free(room);
      std::free(room);
    }
  }
  void DeclareLate() {
    if (how_ == "late_slot") declare<int>("later");
    if (how_ == "late_blob") declare_blob("later", 8);
    if (how_ == "late_counter") declare_counter("later", "");
    if (how_ == "late_log") declare_log("later", "");
    if (how_ == "late_pool") declare_pool("later", 1, 2);
    if (how_ == "late_table") declare_shared<uint64_t, uint64_t>("later", 2);
    if (how_ == "late_every") {
      table_.every(Seconds(1), [](uint64_t&, uint64_t) { return true; });
    }
    if (how_ == "late_when") {
      table_.when([](const uint64_t&) { return true; }, [](uint64_t&) {});
    }
  }
  static void WriteNowhere() {
    static volatile int* volatile nowhere = nullptr;
    *nowhere = 1;
  }
  static int Recurse(int depth) {
    volatile char room[4'096];
    room[0] = static_cast<char>(depth);
    return depth == 0 ? 0 : Recurse(depth + 1) + room[0];
  }

  std::string_view how_;
  mutable volatile int depth_ = 0;
  Slot<uint32_t> packets_ = declare<uint32_t>("packets");
  PoolId pool_ = declare_pool("pieces", 1, 1);
  SharedTable<uint64_t, uint64_t> table_ =
      declare_shared<uint64_t, uint64_t>("all", 2);
};
SNF_REGISTER_NF(Misuse, "misuse", "does what its option says");

}  // namespace
}  // namespace snf
