// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_TABLE_HOME_H_
#define SNF_RUNTIME_TABLES_TABLE_HOME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/keyed_hash.h"
#include "base/lazy_array.h"
#include "base/slot_index.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "runtime/sdk/table_copy.h"
#include "runtime/tables/kept_home.h"
#include "runtime/tables/slot_lists.h"
#include "runtime/tables/table_message.h"

namespace snf {

// Theory of operation. The one place where all updates of a shared table meet;
// table_replica.h has the conversations. Each total is kept once, and for each
// unit a bit an entry: others have changed it since the unit was last told. A
// sweep goes over the bits of a unit in the order of slots and sends the
// changed totals. A total that changes behind the sweep waits for the next
// sweep, a period after this one began, or kUnreadPeriods if the unit has not
// read its copy since then.
//
// Bits are cleared when a message is made of them; a later change sets them
// again, though a repetition of the message tells the totals of its time. So
// any answer to any copy of the message will do. After a sweep the unit knows
// everything of the version at which it began: `complete`.
//
// A key for which there is no room goes into the rest, and its unit is told so.
//
// A full home looks, for each such key and each update of the rest, at a few
// entries, and evicts those that no unit has updated for forget_after: the
// total is merged into the rest, so that no update is lost, and all units are
// told. The slot is free for another key when all of them know (`complete`). An
// update that comes meanwhile, or later, starts a new total. Keys that a unit
// erases go the same way. So do keys that were not updated for the table's
// expires_after: with each message that brings updates, at most kMostForgotten
// of them, the oldest first. No timer runs for that.
//
// A table's trigger (SharedTable::when) is called when a merge makes its
// condition true. The changed total is part of the message's change.
//
// A table's timer (SharedTable::every) is looked at with each message that
// brings updates. If a period has ended, the hook is called for the entries, at
// most kTimerSlots at a time: before the updates of the message, and then
// whenever on_timers is called.
//
// Worked example: slots 0 … 99 have changed for B, a message takes 31. The
// sweep begins at version 7 and sends 0 … 30; an update makes version 8 and
// changes slot 5. The messages up to 93 … 99 follow, each when the previous one
// is answered; the last says complete = 7. B has read its copy: a period after
// the first, slot 5 is sent, with complete = 8.
//
// A unit's logged updates come from its logger (update_sender.h). The unit
// joins only if its packets read the table, with the incarnation of its log.
//
// Several controllers may have the units (cluster_homes.h), in groups of
// max_units each. A group has timers of its own, which its controller looks at
// by its own clock.
//
// Owner-thread only; nothing is allocated after construction. Memory: what is
// used of 44 bytes, the entry's words and a bit for each unit, an entry; 400
// bytes a unit.
class TableHome {
 public:
  // Unit `u` of group g has the number g * max_units + u.
  TableHome(uint16_t table, const TableShape& shape, uint32_t max_units,
            const TableOptions& options, uint32_t groups = 1);
  // Keeps the home's data in `kept` from now on. If `kept` holds the data of a
  // dead home, this home continues with them: units repeat unanswered updates,
  // and get all totals. Call this before anything else.
  void Keep(Instant now, const KeptHome& kept);
  // Returns the highest incarnation of a unit that has ever joined.
  uint32_t newest_incarnation() const;

  // Takes a message. Returns true if it filled `out` with a message to be
  // sent, to the unit that `out` names.
  bool on_message(Instant now, const TableMessage& in, TableMessage& out);
  // Does one thing that is due for a unit of the group. Returns as on_message;
  // the caller calls it until it returns false.
  bool on_timers(Instant now, TableMessage& out, uint32_t group = 0);
  // Returns when on_timers wants to be called for the group; Instant::max() for
  // never.
  Instant next_wakeup(uint32_t group = 0) const {
    return periods_ > 0 ? Instant::min() : timers_[group].next_wakeup();
  }
  // Called when the unit has failed: its unsent updates are lost, and no sweep
  // waits for it. The unit may join again, with a newer incarnation.
  void on_unit_failed(UnitId unit) {
    Unit& failed = units_[value(unit)];
    if (!failed.joined && !failed.has_left) return;
    if (failed.joined) Leave(value(unit));
    failed.has_left = false;
    KeepUnit(value(unit));
  }

  uint16_t table() const { return table_; }
  const TableShape& shape() const { return shape_; }
  // Returns a number that each message which changes totals raises.
  uint64_t version() const { return version_; }
  // Returns the units that have joined; their order means nothing.
  std::span<const UnitId> joined() const {
    return {joined_.data(), joined_count_};
  }
  // Returns the version at which a unit that has joined did so.
  uint64_t joined_at(UnitId unit) const {
    return units_[value(unit)].joined_at;
  }

  uint32_t size() const { return index_.size() - going_; }
  // Entries have slots below this one, and IsEntry.
  uint32_t slots() const { return slots_; }
  bool IsEntry(uint32_t slot) const { return states_[slot].gone_at == 0; }
  // Returns the number of entries from units that were merged into the rest.
  uint64_t refused() const { return refused_; }
  // Returns the number of entries that were evicted into the rest: by a full
  // table, by units, and by their age.
  uint64_t forgotten() const { return forgotten_; }
  uint64_t erased() const { return erased_; }
  uint64_t expired() const { return expired_; }
  uint64_t repeated() const { return repeated_; }
  // Counts the unit's logged updates that are merged.
  uint64_t logged(UnitId unit) const { return logged_[value(unit)].updates; }
  // Return the words of the entry in a slot; valid until the next call that is
  // not const.
  const uint64_t* key(uint32_t slot) const { return entry(slot); }
  const uint64_t* total(uint32_t slot) const {
    return entry(slot) + shape_.key_words();
  }
  const uint64_t* rest() const { return total(rest_); }
  // Returns the total of the key, or null if there is no such key.
  const uint64_t* Find(const uint64_t* key) const;

 private:
  // Entries that are examined for a new key without room, and the most of them
  // that are evicted.
  static constexpr uint32_t kForgetSlots = 256;
  static constexpr uint32_t kMostForgotten = 32;
  static constexpr uint32_t kTimerSlots = 256;

  struct State {
    Instant updated;
    uint64_t gone_at;  // the version at which it was evicted; 0: it is in use
  };
  struct Unit {
    uint64_t seq;  // is that of the last update merged
    uint64_t in_rest;
    uint64_t joined_at;
    uint64_t complete;
    uint64_t sweep_version;  // is the version at which the sweep began
    uint64_t told_seq;
    Instant sweep_began;  // is when the last one did
    uint32_t incarnation;
    uint32_t reads;   // read count in the unit's last message
    uint32_t place;   // is its index in joined_
    uint32_t behind;  // counts the bits that are set
    uint32_t cursor;  // the sweep is done with lower slots
    bool joined;
    bool has_left;  // by its own message, after which it may return
    bool sweeping;
    bool is_read;        // it was read since the last sweep began
    bool waits;          // the last message has no answer yet
    uint8_t told_count;  // slots in the last message
    std::array<uint32_t, TableCopy::kMaxSent> told;
  };

  uint64_t* entry(uint32_t slot) {
    return &entries_[size_t{slot} * shape_.entry_words()];
  }
  const uint64_t* entry(uint32_t slot) const {
    return &entries_[size_t{slot} * shape_.entry_words()];
  }
  TimingWheel& TimersOf(uint32_t unit) { return timers_[unit / max_units_]; }
  bool IsArmed(uint32_t unit) const {
    return timers_[unit / max_units_].armed(unit % max_units_);
  }
  void Arm(uint32_t unit, Instant due) {
    TimersOf(unit).Arm(unit % max_units_, due);
  }
  void Disarm(uint32_t unit) { TimersOf(unit).Disarm(unit % max_units_); }
  uint64_t* BitsOf(uint32_t unit) { return &bits_[size_t{unit} * bit_words_]; }

  void on_logged(Instant now, const TableMessage& in, TableMessage& out);
  uint64_t MergedOf(uint32_t number) const;
  void Answer(const TableMessage& in, TableMessage& out) const;
  void NoteReads(Instant now, const TableMessage& in);
  uint64_t Merge(Instant now, const TableMessage& in, UnitId writer);
  void MergeInto(uint32_t slot, const uint64_t* delta);
  bool on_told_ack(Instant now, const TableMessage& in, TableMessage& out);
  void Join(Instant now, uint32_t number, uint32_t incarnation);
  void Rejoin(Instant now, uint32_t number);
  void Leave(uint32_t number);
  void KeepUnit(uint32_t number);
  bool expires() const { return shape_.expires_after != Nanos::max(); }
  void Expire(Instant now);
  void LookAtTimer(Instant now);
  void CallTimer(Instant now);
  void EraseKey(Instant now, const uint64_t* key);
  uint32_t SlotFor(Instant now, const uint64_t* key);
  uint32_t FreeSlot(Instant now);
  void ForgetOld(Instant now);
  void Evict(Instant now, uint32_t slot);
  void KeepSlot(uint32_t slot);
  uint64_t KnownToAll();
  uint32_t FindSlot(const uint64_t* key) const;
  void MarkForOthers(Instant now, uint32_t slot, UnitId writer);
  void Mark(uint32_t number, uint32_t slot);
  void ArmSweep(Instant now, uint32_t number);
  uint32_t NextMarked(uint32_t number, uint32_t from) const;
  bool TellNext(Instant now, uint32_t number, TableMessage& out);
  void Tell(Instant now, uint32_t number, TableMessage& out);

  uint16_t table_;
  TableShape shape_;
  uint32_t max_units_;  // of a group
  uint32_t rest_;       // slot of the rest, behind all others
  uint32_t bit_words_;
  TableOptions options_;
  KeyedHash hash_;

  SlotIndex index_;
  LazyArray<uint64_t> entries_;
  LazyArray<State> states_;
  uint32_t slots_ = 0;   // ever used
  uint32_t going_ = 0;   // entries that have gone, but not for all units
  uint32_t forget_ = 0;  // the slot at which the search for old ones continues
  SlotLists lists_;
  SlotLists::List gone_;  // entries that have gone, in the order of that
  // Other entries, by their last update; only if they expire.
  SlotLists::List updated_;
  LazyArray<uint64_t> bits_;  // has bit_words_ for each unit
  LazyArray<Unit> units_;
  LazyArray<KeptHome::Logged> logged_;  // by unit
  LazyArray<UnitId> joined_;
  uint32_t joined_count_ = 0;
  // By group: timers run out for a unit's next sweep or repetition.
  std::vector<TimingWheel> timers_;

  std::optional<KeptHome> kept_;
  std::vector<uint32_t>
      changed_;  // slots changed by this message, if the home is kept
  bool is_rest_changed_ = false;  // as changed_
  uint64_t first_told_ = 0;       // messages of this home have higher numbers
  uint64_t version_ = 0;
  uint64_t known_ = 0;  // of which every unit knows everything, and more since
  uint64_t known_at_ = 0;  // the version at which known_ was found
  uint64_t period_ = 0;    // ended last
  uint64_t periods_ = 0;   // for which calls of the timer's hook are under way
  uint32_t timer_cursor_ = 0;
  uint64_t refused_ = 0;
  uint64_t forgotten_ = 0;
  uint64_t erased_ = 0;
  uint64_t expired_ = 0;
  uint64_t repeated_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_TABLE_HOME_H_
