// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/table_copy.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/sdk/nf_call.h"

namespace snf {
namespace {

// Rounds the size of an entry, in words, up to whole cache lines if it is more
// than one, so that an update needs as few lines as possible.
uint32_t InLines(uint32_t words) {
  constexpr uint32_t kLine = 8;
  return words <= kLine ? words : (words + kLine - 1) / kLine * kLine;
}

}  // namespace

TableCopy::TableCopy(TableShape shape)
    : shape_(std::move(shape)),
      key_words_(shape_.key_words()),
      value_words_(shape_.value_words()),
      pending_at_(kKey + key_words_),
      total_at_(pending_at_ + value_words_),
      entry_words_(InLines(total_at_ + value_words_)),
      rest_(shape_.max_entries),
      index_(shape_.max_entries, Pages::kLarge),
      entries_((size_t{rest_} + 1) * entry_words_, Pages::kGrowing),
      ring_(size_t{rest_} + 1),
      sent_deltas_(size_t{kMaxSent} * value_words_),
      noted_pending_((size_t{kMaxTentative} + 1) * value_words_) {
  SNF_CHECK(key_words_ > 0 && shape_.key_bytes <= TableShape::kMaxKeyBytes);
  SNF_CHECK(value_words_ > 0 &&
            shape_.value_bytes <= TableShape::kMaxValueBytes);
  SNF_CHECK(shape_.max_entries > 0);
}

void TableCopy::FailLate(const char* call) const {
  const std::string late = std::string("called ") + call + "() of table \"" +
                           shape_.name + "\": call it in the constructor";
  if (nf_call.is_under_way()) FailNf(late);
  internal::CheckFailed(__FILE__, __LINE__, late.c_str());
}

void TableCopy::set_hash(const KeyedHash& hash) {
  SNF_CHECK(size() == 0);
  hash_ = hash;
}

uint32_t TableCopy::FindAny(const uint64_t* key, uint64_t hash) const {
  return index_.Find(hash, [&](uint32_t slot) {
    return std::equal(key, key + key_words_, KeyOf(slot));
  });
}

bool TableCopy::Read(const uint64_t* key, uint64_t* value) const {
  if (view_ != nullptr) return ReadView(key, value);
  const uint32_t slot = FindAny(key, hash_(key, key_words_));
  if (slot == SlotIndex::kNotFound) return false;
  ReadSlot(slot, value);
  return true;
}

// The copy itself has the updates of the present call alone.
bool TableCopy::ReadView(const uint64_t* key, uint64_t* value) const {
  const bool is_there = view_->Read(key, value);
  const uint32_t slot = FindAny(key, hash_(key, key_words_));
  if (slot == SlotIndex::kNotFound) return is_there;
  if ((entry(slot)[kFlags] & kErased) != 0) {
    std::fill_n(value, value_words_, 0);
  }
  shape_.MergeInto(value, entry(slot) + pending_at_);
  return true;
}

void TableCopy::ReadRest(uint64_t* value) const {
  if (view_ == nullptr) return ReadSlot(rest_, value);
  view_->ReadRest(value);
  shape_.MergeInto(value, entry(rest_) + pending_at_);
}

std::vector<uint64_t> TableCopy::KeysOfView() const {
  std::vector<uint64_t> keys;
  view_->AppendKeys(keys);
  std::array<uint64_t, TableShape::kMaxValueBytes / 8> value{};
  for (uint32_t slot = 0; slot < used_; ++slot) {
    if ((entry(slot)[kFlags] & kUsed) == 0) continue;
    if (view_->Read(KeyOf(slot), value.data())) continue;
    keys.insert(keys.end(), KeyOf(slot), KeyOf(slot) + key_words_);
  }
  return keys;
}

uint32_t TableCopy::SizeOfView() const {
  uint32_t size = view_->size();
  std::array<uint64_t, TableShape::kMaxValueBytes / 8> value{};
  for (uint32_t slot = 0; slot < used_; ++slot) {
    if ((entry(slot)[kFlags] & kUsed) == 0) continue;
    size += view_->Read(KeyOf(slot), value.data()) ? 0 : 1;
  }
  return size;
}

void TableCopy::ReadSlot(uint32_t slot, uint64_t* value) const {
  const uint64_t* const own = entry(slot);
  if (slot != rest_) {
    const uint64_t place = own[kFlags] >> kSentShift;
    const bool is_erased = (own[kFlags] & kErased) != 0;
    if (is_erased || IsErasureSent(own[kFlags])) {
      std::fill_n(value, value_words_, 0);
    } else {
      std::copy_n(own + total_at_, value_words_, value);
    }
    if (place != 0 && !is_erased) {
      shape_.MergeInto(value, &sent_deltas_[(place - 1) * value_words_]);
    }
    shape_.MergeInto(value, own + pending_at_);
    return;
  }
  std::copy_n(own + total_at_, value_words_, value);
  shape_.MergeInto(value, own + pending_at_);
  // The rest may have been sent several times: entries that made way count as
  // rest.
  for (uint32_t i = 0; i < sent_; ++i) {
    if (sent_slots_[i] == rest_) {
      shape_.MergeInto(value, &sent_deltas_[i * value_words_]);
    }
  }
}

// Returns the slot of an update that is tentative, or the first of its key.
uint32_t TableCopy::SlotToChange(uint32_t slot, const uint64_t* key,
                                 uint64_t hash) {
  const bool is_new = slot == SlotIndex::kNotFound;
  const bool is_noted = !is_new && (entry(slot)[kFlags] & kNoted) != 0;
  const bool has_place = !tentative_ || is_noted || noted_ < kMaxTentative;
  if (!has_place || (is_new && !HasRoom())) {
    ++refused_;
    slot = rest_;
  } else if (is_new) {
    slot = Add(key, hash);
  }
  NoteBefore(slot, is_new && slot != rest_);
  return slot;
}

// Notes the slot as it is before a tentative update.
void TableCopy::NoteBefore(uint32_t slot, bool is_new) {
  uint64_t& flags = entry(slot)[kFlags];
  if (!tentative_ || (flags & kNoted) != 0) return;
  std::copy_n(PendingOf(slot), value_words_,
              &noted_pending_[noted_ * value_words_]);
  notes_[noted_++] = {.slot = slot,
                      .is_new = is_new,
                      .was_dirty = (flags & kDirty) != 0,
                      .was_erased = (flags & kErased) != 0};
  flags |= kNoted;
}

void TableCopy::Erase(const uint64_t* key) {
  ++updates_;
  const uint64_t hash = hash_(key, key_words_);
  uint32_t slot = FindAny(key, hash);
  if (tentative_ || slot == SlotIndex::kNotFound) {
    slot = SlotToChange(slot, key, hash);
  }
  if (slot == rest_) return;
  uint64_t* const pending = PendingOf(slot);
  const auto is_zero = [](uint64_t word) { return word == 0; };
  if (!std::all_of(pending, pending + value_words_, is_zero)) {
    NoteBefore(rest_, false);
    shape_.MergeInto(PendingOf(rest_), pending);
    std::fill_n(pending, value_words_, 0);
    if ((entry(rest_)[kFlags] & kDirty) == 0) MarkDirty(rest_);
  }
  uint64_t& flags = entry(slot)[kFlags];
  flags |= kErased;
  if ((flags & kDirty) == 0) MarkDirty(slot);
}

uint32_t TableCopy::Add(const uint64_t* key, uint64_t hash) {
  uint32_t slot = used_;
  if (free_ != 0) {
    slot = free_ - 1;
    free_ = static_cast<uint32_t>(entry(slot)[kVersion]);
  } else {
    ++used_;
  }
  uint64_t* const own = entry(slot);
  own[kVersion] = 0;
  own[kFlags] |= kUsed;  // kDirty may still be set
  std::copy_n(key, key_words_, own + kKey);
  std::fill_n(own + pending_at_, 2 * value_words_, 0);
  index_.Insert(hash, slot);
  return slot;
}

void TableCopy::Free(uint32_t slot) {
  uint64_t* const own = entry(slot);
  index_.Erase(hash_(own + kKey, key_words_), slot);
  own[kFlags] &= kDirty;
  own[kVersion] = std::exchange(free_, slot + 1);
}

// Removes an own entry, whose slot the caller takes at once. Returns false if
// there is none.
bool TableCopy::MakeRoom() {
  for (uint32_t tried = 0; tried < used_; ++tried) {
    eviction_ = eviction_ + 1 < used_ ? eviction_ + 1 : 0;
    const uint32_t slot = eviction_;
    const uint64_t* const own = entry(slot);
    if ((own[kFlags] & kUsed) == 0) continue;
    if (own[kVersion] != 0 && (own[kFlags] & kGone) == 0) continue;
    if ((own[kFlags] & kDirty) != 0) {
      ++refused_;
      shape_.MergeInto(PendingOf(rest_), own + pending_at_);
      if ((entry(rest_)[kFlags] & kDirty) == 0) MarkDirty(rest_);
    }
    const uint64_t place = own[kFlags] >> kSentShift;
    if (place != 0) {
      sent_slots_[place - 1] = rest_;
      sent_gone_[place - 1] = own[kVersion];
    }
    Free(slot);
    return true;
  }
  return false;
}

void TableCopy::MarkDirty(uint32_t slot) {
  entry(slot)[kFlags] |= kDirty;
  ring_[dirty_end_++ % ring_.size()] = slot;
}

void TableCopy::BeginTentative() {
  tentative_ = true;
  if (!logging_) noted_ = 0;
  updates_before_ = updates_;
  refused_before_ = refused_;
}

void TableCopy::EndTentative(bool keep) {
  tentative_ = logging_;
  if (keep && logging_) return;  // TakeLogged takes what is noted
  if (!keep) {
    updates_ = updates_before_;
    refused_ = refused_before_;
  }
  while (noted_ > 0) {
    const Note& note = notes_[--noted_];
    uint64_t& flags = entry(note.slot)[kFlags];
    flags &= ~kNoted;
    if (keep) continue;
    std::copy_n(&noted_pending_[noted_ * value_words_], value_words_,
                PendingOf(note.slot));
    if (!note.was_dirty && (flags & kDirty) != 0) {
      --dirty_end_;  // one of the entries added last
      flags &= ~kDirty;
    }
    if (!note.was_erased) flags &= ~kErased;
    if (note.is_new) Free(note.slot);
  }
}

void TableCopy::BeginLogging() {
  SNF_CHECK(size() == 0 && !dirty());
  logging_ = tentative_ = true;
}

TableCopy::Taken TableCopy::TakeLogged(uint64_t* key, uint64_t* delta) {
  SNF_CHECK(logging_);
  if (noted_ == 0) return Taken::kNothing;
  const uint32_t slot = notes_[--noted_].slot;
  uint64_t* const own = entry(slot);
  std::copy_n(PendingOf(slot), value_words_, delta);
  std::fill_n(PendingOf(slot), value_words_, 0);
  const bool is_erased = (own[kFlags] & kErased) != 0;
  own[kFlags] &= ~(kNoted | kDirty | kErased);
  if (noted_ == 0) dirty_begin_ = dirty_end_;
  if (slot == rest_) {
    std::fill_n(key, key_words_, 0);
    return Taken::kRest;
  }
  std::copy_n(KeyOf(slot), key_words_, key);
  Free(slot);
  return is_erased ? Taken::kErased : Taken::kEntry;
}

TableCopy::Taken TableCopy::Take(uint64_t* key, uint64_t* delta) {
  const uint32_t slot = ring_[dirty_begin_++ % ring_.size()];
  uint64_t* const own = entry(slot);
  const bool is_erased = (own[kFlags] & kErased) != 0;
  own[kFlags] &= ~(kDirty | kErased);
  uint64_t* const pending = PendingOf(slot);
  // An own entry is sent even if its updates are zeros.
  const bool is_own = own[kVersion] == 0 && (own[kFlags] & kUsed) != 0;
  if (!is_own && !is_erased &&
      std::all_of(pending, pending + value_words_,
                  [](uint64_t word) { return word == 0; })) {
    return Taken::kNothing;
  }
  std::copy_n(pending, value_words_, delta);
  std::copy_n(pending, value_words_, SentAt(sent_));
  std::fill_n(pending, value_words_, 0);
  sent_gone_[sent_] = 0;
  if (is_erased) sent_erased_ |= uint64_t{1} << sent_;
  sent_slots_[sent_++] = slot;
  if (slot == rest_) return Taken::kRest;
  own[kFlags] |= uint64_t{sent_} << kSentShift;
  std::copy_n(own + kKey, key_words_, key);
  return is_erased ? Taken::kErased : Taken::kEntry;
}

void TableCopy::SetTotal(uint32_t slot, uint64_t version,
                         const uint64_t* total) {
  uint64_t* const own = entry(slot);
  if (version < own[kVersion]) return;
  own[kVersion] = version;
  own[kFlags] &= ~kGone;
  std::copy_n(total, value_words_, own + total_at_);
}

// Forgets the updates sent as the i-th, which are now part of a total.
void TableCopy::ForgetSent(uint32_t i) {
  sent_erased_ &= ~(uint64_t{1} << i);
  std::fill_n(SentAt(i), value_words_, 0);
}

void TableCopy::on_merged(uint32_t i, const uint64_t* key, bool in_rest,
                          uint64_t version, const uint64_t* total) {
  const uint32_t slot = sent_slots_[i];
  const bool was_erased = (sent_erased_ >> i & 1) != 0;
  ForgetSent(i);
  if (slot != rest_) entry(slot)[kFlags] &= (uint64_t{1} << kSentShift) - 1;
  if (!in_rest) {
    if (version >= sent_gone_[i]) on_told(key, version, total, false);
  } else {
    SetTotal(rest_, version, total);
  }
  if (slot == rest_) return;
  uint64_t* const own = entry(slot);
  const bool is_own = own[kVersion] == 0 && (own[kFlags] & kUsed) != 0;
  if (in_rest && was_erased && version >= own[kVersion]) {
    std::fill_n(TotalOf(slot), value_words_, 0);
    own[kFlags] |= kGone;
  }
  if (is_own || (own[kFlags] & kGone) != 0) EndGone(slot);
}

void TableCopy::on_gone(const uint64_t* key, uint64_t version, bool with_sent) {
  const uint32_t slot = FindAny(key, hash_(key, key_words_));
  if (slot == SlotIndex::kNotFound) return;
  uint64_t* const own = entry(slot);
  if (version < own[kVersion]) return;
  own[kVersion] = version;
  own[kFlags] |= kGone;
  std::fill_n(TotalOf(slot), value_words_, 0);
  const uint64_t place = own[kFlags] >> kSentShift;
  if (place == 0) {
    EndGone(slot);
  } else if (with_sent) {
    ForgetSent(static_cast<uint32_t>(place - 1));
  }
}

// The home has no such entry, and nothing that says otherwise is still to come.
void TableCopy::EndGone(uint32_t slot) {
  uint64_t* const own = entry(slot);
  own[kFlags] &= ~kGone;
  own[kVersion] = 0;
  if ((own[kFlags] & kDirty) == 0) Free(slot);
}

bool TableCopy::on_told(const uint64_t* key, uint64_t version,
                        const uint64_t* total, bool with_sent) {
  if (key == nullptr) {
    SetTotal(rest_, version, total);
    for (uint32_t i = 0; with_sent && i < sent_; ++i) {
      if (sent_slots_[i] == rest_) ForgetSent(i);
    }
    return true;
  }
  const uint64_t hash = hash_(key, key_words_);
  uint32_t slot = FindAny(key, hash);
  if (slot == SlotIndex::kNotFound) {
    if (!HasRoom() && !MakeRoom()) return false;
    slot = Add(key, hash);
  }
  SetTotal(slot, version, total);
  const uint64_t place = entry(slot)[kFlags] >> kSentShift;
  if (with_sent && place != 0) ForgetSent(static_cast<uint32_t>(place - 1));
  return true;
}

void TableCopy::ForgetTotals() {
  SNF_CHECK(sent_ == 0 && !tentative_);
  for (uint32_t slot = 0; slot < used_; ++slot) {
    if ((entry(slot)[kFlags] & kUsed) == 0) continue;
    std::fill_n(TotalOf(slot), value_words_, 0);
    EndGone(slot);
  }
  entry(rest_)[kVersion] = 0;
  std::fill_n(TotalOf(rest_), value_words_, 0);
}

void TableCopy::Clear() {
  SNF_CHECK(!dirty() && sent_ == 0);
  while (used_ > 0) {
    const uint32_t slot = --used_;
    if ((entry(slot)[kFlags] & kUsed) != 0) Free(slot);
  }
  free_ = 0;
  eviction_ = 0;
  std::fill_n(entry(rest_), entry_words_, 0);
}

}  // namespace snf
