// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/unit_logs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/byte_order.h"
#include "base/check.h"
#include "runtime/logger/delta.h"
#include "runtime/logger/table_update.h"
#include "runtime/wire/log_word.h"

namespace snf {
namespace {

// Entries that may be under way without an allocation.
constexpr size_t kEntries = 1'024;
constexpr size_t kGiven = 64;

}  // namespace

UnitLogs::UnitLogs(LinkOut link, uint32_t max_units, uint32_t incarnation,
                   const StateSchema& schema)
    : link_(std::move(link)),
      schema_(&schema),
      incarnation_(incarnation),
      makers_(max_units),
      numbers_released_(max_units),
      keepers_(max_units),
      sent_(kEntries),
      given_(kGiven) {}

void UnitLogs::KeepForLoggers(std::span<const NetworkFunction::Pool> pools,
                              std::vector<TableShape> tables) {
  pools_ = pools;
  tables_ = std::move(tables);
  limits_ = {.schema = schema_->hash(),
             .max_delta_bytes =
                 std::max(schema_->record_bytes(), MaxDeltaBytes(*schema_)),
             .packets = value(kNoPacket),
             .pools = static_cast<uint16_t>(pools.size()),
             .max_update_bytes = MaxUpdateBytes(tables_)};
}

void UnitLogs::Make(std::unique_ptr<EntryMaker>& maker) {
  maker = std::make_unique<EntryMaker>(incarnation_, *schema_, tables_);
}

bool UnitLogs::Take(const UnitCommand& command, const Unit& unit) {
  const EntryMaker::Taken taken = MakerOf(unit.id()).Take(command, unit);
  made_ = taken == EntryMaker::Taken::kEntry;
  if (made_) Send(unit.id());
  return taken != EntryMaker::Taken::kNot;
}

void UnitLogs::SendEnded(UnitId unit, FlowId flow, Clock clock) {
  MakerOf(unit).MakeEnded(flow, clock);
  Send(unit);
}

void UnitLogs::SendStopped(UnitId unit) {
  link_.SendBytes(LogWord{.kind = LogWord::Kind::kStopped, .unit = unit}, {});
}

void UnitLogs::SendReport(uint32_t epoch) {
  link_.SendBytes(
      LogWord{.kind = LogWord::Kind::kReport, .bytes = sizeof(epoch)},
      std::as_bytes(std::span(&epoch, 1)));
}

void UnitLogs::SendName(UnitId unit, const FlowName& name) {
  link_.SendBytes(
      LogWord{
          .kind = LogWord::Kind::kName, .unit = unit, .bytes = sizeof(name)},
      std::as_bytes(std::span(&name, 1)));
}

void UnitLogs::SendPull(UnitId unit, const Pull& pull) {
  link_.SendBytes(
      LogWord{
          .kind = LogWord::Kind::kPull, .unit = unit, .bytes = sizeof(pull)},
      std::as_bytes(std::span(&pull, 1)));
}

// Sends what the unit's maker has just made.
void UnitLogs::Send(UnitId unit) {
  const EntryMaker& maker = *makers_[value(unit)];
  const std::span<const std::byte> bytes = maker.entry();
  link_.SendBytes(LogWord{.kind = LogWord::Kind::kEntry,
                          .unit = unit,
                          .bytes = static_cast<uint32_t>(bytes.size())},
                  bytes);
  const LogEntry& entry = maker.header();
  Sent& sent = sent_.push();
  sent = {.end = link_.cells(),
          .meta = entry.meta,
          .unit = unit,
          .taker = entry.block.unit,
          .kind = entry.kind,
          .gives = 0};
  if (limits_.has_value()) Keep(unit, bytes);
  ++figures_.entries;
  figures_.bytes += bytes.size();
  if (entry.kind == LogEntry::Kind::kClock) CountClock(entry, bytes, sent);
  awaited_ += sent.is_awaited() ? 1 : 0;
}

// Counts an entry of a clock, and notes the pieces that it gives.
void UnitLogs::CountClock(const LogEntry& entry,
                          std::span<const std::byte> bytes, Sent& sent) {
  ++(entry.is(LogEntry::kWhole) ? figures_.whole : figures_.partial);
  figures_.delta_bytes += entry.delta_bytes;
  for (size_t i = 0; i < entry.pieces; ++i) {
    const auto use =
        LoadAs<PieceUse>(&bytes[sizeof entry + i * sizeof(PieceUse)]);
    if (use.gives == 0) continue;
    ++sent.gives;
    given_.push() = {.word = use.piece / 64,
                     .pool = use.pool,
                     .unit = sent.unit,
                     .mask = uint64_t{1} << use.piece % 64};
  }
}

// What the entry tells need not be kept: it is in the ring until the controller
// has been told, whichever process of loggers does that.
void UnitLogs::Keep(UnitId unit, std::span<const std::byte> bytes) {
  std::unique_ptr<LogKeeper>& keeper = keepers_[value(unit)];
  if (keeper == nullptr) {
    keeper = std::make_unique<LogKeeper>(*schema_, pools_, tables_);
  }
  const auto entry = LogEntryView::Parse(*limits_, bytes);
  SNF_CHECK(entry.has_value());
  keeper->on_made(*entry);
  keeper->on_told((*entry)->number);
}

PieceBlock UnitLogs::TakeGiven() {
  SNF_CHECK(!given_.empty());
  const PieceBlock pieces = given_.front();
  given_.pop();
  return pieces;
}

}  // namespace snf
