// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/log_channel.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/logger/delta.h"

namespace snf {
namespace {

// The upper bits of a handle name its size: any but kNoPacket is possible.
constexpr uint32_t kHandles = value(kNoPacket);

}  // namespace

StateNetwork NetworkToLoggers(RunOptions options) {
  options.hop_delay = options.logger_delay;
  ChaosOptions& chaos = options.chaos;
  chaos.state_delay_min = chaos.logger_delay_min;
  chaos.state_delay_max = chaos.logger_delay_max;
  chaos.state_loss_65536 = chaos.logger_loss_65536;
  chaos.state_duplicate_65536 = chaos.logger_duplicate_65536;
  constexpr uint64_t kStream = 5;
  return StateNetwork(options, 0, kStream);
}

LogChannel::LogChannel(uint32_t max_flows, const StateSchema& schema,
                       std::span<const NetworkFunction::Pool> pools)
    : schema_(&schema),
      limits_{.schema = schema.hash(),
              .max_delta_bytes =
                  std::max(schema.record_bytes(), MaxDeltaBytes(schema)),
              .packets = kHandles,
              .pools = static_cast<uint16_t>(pools.size())},
      maker_(incarnation_, schema),
      logger_(incarnation_, {.max_flows = max_flows, .packets = kHandles},
              schema, pools) {}

void LogChannel::BeginAnew() {
  // One that has stopped in good order was not sealed.
  logger_.Seal();
  LoggerOut out;
  while (logger_.has_more()) {
    out.clear();
    logger_.Resume(out);
  }
  logger_.Begin(++incarnation_);
  maker_ = EntryMaker(incarnation_, *schema_);
  entries_.clear();
  first_ = 1;
  has_stopped = has_heartbeat = is_broken = false;
}

uint64_t LogChannel::Keep(LoggerFigures& figures) {
  const std::span<const std::byte> bytes = maker_.entry();
  SNF_CHECK(maker_.number() == first_ + entries_.size());
  entries_.emplace_back(bytes.begin(), bytes.end());
  const auto entry = LoadAs<LogEntry>(bytes.data());
  ++figures.entries;
  figures.bytes += bytes.size();
  if (entry.kind != LogEntry::Kind::kClock) return entry.number;
  ++(entry.is(LogEntry::kWhole) ? figures.whole : figures.partial);
  figures.delta_bytes += entry.delta_bytes;
  return entry.number;
}

std::span<const std::byte> LogChannel::entry(uint64_t number) const {
  if (number < first_ || number - first_ >= entries_.size()) return {};
  return entries_[number - first_];
}

void LogChannel::Replace(uint64_t number, const Unit& unit) {
  const auto view = Parse(entry(number));
  SNF_CHECK(view.has_value());
  for (uint64_t i = number + 1 - first_; i < entries_.size(); ++i) {
    const auto later = LoadAs<LogEntry>(entries_[i].data());
    if (later.meta.flow == (*view)->meta.flow && later.pieces > 0) return;
  }
  entries_[number - first_] = maker_.StandIn(*view, unit);
}

}  // namespace snf
