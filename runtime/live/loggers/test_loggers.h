// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_TEST_LOGGERS_H_
#define SNF_RUNTIME_LIVE_LOGGERS_TEST_LOGGERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/live/loggers/logger_loop.h"
#include "runtime/ring/test_region.h"
#include "runtime/tables/table_message.h"
#include "runtime/tables/unit_tables.h"
#include "runtime/wire/link_payload.h"

namespace snf {

inline constexpr UnitId kUnit{2};
inline constexpr uint32_t kRingCells = 256;  // of a TestRegion

// A loop of loggers of all units, and the ends of its links.
class Loggers {
 public:
  explicit Loggers(bool recovers = false, bool reports = false,
                   std::string_view nf = "passthrough")
      : recovers_(recovers),
        reports_(reports),
        bell_(region_.New<Doorbell>()),
        progress_(region_.New<LoopProgress>()),
        log_ring_(region_.RingMemory()),
        up_ring_(region_.RingMemory()),
        down_ring_(region_.RingMemory()),
        answer_ring_(region_.RingMemory()),
        kept_ring_(region_.RingMemory()),
        control_(region_.New<LogControl>()),
        note_(region_.New<LogNote>()),
        log_(OutTo(log_ring_)),
        from_(InFrom(up_ring_, kMaxPayloadToController)),
        answers_(InFrom(answer_ring_, 0)),
        orders_(OutTo(down_ring_)),
        kept_(OutTo(kept_ring_)),
        nf_(*NfSpec::Parse(nf)),
        schema_(nf_.create()->schema()),
        tables_(recovers ? LoggedTablesOf(*nf_.create())
                         : std::vector<TableShape>()) {
    MakeLoop(0);
  }

  // The process of the loop has ended, wherever it was in its work, and another
  // one takes over.
  void Replace() {
    loop_.reset();
    MakeLoop(++process_);
  }
  // Units hand over to that process what they keep: of flow 7 a record, of
  // whose clocks those of entries up to `released` are released.
  // Keeps no updates of tables: homes have merged all up to `merged`.
  void HandOver(uint32_t process, uint64_t released, bool is_ahead = false,
                uint64_t merged = 0) {
    Keep({.kind = KeptWord::Kind::kBegin, .number = process});
    if (!tables_.empty()) {
      LogEntry updates;
      updates.number = number_;
      updates.schema = schema_.hash();
      updates.incarnation = incarnation_;
      updates.kind = LogEntry::Kind::kUpdates;
      updates.block.mask = merged;
      Keep(updates);
    }
    LogEntry record;
    record.number = number_;
    record.meta.flow = FlowId{7};
    record.meta.clock = record.state = Clock{clock_};
    record.base = Clock{clock_ - (number_ - released)};
    record.schema = schema_.hash();
    record.incarnation = incarnation_;
    record.flags = LogEntry::kWhole;
    Keep(record, is_ahead);
    Keep({.kind = KeptWord::Kind::kUnit,
          .unit = kUnit,
          .released = released,
          .number = number_});
    Keep({.kind = KeptWord::Kind::kAll, .number = process});
  }
  void Keep(const KeptWord& word, std::span<const std::byte> bytes = {}) {
    kept_.SendBytes(word, bytes);
    kept_.Flush();
  }
  // The same: free pieces, after one grant.
  void HandOverGrant(uint32_t process, uint64_t released, uint64_t mask) {
    Keep({.kind = KeptWord::Kind::kBegin, .number = process});
    LogEntry grant;
    grant.number = number_;
    grant.schema = schema_.hash();
    grant.incarnation = incarnation_;
    grant.kind = LogEntry::Kind::kGrant;
    grant.argument = 1;
    grant.block = {.word = 20, .pool = 0, .unit = kUnit, .mask = mask};
    Keep(grant);
    Keep({.kind = KeptWord::Kind::kUnit,
          .unit = kUnit,
          .released = released,
          .number = number_});
    Keep({.kind = KeptWord::Kind::kAll, .number = process});
  }
  void Keep(const LogEntry& entry, bool is_ahead = false) {
    std::vector<std::byte> bytes(sizeof entry);
    WriteLogEntry(entry, {}, {}, nullptr, {}, bytes);
    Keep({.kind = KeptWord::Kind::kEntry,
          .is_ahead = is_ahead ? uint8_t{1} : uint8_t{0},
          .unit = kUnit,
          .bytes = static_cast<uint32_t>(bytes.size())},
         bytes);
  }
  // As if those entries had not been released.
  void TakeBackReleased(uint64_t cells) {
    reinterpret_cast<RingHeader*>(log_ring_.data())->released = cells;
  }
  // As if the controller had dropped what was sent behind that.
  void DropWordsFrom(uint64_t cells) {
    auto* const ring = reinterpret_cast<RingHeader*>(up_ring_.data());
    ring->pushed = ring->released = cells;
  }
  LogControl& control() { return *control_; }
  LogNote& note() { return *note_; }
  uint64_t clock() const { return clock_; }

  // The entry of the next clock of flow 7, whose packet has the handle of its
  // number.
  LogEntry NextClock() {
    LogEntry entry;
    entry.number = ++number_;
    entry.meta.flow = FlowId{7};
    entry.meta.clock = entry.state = Clock{++clock_};
    entry.base = Clock{clock_ - 1};
    entry.schema = schema_.hash();
    entry.incarnation = incarnation_;
    entry.packet = PacketHandle{static_cast<uint32_t>(number_)};
    entry.outcome = LogEntry::Outcome::kRelease;
    entry.flags = clock_ == 1 ? LogEntry::kWhole : 0;
    return entry;
  }
  // The entry of another flow's first clock.
  LogEntry NextOf(FlowId flow) {
    LogEntry entry = NextClock();
    --clock_;
    entry.meta.flow = flow;
    entry.meta.clock = entry.state = Clock{1};
    entry.base = {};
    entry.flags = LogEntry::kWhole;
    return entry;
  }
  void Log(const LogEntry& entry) {
    std::vector<std::byte> bytes(sizeof entry);
    WriteLogEntry(entry, {}, {}, nullptr, {}, bytes);
    Send({.kind = LogWord::Kind::kEntry,
          .unit = kUnit,
          .bytes = static_cast<uint32_t>(bytes.size())},
         bytes);
  }
  // The entry of the next clock, with an update: key 7 of table 0 gets 1 in its
  // first word.
  void LogUpdate(uint64_t update) {
    LogEntry entry = NextClock();
    std::vector<uint64_t> words(tables_[0].entry_words());
    words[0] = 7;
    words[tables_[0].key_words()] = 1;
    std::vector<std::byte> updates;
    AppendUpdate(
        {.number = update, .words = static_cast<uint32_t>(words.size())},
        words.data(), updates);
    entry.argument = updates.size();
    std::vector<std::byte> bytes(sizeof entry + updates.size());
    WriteLogEntry(entry, {}, {}, nullptr, {}, bytes, updates);
    Send({.kind = LogWord::Kind::kEntry,
          .unit = kUnit,
          .bytes = static_cast<uint32_t>(bytes.size())},
         bytes);
  }
  // A home has merged the unit's updates up to this number.
  void Answer(uint32_t incarnation, uint64_t merged) {
    const TableMessage answer = {.kind = TableMessage::Kind::kLoggedAck,
                                 .unit = kUnit,
                                 .incarnation = incarnation,
                                 .merged = merged};
    orders_.Send(Cell::OfTable(), std::as_bytes(std::span(&answer, 1)));
    orders_.Flush();
  }
  // Returns the messages for homes that TakeHeard has met.
  std::vector<TableMessage> TakeUpdates() {
    return std::exchange(updates_, {});
  }
  // Returns the entries whose updates are merged, as the unit has been told.
  uint64_t TakeMerged() {
    uint64_t merged = 0;
    answers_.Receive();
    answers_.Handle([](const Cell&) { return size_t{0}; },
                    [&](const Cell& cell, std::span<const std::byte>) {
                      merged = cell.As<UnitCommand>().entry;
                    });
    return merged;
  }
  void Send(const LogWord& word, std::span<const std::byte> bytes) {
    log_.SendBytes(word, bytes);
    log_.Flush();
  }
  // Lets the loop take turns until it has nothing to do, or waits for room.
  void Turn() {
    for (int i = 0; i < 100; ++i) {
      log_.Flush();
      loop_->Turn();
    }
  }
  // The same with few turns: enough for a few words.
  void Settle() {
    log_.Flush();
    for (int i = 0; i < 4; ++i) loop_->Turn();
  }
  std::vector<UnitCommand> TakeHeard() {
    std::vector<UnitCommand> heard;
    bool more = true;
    while (std::exchange(more, false)) {
      from_.Receive();
      from_.Handle(PayloadToController,
                   [&](const Cell& cell, std::span<const std::byte> payload) {
                     more = true;
                     if (cell.is_table()) {
                       updates_.push_back(LoadAs<TableMessage>(payload.data()));
                     } else {
                       heard.push_back(cell.As<UnitCommand>());
                     }
                   });
    }
    return heard;
  }
  // The process of the units has ended, and the controller knows.
  void End() { ++control_->ends; }
  void Order(const Seal& seal) {
    orders_.Send(ControllerCommand::Of(seal));
    orders_.Flush();
  }
  // The next process begins.
  void BeginAnew() {
    ++incarnation_;
    number_ = 0;
  }
  LinkOut& log() { return log_; }
  LoopProgress& progress() { return *progress_; }
  const WireFaults& faults() const { return faults_; }
  LoggerLoop& loop() { return *loop_; }

 private:
  static LinkOut OutTo(std::span<std::byte> ring) {
    return {*CellRing::Producer::Attach(ring, nullptr), 64};
  }
  static LinkIn InFrom(std::span<std::byte> ring, size_t max_payload_bytes) {
    return {*CellRing::Consumer::Attach(ring), max_payload_bytes};
  }
  void MakeLoop(uint32_t process) {
    const uint32_t entry_bytes = MaxLogEntryBytes(schema_, tables_);
    LoggerLoopLinks links = {.units_bell = bell_,
                             .progress = progress_,
                             .faults = &faults_,
                             .from_units = InFrom(log_ring_, entry_bytes),
                             .to_controller = OutTo(up_ring_),
                             .ledger = ledger_};
    if (recovers_) {
      links.recovery.emplace(LoggerLoopLinks::Recovery{
          .from_controller = InFrom(down_ring_, kMaxPayloadFromController),
          .to_units = OutTo(answer_ring_),
          .kept = InFrom(kept_ring_, entry_bytes),
          .control = control_,
          .note = note_});
    }
    loop_.emplace(LoggerLoopOptions{.max_units = 4,
                                    .max_copies = 64,
                                    .reports = reports_,
                                    .process = process},
                  nf_, std::move(links));
  }

  bool recovers_;
  bool reports_;
  TestRegion region_;
  Doorbell* bell_;
  LoopProgress* progress_;
  std::span<std::byte> log_ring_;
  std::span<std::byte> up_ring_;
  std::span<std::byte> down_ring_;
  std::span<std::byte> answer_ring_;
  std::span<std::byte> kept_ring_;
  LogControl* control_;
  LogNote* note_;
  alignas(128) std::array<std::byte, 65'536> ledger_{};
  LinkOut log_;
  LinkIn from_;
  LinkIn answers_;
  LinkOut orders_;
  LinkOut kept_;
  NfSpec nf_;
  StateSchema schema_;
  std::vector<TableShape> tables_;
  std::vector<TableMessage> updates_;
  WireFaults faults_;
  std::optional<LoggerLoop> loop_;
  uint32_t process_ = 0;
  uint64_t number_ = 0;
  uint64_t clock_ = 0;
  uint32_t incarnation_ = LogWord::kIncarnation;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_TEST_LOGGERS_H_
