// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/spsc_ring.h"

#include <atomic>
#include <bit>
#include <new>

#include "absl/strings/str_cat.h"

namespace snf::internal {
namespace {

constexpr uint64_t kMagic = 0x534e'4672'696e'6731;  // "SNFring1"

bool Holds(std::span<std::byte> memory, uint32_t item_bytes,
           uint32_t capacity) {
  return std::has_single_bit(capacity) &&
         reinterpret_cast<uintptr_t>(memory.data()) % alignof(RingHeader) ==
             0 &&
         memory.size() >= sizeof(RingHeader) &&
         (memory.size() - sizeof(RingHeader)) / item_bytes >= capacity;
}

}  // namespace

absl::Status FormatRing(std::span<std::byte> memory, uint32_t item_bytes,
                        uint32_t capacity) {
  if (!Holds(memory, item_bytes, capacity)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ring of ", capacity, " items of ", item_bytes,
                     " bytes in ", memory.size(), " bytes of memory"));
  }
  new (memory.data()) RingHeader{.magic = kMagic,
                                 .item_bytes = item_bytes,
                                 .capacity = capacity,
                                 .pushed = 0,
                                 .released = 0};
  return absl::OkStatus();
}

absl::StatusOr<AttachedRing> AttachRing(std::span<std::byte> memory,
                                        uint32_t item_bytes) {
  if (!Holds(memory, item_bytes, 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ring of items of ", item_bytes, " bytes in ",
                     memory.size(), " bytes of memory"));
  }
  auto* const header = reinterpret_cast<RingHeader*>(memory.data());
  const std::atomic_ref<uint32_t> shared_capacity(header->capacity);
  const AttachedRing ring = {
      .header = header,
      .capacity = shared_capacity.load(std::memory_order_relaxed),
      .pushed = header->pushed.load(std::memory_order_acquire),
      .released = header->released.load(std::memory_order_acquire)};
  if (header->magic != kMagic || header->item_bytes != item_bytes ||
      !Holds(memory, item_bytes, ring.capacity)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no ring of items of ", item_bytes, " bytes: items of ",
                     header->item_bytes, " bytes, capacity ", ring.capacity,
                     ", in ", memory.size(), " bytes of memory"));
  }
  if (ring.pushed - ring.released > ring.capacity) {
    return absl::InvalidArgumentError(
        absl::StrCat("ring of capacity ", ring.capacity, " with ", ring.pushed,
                     " items pushed and ", ring.released, " released"));
  }
  return ring;
}

void RestoreRing(const AttachedRing& ring, uint32_t item_bytes) {
  RingHeader& header = *ring.header;
  header.magic = kMagic;
  header.item_bytes = item_bytes;
  std::atomic_ref(header.capacity)
      .store(ring.capacity, std::memory_order_relaxed);
  header.pushed.store(ring.pushed, std::memory_order_release);
  header.released.store(ring.released, std::memory_order_release);
}

}  // namespace snf::internal
