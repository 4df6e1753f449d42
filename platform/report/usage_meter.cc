// SPDX-License-Identifier: Apache-2.0
#include "platform/report/usage_meter.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace snf {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

}  // namespace

absl::StatusOr<std::string> UsageMeter::JsonLines(
    const std::string& chain) const {
  const uint64_t refused = ledger_.refused_rows() + ledger_.refused_overflow();
  if (refused > 0) {
    return absl::ResourceExhaustedError(fmt::format(
        "usage: {} additions did not fit into so many epochs, or 64 bits",
        refused));
  }
  using Json = nlohmann::ordered_json;
  std::string lines;
  for (const auto& [key, used] : ledger_.rows()) {
    const Json json = {{"chain", chain},
                       {"epoch", key.epoch},
                       {"packets", used.packets},
                       {"bytes", used.bytes},
                       {"processing_ns", used.processing_ns},
                       {"state_byte_seconds", used.state_byte_seconds}};
    lines += json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return lines;
}

void UsageMeter::Add(const UsageMeter& other) {
  for (const auto& [key, used] : other.ledger_.rows()) ledger_.Add(key, used);
  live_ += other.live_;
  byte_ns_ += other.byte_ns_;
  // What each left out may be a byte-second together.
  if (byte_ns_ < kSecond || ledger_.rows().empty()) return;
  byte_ns_ -= kSecond;
  ledger_.Add(ledger_.rows().rbegin()->first, {.state_byte_seconds = 1});
}

void UsageMeter::on_service_begin(Instant now, UnitId unit,
                                  const PacketMeta& /*meta*/, Nanos /*wait*/) {
  begun_[value(unit)] = now;
}

void UsageMeter::on_service_again(Instant now, UnitId unit,
                                  const PacketMeta& /*meta*/) {
  begun_[value(unit)] = now;
}

void UsageMeter::on_service_end(Instant now, UnitId unit,
                                const PacketMeta& meta) {
  Run(now, meta, now - begun_[value(unit)]);
}

void UsageMeter::on_busy(Instant now, Nanos time) {
  ledger_.Add(KeyAt(now), {.processing_ns = static_cast<uint64_t>(time.ns)});
}

void UsageMeter::Run(Instant now, const PacketMeta& meta, Nanos taken) {
  Advance(now);
  const auto [at, is_new] = flows_.try_emplace(uint64_t{value(meta.flow)});
  Flow& flow = at->second;
  // A packet that its NF let wait is served again.
  const bool is_packet = meta.has_payload() && meta.clock > flow.done;
  ledger_.Add(KeyAt(now), {.packets = is_packet ? 1u : 0u,
                           .bytes = is_packet ? meta.original_length : 0u,
                           .processing_ns = static_cast<uint64_t>(taken.ns)});
  live_ += flow.done == Clock{};
  flow.done = std::max(flow.done, meta.clock);
  if (flow.last == Clock{} || flow.done < flow.last) return;
  --live_;
  flows_.erase(at);
}

void UsageMeter::on_end_flow(Instant now, UnitId /*unit*/, const EndFlow& end) {
  Advance(now);
  const auto [at, is_new] = flows_.try_emplace(uint64_t{value(end.flow)});
  Flow& flow = at->second;
  flow.last = end.last;
  if (flow.done < flow.last) return;
  --live_;
  flows_.erase(at);
}

void UsageMeter::Advance(Instant now) {
  if (now == state_until_) return;
  byte_ns_ += Wide{live_} * record_bytes_ *
              static_cast<uint64_t>((now - state_until_).ns);
  state_until_ = now;
  if (byte_ns_ < kSecond) return;
  const Wide whole = byte_ns_ / kSecond;
  byte_ns_ %= kSecond;
  ledger_.Add(KeyAt(now), {.state_byte_seconds = static_cast<uint64_t>(
                               std::min(whole, Wide{~uint64_t{0}}))});
}

void UsageMeter::on_end(Instant now) { Advance(now); }

}  // namespace snf
