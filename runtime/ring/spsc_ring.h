// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_SPSC_RING_H_
#define SNF_RUNTIME_RING_SPSC_RING_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "runtime/ring/doorbell.h"

namespace snf {

// The words that the two ends share, in front of the items. Each position has
// one writer, and a pair of cache lines (which processors fetch together) of
// its own.
struct RingHeader {
  uint64_t magic;
  uint32_t item_bytes;
  uint32_t capacity;
  alignas(128) std::atomic<uint64_t> pushed;    // the producer writes it
  alignas(128) std::atomic<uint64_t> released;  // the consumer writes it
};
static_assert(sizeof(RingHeader) == 384);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

namespace internal {
absl::Status FormatRing(std::span<std::byte> memory, uint32_t item_bytes,
                        uint32_t capacity);
// A ring that was found in memory, checked; each shared word was read only
// once.
struct AttachedRing {
  RingHeader* header;
  uint32_t capacity;
  uint64_t pushed;
  uint64_t released;
};
absl::StatusOr<AttachedRing> AttachRing(std::span<std::byte> memory,
                                        uint32_t item_bytes);
// Rewrites all shared words as one end knows them. The other end must not run.
void RestoreRing(const AttachedRing& ring, uint32_t item_bytes);
}  // namespace internal

// Returns true if the ring in `memory`, which must be a ring, has items that
// were not released. For threads that have neither of its ends.
inline bool RingHasItems(std::span<std::byte> memory) {
  const auto* const ring = reinterpret_cast<const RingHeader*>(memory.data());
  const uint64_t released = ring->released.load(std::memory_order_acquire);
  return ring->pushed.load(std::memory_order_acquire) != released;
}

// A bounded queue of T in shared memory, with one producer and one consumer,
// which may be threads of different processes.
//
// Theory of operation. The positions `pushed` and `released` count items since
// the ring was formatted; item i lies in slot i modulo the capacity, a power of
// two. The producer owns the slots [pushed, released + capacity), the consumer
// [released, pushed). A burst is copied in and then published by one store of
// `pushed`, copied out and then given back by one store of `released`. Each end
// remembers the other's position as it last saw it, and looks again only when
// that leaves too little room, or too few items.
//
// An end that is killed, at whatever instruction, has published or released a
// whole burst or nothing: the ring is consistent, and the survivor keeps using
// it. A new end may attach in place of the dead one and continues at its
// position.
//
// Reading and releasing are two steps, so that the ring keeps what a consumer
// has read and is not yet done with (the released position of proto/protocol.md
// L3). A consumer killed in between leaves these items to the next, which reads
// them again. A consumer that would rather lose an item than see it twice uses
// Pop.
//
// Worked example, capacity 4: Push(a b c d e) takes four of them (pushed 4).
// Read gives a b; Push(e) takes nothing; Release(1), and Push(e) finds released
// 1: it takes e, into the slot of a (pushed 5). The consumer dies; the next one
// reads b c d e.
//
// The other end is not trusted. An impossible position is counted in faults()
// and ignored; items are copied out before they are looked at. The reader must
// check the contents of items. Once the other end has died, Restore and SkipAll
// put all shared words right that it may have spoilt, for the next one.
//
// Each end is owner-thread only and valid as long as the memory. It may be
// moved or copied, but only one of the copies may be used. Budget: a burst of
// 32 items of 64 bytes ≤ 10 ns an item for both ends; no allocation, no lock,
// and no system call but to wake a parked consumer.
template <typename T>
class SpscRing {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(alignof(T) <= 64);

  // Returns the bytes of memory that a ring of this capacity takes.
  static constexpr size_t BytesFor(uint32_t capacity) {
    return sizeof(RingHeader) + size_t{capacity} * sizeof(T);
  }

  // Makes an empty ring. Called once, before either end attaches. Errors:
  // InvalidArgument if the capacity is no power of two, or the memory smaller
  // than BytesFor(capacity) or not aligned to 128 bytes.
  static absl::Status Format(std::span<std::byte> memory, uint32_t capacity) {
    return internal::FormatRing(memory, sizeof(T), capacity);
  }

  class Producer {
   public:
    // Attaches at the position where the last producer stopped. `consumer`,
    // which may be null, is rung for every burst. Errors: InvalidArgument if
    // the memory holds no ring of such items.
    static absl::StatusOr<Producer> Attach(std::span<std::byte> memory,
                                           Doorbell* consumer);

    // Publishes as many of the items, from the first on, as there is room for,
    // and returns how many. The caller keeps the others.
    size_t Push(std::span<const T> items);

    // The number of items that could be pushed now.
    size_t room() {
      Refresh();
      return capacity_ - (pushed_ - known_released_);
    }
    uint32_t capacity() const { return capacity_; }
    uint64_t pushed() const { return pushed_; }
    // The position up to which the consumer has released, as far as is known.
    uint64_t released() {
      Refresh();
      return known_released_;
    }
    uint64_t faults() const { return faults_; }
    // Call once the consumer is known to be dead: unread items stay for the
    // next consumer. An impossible position of the dead consumer is replaced by
    // its last possible one.
    void Restore() {
      Refresh();
      faults_ = 0;
      internal::RestoreRing({header_, capacity_, pushed_, known_released_},
                            sizeof(T));
    }
    // Does the same, and drops it: the next one attaches behind that.
    void SkipAll() {
      known_released_ = pushed_;
      Restore();
    }

   private:
    Producer() = default;
    void Refresh();

    RingHeader* header_ = nullptr;
    T* slots_ = nullptr;
    Doorbell* consumer_ = nullptr;
    uint64_t pushed_ = 0;
    uint64_t known_released_ = 0;  // ≤ pushed_, which is at most capacity more
    uint64_t faults_ = 0;
    uint32_t capacity_ = 0;
  };

  class Consumer {
   public:
    // Attaches at the first item that was not released. Errors as in
    // Producer::Attach.
    static absl::StatusOr<Consumer> Attach(std::span<std::byte> memory);

    // Copies out the items that follow those read before, and returns how many.
    size_t Read(std::span<T> items);
    // Gives the slots of the oldest `count` items that were read back to the
    // producer.
    void Release(size_t count);
    // Does the same, and nudges the producer, which may sleep until then.
    void Release(size_t count, Doorbell& producer) {
      Release(count, std::memory_order_seq_cst);
      producer.Nudge();
    }
    // Reads and releases items; returns how many. All items read before must be
    // released.
    size_t Pop(std::span<T> items) {
      const size_t count = Read(items);
      Release(count);
      return count;
    }

    // Releases all items in front of `position` without reading them, because
    // the previous consumer noted that it was done with them. Returns false,
    // and does nothing, if the producer has not published that many items.
    bool SkipTo(uint64_t position) {
      if (position - released_ > known_pushed_ - released_) return false;
      released_ = read_ = position;
      header_->released.store(position, std::memory_order_seq_cst);
      return true;
    }

    // True if there are items to read. For Doorbell::Wait.
    bool has_items() {
      if (known_pushed_ == read_) Refresh();
      return known_pushed_ != read_;
    }
    uint32_t capacity() const { return capacity_; }
    uint64_t read() const { return read_; }
    uint64_t released() const { return released_; }
    uint64_t faults() const { return faults_; }
    // Call once the producer is known to be dead: published items can still be
    // read. An impossible position of the dead producer is replaced by its last
    // possible one.
    void Restore() {
      Refresh();
      faults_ = 0;
      internal::RestoreRing({header_, capacity_, known_pushed_, released_},
                            sizeof(T));
    }
    // Does the same, but drops the items from `position` on, up to which the
    // ring was read: the next producer attaches there.
    void SkipFrom(uint64_t position) {
      SNF_CHECK(read_ - position <= capacity_);
      released_ = read_ = known_pushed_ = position;
      header_->pushed.store(position, std::memory_order_release);
      Restore();
    }
    // Drops all items.
    void SkipAll() {
      Refresh();
      released_ = read_ = known_pushed_;
      SkipFrom(read_);
    }

   private:
    Consumer() = default;
    void Refresh();
    void Release(size_t count, std::memory_order order) {
      SNF_CHECK(count <= read_ - released_);
      released_ += count;
      header_->released.store(released_, order);
    }

    RingHeader* header_ = nullptr;
    const T* slots_ = nullptr;
    uint64_t released_ = 0;
    uint64_t read_ = 0;          // ≥ released_
    uint64_t known_pushed_ = 0;  // ≥ read_, ≤ released_ + capacity
    uint64_t faults_ = 0;
    uint32_t capacity_ = 0;
  };

 private:
  static T* Slots(RingHeader* header) {
    return reinterpret_cast<T*>(header + 1);
  }
};

template <typename T>
auto SpscRing<T>::Producer::Attach(std::span<std::byte> memory,
                                   Doorbell* consumer)
    -> absl::StatusOr<Producer> {
  const auto ring = internal::AttachRing(memory, sizeof(T));
  if (!ring.ok()) return ring.status();
  Producer end;
  end.header_ = ring->header;
  end.slots_ = Slots(ring->header);
  end.consumer_ = consumer;
  end.capacity_ = ring->capacity;
  end.pushed_ = ring->pushed;
  end.known_released_ = ring->released;
  return end;
}

template <typename T>
size_t SpscRing<T>::Producer::Push(std::span<const T> items) {
  if (capacity_ - (pushed_ - known_released_) < items.size()) Refresh();
  const size_t count =
      std::min<size_t>(items.size(), capacity_ - (pushed_ - known_released_));
  if (count == 0) return 0;
  const size_t slot = pushed_ & (capacity_ - 1);
  const size_t to_end = std::min<size_t>(count, capacity_ - slot);
  std::memcpy(&slots_[slot], items.data(), to_end * sizeof(T));
  if (to_end < count) {
    std::memcpy(slots_, &items[to_end], (count - to_end) * sizeof(T));
  }
  pushed_ += count;
  if (consumer_ == nullptr) {
    header_->pushed.store(pushed_, std::memory_order_release);
  } else {
    header_->pushed.store(pushed_, std::memory_order_seq_cst);
    consumer_->Ring();
  }
  return count;
}

// The load is sequentially consistent for a producer that sleeps until its
// items are released; it costs no more than acquire.
template <typename T>
void SpscRing<T>::Producer::Refresh() {
  const uint64_t released = header_->released.load(std::memory_order_seq_cst);
  if (released - known_released_ > pushed_ - known_released_) {
    ++faults_;
    return;
  }
  known_released_ = released;
}

template <typename T>
auto SpscRing<T>::Consumer::Attach(std::span<std::byte> memory)
    -> absl::StatusOr<Consumer> {
  const auto ring = internal::AttachRing(memory, sizeof(T));
  if (!ring.ok()) return ring.status();
  Consumer end;
  end.header_ = ring->header;
  end.slots_ = Slots(ring->header);
  end.capacity_ = ring->capacity;
  end.released_ = ring->released;
  end.read_ = ring->released;
  end.known_pushed_ = ring->pushed;
  return end;
}

template <typename T>
size_t SpscRing<T>::Consumer::Read(std::span<T> items) {
  if (known_pushed_ - read_ < items.size()) Refresh();
  const size_t count = std::min<size_t>(items.size(), known_pushed_ - read_);
  if (count == 0) return 0;
  const size_t slot = read_ & (capacity_ - 1);
  const size_t to_end = std::min<size_t>(count, capacity_ - slot);
  std::memcpy(items.data(), &slots_[slot], to_end * sizeof(T));
  if (to_end < count) {
    std::memcpy(&items[to_end], slots_, (count - to_end) * sizeof(T));
  }
  read_ += count;
  return count;
}

template <typename T>
void SpscRing<T>::Consumer::Release(size_t count) {
  Release(count, std::memory_order_release);
}

// The load is sequentially consistent for has_items(); it costs no more than
// acquire.
template <typename T>
void SpscRing<T>::Consumer::Refresh() {
  const uint64_t pushed = header_->pushed.load(std::memory_order_seq_cst);
  if (pushed - known_pushed_ > released_ + capacity_ - known_pushed_) {
    ++faults_;
    return;
  }
  known_pushed_ = pushed;
}

}  // namespace snf

#endif  // SNF_RUNTIME_RING_SPSC_RING_H_
