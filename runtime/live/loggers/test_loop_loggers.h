// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_TEST_LOOP_LOGGERS_H_
#define SNF_RUNTIME_LIVE_LOGGERS_TEST_LOOP_LOGGERS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "runtime/live/loggers/loop_loggers.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/table_update.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/tables/unit_tables.h"

namespace snf {

// The loggers of a loop, and the entries of their units.
class TestLoopLoggers {
 public:
  // Makes loggers of a process that takes over if `process` is not 0.
  explicit TestLoopLoggers(std::string_view nf = "passthrough",
                           uint32_t process = 0)
      : nf_(*NfSpec::Parse(nf)),
        schema_(nf_.create()->schema()),
        tables_(LoggedTablesOf(*nf_.create())),
        numbers_(kUnits),
        loggers_({.max_units = kUnits, .max_copies = 256, .process = process},
                 nf_, /*logs_tables=*/true) {}

  LoopLoggers& loggers() { return loggers_; }

  // Makes an entry of a unit's first process; the number counts on.
  LogEntry Next(UnitId unit) {
    LogEntry entry;
    entry.number = ++numbers_[value(unit)];
    entry.schema = schema_.hash();
    entry.incarnation = LogWord::kIncarnation;
    return entry;
  }
  // Makes the whole entry of a flow's clock.
  LogEntry NextOf(UnitId unit, FlowId flow, Clock clock) {
    LogEntry entry = Next(unit);
    entry.meta.flow = flow;
    entry.meta.clock = entry.state = clock;
    entry.flags = LogEntry::kWhole;
    return entry;
  }
  std::vector<std::byte> BytesOf(const LogEntry& entry,
                                 std::span<const std::byte> updates = {}) {
    std::vector<std::byte> bytes(sizeof entry + updates.size());
    WriteLogEntry(entry, {}, {}, nullptr, {}, bytes, updates);
    return bytes;
  }
  OutputLogger::Result Take(UnitId unit, const LogEntry& entry) {
    return Take(unit, BytesOf(entry));
  }
  // Takes an entry with one update of table 0, which has that number.
  OutputLogger::Result TakeUpdate(UnitId unit, FlowId flow, uint64_t number) {
    std::vector<uint64_t> words(tables_[0].entry_words());
    words[0] = 7;
    words[tables_[0].key_words()] = 1;
    std::vector<std::byte> updates;
    AppendUpdate(
        {.number = number, .words = static_cast<uint32_t>(words.size())},
        words.data(), updates);
    LogEntry entry = NextOf(unit, flow, Clock{number});
    entry.argument = updates.size();
    return Take(unit, BytesOf(entry, updates));
  }

 private:
  static constexpr uint32_t kUnits = 4;

  OutputLogger::Result Take(UnitId unit, std::span<const std::byte> bytes) {
    LoggerOut out;
    return loggers_.Of(unit, loggers_.incarnation()).on_entry(bytes, out);
  }

  NfSpec nf_;
  StateSchema schema_;
  std::vector<TableShape> tables_;
  std::vector<uint64_t> numbers_;  // by unit
  LoopLoggers loggers_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_TEST_LOOP_LOGGERS_H_
