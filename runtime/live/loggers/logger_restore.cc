// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/logger_restore.h"

#include "base/byte_order.h"
#include "runtime/logger/output_logger.h"

namespace snf {

LoggerRestore::Got LoggerRestore::on_word(const KeptWord& word,
                                          std::span<const std::byte> bytes) {
  using Kind = KeptWord::Kind;
  if (word.kind == Kind::kBegin) is_for_this_ = word.number == process_;
  if (!is_for_this_ || word.kind == Kind::kBegin) return Got::kNothing;
  if (word.kind == Kind::kAll) {
    return loggers_.AreRestoring() ? Got::kTooEarly : Got::kAll;
  }
  if (word.kind == Kind::kName) return Got::kName;
  OutputLogger& logger = loggers_.ToRestore(word.unit);
  if (!logger.is_restoring()) return Got::kImpossible;
  if (word.kind != Kind::kEntry) {
    logger.EndRestore(word.released, word.number);
    return Got::kNothing;
  }
  if (!logger.Restore(bytes)) return Got::kImpossible;
  const auto entry = LoadAs<LogEntry>(bytes.data());
  if (word.is_ahead != 0) {
    ahead_[{word.unit, entry.meta.flow}] = entry.meta.clock;
  }
  const bool is_record =
      entry.is(LogEntry::kWhole) && !entry.is(LogEntry::kEnd);
  return is_record ? Got::kRecord : Got::kEntry;
}

bool LoggerRestore::EndIfWhole() {
  if (!ahead_.empty() || loggers_.LackEntries()) return false;
  lacks_entries_ = false;
  return true;
}

void LoggerRestore::on_entry(UnitId unit, const LogEntry& entry) {
  const auto ahead = ahead_.find({unit, entry.meta.flow});
  if (ahead == ahead_.end() || entry.meta.clock <= ahead->second) return;
  ahead_.erase(ahead);
}

}  // namespace snf
