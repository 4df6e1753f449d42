// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/state_schema.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/byte_order.h"
#include "base/check.h"

namespace snf {
namespace {

// Returns FNV-1a of the text. It is slow, but only hashes a few names at start.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  }
  return hash;
}

// Hashes one more word; the order of words matters.
uint64_t Combine(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
  return hash ^ hash >> 32;
}

constexpr uint32_t RoundUp(uint32_t bytes) { return (bytes + 7) & ~7u; }

// Returns true if all bytes are 0: the first is 0, and each other byte equals
// its predecessor, which memcmp compares many at a time.
bool IsZero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Returns true if these words are 0.
template <size_t kWords>
bool HasOnlyZeros(const std::byte* bytes) {
  uint64_t any = 0;
  for (size_t i = 0; i < kWords; ++i) any |= LoadAs<uint64_t>(bytes + 8 * i);
  return any == 0;
}

// Read a word, or a part, of bytes that are followed by any number of zeros.
uint64_t WordAt(std::span<const std::byte> bytes, size_t at) {
  return at < bytes.size() ? LoadAs<uint64_t>(&bytes[at]) : 0;
}
std::span<const std::byte> Part(std::span<const std::byte> bytes, size_t begin,
                                size_t end) {
  begin = std::min(begin, bytes.size());
  return bytes.subspan(begin, std::min(end, bytes.size()) - begin);
}

}  // namespace

void StateSchema::set_nf(std::string_view name, std::string_view options) {
  hash_ = Combine(Combine(hash_, HashOf(name)), HashOf(options));
}

uint32_t StateSchema::AddSlot(std::string_view name, uint32_t bytes,
                              std::string_view type) {
  return Add(name, type, bytes, false);
}

uint32_t StateSchema::AddBlob(std::string_view name, uint32_t max_bytes) {
  return Add(name, {}, max_bytes, true);
}

std::string StateSchema::WhyNot(std::string_view slot_name, uint64_t bytes,
                                bool is_blob) const {
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (specs_[slot].name == slot_name) return "there is one of that name";
  }
  if (slots_ == kMaxSlots) {
    return absl::StrCat("more than ", kMaxSlots, " slots");
  }
  if (bytes == 0) return "it has no bytes";
  const uint64_t header = is_blob ? kBlobHeaderBytes : 0;
  const uint64_t begin = record_bytes_ == 0 ? 8 : record_bytes_;
  if (bytes <= kMaxRecordBytes &&
      begin + header + RoundUp(static_cast<uint32_t>(bytes)) <=
          kMaxRecordBytes) {
    return "";
  }
  return absl::StrCat("with its ", bytes, " bytes there are more than ",
                      kMaxRecordBytes, " of a flow");
}

uint32_t StateSchema::Add(std::string_view name, std::string_view type,
                          uint32_t bytes, bool is_blob) {
  SNF_CHECK(WhyNot(name, bytes, is_blob).empty());
  const uint32_t offset = record_bytes_ == 0 ? 8 : record_bytes_;
  const uint32_t reserved = (is_blob ? kBlobHeaderBytes : 0) + RoundUp(bytes);
  specs_[slots_] = {.name = std::string(name),
                    .offset = offset,
                    .bytes = bytes,
                    .is_blob = is_blob,
                    .type = std::string(type)};
  record_bytes_ = offset + reserved;
  const std::array<uint64_t, 5> words = {HashOf(name), HashOf(type), offset,
                                         bytes, is_blob};
  for (const uint64_t word : words) hash_ = Combine(hash_, word);
  return slots_++;
}

StateSchema::Shift StateSchema::Append(std::string_view prefix,
                                       const StateSchema& other) {
  SNF_CHECK(other.table_slot_ == kMaxSlots);
  const uint32_t begin = record_bytes_ == 0 ? 8 : record_bytes_;
  const Shift shift = {.slots = slots_, .bytes = begin - 8};
  for (uint32_t slot = 0; slot < other.slots_; ++slot) {
    const Spec& spec = other.specs_[slot];
    const uint32_t added = Add(std::string(prefix) + "." + spec.name, {},
                               spec.bytes, spec.is_blob);
    specs_[added].is_seldom = spec.is_seldom;
  }
  // The other schema's hash covers the types of its slots.
  hash_ = Combine(Combine(hash_, HashOf(prefix)), other.hash_);
  return shift;
}

uint32_t StateSchema::AddTable(std::string_view name, uint32_t key_bytes,
                               const StateSchema& entries,
                               uint32_t max_entries) {
  SNF_CHECK(table_slot_ == kMaxSlots && entries.table_slot_ == kMaxSlots);
  SNF_CHECK(key_bytes % 8 == 0 && entries.slots_ > 0);
  key_bytes_ = key_bytes;
  entry_bytes_ = key_bytes + entries.record_bytes_;
  entry_specs_.assign(entries.specs_.begin(),
                      entries.specs_.begin() + entries.slots_);
  SNF_CHECK(max_entries <= kMaxRecordBytes / entry_bytes_);
  table_slot_ = Add(name, {}, max_entries * entry_bytes_, true);
  hash_ = Combine(Combine(hash_, key_bytes), entries.hash_);
  return table_slot_;
}

std::span<const std::byte> StateSchema::WithoutZeros(
    std::span<const std::byte> record) {
  size_t end = record.size();
  // Eight words at a time, as most of a state is not used.
  while (end >= 64 && HasOnlyZeros<8>(&record[end - 64])) end -= 64;
  while (end > 0 && HasOnlyZeros<1>(&record[end - 8])) end -= 8;
  return record.first(end);
}

bool StateSchema::IsWellFormed(std::span<const std::byte> record) const {
  if (record.size() > record_bytes_ || record.size() % 8 != 0) return false;
  if (!AreWellFormed(std::span(specs_).first(slots_), record)) return false;
  if (table_slot_ == kMaxSlots) return true;
  const size_t begin = offset(table_slot_) + kBlobHeaderBytes;
  const uint64_t length = WordAt(record, offset(table_slot_));
  return length % entry_bytes_ == 0 &&
         AreEntries(Part(record, begin, begin + length));
}

bool StateSchema::CanHold(uint32_t slot,
                          std::span<const std::byte> bytes) const {
  return slot != table_slot_ ||
         (bytes.size() % entry_bytes_ == 0 && AreEntries(bytes));
}

bool StateSchema::AreEntries(std::span<const std::byte> bytes) const {
  for (size_t end = 0; end < bytes.size();) {
    const size_t begin = end + key_bytes_;
    end += entry_bytes_;
    if (!AreWellFormed(entry_specs_, Part(bytes, begin, end))) return false;
  }
  return true;
}

bool StateSchema::AreWellFormed(std::span<const Spec> specs,
                                std::span<const std::byte> record) {
  const uint64_t present = WordAt(record, 0);
  if (specs.size() < kMaxSlots && present >> specs.size() != 0) return false;
  for (size_t slot = 0; slot < specs.size(); ++slot) {
    const Spec& spec = specs[slot];
    const bool has_value = (present >> slot & 1) != 0;
    size_t begin = spec.offset;
    size_t used = has_value ? spec.bytes : 0;
    if (spec.is_blob) {
      const uint64_t length = WordAt(record, begin);
      if (length > used) return false;
      begin += kBlobHeaderBytes;
      used = length;
    }
    const size_t end =
        slot + 1 < specs.size() ? specs[slot + 1].offset : record.size();
    if (!IsZero(Part(record, begin + used, end))) return false;
  }
  return true;
}

}  // namespace snf
