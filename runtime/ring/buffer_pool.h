// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_BUFFER_POOL_H_
#define SNF_RUNTIME_RING_BUFFER_POOL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/packet/packet_info.h"

namespace snf {

// Theory of operation. The memory in which packets lie from ingest to egress;
// everything in between passes handles (proto/decisions.md 8). Buffers come in
// three sizes, for ordinary frames, for jumbo and merged segments, and for the
// largest that a capture may hold. A packet takes the smallest free buffer that
// fits; the last one freed is the first one used again, so that the touched
// memory stays as small as the number of packets in flight. Handles may be
// freed in any order. A handle names its size in the upper two bits.
//
// A pool lies in private memory, or in a region (SharedRegion) where several
// *parties*, threads or processes, attach to it: a controller, a unit, its
// logger. A handle then means the same to all of them. Each party has a share
// of the buffers, and allocates and frees these only; its books (which are free
// and which are not) are in its own memory, where nobody else can spoil them.
// It may read and write any buffer whose handle was given to it. When done with
// one it sends the handle to the owner() through a ring, for Return().
//
// Each buffer has a mark, in the region, that says who *holds* it: its owner
// from Allocate on, then whoever claimed it. A consumer claims what it reads
// from a ring before it releases it there. So of a party that died, whatever
// the instruction, and once those it had rings with have claimed all that is in
// them, it had exactly what Held() finds: nothing is lost, nothing is freed
// twice. After that the party may attach again: its share is free but for what
// others hold.
//
// Worked example: party 0 allocates a and b and pushes them to party 1, which
// reads both, claims them, releases them, sends a back, and is killed. Party 0
// pops a from the return ring: Return(a). It reads what is left in the ring to
// party 1: nothing. Held(1) gives b, which it claims and pushes to another
// party, or returns.
//
// Nothing is allocated after construction. Owner-thread only; different objects
// on the same region may be used at the same time. In private memory a value;
// in a region it moves, and the region outlives it.
// Budget: Allocate and Free ≤ 5 ns each, no lock.
class BufferPool {
 public:
  static constexpr std::array<uint32_t, 3> kBufferBytes = {2'048, 16'384,
                                                           262'144};
  static constexpr uint32_t kMaxPacketBytes = kBufferBytes.back();

  struct Options {
    uint32_t small = 65'536;  // buffers of each size; < 2^30
    uint32_t medium = 8'192;
    uint32_t large = 256;
  };

  // Who takes part in a pool in a region: an index into its shares.
  enum class Party : uint8_t {};
  static constexpr size_t kMaxParties = 64;

  // In private memory, with one party.
  explicit BufferPool(const Options& options);

  // Memory that a pool with these shares takes, at most kMaxParties of them.
  static size_t BytesFor(std::span<const Options> shares);
  // Makes a pool in memory that is zero; once, before anybody attaches. Errors:
  // InvalidArgument if the memory is too small or not aligned to 64 bytes, the
  // buffers are more than handles can name, or the parties too many or none.
  static absl::Status Format(std::span<std::byte> memory,
                             std::span<const Options> shares);
  // As this party: after one that died, only as said above. Errors:
  // InvalidArgument if the memory holds no pool with such a party.
  static absl::StatusOr<BufferPool> Attach(std::span<std::byte> memory,
                                           Party party);

  // A buffer with room for `bytes`, its info for the caller to write; kNoPacket
  // if none is free or `bytes` exceeds kMaxPacketBytes.
  PacketHandle Allocate(uint32_t bytes);

  // Takes a buffer back. The handle must be in use, and of this party's share.
  void Free(PacketHandle handle) {
    const bool is_own = FreeIfOwn(handle);
    SNF_CHECK(is_own);
  }
  // The same, but a handle of another share, or not in use, is left alone: then
  // false.
  bool FreeIfOwn(PacketHandle handle) {
    if (!IsTaken(handle)) return false;
    SizeClass& size = Class(handle);
    SetHolder(HolderAt(size, IndexOf(handle)), 0);
    uint32_t& next = size.next[IndexOf(handle) - size.first];
    next = size.free;
    size.free = IndexOf(handle) - size.first;
    --in_use_;
    return true;
  }
  // The same for a handle that came from another party: one that is not in use,
  // or no handle of this share, is refused and counted.
  bool Return(PacketHandle handle);
  uint64_t refused_returns() const { return refused_returns_; }

  // Whether the handle is of any share: to be asked of one that comes from
  // another process. All that follows wants such handles.
  bool IsHandle(PacketHandle handle) const {
    const uint32_t c = value(handle) >> kClassShift;
    return c < classes_.size() && IndexOf(handle) < classes_[c].count;
  }
  // This party holds the buffer now. False if it is no handle.
  bool Claim(PacketHandle handle) {
    if (!IsHandle(handle)) return false;
    SetHolder(HolderAt(Class(handle), IndexOf(handle)), MarkOf(party_));
    return true;
  }
  // To whom the handle is to be sent when it is done with.
  Party owner(PacketHandle handle) const;
  // Calls found(handle) for each buffer of this share in use that the party
  // holds; `found` may free it. Walks over all that were ever in use.
  template <typename Found>
  void Held(Party party, const Found& found);

  PacketInfo& info(PacketHandle handle) {
    return InfoAt(Class(handle), IndexOf(handle));
  }

  // The whole room of the buffer; the packet's bytes are its first info.length,
  // or all of it where another process wrote a length beyond it.
  std::span<std::byte> room(PacketHandle handle) { return whole(handle).bytes; }
  std::span<std::byte> bytes(PacketHandle handle) { return view(handle).bytes; }
  // The info and the bytes, or the info and the room.
  struct View {
    PacketInfo& info;
    std::span<std::byte> bytes;
  };
  View whole(PacketHandle handle) {
    const SizeClass& size = Class(handle);
    PacketInfo& info = InfoAt(size, IndexOf(handle));
    return {info, {reinterpret_cast<std::byte*>(&info + 1), size.bytes}};
  }
  View view(PacketHandle handle) {
    const SizeClass& size = Class(handle);
    PacketInfo& info = InfoAt(size, IndexOf(handle));
    return {info,
            {reinterpret_cast<std::byte*>(&info + 1),
             std::min(info.length, size.bytes)}};
  }

  // Of this party's share.
  uint32_t in_use() const { return in_use_; }

 private:
  static constexpr int kClassShift = 30;
  static constexpr uint32_t kEnd = ~uint32_t{0};  // of the list of free ones
  static constexpr uint32_t kTaken = kEnd - 1;    // in use: not in that list

  using Counts = std::array<uint32_t, kBufferBytes.size()>;
  using Shares = std::array<Counts, kMaxParties>;
  struct Header {
    uint64_t magic;
    Shares shares;
  };
  // In front of each buffer lies its PacketInfo, so that a packet and what is
  // known of it are neighbours, and the first lines of packets do not all fall
  // into the same few sets of a cache.
  static_assert(sizeof(PacketInfo) == 64);

  // Buffers of one size. Offsets count from base(); indices in the list of
  // free ones from `first`.
  struct SizeClass {
    uint32_t bytes = 0;
    uint32_t count = 0;    // of all shares
    uint32_t first = 0;    // of this share
    uint32_t used = 0;     // of this share, ever handed out
    uint32_t free = kEnd;  // list of freed ones through `next`
    size_t holders = 0;    // of each buffer a MarkOf(party); 0: free
    size_t buffers = 0;
    LazyArray<uint32_t> next;  // of this share
  };
  using Classes = std::array<SizeClass, kBufferBytes.size()>;

  // Where the buffers lie if they lie in a region: then a copy of the pool
  // would be a second book about the same share.
  class Region {
   public:
    explicit Region(std::byte* base = nullptr) : base_(base) {}
    Region(const Region& other) : base_(other.base_) {
      SNF_CHECK(base_ == nullptr);
    }
    Region(Region&&) = default;
    Region& operator=(Region other) noexcept {
      base_ = other.base_;
      return *this;
    }
    ~Region() = default;
    std::byte* base() const { return base_; }

   private:
    std::byte* base_;
  };

  BufferPool(const Shares& shares, Party party);
  static Shares SharesOf(std::span<const Options> options);
  // Says where the buffers lie; returns where they end.
  static size_t Place(const Shares& shares, Classes& classes);
  void FindFree();
  // In use, and of this share.
  bool IsTaken(PacketHandle handle) const {
    const size_t c = value(handle) >> kClassShift;
    if (c >= classes_.size()) return false;
    const SizeClass& size = classes_[c];
    // Below `first` it wraps around, to a number beyond `used`.
    const uint32_t index = IndexOf(handle) - size.first;
    return index < size.used && size.next[index] == kTaken;
  }

  static constexpr size_t Stride(uint32_t bytes) {
    return sizeof(PacketInfo) + bytes;
  }
  static uint16_t MarkOf(Party party) {
    return static_cast<uint16_t>(static_cast<uint16_t>(party) + 1);
  }
  static uint32_t IndexOf(PacketHandle handle) {
    return value(handle) & ((uint32_t{1} << kClassShift) - 1);
  }
  static PacketHandle HandleOf(size_t size_class, uint32_t index) {
    return PacketHandle{static_cast<uint32_t>(size_class) << kClassShift |
                        index};
  }
  SizeClass& Class(PacketHandle handle) {
    return classes_[value(handle) >> kClassShift];
  }
  std::byte* base() {
    return region_.base() != nullptr ? region_.base() : memory_.data();
  }
  PacketInfo& InfoAt(const SizeClass& size, uint32_t index) {
    return *reinterpret_cast<PacketInfo*>(base() + size.buffers +
                                          size_t{index} * Stride(size.bytes));
  }
  uint16_t& HolderAt(const SizeClass& size, uint32_t index) {
    return reinterpret_cast<uint16_t*>(base() + size.holders)[index];
  }
  static uint16_t HolderOf(uint16_t& holder) {
    return std::atomic_ref(holder).load(std::memory_order_relaxed);
  }
  static void SetHolder(uint16_t& holder, uint16_t mark) {
    std::atomic_ref(holder).store(mark, std::memory_order_relaxed);
  }

  LazyArray<std::byte> memory_;  // where there is no region
  Region region_;
  Party party_;
  Shares shares_;
  Classes classes_;
  uint32_t in_use_ = 0;
  uint64_t refused_returns_ = 0;
};

template <typename Found>
void BufferPool::Held(Party party, const Found& found) {
  for (size_t c = 0; c < classes_.size(); ++c) {
    SizeClass& size = classes_[c];
    for (uint32_t i = 0; i < size.used; ++i) {
      if (size.next[i] == kTaken &&
          HolderOf(HolderAt(size, size.first + i)) == MarkOf(party)) {
        found(HandleOf(c, size.first + i));
      }
    }
  }
}

}  // namespace snf

#endif  // SNF_RUNTIME_RING_BUFFER_POOL_H_
