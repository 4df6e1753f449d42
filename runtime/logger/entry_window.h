// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_ENTRY_WINDOW_H_
#define SNF_RUNTIME_LOGGER_ENTRY_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/lazy_array.h"

namespace snf {

// Theory of operation. Entries of a log that came before an earlier entry, and
// wait for it. An entry stands at its number modulo the size of the window, so
// the caller keeps only numbers of one window at a time.
//
// Worked example: in a window of 4, entries 6 and 7 stand at places 2 and 3.
// Entry 5 comes, and is taken without waiting; entry 6 is dropped once it is
// taken, and entry 10 may stand at place 2 then.
//
// A value; owner-thread only; nothing is allocated after construction. Memory:
// the pages that are used of the window.
class EntryWindow {
 public:
  EntryWindow(uint32_t entries, uint32_t max_entry_bytes)
      : entries_(entries),
        entry_bytes_(max_entry_bytes),
        bytes_(size_t{entries} * max_entry_bytes),
        lengths_(entries) {}

  uint32_t entries() const { return entries_; }
  // Returns true if no entry waits.
  bool empty() const { return count_ == 0; }
  // Returns the entry of that number, or no bytes. Valid until another stands
  // there.
  std::span<const std::byte> At(uint64_t number) const {
    const size_t at = number % entries_;
    return {bytes_.data() + at * entry_bytes_, lengths_[at]};
  }
  bool Has(uint64_t number) const { return lengths_[number % entries_] != 0; }
  // Keeps an entry, in a place where none stands.
  void Put(uint64_t number, std::span<const std::byte> entry) {
    const size_t at = number % entries_;
    std::memcpy(bytes_.data() + at * entry_bytes_, entry.data(), entry.size());
    lengths_[at] = static_cast<uint32_t>(entry.size());
    ++count_;
  }
  // Drops the entry of that number, if one waits.
  void Drop(uint64_t number) {
    uint32_t& length = lengths_[number % entries_];
    if (length == 0) return;
    length = 0;
    --count_;
  }

 private:
  uint32_t entries_;
  uint32_t entry_bytes_;
  LazyArray<std::byte> bytes_;
  LazyArray<uint32_t> lengths_;  // 0 for none
  uint32_t count_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_ENTRY_WINDOW_H_
