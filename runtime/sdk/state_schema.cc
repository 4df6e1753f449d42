// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/state_schema.h"

#include <cstring>

#include "base/byte_order.h"
#include "base/check.h"

namespace snf {
namespace {

// FNV-1a: for a few names at start.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  }
  return hash;
}

// `hash` and one more word, in this order.
uint64_t Chain(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
  return hash ^ hash >> 32;
}

constexpr uint32_t RoundUp(uint32_t bytes) { return (bytes + 7) & ~7u; }

// The first byte is 0, and each other byte is like the one before it: memcmp
// looks at many at a time.
bool IsZero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

void StateSchema::set_nf(std::string_view name) {
  hash_ = Chain(hash_, HashOf(name));
}

uint32_t StateSchema::AddSlot(std::string_view name, uint32_t bytes,
                              std::string_view type) {
  return Add(name, type, bytes, false);
}

uint32_t StateSchema::AddBlob(std::string_view name, uint32_t max_bytes) {
  return Add(name, {}, max_bytes, true);
}

uint32_t StateSchema::Add(std::string_view name, std::string_view type,
                          uint32_t bytes, bool is_blob) {
  SNF_CHECK(slots_ < kMaxSlots);
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    SNF_CHECK(specs_[slot].name != name);
  }
  SNF_CHECK(bytes > 0 && bytes <= kMaxRecordBytes);
  const uint32_t offset = record_bytes_ == 0 ? 8 : record_bytes_;
  const uint32_t reserved = (is_blob ? kBlobHeaderBytes : 0) + RoundUp(bytes);
  SNF_CHECK(reserved <= kMaxRecordBytes - offset);
  specs_[slots_] = {.name = std::string(name),
                    .offset = offset,
                    .bytes = bytes,
                    .is_blob = is_blob};
  record_bytes_ = offset + reserved;
  const std::array<uint64_t, 5> words = {HashOf(name), HashOf(type), offset,
                                         bytes, is_blob};
  for (const uint64_t word : words) hash_ = Chain(hash_, word);
  return slots_++;
}

StateSchema::Shift StateSchema::Append(std::string_view prefix,
                                       const StateSchema& other) {
  SNF_CHECK(other.table_slot_ == kMaxSlots);
  const uint32_t begin = record_bytes_ == 0 ? 8 : record_bytes_;
  const Shift shift = {.slots = slots_, .bytes = begin - 8};
  for (uint32_t slot = 0; slot < other.slots_; ++slot) {
    const Spec& spec = other.specs_[slot];
    Add(std::string(prefix) + "." + spec.name, {}, spec.bytes, spec.is_blob);
  }
  // The types are in there.
  hash_ = Chain(Chain(hash_, HashOf(prefix)), other.hash_);
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
  hash_ = Chain(Chain(hash_, key_bytes), entries.hash_);
  return table_slot_;
}

bool StateSchema::IsWellFormed(std::span<const std::byte> record) const {
  if (record.size() != record_bytes_) return false;
  if (record.empty()) return true;
  if (!AreWellFormed(std::span(specs_).first(slots_), record)) return false;
  if (table_slot_ == kMaxSlots) return true;
  const uint32_t begin = offset(table_slot_);
  const auto length = LoadAs<uint64_t>(&record[begin]);
  return CanHold(table_slot_, record.subspan(begin + kBlobHeaderBytes, length));
}

bool StateSchema::CanHold(uint32_t slot,
                          std::span<const std::byte> bytes) const {
  if (slot != table_slot_) return true;
  if (bytes.size() % entry_bytes_ != 0) return false;
  for (; !bytes.empty(); bytes = bytes.subspan(entry_bytes_)) {
    const size_t record_bytes = entry_bytes_ - key_bytes_;
    if (!AreWellFormed(entry_specs_, bytes.subspan(key_bytes_, record_bytes))) {
      return false;
    }
  }
  return true;
}

bool StateSchema::AreWellFormed(std::span<const Spec> specs,
                                std::span<const std::byte> record) {
  const auto present = LoadAs<uint64_t>(record.data());
  if (specs.size() < kMaxSlots && present >> specs.size() != 0) return false;
  for (size_t slot = 0; slot < specs.size(); ++slot) {
    const Spec& spec = specs[slot];
    const bool has_value = (present >> slot & 1) != 0;
    size_t begin = spec.offset;
    size_t used = has_value ? spec.bytes : 0;
    if (spec.is_blob) {
      const auto length = LoadAs<uint64_t>(&record[begin]);
      if (length > used) return false;
      begin += kBlobHeaderBytes;
      used = length;
    }
    const size_t end =
        slot + 1 < specs.size() ? specs[slot + 1].offset : record.size();
    if (!IsZero(record.subspan(begin + used, end - begin - used))) return false;
  }
  return true;
}

}  // namespace snf
