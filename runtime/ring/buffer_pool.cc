// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/buffer_pool.h"

#include "base/check.h"

namespace snf {

BufferPool::BufferPool(const Options& options) {
  const std::array<uint32_t, 3> counts = {options.small, options.medium,
                                          options.large};
  for (size_t c = 0; c < classes_.size(); ++c) {
    SNF_CHECK(counts[c] < uint32_t{1} << kClassShift);
    classes_[c].bytes = kBufferBytes[c];
    classes_[c].infos = LazyArray<PacketInfo>(counts[c]);
    classes_[c].next = LazyArray<uint32_t>(counts[c]);
    classes_[c].storage =
        LazyArray<std::byte>(size_t{counts[c]} * kBufferBytes[c]);
  }
}

PacketHandle BufferPool::Allocate(uint32_t bytes) {
  for (uint32_t c = 0; c < classes_.size(); ++c) {
    SizeClass& size = classes_[c];
    if (bytes > size.bytes) continue;
    uint32_t index = size.free;
    if (index != ~uint32_t{0}) {
      size.free = size.next[index];
    } else if (size.used < size.infos.size()) {
      index = size.used++;
    } else {
      continue;
    }
    size.infos[index] = PacketInfo{};
    ++in_use_;
    return PacketHandle{c << kClassShift | index};
  }
  return kNoPacket;
}

void BufferPool::Free(PacketHandle handle) {
  SNF_CHECK(value(handle) >> kClassShift < classes_.size());
  SizeClass& size = Class(handle);
  const uint32_t index = IndexOf(handle);
  SNF_CHECK(index < size.used && in_use_ > 0);
  size.next[index] = size.free;
  size.free = index;
  --in_use_;
}

std::span<std::byte> BufferPool::room(PacketHandle handle) {
  SizeClass& size = Class(handle);
  return {&size.storage[size_t{IndexOf(handle)} * size.bytes], size.bytes};
}

}  // namespace snf
