// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/table_home.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace snf {

TableHome::TableHome(uint16_t table, const TableShape& shape,
                     uint32_t max_units, const TableOptions& options,
                     uint32_t groups)
    : table_(table),
      shape_(shape),
      max_units_(max_units),
      rest_(shape.max_entries),
      bit_words_(shape.max_entries / 64 + 1),
      options_(options),
      hash_(options.hash_seed),
      index_(shape.max_entries),
      entries_((size_t{rest_} + 1) * shape.entry_words()),
      states_(size_t{rest_} + 1),
      lists_(rest_ + 1),
      bits_(size_t{max_units} * groups * bit_words_),
      units_(size_t{max_units} * groups),
      logged_(size_t{max_units} * groups),
      joined_(size_t{max_units} * groups),
      timers_(groups) {
  for (TimingWheel& timers : timers_) timers = TimingWheel(max_units);
}

uint32_t TableHome::FindSlot(const uint64_t* key) const {
  const uint32_t words = shape_.key_words();
  return index_.Find(hash_(key, words), [&](uint32_t slot) {
    return std::equal(key, key + words, entry(slot));
  });
}

const uint64_t* TableHome::Find(const uint64_t* key) const {
  const uint32_t slot = FindSlot(key);
  return slot == SlotIndex::kNotFound || !IsEntry(slot) ? nullptr : total(slot);
}

bool TableHome::on_message(Instant now, const TableMessage& in,
                           TableMessage& out) {
  if (in.table != table_ || value(in.unit) >= units_.size() ||
      in.entries > TableMessage::MaxEntries(shape_)) {
    return false;
  }
  if (in.kind == TableMessage::Kind::kToldAck) {
    NoteReads(now, in);
    return on_told_ack(now, in, out);
  }
  if (in.kind == TableMessage::Kind::kLogged) {
    on_logged(now, in, out);
    return true;
  }
  if (in.kind != TableMessage::Kind::kUpdate) return false;
  Unit& unit = units_[value(in.unit)];
  if (in.incarnation < unit.incarnation) return false;
  if (in.incarnation > unit.incarnation) {
    if (in.seq != 1) return false;
    Join(now, value(in.unit), in.incarnation);
  } else if (unit.has_left && in.seq == unit.seq + 1) {
    Rejoin(now, value(in.unit));
  }
  NoteReads(now, in);
  // An older update was answered, otherwise its unit would not have sent a
  // newer one.
  if (in.seq == unit.seq + 1 && unit.joined) {
    unit.seq = in.seq;
    unit.in_rest = Merge(now, in, in.unit);
    if (in.leaves) {
      Leave(value(in.unit));
      unit.has_left = true;
    }
    KeepUnit(value(in.unit));
  } else if (in.seq != unit.seq) {
    return false;
  }
  Answer(in, out);
  return true;
}

void TableHome::Keep(Instant now, const KeptHome& kept) {
  kept_ = kept;
  changed_.reserve(KeptHome::kMostSlots);
  const KeptHome::Totals totals = kept_->Begin();
  // No home sends 2^40 messages, so numbers of different homes never meet.
  first_told_ = (totals.homes - 1) << 40;
  version_ = totals.version;
  period_ = totals.period;
  periods_ = totals.periods;
  timer_cursor_ = static_cast<uint32_t>(totals.cursor);
  slots_ = static_cast<uint32_t>(totals.slots);
  const uint32_t words = shape_.entry_words();
  std::copy_n(kept_->words(rest_), words, entry(rest_));
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    std::copy_n(kept_->words(slot), words, entry(slot));
    states_[slot] = {.updated = now, .gone_at = kept_->gone_at(slot)};
    index_.Insert(hash_(entry(slot), shape_.key_words()), slot);
    if (!IsEntry(slot)) ++going_;
    if (!IsEntry(slot) || expires()) {
      lists_.Append(IsEntry(slot) ? updated_ : gone_, slot);
    }
  }
  for (uint32_t number = 0; number < units_.size(); ++number) {
    const KeptHome::Unit& unit = kept_->unit(number);
    if (unit.joined == KeptHome::kJoined) Join(now, number, unit.incarnation);
    units_[number].has_left = unit.joined == KeptHome::kHasLeft;
    units_[number].incarnation = unit.incarnation;
    units_[number].seq = unit.seq;
    units_[number].in_rest = unit.in_rest;
    logged_[number] = unit.logged;
  }
}

uint32_t TableHome::newest_incarnation() const {
  uint32_t newest = 0;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    newest = std::max(newest, units_[i].incarnation);
  }
  return newest;
}

// Keeps the unit, with all changes of its message.
void TableHome::KeepUnit(uint32_t number) {
  if (!kept_.has_value()) return;
  const Unit& unit = units_[number];
  kept_->BeginChange(number);
  for (const uint32_t slot : changed_) kept_->Save(slot);
  kept_->Change({.version = version_,
                 .slots = slots_,
                 .period = period_,
                 .periods = periods_,
                 .cursor = timer_cursor_},
                {.seq = unit.seq,
                 .in_rest = unit.in_rest,
                 .incarnation = unit.incarnation,
                 .joined = unit.joined     ? KeptHome::kJoined
                           : unit.has_left ? KeptHome::kHasLeft
                                           : KeptHome::kNone,
                 .logged = logged_[number]});
  for (const uint32_t slot : changed_) {
    kept_->Set(slot, states_[slot].gone_at, entry(slot));
  }
  kept_->EndChange();
  changed_.clear();
  is_rest_changed_ = false;
}

void TableHome::Join(Instant now, uint32_t number, uint32_t incarnation) {
  Unit& unit = units_[number];
  if (unit.joined) Leave(number);
  unit = {};
  unit.joined_at = version_;
  unit.told_seq = first_told_;
  unit.sweep_began = now + Nanos{-options_.period.ns};
  unit.is_read = true;
  unit.incarnation = incarnation;
  unit.place = joined_count_;
  unit.joined = true;
  joined_[joined_count_++] = UnitId{static_cast<uint16_t>(number)};
  for (uint32_t slot = 0; slot < slots_; ++slot) Mark(number, slot);
  // There is nothing in it before the first version.
  if (version_ > 0) {
    Mark(number, rest_);
    ArmSweep(now, number);
  }
}

// Messages of before may still come, and are known by their numbers.
void TableHome::Rejoin(Instant now, uint32_t number) {
  const Unit before = units_[number];
  Join(now, number, before.incarnation);
  units_[number].seq = before.seq;
  units_[number].told_seq = std::max(before.told_seq, first_told_);
}

void TableHome::Leave(uint32_t number) {
  Unit& unit = units_[number];
  unit.joined = false;
  unit.waits = false;
  Disarm(number);
  std::fill_n(BitsOf(number), bit_words_, 0);
  const UnitId last = joined_[--joined_count_];
  joined_[unit.place] = last;
  units_[value(last)].place = unit.place;
}

// The unit reads its copy, so it is told sooner.
void TableHome::NoteReads(Instant now, const TableMessage& in) {
  const uint32_t number = value(in.unit);
  Unit& unit = units_[number];
  if (!unit.joined || in.incarnation != unit.incarnation ||
      in.reads == unit.reads) {
    return;
  }
  unit.reads = in.reads;
  unit.is_read = true;
  if (unit.behind > 0) ArmSweep(now, number);
}

// Another message, perhaps of another logger, may have brought some of the
// updates; then the sender hears which. A new incarnation begins with 0: its
// logger sends only once this home has the updates of all earlier ones.
void TableHome::on_logged(Instant now, const TableMessage& in,
                          TableMessage& out) {
  KeptHome::Logged& logged = logged_[value(in.unit)];
  const bool is_next =
      in.incarnation == logged.incarnation
          ? in.merged == logged.number
          : in.incarnation > logged.incarnation && in.merged == 0;
  if (is_next && in.seq > in.merged) {
    Merge(now, in, kNoUnit);
    // Its unit hears up to where its updates are in the totals (TableView).
    Unit& unit = units_[value(in.unit)];
    if (unit.joined) {
      Mark(value(in.unit), rest_);
      if (!IsArmed(value(in.unit))) ArmSweep(now, value(in.unit));
    }
    logged = {.number = in.seq,
              .updates = logged.updates + (in.seq - in.merged),
              .incarnation = in.incarnation};
    KeepUnit(value(in.unit));
  }
  out = {.kind = TableMessage::Kind::kLoggedAck,
         .table = table_,
         .unit = in.unit,
         .incarnation = logged.incarnation,
         .merged = logged.number};
}

// Returns the bits of the entries that went into the rest.
uint64_t TableHome::Merge(Instant now, const TableMessage& in, UnitId writer) {
  uint64_t in_rest = 0;
  if (in.entries > 0) {
    ++version_;
    Expire(now);
    LookAtTimer(now);
  }
  for (uint32_t i = 0; i < in.entries; ++i) {
    const uint64_t* const from = in.entry(shape_, i);
    uint32_t slot = rest_;
    if (i != in.rest && (in.in_rest >> i & 1) != 0) {
      EraseKey(now, from);
      if (std::all_of(from + shape_.key_words(), from + shape_.entry_words(),
                      [](uint64_t word) { return word == 0; })) {
        continue;  // the key stays erased
      }
    }
    if (i != in.rest) {
      slot = SlotFor(now, from);
      refused_ += slot == rest_ ? 1 : 0;
    } else {
      ForgetOld(now);
    }
    if (slot == rest_) in_rest |= uint64_t{1} << i;
    MergeInto(slot, from + shape_.key_words());
    MarkForOthers(now, slot, writer);
    KeepSlot(slot);
  }
  return in_rest;
}

// A new key meets no condition, even if a value of zeros would.
void TableHome::MergeInto(uint32_t slot, const uint64_t* delta) {
  uint64_t* const total = entry(slot) + shape_.key_words();
  const auto is_met = [&] {
    return std::any_of(total, total + shape_.value_words(),
                       [](uint64_t word) { return word != 0; }) &&
           shape_.condition(total);
  };
  const bool may_trigger =
      shape_.condition != nullptr && slot != rest_ && !is_met();
  shape_.MergeInto(total, delta);
  if (may_trigger && is_met()) shape_.on_condition(total);
}

// The answer; to an update that comes again, with the totals of now.
void TableHome::Answer(const TableMessage& in, TableMessage& out) const {
  const Unit& unit = units_[value(in.unit)];
  out = {
      .kind = TableMessage::Kind::kMerged,
      .rest = in.rest,
      .entries = in.entries,
      .table = table_,
      .unit = in.unit,
      .incarnation = in.incarnation,
      .seq = in.seq,
      .merged = unit.seq,
      .version = version_,
      .complete = unit.behind > 0 || unit.sweeping ? unit.complete : version_,
      .in_rest = unit.in_rest};
  for (uint32_t i = 0; i < in.entries; ++i) {
    uint32_t slot = SlotIndex::kNotFound;
    if ((unit.in_rest >> i & 1) == 0) slot = FindSlot(in.entry(shape_, i));
    if (slot == SlotIndex::kNotFound || !IsEntry(slot)) {
      slot = rest_;
      out.in_rest |= uint64_t{1} << i;
    }
    std::copy_n(in.entry(shape_, i), shape_.key_words(), out.entry(shape_, i));
    std::copy_n(total(slot), shape_.value_words(),
                out.entry(shape_, i) + shape_.key_words());
  }
}

// The rest where there is no room.
uint32_t TableHome::SlotFor(Instant now, const uint64_t* key) {
  uint32_t slot = FindSlot(key);
  if (slot == SlotIndex::kNotFound) {
    slot = slots_ < rest_ ? slots_++ : FreeSlot(now);
    if (slot == rest_) return rest_;
    std::copy_n(key, shape_.key_words(), entry(slot));
    index_.Insert(hash_(key, shape_.key_words()), slot);
  } else if (!IsEntry(slot)) {
    lists_.Remove(gone_, slot);
    --going_;
  } else if (expires()) {
    lists_.Remove(updated_, slot);
  }
  states_[slot].updated = now;
  states_[slot].gone_at = 0;
  if (expires()) lists_.Append(updated_, slot);
  return slot;
}

// Notes that this message has changed the slot.
void TableHome::KeepSlot(uint32_t slot) {
  if (!kept_.has_value()) return;
  if (slot == rest_ && std::exchange(is_rest_changed_, true)) return;
  changed_.push_back(slot);
}

// Lets the oldest entries go.
void TableHome::Expire(Instant now) {
  for (uint32_t i = 0; i < kMostForgotten && !updated_.empty(); ++i) {
    const uint32_t slot = updated_.front();
    if (now - states_[slot].updated < shape_.expires_after) return;
    Evict(now, slot);
    ++expired_;
  }
}

void TableHome::LookAtTimer(Instant now) {
  if (shape_.on_timer == nullptr || periods_ > 0) return;
  const auto period = static_cast<uint64_t>(std::max<int64_t>(now.ns, 0)) /
                      static_cast<uint64_t>(shape_.timer_period.ns);
  const uint64_t before = std::exchange(period_, period);
  // The first update begins the first period; another process may have another
  // clock.
  if (version_ == 1 || period <= before) return;
  periods_ = period - before;
  timer_cursor_ = 0;
  CallTimer(now);
}

// Calls the hook for the next few entries.
void TableHome::CallTimer(Instant now) {
  const uint32_t end = std::min(slots_, timer_cursor_ + kTimerSlots);
  for (; timer_cursor_ < end; ++timer_cursor_) {
    const uint32_t slot = timer_cursor_;
    if (!IsEntry(slot)) continue;
    if (!shape_.on_timer(entry(slot) + shape_.key_words(), periods_)) {
      Evict(now, slot);
      ++erased_;
      continue;
    }
    MarkForOthers(now, slot, kNoUnit);
    KeepSlot(slot);
  }
  if (timer_cursor_ >= slots_) periods_ = 0;
}

void TableHome::EraseKey(Instant now, const uint64_t* key) {
  const uint32_t slot = FindSlot(key);
  if (slot == SlotIndex::kNotFound || !IsEntry(slot)) return;
  Evict(now, slot);
  ++erased_;
}

// Returns the slot of an entry that has gone for all units; the rest if there
// is none.
uint32_t TableHome::FreeSlot(Instant now) {
  ForgetOld(now);
  if (gone_.empty()) return rest_;
  const uint32_t slot = gone_.front();
  if (states_[slot].gone_at > KnownToAll()) return rest_;
  lists_.Remove(gone_, slot);
  index_.Erase(hash_(entry(slot), shape_.key_words()), slot);
  --going_;
  return slot;
}

// Looks at the next few entries of a full table and lets old ones go.
void TableHome::ForgetOld(Instant now) {
  if (options_.forget_after == Nanos::max() || slots_ < rest_) return;
  uint32_t forgotten = 0;
  for (uint32_t i = 0; i < std::min(kForgetSlots, slots_); ++i) {
    if (forgotten == kMostForgotten) return;
    const uint32_t slot = forget_;
    forget_ = slot + 1 < slots_ ? slot + 1 : 0;
    const State& state = states_[slot];
    if (state.gone_at == 0 && now - state.updated >= options_.forget_after) {
      Evict(now, slot);
      ++forgotten;
      ++forgotten_;
    }
  }
}

// Moves the total of the entry into the rest.
void TableHome::Evict(Instant now, uint32_t slot) {
  uint64_t* const total = entry(slot) + shape_.key_words();
  shape_.MergeInto(entry(rest_) + shape_.key_words(), total);
  std::fill_n(total, shape_.value_words(), 0);
  states_[slot].gone_at = version_;
  if (expires()) lists_.Remove(updated_, slot);
  lists_.Append(gone_, slot);
  ++going_;
  KeepSlot(slot);
  KeepSlot(rest_);
  MarkForOthers(now, slot, kNoUnit);
  MarkForOthers(now, rest_, kNoUnit);
}

// Returns a version of which every unit knows everything; looks at all of them
// once a message.
uint64_t TableHome::KnownToAll() {
  if (known_at_ == version_) return known_;
  known_ = known_at_ = version_;
  for (const UnitId unit : joined()) {
    known_ = std::min(known_, units_[value(unit)].complete);
  }
  return known_;
}

// The writer's answer tells it.
void TableHome::MarkForOthers(Instant now, uint32_t slot, UnitId writer) {
  for (const UnitId unit : joined()) {
    if (unit == writer) continue;
    Mark(value(unit), slot);
    if (!IsArmed(value(unit))) ArmSweep(now, value(unit));
  }
}

void TableHome::Mark(uint32_t number, uint32_t slot) {
  uint64_t& word = BitsOf(number)[slot / 64];
  const uint64_t bit = uint64_t{1} << slot % 64;
  units_[number].behind += (word & bit) == 0 ? 1 : 0;
  word |= bit;
}

// Arms the timer of the unit's next sweep, unless a sweep is under way.
void TableHome::ArmSweep(Instant now, uint32_t number) {
  const Unit& unit = units_[number];
  if (unit.waits) return;
  const int64_t periods = unit.is_read ? 1 : TableOptions::kUnreadPeriods;
  const Nanos pause = {periods * options_.period.ns};
  Arm(number, std::max(now, unit.sweep_began + pause));
}

// rest_ + 1 where none is.
uint32_t TableHome::NextMarked(uint32_t number, uint32_t from) const {
  const uint64_t* const bits = &bits_[size_t{number} * bit_words_];
  for (uint32_t word = from / 64; word < bit_words_; ++word) {
    uint64_t set = bits[word];
    if (word == from / 64) set &= ~uint64_t{0} << from % 64;
    if (set != 0) {
      return word * 64 + static_cast<uint32_t>(std::countr_zero(set));
    }
  }
  return rest_ + 1;
}

// The next message of the unit's sweep; begins one if need be.
bool TableHome::TellNext(Instant now, uint32_t number, TableMessage& out) {
  Unit& unit = units_[number];
  if (unit.behind == 0) return false;
  if (!unit.sweeping) {
    unit.sweeping = true;
    unit.cursor = 0;
    unit.sweep_version = version_;
    unit.sweep_began = now;
    unit.is_read = false;
  }
  ++unit.told_seq;
  unit.told_count = 0;
  unit.cursor = NextMarked(number, unit.cursor);
  while (unit.cursor <= rest_ &&
         unit.told_count < TableMessage::MaxEntries(shape_)) {
    BitsOf(number)[unit.cursor / 64] &= ~(uint64_t{1} << unit.cursor % 64);
    --unit.behind;
    unit.told[unit.told_count++] = unit.cursor;
    unit.cursor = NextMarked(number, unit.cursor + 1);
  }
  unit.waits = true;
  Tell(now, number, out);
  return true;
}

// The home may have the updates of earlier incarnations alone so far.
uint64_t TableHome::MergedOf(uint32_t number) const {
  const Unit& unit = units_[number];
  if (!options_.are_logged) return unit.seq;
  const KeptHome::Logged& logged = logged_[number];
  return logged.incarnation == unit.incarnation ? logged.number : 0;
}

// Fills in the unit's message, with the totals as they are now.
void TableHome::Tell(Instant now, uint32_t number, TableMessage& out) {
  const Unit& unit = units_[number];
  out = {.kind = TableMessage::Kind::kTold,
         .entries = unit.told_count,
         .table = table_,
         .unit = UnitId{static_cast<uint16_t>(number)},
         .incarnation = unit.incarnation,
         .seq = unit.told_seq,
         .merged = MergedOf(number),
         .version = version_,
         .complete = unit.cursor > rest_ ? unit.sweep_version : unit.complete};
  for (uint8_t i = 0; i < unit.told_count; ++i) {
    if (unit.told[i] == rest_) out.rest = i;
    if (!IsEntry(unit.told[i])) out.in_rest |= uint64_t{1} << i;
    std::copy_n(entry(unit.told[i]), shape_.entry_words(),
                out.entry(shape_, i));
  }
  Arm(number, now + options_.retry_after);
}

bool TableHome::on_told_ack(Instant now, const TableMessage& in,
                            TableMessage& out) {
  const uint32_t number = value(in.unit);
  Unit& unit = units_[number];
  if (!unit.joined || in.incarnation != unit.incarnation || !unit.waits ||
      in.seq != unit.told_seq) {
    return false;
  }
  unit.waits = false;
  Disarm(number);
  if (NextMarked(number, unit.cursor) <= rest_) {
    return TellNext(now, number, out);
  }
  unit.sweeping = false;
  unit.complete = unit.sweep_version;
  if (unit.behind > 0) ArmSweep(now, number);
  return false;
}

bool TableHome::on_timers(Instant now, TableMessage& out, uint32_t group) {
  if (periods_ > 0) {
    ++version_;
    CallTimer(now);
    KeepUnit(0);
  }
  TimingWheel& timers = timers_[group];
  for (uint32_t node = timers.PopDue(now); node != TimingWheel::kNone;
       node = timers.PopDue(now)) {
    const uint32_t number = group * max_units_ + node;
    Unit& unit = units_[number];
    if (unit.waits) {
      ++repeated_;
      Tell(now, number, out);
      return true;
    }
    if (TellNext(now, number, out)) return true;
  }
  return false;
}

}  // namespace snf
