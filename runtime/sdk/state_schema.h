// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_STATE_SCHEMA_H_
#define SNF_RUNTIME_SDK_STATE_SCHEMA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace snf {

// A value of type T that an NF keeps for each flow, declared with
// NetworkFunction::declare. A handle: copying it copies the reference.
template <typename T>
struct Slot {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 8,
                "state is moved between units as bytes");
  uint32_t index = 0;   // of the NF's slots
  uint32_t offset = 0;  // in the record
};

// Up to `max_bytes` bytes that an NF keeps for each flow.
struct Blob {
  uint32_t index = 0;
  uint32_t offset = 0;
  uint32_t max_bytes = 0;
};

// Theory of operation. What a unit keeps for each flow, for all NFs of its
// chain together, is one record: bytes without pointers, so that it can be
// copied between units, or lie in shared memory, as it is (decisions.md 17).
//
//   offset 0   8 bytes, a bit for each slot: it has a value
//   then       the slots in the order of declaration, each 8-byte aligned
//   a blob     4 bytes length used, 4 bytes 0, the reserved maximum
//
// All integers are in the machine's byte order. The hash of a schema tells
// whether two units mean the same by the same bytes: it is over the slots' NF,
// name, type and offset.
//
// Worked example: slots "packets" (uint64_t) and "ports" (a struct of 12 bytes)
// and a blob "name" of at most 20 bytes: they lie at 8, 16 and 32, and a record
// has 8 + 8 + 16 + 8 + 24 = 64 bytes.
//
// Built once at start; a value.
class StateSchema {
 public:
  static constexpr uint32_t kMaxSlots = 64;
  static constexpr uint32_t kMaxRecordBytes = 64 * 1024;

  // What the slots added from now on belong to; before the first Add.
  void set_nf(std::string_view name);

  // Adds a slot. Too many slots or bytes is a programmer's error (SNF_CHECK).
  // `type_hash` tells types apart that have the same size.
  uint32_t AddSlot(std::string_view name, uint32_t bytes, uint64_t type_hash);
  uint32_t AddBlob(std::string_view name, uint32_t max_bytes);

  uint32_t slots() const { return slots_; }
  uint32_t offset(uint32_t slot) const { return specs_[slot].offset; }
  // Of a typed slot its size; of a blob its maximum.
  uint32_t bytes(uint32_t slot) const { return specs_[slot].bytes; }
  bool is_blob(uint32_t slot) const { return specs_[slot].is_blob; }

  // Of one record, a multiple of 8; 0 without slots.
  uint32_t record_bytes() const { return record_bytes_; }
  uint64_t hash() const { return hash_; }

  // Whether bytes from elsewhere are a record: the right size, no bit of a slot
  // that is not there, no blob longer than its maximum.
  bool IsWellFormed(std::span<const std::byte> record) const;

 private:
  struct Spec {
    uint32_t offset;
    uint32_t bytes;
    bool is_blob;
  };
  uint32_t Add(std::string_view name, uint32_t bytes, uint32_t reserved,
               uint64_t type_hash, bool is_blob);

  uint32_t slots_ = 0;
  uint32_t record_bytes_ = 0;
  uint64_t hash_ = 0xcbf2'9ce4'8422'2325;
  std::array<Spec, kMaxSlots> specs_{};
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_STATE_SCHEMA_H_
