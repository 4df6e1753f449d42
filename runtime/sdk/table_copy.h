// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_TABLE_COPY_H_
#define SNF_RUNTIME_SDK_TABLE_COPY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/lazy_array.h"
#include "base/slot_index.h"
#include "base/time.h"

namespace snf {

// The shape of a shared table (shared_table.h) without its types: keys and
// values are words, the last one filled up with zeros.
struct TableShape {
  static constexpr uint32_t kMaxKeyBytes = 64;
  static constexpr uint32_t kMaxValueBytes = 256;
  static constexpr uint32_t kMaxEntries = 1u << 26;
  // Merges `more` into `value`. Commutative and associative; zeros change
  // nothing.
  using Merge = void (*)(uint64_t* value, const uint64_t* more);

  // Called for a value and the number of periods that are over; returns false
  // if the key is to be erased.
  using OnTimer = bool (*)(uint64_t* value, uint64_t periods);

  // Tell if a value meets a condition; and change a value that has come to meet
  // it.
  using Condition = bool (*)(const uint64_t* value);
  using OnCondition = void (*)(uint64_t* value);

  std::string name;
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  uint32_t max_entries = 0;
  Merge merge = nullptr;     // null: the sum of each word
  bool for_reports = false;  // read only at the end: updates may lag
  // Age without updates after which the home moves a key's value into the
  // rest; Nanos::max() for never.
  Nanos expires_after = Nanos::max();
  OnTimer on_timer = nullptr;  // null: the table has no timer
  Nanos timer_period{};
  Condition condition = nullptr;  // null: the table has no trigger
  OnCondition on_condition = nullptr;

  // Returns true if controllers call code of the NF's author.
  bool has_code() const {
    return merge != nullptr || on_timer != nullptr || condition != nullptr;
  }
  // Returns true if the table's home changes values of itself.
  bool has_events() const {
    return on_timer != nullptr || condition != nullptr ||
           expires_after != Nanos::max();
  }
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

// The values that the home of a shared table told a unit, with the unit's
// updates that are logged (runtime/tables/table_view.h).
class TableTotals {
 public:
  // Return what TableCopy returns.
  virtual bool Read(const uint64_t* key, uint64_t* value) const = 0;
  virtual void ReadRest(uint64_t* value) const = 0;
  virtual uint32_t size() const = 0;
  // Appends the words of all keys.
  virtual void AppendKeys(std::vector<uint64_t>& keys) const = 0;

 protected:
  ~TableTotals() = default;
};

// Theory of operation. One unit's copy of a shared table. For each key it has
// the *total* that the home of the table told last, and the updates made here
// that are not in the total: they are *pending* until a replica
// (table_replica.h) takes them, and *sent* until the home has merged them. A
// read merges the three.
//
// Entries without a total are this unit's own: the home may have no room for
// them. The home never has more keys than the table may, so a key that it tells
// always has room here: an own entry is evicted for it and merged into the
// *rest*. The rest is the entry without a key that takes the updates for which
// there is no room, so none is lost. An entry that the home evicts is removed.
// While updates of the entry are sent, an older answer may be on its way, so
// the entry stays, with its version, until the answer has come.
//
// An erased key stays as an entry with a flag until the home has erased it: a
// read then merges only updates made after the erasure. Updates that were
// pending go into the rest.
//
// Worked example: the home told that a host has 10 packets; 3 were sent since,
// and 2 came after that. A read gives 15. The home merges the 3 with 4 from
// another unit and answers 17: a read gives 19, of which 2 are pending.
//
// Owner-thread only; nothing is allocated after construction. Memory: 28 + 8 ·
// (2 + words of key + 2 · words of value) bytes for each entry that is used;
// the second term is in whole cache lines if it is more than one.
class TableCopy {
 public:
  static constexpr uint32_t kMaxSent = 64;  // entries sent at a time
  // The most entries that may be updated between BeginTentative and
  // EndTentative; updates of further ones go to the rest.
  static constexpr uint32_t kMaxTentative = 64;

  explicit TableCopy(TableShape shape);

  const TableShape& shape() const { return shape_; }
  // Gives the table a timer, before EndShaping. NfRegistration::check refuses a
  // period that is not above 0.
  void set_timer(Nanos period, TableShape::OnTimer hook) {
    if (is_shaped_) FailLate("every");
    shape_.timer_period = period;
    shape_.on_timer = hook;
  }
  // Gives the table a trigger, before EndShaping.
  void set_trigger(TableShape::Condition condition,
                   TableShape::OnCondition hook) {
    if (is_shaped_) FailLate("when");
    shape_.condition = condition;
    shape_.on_condition = hook;
  }
  // The NF's constructor is over: a later timer or trigger fails the NF.
  void EndShaping() { is_shaped_ = true; }
  const KeyedHash& hash() const { return hash_; }
  // Sets the hash, before the first update.
  void set_hash(const KeyedHash& hash);

  // Merges `delta` into the key's value, for NFs. Budget: ≤ 15 ns in cache.
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
  // Moves the key's value into the rest: pending updates at once, and the total
  // when the home hears of the erasure. If there is no room to note that,
  // nothing happens, and the erasure counts as refused.
  void Erase(const uint64_t* key);
  // Reads the value as known here. Returns false if there is no such key.
  bool Read(const uint64_t* key, uint64_t* value) const;
  void ReadRest(uint64_t* value) const;
  // Calls visit(key, value), in words, for each key. The order means nothing
  // but is the same in every run.
  template <typename Visit>
  void ForEach(Visit visit) const {
    std::array<uint64_t, TableShape::kMaxValueBytes / 8> value{};
    if (view_ != nullptr) {
      const std::vector<uint64_t> keys = KeysOfView();
      for (size_t at = 0; at < keys.size(); at += key_words_) {
        Read(&keys[at], value.data());
        visit(&keys[at], value.data());
      }
      return;
    }
    for (uint32_t slot = 0; slot < used_; ++slot) {
      if ((entry(slot)[kFlags] & kUsed) == 0) continue;
      ReadSlot(slot, value.data());
      visit(KeyOf(slot), value.data());
    }
  }
  uint32_t size() const {
    return view_ == nullptr ? index_.size() : SizeOfView();
  }
  uint64_t updates() const { return updates_; }
  // The number of updates for which there was no room here, and of entries that
  // made way while updates were pending.
  uint64_t refused() const { return refused_; }
  // Counts a read by an NF, whose further actions then depend on the moment.
  void NoteRead() { ++reads_; }
  uint64_t reads() const { return reads_; }

  // Updates between the two calls are kept only if `keep`.
  void BeginTentative();
  void EndTentative(bool keep);

  // From now on the copy only collects updates for a log (proto/protocol.md
  // T1): each call of the NF begins with an empty copy, and TakeLogged empties
  // the copy again. Call this before the first update.
  void BeginLogging();
  // If the copy is logging, a read merges a value of `view` and the updates of
  // the present call. The view must outlive all calls.
  void SetView(const TableTotals& view) {
    SNF_CHECK(logging_);
    view_ = &view;
  }
  // The dirty entries, for the replica. They are numbered in the order of their
  // first update; numbers dirty_begin() to dirty_end() - 1 are pending.
  uint64_t dirty_begin() const { return dirty_begin_; }
  uint64_t dirty_end() const { return dirty_end_; }
  bool dirty() const { return dirty_begin_ != dirty_end_; }

  // kErased is an entry whose key is to be erased before its updates count.
  enum class Taken : uint8_t { kEntry, kErased, kRest, kNothing };
  // Turns the pending updates of the first dirty entry into sent ones, the next
  // of at most kMaxSent, and copies them to `key` and `delta`. Returns kNothing
  // if an undo has left no updates.
  Taken Take(uint64_t* key, uint64_t* delta);
  // If the copy is logging, takes the updates of one key out of the copy, and
  // writes them to `key` and `delta`. Returns kNothing if none is left.
  Taken TakeLogged(uint64_t* key, uint64_t* delta);
  uint32_t sent() const { return sent_; }
  // Takes the answer of the home to the i-th updates sent: it has merged them,
  // into the new total. `in_rest` means that the home had no room for the key,
  // and that the total is that of the rest.
  void on_merged(uint32_t i, const uint64_t* key, bool in_rest,
                 uint64_t version, const uint64_t* total);
  // Called when everything that was sent is merged.
  void EndSent() { sent_ = 0; }
  // Takes a total from the home, of a key, or of the rest if `key` is null.
  // `with_sent` means that the total includes the updates sent. Returns false
  // if there is no room, which a correct home never causes.
  bool on_told(const uint64_t* key, uint64_t version, const uint64_t* total,
               bool with_sent);
  // Called when the home has moved the total of a key into the rest. Updates
  // that are not in the total start a new one.
  void on_gone(const uint64_t* key, uint64_t version, bool with_sent);
  // Removes all entries. Nothing may be dirty or sent.
  void Clear();
  // Forgets all totals, which the home will send again; pending updates stay.
  // No update may be sent, or tentative.
  void ForgetTotals();

 private:
  [[noreturn]] void FailLate(const char* call) const;

  // The words of an entry: kVersion, kFlags, key, pending, total. In a free
  // entry kVersion is the next free slot plus one.
  static constexpr uint32_t kVersion = 0;  // of the total; 0: no total
  static constexpr uint32_t kFlags = 1;
  static constexpr uint32_t kKey = 2;
  static constexpr uint64_t kUsed = 1;
  static constexpr uint64_t kDirty = 2;
  static constexpr uint64_t kNoted = 4;    // in notes_
  static constexpr uint64_t kGone = 8;     // goes when on_merged is through
  static constexpr uint64_t kErased = 16;  // pending updates follow an erasure
  static constexpr uint32_t kSentShift = 8;  // 1 + its number among the sent

  struct Note {
    uint32_t slot;
    bool is_new;
    bool was_dirty;
    bool was_erased;
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
  bool ReadView(const uint64_t* key, uint64_t* value) const;
  std::vector<uint64_t> KeysOfView() const;
  uint32_t SizeOfView() const;
  uint32_t SlotToChange(uint32_t slot, const uint64_t* key, uint64_t hash);
  void NoteBefore(uint32_t slot, bool is_new);
  bool IsErasureSent(uint64_t flags) const {
    const uint64_t place = flags >> kSentShift;
    return place != 0 && (sent_erased_ >> (place - 1) & 1) != 0;
  }
  bool HasRoom() const { return index_.size() < rest_; }
  uint32_t Add(const uint64_t* key, uint64_t hash);
  void Free(uint32_t slot);
  bool MakeRoom();
  void MarkDirty(uint32_t slot);
  void SetTotal(uint32_t slot, uint64_t version, const uint64_t* total);
  void ForgetSent(uint32_t i);
  void EndGone(uint32_t slot);

  TableShape shape_;
  uint32_t key_words_;
  uint32_t value_words_;
  uint32_t pending_at_;
  uint32_t total_at_;
  uint32_t entry_words_;
  uint32_t rest_;  // the slot of the rest, after all others
  bool logging_ = false;
  bool tentative_ = false;  // always, if the copy is logging
  KeyedHash hash_{0};
  const TableTotals* view_ = nullptr;

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
  // Version at which the sent entry was evicted; 0 if it was not.
  std::array<uint64_t, kMaxSent> sent_gone_{};
  uint64_t sent_erased_ = 0;  // a bit for each that follows an erasure
  LazyArray<uint64_t> sent_deltas_;

  uint32_t noted_ = 0;
  std::array<Note, kMaxTentative + 1> notes_{};
  LazyArray<uint64_t> noted_pending_;
  uint64_t updates_before_ = 0;
  uint64_t refused_before_ = 0;

  uint64_t updates_ = 0;
  uint64_t refused_ = 0;
  uint64_t reads_ = 0;
  bool is_shaped_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_TABLE_COPY_H_
