// SPDX-License-Identifier: Apache-2.0
// Memory in which units of a host show each other states, for tests.
#ifndef SNF_RUNTIME_LIVE_TEST_HOST_MEMORY_H_
#define SNF_RUNTIME_LIVE_TEST_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/live/host_store.h"

namespace snf {

// TestHostMemory outlives the loops of units that write into it, as the memory
// of a host does.
class TestHostMemory {
 public:
  explicit TestHostMemory(const HostStore::Options& options)
      : options_(options),
        words_(HostStore::BytesFor(options) / sizeof(uint64_t)),
        stores_(options.loops) {}

  // Says whether the process of that loop is on this host (Options::spread).
  void SetPresence(uint32_t loop, bool is_here) {
    std::as_writable_bytes(std::span(
        words_))[HostStore::PresenceAt(options_, loop)] = std::byte{is_here};
  }
  // Returns the records for the next process of that loop; the process before
  // must have ended.
  HostRecords& Open(uint32_t loop) {
    const size_t part = HostStore::PartBytes(options_);
    const std::span all = std::as_writable_bytes(std::span(words_));
    stores_[loop] = std::make_unique<HostStore>(
        options_, loop, all.subspan(loop * part, part), all);
    return *stores_[loop];
  }

 private:
  const HostStore::Options options_;
  std::vector<uint64_t> words_;
  std::vector<std::unique_ptr<HostStore>> stores_;  // by loop
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_TEST_HOST_MEMORY_H_
