// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_LOG_NOTE_H_
#define SNF_RUNTIME_RING_LOG_NOTE_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace snf {

// Progress of a loop of output loggers, in memory that outlives its process.
// The next process handles the same entries again, and skips the words that are
// already sent: so no word is lost or sent twice (proto/protocol.md L3).
//
// Worked example: entries up to cell 40 have led to 9 words, and this is noted.
// Then the entry in the cells 40 to 43 leads to three words, of which two are
// in the ring to the controller when the process is killed. The next process
// finds 11 words there, handles the entry again, and sends only the third word.
//
// Words without an entry are sent again if their process was killed while it
// sent them. So are reports to a controller, because the entry that asked for a
// report may have left its ring.
//
// The memory is zeroed at first. One process writes at a time; another one
// reads once the writer has ended, at whatever instruction: a note is there as
// a whole or not at all. Write costs about 1 ns.
class alignas(128) LogNote {
 public:
  // Says what follows the words that entries caused.
  enum class Others : uint8_t {
    kNone,
    kAnswers,  // answers to the controller's orders
    kReport,   // a report to `controller`, possibly still empty
  };
  struct Positions {
    // Positions in cells: the end of the handled entries in the ring of
    // entries, and the end of the words that these entries caused in the ring
    // to the controller.
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
