// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_SLOT_INDEX_H_
#define SNF_BASE_SLOT_INDEX_H_

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/lazy_array.h"

namespace snf {

// Theory of operation. A hash index that maps a 64-bit hash to a 32-bit slot
// of a table that somebody else owns, so that entries never move and a slot can
// be part of an id. Open addressing with linear probing; a bucket is 8 bytes:
// the hash's upper half and the slot plus one (0 = empty). The home of a bucket
// is upper_half * buckets / 2^32, so it can be recomputed from the bucket
// alone: erasing shifts later buckets back (no tombstones, no rehash) without
// touching the table. There are 4/3 as many buckets as slots, and one more,
// so the index costs 10.7 bytes a slot, probes stay short and always end.
//
// Worked example: capacity 6 gives 9 buckets. Hashes with upper halves
// 0x20000000 and 0x21000000 both have home 1: the first lies in bucket 1, the
// second in 2. Erasing the first moves the second back to bucket 1.
//
// What a lookup costs stands and falls with the hash: of keys that strangers
// choose it must be a keyed one (keyed_hash.h). The index counts the slots that
// found no bucket within kLongProbe of their home. In a full index, chance
// makes runs of about 400 buckets, so each that is counted says that the hash
// fails.
//
// The capacity is fixed at construction. A value; owner-thread only;
// deterministic. Cost: one cache line a lookup, which Prefetch can bring in
// ahead.
class SlotIndex {
 public:
  static constexpr uint32_t kNotFound = 0xffff'ffff;
  static constexpr uint32_t kLongProbe = 1'024;  // buckets

  SlotIndex() = default;
  explicit SlotIndex(uint32_t capacity, Pages pages = Pages::kSmall)
      : capacity_(capacity),
        buckets_(static_cast<uint32_t>(uint64_t{capacity} * 4 / 3 + 1), pages) {
  }

  uint32_t size() const { return size_; }
  // Counts the slots inserted so far further than kLongProbe from their home.
  uint64_t long_probes() const { return long_probes_; }

  void Prefetch(uint64_t hash) const {
    __builtin_prefetch(&buckets_[Home(Tag(hash))]);
  }

  // Returns a slot with the hash's tag for which `matches(slot)` is true, or
  // kNotFound.
  template <typename Matches>
  uint32_t Find(uint64_t hash, Matches matches) const {
    const uint32_t tag = Tag(hash);
    for (size_t b = Home(tag);; b = Next(b)) {
      const Bucket& bucket = buckets_[b];
      if (bucket.slot_plus_one == 0) return kNotFound;
      if (bucket.tag == tag && matches(bucket.slot_plus_one - 1)) {
        return bucket.slot_plus_one - 1;
      }
    }
  }

  // Returns the first slot with the hash's tag, or kNotFound. The slot is not
  // verified: it serves to prefetch its entry.
  uint32_t Guess(uint64_t hash) const {
    return Find(hash, [](uint32_t) { return true; });
  }

  // Adds a slot that is not in the index. The index holds at most `capacity`.
  void Insert(uint64_t hash, uint32_t slot) {
    SNF_CHECK(size_ < capacity_);
    const uint32_t tag = Tag(hash);
    size_t b = Home(tag);
    uint32_t probes = 0;
    for (; buckets_[b].slot_plus_one != 0; b = Next(b)) ++probes;
    long_probes_ += probes > kLongProbe ? 1 : 0;
    buckets_[b] = {tag, slot + 1};
    ++size_;
  }

  // Removes a slot that was inserted with this hash.
  void Erase(uint64_t hash, uint32_t slot) {
    size_t hole = Home(Tag(hash));
    while (buckets_[hole].slot_plus_one != slot + 1) {
      SNF_CHECK(buckets_[hole].slot_plus_one != 0);
      hole = Next(hole);
    }
    for (size_t b = Next(hole); buckets_[b].slot_plus_one != 0; b = Next(b)) {
      // A bucket may move into the hole unless its home lies between the two.
      const size_t home = Home(buckets_[b].tag);
      const bool home_between =
          hole <= b ? (hole < home && home <= b) : (hole < home || home <= b);
      if (!home_between) {
        buckets_[hole] = buckets_[b];
        hole = b;
      }
    }
    buckets_[hole] = {};
    --size_;
  }

 private:
  struct Bucket {
    uint32_t tag;
    uint32_t slot_plus_one;
  };
  static_assert(sizeof(Bucket) == 8);

  static uint32_t Tag(uint64_t hash) {
    return static_cast<uint32_t>(hash >> 32);
  }
  size_t Home(uint32_t tag) const {
    return static_cast<size_t>(uint64_t{tag} * buckets_.size() >> 32);
  }
  size_t Next(size_t b) const { return ++b == buckets_.size() ? 0 : b; }

  uint32_t capacity_ = 0;
  uint32_t size_ = 0;
  uint64_t long_probes_ = 0;
  LazyArray<Bucket> buckets_;
};

}  // namespace snf

#endif  // SNF_BASE_SLOT_INDEX_H_
