// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/replay/side_by_side.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace snf {

// A chain, and what it has released since that was last shown.
class SideBySide::Lane final : public RunObserver {
 public:
  struct Released {
    Instant time;
    std::vector<std::byte> bytes;
    uint32_t original_length;
    LinkType link;
    PacketRoute route;
    std::optional<std::string> drop_reason;  // of one that was dropped
  };

  Lane(const Config::Chain& chain, const RunOptions& run_options,
       const PlacementPolicy& policy, bool is_watched, RunObserver* log_reader)
      : options(OptionsOf(chain, run_options)),
        driver(options, policy, chain.nf,
               {is_watched ? this : nullptr, log_reader}) {}

  void on_release(const ReleasedPacket& packet) override { Keep(packet, {}); }
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override {
    Keep(packet, std::string(reason));
  }

  RunOptions options;
  VirtualDriver driver;
  std::vector<Released> released;

 private:
  void Keep(const ReleasedPacket& packet, std::optional<std::string> reason) {
    released.push_back({.time = packet.time,
                        .bytes = {packet.bytes.begin(), packet.bytes.end()},
                        .original_length = packet.original_length,
                        .link = packet.link,
                        .route = packet.route,
                        .drop_reason = std::move(reason)});
  }
};

absl::StatusOr<std::unique_ptr<SideBySide>> SideBySide::Make(
    const Config& config, const RunOptions& options,
    const PlacementPolicy& policy, RunObserver* sink, NfLogFiles* logs) {
  auto rules = ChainRules::Make(config.rules, config.rule_chains,
                                config.default_chain, options.flow.fragments);
  if (!rules.ok()) return rules.status();
  auto made =
      std::unique_ptr<SideBySide>(new SideBySide(sink, *std::move(rules)));
  for (const Config::Chain& chain : config.chains) {
    NfLogFiles::Reader* reader = nullptr;
    if (logs != nullptr) {
      auto read = logs->Read(chain.nf);
      if (!read.ok()) return read.status();
      reader = *read;
    }
    made->lanes_.push_back(std::make_unique<Lane>(chain, options, policy,
                                                  sink != nullptr, reader));
  }
  return made;
}

SideBySide::SideBySide(RunObserver* sink, std::unique_ptr<ChainRules> rules)
    : rules_(std::move(rules)), sink_(sink) {}

SideBySide::~SideBySide() = default;

const RunOptions& SideBySide::options(size_t chain) const {
  return lanes_[chain]->options;
}

void SideBySide::Offer(const CapturedPacket& captured) {
  ++packets_in_;
  const std::optional<size_t> chain =
      rules_->ChainOf(captured.time, captured.link, captured.bytes);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (i == chain) {
      lanes_[i]->driver.Offer(captured);
    } else {
      lanes_[i]->driver.AdvanceTo(captured.time);
    }
  }
  ShowReleased();
  if (chain.has_value()) return;
  ++packets_without_chain_;
  if (sink_ != nullptr) {
    sink_->on_drop({.time = captured.time,
                    .bytes = captured.bytes,
                    .original_length = captured.original_bytes,
                    .link = captured.link},
                   "no_chain");
  }
}

std::vector<RunResult> SideBySide::Finish() {
  std::vector<RunResult> results;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    results.push_back(lane->driver.Finish());
  }
  ShowReleased();
  return results;
}

void SideBySide::ShowReleased() {
  if (sink_ == nullptr) return;
  std::vector<Lane::Released*> all;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    for (Lane::Released& packet : lane->released) all.push_back(&packet);
  }
  std::ranges::stable_sort(all, {}, &Lane::Released::time);
  for (const Lane::Released* packet : all) {
    const ReleasedPacket shown = {.time = packet->time,
                                  .bytes = packet->bytes,
                                  .original_length = packet->original_length,
                                  .link = packet->link,
                                  .route = packet->route};
    if (packet->drop_reason.has_value()) {
      sink_->on_drop(shown, *packet->drop_reason);
    } else {
      sink_->on_release(shown);
    }
  }
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->released.clear();
}

}  // namespace snf
