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

// Theory of operation. The pool is the memory in which packets stay from ingest
// to egress; everything in between passes handles (proto/decisions.md 8).
// Buffers come in three sizes, for ordinary frames, for jumbo frames and merged
// segments, and for the largest packets that a capture may hold. A packet takes
// the smallest free buffer that fits; the buffer freed last is used first, so
// that no more memory is touched than the packets in flight need. Handles may
// be freed in any order. The upper two bits of a handle name its size.
//
// A pool lies in private memory, or in a region (SharedRegion) where several
// *parties*, threads or processes, attach to it: a controller, a unit, its
// logger. A handle then means the same to all of them. Each party has a share
// of the buffers, and allocates and frees only these. Its records of which of
// them are free are in its own memory, where no other party can corrupt them.
// It may read and write any buffer whose handle was given to it. When it is
// done with such a buffer, it sends the handle to the owner() through a ring,
// for Return().
//
// Each buffer has a mark, in the region, that names the party that *holds* it:
// its owner from Allocate on, then the party that claimed it last. A consumer
// claims the buffers that it reads from a ring before it releases them there.
// If a party dies, at whatever instruction, the parties that it had rings with
// claim everything that is in the rings; then ForEachHeld() finds exactly the
// buffers that the dead party had: none is lost and none is freed twice. After
// that the party may attach again: its share is free except for the buffers
// that others hold.
//
// Worked example: party 0 allocates a and b and pushes them to party 1, which
// reads both, claims them, releases them, sends a back, and is killed. Party 0
// pops a from the return ring: Return(a). It reads the rest of the ring to
// party 1, which is empty. ForEachHeld(1) gives b, which it claims and pushes
// to another party, or returns.
//
// Nothing is allocated after construction. Owner-thread only; different objects
// on the same region may be used at the same time. In private memory it is a
// value; in a region it can only be moved, and the region must outlive it.
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

  // A party of a pool in a region: an index into the pool's shares.
  enum class Party : uint8_t {};
  static constexpr size_t kMaxParties = 64;

  // Makes a pool in private memory, with one party.
  explicit BufferPool(const Options& options);

  // Returns the bytes of memory that a pool with these shares takes. More than
  // kMaxParties shares, or more buffers than handles can name, give the largest
  // size_t.
  static size_t BytesFor(std::span<const Options> shares);
  // Makes a pool in zeroed memory. Called once, before any party attaches.
  // Errors: InvalidArgument if the memory is too small or not aligned to 64
  // bytes, if there are more buffers than handles can name, or more than
  // kMaxParties parties.
  static absl::Status Format(std::span<std::byte> memory,
                             std::span<const Options> shares);
  // Attaches to a pool as this party; after a death, only once the other
  // parties have done the steps described at the top of this file. Errors:
  // InvalidArgument if the memory holds no pool, or the party is not below
  // kMaxParties.
  static absl::StatusOr<BufferPool> Attach(std::span<std::byte> memory,
                                           Party party);

  // Returns a buffer with room for `bytes`, and for kMaxPacketGrowth more
  // unless it is of the largest size. The caller must write its info. Returns
  // kNoPacket if none is free or `bytes` exceeds kMaxPacketBytes.
  PacketHandle Allocate(uint32_t bytes);

  // Takes a buffer back. The handle must be in use, and of this party's share.
  void Free(PacketHandle handle) {
    const bool is_own = FreeIfOwn(handle);
    SNF_CHECK(is_own);
  }
  // Takes a buffer back, but returns false and does nothing if the handle is of
  // another share or not in use.
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
  // Frees a buffer whose handle came from another party; counts the handles
  // that it refuses.
  bool Return(PacketHandle handle);
  uint64_t refused_returns() const { return refused_returns_; }
  // Returns true if the handle is of this party's share and in use. Called for
  // handles that come from another party.
  bool IsInUse(PacketHandle handle) const { return IsTaken(handle); }

  // Returns true if the handle names a buffer of any share. Called for handles
  // that come from another process; the methods below, except Claim, require
  // it.
  bool IsHandle(PacketHandle handle) const {
    const uint32_t c = value(handle) >> kClassShift;
    return c < classes_.size() && IndexOf(handle) < classes_[c].count;
  }
  // The handles of a party's share. A value.
  class Share {
   public:
    bool Has(PacketHandle handle) const {
      const size_t c = value(handle) >> kClassShift;
      // An index below the first wraps around to a number beyond the count.
      return c < first_.size() && IndexOf(handle) - first_[c] < count_[c];
    }

   private:
    friend class BufferPool;
    std::array<uint32_t, kBufferBytes.size()> first_{};
    std::array<uint32_t, kBufferBytes.size()> count_{};
  };
  Share share(Party party) const;

  // Marks the buffer as held by this party, or returns false if it is no
  // handle.
  bool Claim(PacketHandle handle) {
    if (!IsHandle(handle)) return false;
    SetHolder(HolderAt(Class(handle), IndexOf(handle)), MarkOf(party_));
    return true;
  }
  // Ends a Claim of a buffer of another share, before its handle is sent back:
  // if the owner dies with that on its way, the buffer is free.
  void Disclaim(PacketHandle handle) {
    SetHolder(HolderAt(Class(handle), IndexOf(handle)), MarkOf(owner(handle)));
  }
  // Called if the party's predecessor has died with buffers at other parties,
  // which will report them: counts all buffers of the share as used, until
  // FreeOthers.
  void TakeAll();
  // Frees those buffers of the share that are in use and for which is_kept(
  // handle) does not hold. O(buffers of the share ever used).
  template <typename IsKept>
  void FreeOthers(const IsKept& is_kept) {
    const auto free = [&](PacketHandle handle) {
      if (!is_kept(handle)) Free(handle);
    };
    ForEachHeld(party_, free);
  }
  // Calls found(handle) for each buffer of another party's share that this one
  // holds, by a Claim. O(buffers of that share).
  template <typename Found>
  void ForEachClaimed(Party owner, const Found& found);
  // Returns the party to which the handle is sent when the holder is done with
  // it.
  Party owner(PacketHandle handle) const;
  // Calls found(handle) for each buffer of this share that is in use and that
  // the party holds; `found` may free it. O(buffers of the share ever used).
  template <typename Found>
  void ForEachHeld(Party party, const Found& found);

  // Numbers the buffers of all shares from 0 to places() - 1, for arrays beside
  // the pool.
  size_t place(PacketHandle handle) const {
    return classes_[value(handle) >> kClassShift].place + IndexOf(handle);
  }
  size_t places() const {
    return classes_.back().place + classes_.back().count;
  }

  PacketInfo& info(PacketHandle handle) {
    return InfoAt(Class(handle), IndexOf(handle));
  }

  // The whole room of the buffer, and the packet's bytes: the first info.length
  // of the room, or all of it if another process wrote a greater length.
  std::span<std::byte> room(PacketHandle handle) { return whole(handle).bytes; }
  std::span<std::byte> bytes(PacketHandle handle) { return view(handle).bytes; }
  // The info of a buffer, with its room (whole) or with the packet's bytes
  // (view).
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
    // Read once: another process may write it meanwhile.
    const uint32_t length =
        std::atomic_ref(info.length).load(std::memory_order_relaxed);
    return {info,
            {reinterpret_cast<std::byte*>(&info + 1),
             std::min(length, size.bytes)}};
  }

  // Copies a packet and its info to the same buffer of another pool with the
  // same shares. Other processes may write the pool it comes from meanwhile.
  void CopyTo(BufferPool& other, PacketHandle packet);

  // The number of buffers of this party's share in use.
  uint32_t in_use() const { return in_use_; }

 private:
  static constexpr int kClassShift = 30;
  static constexpr uint32_t kEnd = ~uint32_t{0};  // ends the free list
  static constexpr uint32_t kTaken = kEnd - 1;    // in use, not in that list

  using Counts = std::array<uint32_t, kBufferBytes.size()>;
  using Shares = std::array<Counts, kMaxParties>;
  struct Header {
    uint64_t magic;
    Shares shares;
  };
  // Each buffer's PacketInfo stands in front of it, so that a packet and its
  // description are neighbours, and the first lines of packets do not all fall
  // into the same few sets of a cache.
  static_assert(sizeof(PacketInfo) == 64);

  // The buffers of one size. Offsets count from base(); indices in the free
  // list count from `first`.
  struct SizeClass {
    uint32_t bytes = 0;
    uint32_t count = 0;        // of all shares
    uint32_t first = 0;        // of this share
    size_t place = 0;          // of the first buffer of all shares
    uint32_t used = 0;         // of this share, ever handed out
    uint32_t free = kEnd;      // list of freed buffers, linked by `next`
    size_t holders = 0;        // offset of each buffer's MarkOf(party); 0: free
    size_t buffers = 0;        // offset of the buffers
    LazyArray<uint32_t> next;  // of this share
  };
  using Classes = std::array<SizeClass, kBufferBytes.size()>;

  // The address of the region, if the pool is in one. A pool in a region must
  // not be copied: a copy would be a second record of the same share.
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
  // Sets the places of the buffers and returns the offset of their end.
  static size_t Place(const Shares& shares, Classes& classes);
  // Makes all buffers of the share free that no other party holds.
  void FindFree();
  // Returns true if the handle is of this share and in use.
  bool IsTaken(PacketHandle handle) const {
    const size_t c = value(handle) >> kClassShift;
    if (c >= classes_.size()) return false;
    const SizeClass& size = classes_[c];
    // An index below `first` wraps around to a number beyond `used`.
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

  LazyArray<std::byte> memory_;  // if there is no region
  Region region_;
  Party party_;
  Shares shares_;
  Classes classes_;
  uint32_t in_use_ = 0;
  uint64_t refused_returns_ = 0;
};

template <typename Found>
void BufferPool::ForEachHeld(Party party, const Found& found) {
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

template <typename Found>
void BufferPool::ForEachClaimed(Party owner, const Found& found) {
  const Share of_owner = share(owner);
  for (size_t c = 0; c < classes_.size(); ++c) {
    const uint32_t end = of_owner.first_[c] + of_owner.count_[c];
    for (uint32_t i = of_owner.first_[c]; i < end; ++i) {
      if (HolderOf(HolderAt(classes_[c], i)) == MarkOf(party_)) {
        found(HandleOf(c, i));
      }
    }
  }
}

}  // namespace snf

#endif  // SNF_RUNTIME_RING_BUFFER_POOL_H_
