// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_LOADED_CAPTURE_H_
#define SNF_TRACES_LOADED_CAPTURE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "traces/capture_reader.h"

namespace snf {

// Returns half of the machine's memory, in bytes: a capture may take that.
uint64_t HalfOfMemory();

// The packets of a capture, all in memory, so that they can be replayed once or
// several times without waiting for a disk. A round continues the previous one:
// its first packet follows the previous round's last packet by the mean gap
// between packets. Owner-thread only.
class LoadedCapture {
 public:
  // Takes at most `most_bytes` of memory.
  explicit LoadedCapture(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Copies a packet. Errors: ResourceExhausted if there is no memory for it.
  absl::Status Add(const CapturedPacket& packet);

  // Brings the packets in the order of their times; packets of the same
  // time keep theirs.
  void SortByTime();

  size_t size() const { return packets_.size(); }
  // Returns the packet `index` of the round `round`, both counted from 0. Its
  // bytes are valid as long as the capture; its time is Instant::max() at most.
  CapturedPacket Packet(size_t index, uint32_t round) const;
  // Prefetches the packet, of a long one the beginning; does nothing for an
  // index that is too large.
  void Prefetch(size_t index) const {
    constexpr size_t kMost = 1'536;
    if (index >= packets_.size()) return;
    const std::span<const std::byte> bytes = packets_[index].bytes;
    for (size_t at = 0; at < std::min(bytes.size(), kMost); at += 64) {
      __builtin_prefetch(bytes.data() + at);
    }
  }

 private:
  __extension__ using Wide = __int128;
  static constexpr size_t kBlockBytes = 1 << 20;

  uint64_t most_bytes_;
  uint64_t bytes_ = 0;
  std::vector<CapturedPacket> packets_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t block_ = 0;  // bytes of the last block
  size_t left_ = 0;   // of these
  Instant first_ = Instant::max();
  Instant last_ = Instant::min();
  Wide round_ = 0;  // ns from a round to the next
};

}  // namespace snf

#endif  // SNF_TRACES_LOADED_CAPTURE_H_
