// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/log_channel.h"

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
                       std::span<const NetworkFunction::Pool> pools,
                       bool may_fail, uint32_t window,
                       std::span<const TableShape> tables)
    : logger_options_{.max_flows = max_flows,
                      .window = window,
                      .packets = kHandles},
      schema_(&schema),
      pools_(pools),
      tables_(tables.begin(), tables.end()),
      limits_{.schema = schema.hash(),
              .max_delta_bytes =
                  std::max(schema.record_bytes(), MaxDeltaBytes(schema)),
              .packets = kHandles,
              .pools = static_cast<uint16_t>(pools.size()),
              .max_update_bytes = MaxUpdateBytes(tables)},
      maker_(incarnation_, schema, tables),
      logger_(incarnation_, logger_options_, schema, pools,
              /*takes_over=*/false, tables) {
  if (may_fail) keeper_.emplace(schema, pools, tables);
}

void LogChannel::BeginAnew() {
  // One that has stopped in good order was not sealed.
  logger_.Seal();
  LoggerOut out;
  while (logger_.has_more()) {
    out.clear();
    logger_.Resume(out);
  }
  logger_.Begin(++incarnation_);
  maker_ = EntryMaker(incarnation_, *schema_, tables_);
  if (keeper_.has_value()) keeper_.emplace(*schema_, pools_, tables_);
  next_logger_.reset();
  if (failure.has_value()) failure->released = 0;
  if (failure.has_value()) failure->released = 0;
  entries_.clear();
  first_ = 1;
  has_stopped = has_heartbeat = is_broken = false;
}

uint64_t LogChannel::Keep(LoggerFigures& figures) {
  const std::span<const std::byte> bytes = maker_.entry();
  SNF_CHECK(maker_.number() == first_ + entries_.size());
  entries_.emplace_back(bytes.begin(), bytes.end());
  if (keeper_.has_value()) keeper_->on_made(*Parse(bytes));
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

// Returns the clock before the first that is not released, of each flow that
// has such clocks.
std::map<FlowId, Clock> LogChannel::ClocksReleased(uint64_t released) const {
  std::map<FlowId, Clock> clocks;
  for (const std::vector<std::byte>& bytes : entries_) {
    const auto entry = LoadAs<LogEntry>(bytes.data());
    if (entry.number <= released || entry.kind != LogEntry::Kind::kClock) {
      continue;
    }
    clocks.emplace(entry.meta.flow, Clock{value(entry.meta.clock) - 1});
  }
  return clocks;
}

uint64_t LogChannel::Restore(const Unit& unit, uint64_t released) {
  SNF_CHECK(keeper_.has_value() && !unit.has_parked());
  OutputLoggerOptions options = logger_options_;
  options.max_tells =
      std::max(options.max_tells, static_cast<uint32_t>(keeper_->tells()) + 1);
  OutputLogger& next = next_logger_.emplace(
      incarnation_, options, *schema_, pools_, /*takes_over=*/true, tables_);
  const auto restore = [&next](std::span<const std::byte> bytes) {
    SNF_CHECK(next.Restore(bytes));
  };
  keeper_->ForEach(incarnation_, released, restore);
  const std::map<FlowId, Clock> clocks = ClocksReleased(released);
  std::vector<std::byte> bytes(MaxLogEntryBytes(*schema_));
  uint64_t records = 0;
  for (uint32_t at = 0; const auto flow = unit.NextLogged(at); ++records) {
    const Unit::Change& record = flow->record;
    const auto clock = clocks.find(flow->flow);
    LogEntry entry;
    entry.number = maker_.number();
    entry.meta.flow = flow->flow;
    entry.meta.clock = entry.state = record.clock;
    entry.base = clock == clocks.end() ? record.clock : clock->second;
    entry.timer = record.timer;
    entry.schema = schema_->hash();
    entry.incarnation = incarnation_;
    entry.delta_bytes = static_cast<uint32_t>(record.bytes.size());
    entry.link = record.link;
    entry.flags = LogEntry::kWhole;
    restore(std::span(bytes).first(
        WriteLogEntry(entry, {}, {}, nullptr, record.bytes, bytes)));
  }
  next.EndRestore(released, maker_.number());
  return records;
}

bool LogChannel::Replace() {
  if (!next_logger_.has_value()) return false;
  logger_ = std::move(*next_logger_);
  next_logger_.reset();
  failure.reset();
  return true;
}

}  // namespace snf
