// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_WIRE_LOG_WORD_H_
#define SNF_RUNTIME_WIRE_LOG_WORD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/byte_order.h"
#include "base/ids.h"
#include "runtime/ring/thread_link.h"

namespace snf {

// Begins each message from a loop of units to the loop of their loggers; an
// entry (log_entry.h) follows it without a gap.
//
// Worked example: an entry of 176 bytes takes three cells: 8 bytes of this and
// the first 56 of the entry, then 64, then 56.
struct LogWord {
  enum class Kind : uint8_t {
    kEntry,    // `bytes` follow
    kStopped,  // the unit keeps nothing any more: for the controller, after the
               // messages of earlier entries
    kPull,     // a Pull follows: to the logger of `unit`, which has failed
    kReport,   // the units have reported to the controller whose epoch, of 4
               // bytes, follows: so do their loggers now
    kName,     // a FlowName follows, of which the unit has been told
  };
  Kind kind{};
  uint8_t reserved = 0;
  UnitId unit = kNoUnit;
  uint32_t bytes = 0;

  // Incarnation of the first process of a loop of units, and of its units and
  // their entries; each further process has the next number.
  static constexpr uint32_t kIncarnation = 1;
  static constexpr size_t kInFirstCell = sizeof(Cell) - 8;

  // Returns the word that begins the message with this first cell.
  static LogWord Of(const Cell& first) {
    return LoadAs<LogWord>(first.bytes.data());
  }
  // Returns how many bytes there are beyond the first cell.
  size_t payload_bytes() const {
    return bytes <= kInFirstCell ? 0 : bytes - kInFirstCell;
  }
  // Returns the entry, whose other cells follow the first one in memory.
  std::span<const std::byte> entry(const Cell& first) const {
    return {reinterpret_cast<const std::byte*>(&first) + sizeof(LogWord),
            bytes};
  }
};
static_assert(sizeof(LogWord) == 8);
static_assert(std::is_trivially_copyable_v<LogWord>);

}  // namespace snf

#endif  // SNF_RUNTIME_WIRE_LOG_WORD_H_
