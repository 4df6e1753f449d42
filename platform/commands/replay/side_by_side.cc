// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/replay/side_by_side.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace snf {
namespace {

PacketFields FieldsOf(const FlowKey& key, const ParsedPacket& packet) {
  const bool is_fragment = key.form == FlowKeyForm::kIpv4Fragment ||
                           key.form == FlowKeyForm::kIpv6Fragment;
  const bool is_ipv4 =
      key.form == FlowKeyForm::kIpv4 || key.form == FlowKeyForm::kIpv4Fragment;
  return {.source = key.source,
          .destination = key.destination,
          .source_port = key.source_port.host(),
          .destination_port = key.destination_port.host(),
          .vlan = packet.outer_vlan,
          .protocol = key.protocol,
          .l3 = is_ipv4 ? L3::kIpv4 : L3::kIpv6,
          .has_ports = HasPorts(key.protocol) && !is_fragment};
}

PacketFields Opposite(PacketFields fields) {
  std::swap(fields.source, fields.destination);
  std::swap(fields.source_port, fields.destination_port);
  return fields;
}

}  // namespace

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
  absl::StatusOr<RuleTable> table = RuleTable::Build(config.rules);
  if (!table.ok()) return table.status();
  auto made = std::unique_ptr<SideBySide>(
      new SideBySide(config, options, sink, *std::move(table)));
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

SideBySide::SideBySide(const Config& config, const RunOptions& options,
                       RunObserver* sink, RuleTable table)
    : classifier_({.fragments = options.flow.fragments}),
      table_(std::move(table)),
      rule_chains_(config.rule_chains),
      default_chain_(config.default_chain),
      sink_(sink) {}

SideBySide::~SideBySide() = default;

const RunOptions& SideBySide::options(size_t chain) const {
  return lanes_[chain]->options;
}

std::optional<size_t> SideBySide::ChainOf(const CapturedPacket& captured) {
  ParsedPacket headers;
  FlowKey key;
  if (classifier_.Classify(captured.time, captured.link, captured.bytes,
                           headers, key) == Direction::kNone) {
    return default_chain_.value_or(0);
  }
  const PacketFields fields = FieldsOf(key, headers);
  const uint32_t rule =
      std::min(table_.Find(fields), table_.Find(Opposite(fields)));
  if (rule == RuleTable::kNoRule) return default_chain_;
  return rule_chains_[rule];
}

void SideBySide::Offer(const CapturedPacket& captured) {
  ++packets_in_;
  const std::optional<size_t> chain = ChainOf(captured);
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
