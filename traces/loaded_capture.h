// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_LOADED_CAPTURE_H_
#define SNF_TRACES_LOADED_CAPTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "traces/capture_reader.h"

namespace snf {

// Packets of a capture, all in memory, to be replayed once or more often
// without waiting for a disk. A round begins after the round before as if the
// capture went on: so much after its last packet as its packets are apart on
// the average. Owner-thread only.
class LoadedCapture {
 public:
  // `most_bytes`: of memory. Add fails with ResourceExhausted beyond that.
  explicit LoadedCapture(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  absl::Status Add(const CapturedPacket& packet);

  size_t size() const { return packets_.size(); }
  // The packet `index` of a round, from 0 on. Its bytes are valid as long as
  // the capture; its time is held at the last Instant.
  CapturedPacket Packet(size_t index, uint32_t round) const;
  // Gets the packet's headers nearer. Nothing for one that there is not.
  void Prefetch(size_t index) const {
    if (index >= packets_.size()) return;
    const std::byte* const bytes = packets_[index].bytes.data();
    __builtin_prefetch(bytes);
    __builtin_prefetch(bytes + 64);
  }

 private:
  static constexpr size_t kBlockBytes = 1 << 20;

  uint64_t most_bytes_;
  uint64_t bytes_ = 0;
  std::vector<CapturedPacket> packets_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t left_ = 0;  // bytes of the last block
  Instant first_ = Instant::max();
  Instant last_ = Instant::min();
};

}  // namespace snf

#endif  // SNF_TRACES_LOADED_CAPTURE_H_
