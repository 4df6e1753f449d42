// SPDX-License-Identifier: Apache-2.0
#include "traces/loaded_capture.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/quantity.h"

namespace snf {

uint64_t HalfOfMemory() {
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
}

absl::Status LoadedCapture::Add(const CapturedPacket& packet) {
  const size_t length = packet.bytes.size();
  if (length > left_) {
    block_ = left_ = std::max(kBlockBytes, length);
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block_));
    bytes_ += block_;
  }
  if (bytes_ + packets_.size() * sizeof(CapturedPacket) > most_bytes_) {
    return absl::ResourceExhaustedError(fmt::format(
        "the capture is too large to be loaded: more than {}, half of the "
        "machine's memory, after {} packets",
        FormatBytes(static_cast<int64_t>(most_bytes_)),
        FormatCount(packets_.size())));
  }
  CapturedPacket& loaded = packets_.emplace_back(packet);
  loaded.bytes = {};
  if (length > 0) {
    // In order: from the end of the block to its beginning, which prefetchers
    // follow worse, a packet of a loop took a tenth longer.
    std::byte* const bytes = blocks_.back().get() + block_ - left_;
    left_ -= length;
    std::memcpy(bytes, packet.bytes.data(), length);
    loaded.bytes = {bytes, length};
  }
  first_ = std::min(first_, packet.time);
  last_ = std::max(last_, packet.time);
  const Wide duration = Wide{last_.ns} - first_.ns;
  const auto gaps = static_cast<Wide>(std::max<size_t>(packets_.size(), 2)) - 1;
  round_ = duration + duration / gaps;
  return absl::OkStatus();
}

void LoadedCapture::SortByTime() {
  std::ranges::stable_sort(packets_, {}, &CapturedPacket::time);
}

CapturedPacket LoadedCapture::Packet(size_t index, uint32_t round) const {
  CapturedPacket packet = packets_[index];
  if (round == 0) return packet;
  const Wide later = std::min(round_ * round, Wide{Nanos::max().ns});
  packet.time = packet.time + Nanos{static_cast<int64_t>(later)};
  return packet;
}

}  // namespace snf
