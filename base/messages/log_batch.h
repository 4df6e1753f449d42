// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_LOG_BATCH_H_
#define SNF_BASE_MESSAGES_LOG_BATCH_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/time.h"

namespace snf {

// The number of a log of an NF, in the order of NetworkFunction::declare_log.
enum class LogId : uint16_t {};

// A record as it left, for NetworkFunction::write_record.
struct LogRecord {
  LogId log{};
  Instant time;  // arrival of the packet at which the NF wrote it
  std::span<const std::byte> bytes;  // valid during the call
};

// Theory of operation. The records that an NF writes in one call travel as one
// batch, in a buffer like that of a packet which the NF emits, and leave with
// it (proto/decisions.md 39). A batch is bounded, and counts for each log the
// records that found no room:
//
//   lost[0] … lost[15]   { log  bytes  … }  { log  bytes  … }
//        2 each             2     2             of each record
//
// Worked example: an NF of two logs writes 700 bytes into log 0 three times. A
// batch has room for two: it has 32 + 2 × 704 bytes, and lost[0] is 1.
//
// LogBatch writes a batch; it borrows the memory. Owner-thread only; allocates
// nothing. Budget: ≤ 20 ns a record, besides its bytes.
class LogBatch {
 public:
  static constexpr size_t kMaxLogs = 16;  // of a chain together
  static constexpr size_t kMaxBytes = 2'048;
  static constexpr size_t kMaxRecordBytes = 1'024;

  // Makes a batch without room, which is not open.
  LogBatch() = default;
  // Makes an empty batch in `room`, of at least kMaxBytes.
  explicit LogBatch(std::span<std::byte> room) : room_(room.first(kMaxBytes)) {
    std::fill_n(room_.begin(), kHeaderBytes, std::byte{0});
  }

  bool is_open() const { return !room_.empty(); }
  // Returns true if no record was added or lost.
  bool empty() const { return used_ == kHeaderBytes && !has_lost_; }
  std::span<const std::byte> bytes() const { return room_.first(used_); }

  // Adds a record. Returns false, and counts the record as lost, if it is
  // longer than kMaxRecordBytes or if there is no room. `log` is below
  // kMaxLogs.
  bool Add(LogId log, std::span<const std::byte> record) {
    if (record.size() > kMaxRecordBytes ||
        record.size() + kRecordBytes > kMaxBytes - used_) {
      Lose(log, 1);
      return false;
    }
    const std::array<uint16_t, 2> head = {static_cast<uint16_t>(log),
                                          static_cast<uint16_t>(record.size())};
    std::memcpy(&room_[used_], head.data(), kRecordBytes);
    used_ += kRecordBytes;
    std::ranges::copy(record, room_.begin() + static_cast<ptrdiff_t>(used_));
    used_ += record.size();
    return true;
  }
  // Adds the records of another batch, and its counts of lost records.
  void Append(const LogBatch& other) {
    Read(
        other.bytes(),
        [this](LogId log, std::span<const std::byte> one) { Add(log, one); },
        [this](LogId log, uint16_t lost) { Lose(log, lost); });
  }

  // Reads a batch, which may come from a unit that is not trusted: calls
  // on_record(LogId, bytes) for each record, then on_lost(LogId, count) for
  // each log that lost some. Returns false at the first field that cannot be;
  // records before it were read. LogIds are below kMaxLogs.
  template <typename OnRecord, typename OnLost>
  static bool Read(std::span<const std::byte> batch, const OnRecord& on_record,
                   const OnLost& on_lost) {
    if (batch.size() < kHeaderBytes || batch.size() > kMaxBytes) return false;
    std::array<uint16_t, kMaxLogs> lost;
    std::memcpy(lost.data(), batch.data(), sizeof lost);
    size_t at = kHeaderBytes;
    while (at < batch.size()) {
      std::array<uint16_t, 2> head;
      if (batch.size() - at < kRecordBytes) return false;
      std::memcpy(head.data(), &batch[at], kRecordBytes);
      at += kRecordBytes;
      const auto [log, bytes] = head;
      if (log >= kMaxLogs || bytes > batch.size() - at) return false;
      on_record(LogId{log}, batch.subspan(at, bytes));
      at += bytes;
    }
    for (uint16_t log = 0; log < kMaxLogs; ++log) {
      if (lost[log] > 0) on_lost(LogId{log}, lost[log]);
    }
    return true;
  }

 private:
  static constexpr size_t kHeaderBytes = 2 * kMaxLogs;
  static constexpr size_t kRecordBytes = 4;

  void Lose(LogId log, uint16_t records) {
    std::byte* const at = &room_[2 * static_cast<size_t>(log)];
    uint16_t lost = 0;
    std::memcpy(&lost, at, sizeof lost);
    lost = static_cast<uint16_t>(std::min(lost + records, 0xffff));
    std::memcpy(at, &lost, sizeof lost);
    has_lost_ = true;
  }

  std::span<std::byte> room_;
  size_t used_ = kHeaderBytes;
  bool has_lost_ = false;
};

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_LOG_BATCH_H_
