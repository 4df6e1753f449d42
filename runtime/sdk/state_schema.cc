// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/state_schema.h"

#include <cstring>

#include "base/check.h"

namespace snf {
namespace {

// FNV-1a: for a few names at start.
uint64_t HashOn(uint64_t hash, const void* data, size_t bytes) {
  for (const std::byte byte :
       std::span(static_cast<const std::byte*>(data), bytes)) {
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100'0000'01b3;
  }
  return hash;
}

constexpr uint32_t RoundUp(uint32_t bytes) { return (bytes + 7) & ~7u; }

}  // namespace

void StateSchema::set_nf(std::string_view name) {
  hash_ = HashOn(hash_, name.data(), name.size());
}

uint32_t StateSchema::AddSlot(std::string_view name, uint32_t bytes,
                              uint64_t type_hash) {
  return Add(name, bytes, RoundUp(bytes), type_hash, false);
}

uint32_t StateSchema::AddBlob(std::string_view name, uint32_t max_bytes) {
  SNF_CHECK(max_bytes <= kMaxRecordBytes);
  return Add(name, max_bytes, 8 + RoundUp(max_bytes), 0, true);
}

uint32_t StateSchema::Add(std::string_view name, uint32_t bytes,
                          uint32_t reserved, uint64_t type_hash, bool is_blob) {
  SNF_CHECK(slots_ < kMaxSlots && bytes > 0);
  if (record_bytes_ == 0) record_bytes_ = 8;
  SNF_CHECK(reserved <= kMaxRecordBytes - record_bytes_);
  const uint32_t offset = record_bytes_;
  specs_[slots_] = {.offset = offset, .bytes = bytes, .is_blob = is_blob};
  record_bytes_ += reserved;
  const std::array<uint64_t, 4> rest = {type_hash, offset, bytes, is_blob};
  hash_ = HashOn(hash_, name.data(), name.size());
  hash_ = HashOn(hash_, rest.data(), sizeof rest);
  return slots_++;
}

bool StateSchema::IsWellFormed(std::span<const std::byte> record) const {
  if (record.size() != record_bytes_) return false;
  if (record.empty()) return true;
  uint64_t present = 0;
  std::memcpy(&present, record.data(), sizeof present);
  if (slots_ < kMaxSlots && present >> slots_ != 0) return false;
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (!is_blob(slot)) continue;
    std::array<uint32_t, 2> length{};
    std::memcpy(&length, &record[offset(slot)], sizeof length);
    if (length[0] > bytes(slot) || length[1] != 0) return false;
  }
  return true;
}

}  // namespace snf
