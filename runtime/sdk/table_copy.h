// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_TABLE_COPY_H_
#define SNF_RUNTIME_SDK_TABLE_COPY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/lazy_array.h"
#include "base/slot_index.h"

namespace snf {

// What a shared table (shared_table.h) is like, whatever its types: keys and
// values are words, the last one filled up with zeros.
struct TableShape {
  static constexpr uint32_t kMaxKeyBytes = 64;
  static constexpr uint32_t kMaxValueBytes = 256;
  // Adds to a value. Commutative, associative, and zeros change nothing.
  using Merge = void (*)(uint64_t* value, const uint64_t* more);

  std::string name;
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  uint32_t max_entries = 0;
  Merge merge = nullptr;     // null: the sum of each word
  bool for_reports = false;  // read when all is over: updates may lag

  uint32_t key_words() const { return (key_bytes + 7) / 8; }
  uint32_t value_words() const { return (value_bytes + 7) / 8; }
  uint32_t entry_words() const { return key_words() + value_words(); }
  void MergeInto(uint64_t* value, const uint64_t* more) const {
    if (merge != nullptr) {
      merge(value, more);
    } else {
      for (uint32_t i = 0; i < value_words(); ++i) value[i] += more[i];
    }
  }
};

// Whoever chooses keys cannot tell whose hashes are alike: the factor is the
// seed's. The same on every machine.
class TableHash {
 public:
  explicit TableHash(uint64_t seed = 0);
  uint64_t operator()(const uint64_t* key, uint32_t words) const {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < words; ++i) {
      hash = (hash ^ key[i]) * factor_;
      hash ^= hash >> 32;
    }
    return hash * factor_;
  }

 private:
  uint64_t factor_;
};

// Theory of operation. One unit's copy of a shared table: for each key the
// total as the home of the table last told it, and what was updated here that
// is not in it, which is *pending* until a replica (table_replica.h) takes it,
// and *sent* until the home has merged it. A read merges the three.
//
// Entries without a total are this unit's own: the home may have no room for
// them. It never has more keys than the table may, so what it tells always has
// room here: an own entry makes way for it, into the *rest*. The rest is the
// entry without a key that takes the updates there is no room for, so none is
// lost.
//
// Worked example: of a host the home told 10 packets; 3 were sent since, and 2
// came after that. It reads 15. The home merges the 3 with 4 from another unit
// and answers 17: it reads 19, of which 2 are pending.
//
// Owner-thread only; nothing is allocated after construction. Memory: what is
// used of 28 + 8 · (2 + words of key + 2 · words of value) bytes an entry, the
// latter in whole cache lines if it is more than one.
class TableCopy {
 public:
  static constexpr uint32_t kMaxSent = 64;  // entries sent at a time
  // Entries that may be updated between BeginTentative and EndTentative; what
  // is more goes to the rest.
  static constexpr uint32_t kMaxTentative = 64;

  explicit TableCopy(TableShape shape);

  const TableShape& shape() const { return shape_; }
  const TableHash& hash() const { return hash_; }
  // Nothing may have been updated yet.
  void set_hash(const TableHash& hash);

  // For NFs. Budget of Update: ≤ 15 ns in cache.
  template <uint32_t kKeyWords, uint32_t kValueWords>
  void Update(const uint64_t* key, const uint64_t* delta) {
    ++updates_;
    const uint64_t hash = hash_(key, kKeyWords);
    uint32_t slot = Find<kKeyWords>(key, hash);
    if (tentative_ || slot == SlotIndex::kNotFound) [[unlikely]] {
      slot = SlotToChange(slot, key, hash);
    }
    uint64_t* const own = entry(slot);
    uint64_t* const pending = own + pending_at_;
    if (shape_.merge != nullptr) {
      shape_.merge(pending, delta);
    } else {
      for (uint32_t i = 0; i < kValueWords; ++i) pending[i] += delta[i];
    }
    if ((own[kFlags] & kDirty) == 0) MarkDirty(slot);
  }
  // Whether there is such a key; its value is that of the table as known here.
  bool Read(const uint64_t* key, uint64_t* value) const;
  void ReadRest(uint64_t* value) const { ReadSlot(rest_, value); }
  // Keys in no order that means anything, but always the same: calls
  // visit(key, value) of words.
  template <typename Visit>
  void ForEach(Visit visit) const {
    std::array<uint64_t, TableShape::kMaxValueBytes / 8> value{};
    for (uint32_t slot = 0; slot < used_; ++slot) {
      if ((entry(slot)[kFlags] & kUsed) == 0) continue;
      ReadSlot(slot, value.data());
      visit(KeyOf(slot), value.data());
    }
  }
  uint32_t size() const { return index_.size(); }
  uint64_t updates() const { return updates_; }
  // Updates for which there was no room here, and entries that made way before
  // the home had heard of their updates.
  uint64_t refused() const { return refused_; }
  // That an NF reads what others wrote, so what it does depends on when.
  void NoteRead() { ++reads_; }
  uint64_t reads() const { return reads_; }

  // What is updated from here on is kept only if `keep`.
  void BeginTentative();
  void EndTentative(bool keep);

  // For the replica. Dirty entries come in the order of their first update: the
  // n-th since the beginning, n from dirty_begin() to dirty_end() - 1, is
  // pending.
  uint64_t dirty_begin() const { return dirty_begin_; }
  uint64_t dirty_end() const { return dirty_end_; }
  bool dirty() const { return dirty_begin_ != dirty_end_; }

  enum class Taken : uint8_t { kEntry, kRest, kNothing };
  // Makes what is pending of the first dirty entry sent, as the next of at most
  // kMaxSent; nothing where it has become nothing.
  Taken Take(uint64_t* key, uint64_t* delta);
  uint32_t sent() const { return sent_; }
  // The home has merged what was sent as the i-th, and tells the total. The
  // rest: it had no room for the key, and this is the total of its rest.
  void on_merged(uint32_t i, const uint64_t* key, bool in_rest,
                 uint64_t version, const uint64_t* total);
  // Once all that was sent is merged.
  void EndSent() { sent_ = 0; }
  // The home tells a total, of the rest where `key` is null. `with_sent`: what
  // was sent is in it. False: there is no room, which the home cannot mean.
  bool on_told(const uint64_t* key, uint64_t version, const uint64_t* total,
               bool with_sent);
  // Forgets all. Nothing may be dirty or sent.
  void Clear();

 private:
  // An entry: kVersion, kFlags, key, pending, total. Of a free one kVersion is
  // the next free slot plus one.
  static constexpr uint32_t kVersion = 0;  // of the total; 0: the home has none
  static constexpr uint32_t kFlags = 1;
  static constexpr uint32_t kKey = 2;
  static constexpr uint64_t kUsed = 1;
  static constexpr uint64_t kDirty = 2;
  static constexpr uint64_t kNoted = 4;      // in the journal
  static constexpr uint32_t kSentShift = 8;  // 1 + its place among what is sent

  struct Note {
    uint32_t slot;
    bool is_new;
    bool was_dirty;
  };

  uint64_t* entry(uint32_t slot) {
    return &entries_[size_t{slot} * entry_words_];
  }
  const uint64_t* entry(uint32_t slot) const {
    return &entries_[size_t{slot} * entry_words_];
  }
  const uint64_t* KeyOf(uint32_t slot) const { return entry(slot) + kKey; }
  uint64_t* TotalOf(uint32_t slot) { return entry(slot) + total_at_; }
  uint64_t* PendingOf(uint32_t slot) { return entry(slot) + pending_at_; }
  uint64_t* SentAt(uint32_t i) { return &sent_deltas_[i * value_words_]; }

  template <uint32_t kKeyWords>
  uint32_t Find(const uint64_t* key, uint64_t hash) const {
    return index_.Find(hash, [&](uint32_t slot) {
      const uint64_t* const other = KeyOf(slot);
      uint64_t difference = 0;
      for (uint32_t i = 0; i < kKeyWords; ++i) difference |= key[i] ^ other[i];
      return difference == 0;
    });
  }
  uint32_t FindAny(const uint64_t* key, uint64_t hash) const;
  void ReadSlot(uint32_t slot, uint64_t* value) const;
  uint32_t SlotToChange(uint32_t slot, const uint64_t* key, uint64_t hash);
  bool HasRoom() const { return index_.size() < rest_; }
  uint32_t Add(const uint64_t* key, uint64_t hash);
  void Free(uint32_t slot);
  bool MakeRoom();
  void MarkDirty(uint32_t slot);
  void SetTotal(uint32_t slot, uint64_t version, const uint64_t* total);
  void ForgetSent(uint32_t i);

  TableShape shape_;
  uint32_t key_words_;
  uint32_t value_words_;
  uint32_t pending_at_;
  uint32_t total_at_;
  uint32_t entry_words_;
  uint32_t rest_;  // its slot, after all others
  bool tentative_ = false;
  TableHash hash_;

  SlotIndex index_;
  LazyArray<uint64_t> entries_;
  uint32_t used_ = 0;
  uint32_t free_ = 0;  // slot plus one
  uint32_t eviction_ = 0;

  LazyArray<uint32_t> ring_;  // of dirty slots, each once
  uint64_t dirty_begin_ = 0;
  uint64_t dirty_end_ = 0;

  uint32_t sent_ = 0;
  std::array<uint32_t, kMaxSent> sent_slots_{};
  LazyArray<uint64_t> sent_deltas_;

  uint32_t noted_ = 0;
  std::array<Note, kMaxTentative + 1> notes_{};
  LazyArray<uint64_t> noted_pending_;
  uint64_t updates_before_ = 0;
  uint64_t refused_before_ = 0;

  uint64_t updates_ = 0;
  uint64_t refused_ = 0;
  uint64_t reads_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_TABLE_COPY_H_
