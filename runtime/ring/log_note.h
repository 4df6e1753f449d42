// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_LOG_NOTE_H_
#define SNF_RUNTIME_RING_LOG_NOTE_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace snf {

// What a loop of output loggers notes of how far it has come, in memory that
// outlives its process: so the process after it, which goes through the same
// entries, leaves out the words that this one has sent already, and none is
// lost or sent twice (proto/protocol.md L3).
//
// Worked example: entries up to cell 40 have led to 9 words, and this is noted.
// Then the entry in the cells 40 to 43 leads to three words, of which two are
// in the ring to the controller when the process is killed. The next one finds
// 11 words there, takes the entry once more, and sends the third alone.
//
// Words that no entry led to are sent once more, if their process was killed
// over them. A report to a controller is: the entry that asked for it may have
// left its ring.
//
// The memory is zeroed at first. One process writes at a time; another one
// reads once the writer has ended, at whatever instruction: a note is there as
// a whole or not at all. Write costs about 1 ns.
class alignas(128) LogNote {
 public:
  // Says what follows the words that entries led to.
  enum class Others : uint8_t {
    kNone,
    kAnswers,  // to what the controller has ordered
    kReport,   // to `controller`; perhaps nothing of it yet
  };
  struct Positions {
    // In cells: of the ring of entries, up to which all are taken; and of the
    // ring to the controller, where what they led to ends.
    uint64_t entries = 0;
    uint64_t words = 0;
    // The newest controller to which there was, or is to be, a report.
    uint32_t controller = 0;
    Others others = Others::kNone;
    bool operator==(const Positions&) const = default;
  };

  void Write(const Positions& positions) {
    const uint64_t next = writes_.load(std::memory_order_relaxed) + 1;
    Slot& slot = slots_[next % slots_.size()];
    slot.entries.store(positions.entries, std::memory_order_relaxed);
    slot.words.store(positions.words, std::memory_order_relaxed);
    slot.controller.store(positions.controller, std::memory_order_relaxed);
    slot.others.store(positions.others, std::memory_order_relaxed);
    writes_.store(next, std::memory_order_release);
  }
  Positions Read() const {
    const uint64_t last = writes_.load(std::memory_order_acquire);
    const Slot& slot = slots_[last % slots_.size()];
    return {.entries = slot.entries.load(std::memory_order_relaxed),
            .words = slot.words.load(std::memory_order_relaxed),
            .controller = slot.controller.load(std::memory_order_relaxed),
            .others = slot.others.load(std::memory_order_relaxed)};
  }

 private:
  struct Slot {
    std::atomic<uint64_t> entries{0};
    std::atomic<uint64_t> words{0};
    std::atomic<uint32_t> controller{0};
    std::atomic<Others> others{Others::kNone};
  };
  std::array<Slot, 2> slots_;
  std::atomic<uint64_t> writes_{0};
};
static_assert(sizeof(LogNote) == 128);

}  // namespace snf

#endif  // SNF_RUNTIME_RING_LOG_NOTE_H_
