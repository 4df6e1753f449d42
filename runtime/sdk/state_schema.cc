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

bool StateSchema::IsWellFormed(std::span<const std::byte> record) const {
  if (record.size() != record_bytes_) return false;
  if (record.empty()) return true;
  const auto present = LoadAs<uint64_t>(record.data());
  if (slots_ < kMaxSlots && present >> slots_ != 0) return false;
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    const bool has_value = (present >> slot & 1) != 0;
    uint32_t begin = offset(slot);
    uint32_t used = has_value ? bytes(slot) : 0;
    if (is_blob(slot)) {
      const auto length = LoadAs<uint64_t>(&record[begin]);
      if (length > used) return false;
      begin += kBlobHeaderBytes;
      used = static_cast<uint32_t>(length);
    }
    const uint32_t end = slot + 1 < slots_ ? offset(slot + 1) : record_bytes_;
    if (!IsZero(record.subspan(begin + used, end - begin - used))) return false;
  }
  return true;
}

}  // namespace snf
