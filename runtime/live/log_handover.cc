// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/log_handover.h"

#include <optional>

namespace snf {

LogHandover::LogHandover(LinkOut link, const StateSchema& schema)
    : link_(std::move(link)),
      schema_(&schema),
      entry_(MaxLogEntryBytes(schema)) {}

void LogHandover::Begin(uint32_t process, const UnitLogs& logs,
                        std::vector<Kept> units) {
  process_ = process;
  logs_ = &logs;
  units_ = std::move(units);
  next_ = 0;
  has_begun_ = has_ended_ = false;
  released_.clear();
  logs.ForEachUnreleased([this](const UnitLogs::Sent& sent) {
    if (sent.kind != LogEntry::Kind::kClock) return;
    released_.try_emplace({sent.unit, sent.meta.flow}, sent.meta.clock - 1);
  });
  link_.SendBytes(KeptWord{.kind = KeptWord::Kind::kBegin, .number = process},
                  {});
}

// Words that the ring has no room for stay in order, so that it never has a
// part of one behind which another handover begins.
bool LogHandover::Send() {
  if (!link_.Flush()) return false;
  while (next_ < units_.size()) {
    if (!SendUnit(units_[next_])) {
      link_.Flush();
      return false;
    }
    ++next_;
    has_begun_ = false;
  }
  if (!has_ended_) {
    link_.SendBytes(KeptWord{.kind = KeptWord::Kind::kAll, .number = process_},
                    {});
    has_ended_ = true;
  }
  if (!link_.Flush()) return false;
  done_ = process_;
  return true;
}

bool LogHandover::SendUnit(const Kept& kept) {
  const Unit& unit = *kept.unit;
  const UnitId id = unit.id();
  if (logs_->keeper(id) == nullptr) {  // it has logged nothing
    SendNames(kept);
    return true;
  }
  if (!has_begun_) {
    has_begun_ = true;
    at_ = 0;
    logs_->keeper(id)->ForEach(
        logs_->incarnation(), logs_->released(id),
        [&](std::span<const std::byte> bytes) { SendEntry(id, false, bytes); });
  }
  while (link_.has_room(sizeof(KeptWord) + entry_.size())) {
    const std::optional<Unit::LoggedFlow> flow = unit.NextLogged(at_);
    if (flow.has_value()) {
      SendRecord(unit, *flow);
      continue;
    }
    SendNames(kept);
    link_.SendBytes(KeptWord{.kind = KeptWord::Kind::kUnit,
                             .unit = id,
                             .released = logs_->released(id),
                             .number = logs_->made(id)},
                    {});
    return true;
  }
  return false;
}

void LogHandover::SendRecord(const Unit& unit, const Unit::LoggedFlow& flow) {
  const Unit::Change& record = flow.record;
  const auto released = released_.find({unit.id(), flow.flow});
  LogEntry entry;
  entry.number = logs_->made(unit.id());
  entry.meta.flow = flow.flow;
  const Clock clock{value(record.clock) - (flow.is_parked ? 1 : 0)};
  entry.meta.clock = entry.state = clock;
  entry.base = released == released_.end() ? clock : released->second;
  entry.timer = record.timer;
  entry.schema = schema_->hash();
  entry.incarnation = logs_->incarnation();
  entry.delta_bytes = static_cast<uint32_t>(record.bytes.size());
  entry.link = record.link;
  entry.flags = LogEntry::kWhole;
  SendEntry(unit.id(), flow.is_parked,
            std::span(entry_).first(
                WriteLogEntry(entry, {}, {}, nullptr, record.bytes, entry_)));
}

void LogHandover::SendNames(const Kept& kept) {
  kept.names->ForEachName([&](const FlowName& name) {
    link_.SendBytes(KeptWord{.kind = KeptWord::Kind::kName,
                             .unit = kept.unit->id(),
                             .bytes = sizeof(name)},
                    std::as_bytes(std::span(&name, 1)));
  });
}

void LogHandover::SendEntry(UnitId unit, bool is_ahead,
                            std::span<const std::byte> bytes) {
  link_.SendBytes(KeptWord{.kind = KeptWord::Kind::kEntry,
                           .is_ahead = is_ahead ? uint8_t{1} : uint8_t{0},
                           .unit = unit,
                           .bytes = static_cast<uint32_t>(bytes.size())},
                  bytes);
}

}  // namespace snf
