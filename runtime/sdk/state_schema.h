// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_STATE_SCHEMA_H_
#define SNF_RUNTIME_SDK_STATE_SCHEMA_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace snf {

namespace internal {

// Returns true if a value of type T can be made of bytes at compile time: then
// no part of it, however deep, is a pointer, a reference or a union. (g++ 12
// does not look into arrays.)
template <typename T>
constexpr bool IsMadeOfBytes() {
  struct Holder {
    std::remove_cv_t<T> value;
  };
  [[maybe_unused]] const auto made =
      std::bit_cast<Holder>(std::array<std::byte, sizeof(T)>{});
  return true;
}
template <typename T>
concept HasNoPointers =
    !std::is_pointer_v<std::remove_all_extents_t<T>> && requires {
  typename std::bool_constant<IsMadeOfBytes<T>()>;
};

}  // namespace internal

// A handle of a value of type T that an NF keeps for each flow. Only
// NetworkFunction::declare gives one, and it is valid for that NF's flows.
// Copying it copies the reference.
template <typename T>
class Slot {
  static_assert(std::is_trivially_copyable_v<T>,
                "state is moved between units as bytes");
  static_assert(std::has_unique_object_representations_v<T>,
                "equal values must be equal bytes: no padding (name the gaps "
                "and set them to 0), no floating point");
  static_assert(internal::HasNoPointers<T>,
                "a pointer means nothing at another unit: state has no "
                "pointers, references and unions, not in structs either, and "
                "a type with constructors has a constexpr one");
  static_assert(!std::is_same_v<T, bool>,
                "a byte from elsewhere may be neither: use uint8_t, here and "
                "in structs, and no enum that must have one of its names");

 public:
  uint32_t index() const { return index_; }    // among the record's slots
  uint32_t offset() const { return offset_; }  // in the record

 private:
  friend class NetworkFunction;
  Slot(uint32_t index, uint32_t offset) : index_(index), offset_(offset) {}

  uint32_t index_;
  uint32_t offset_;
};

// Says which packets of a flow use a blob.
enum class BlobUse : uint8_t { kByMostPackets, kSeldom };

// A handle like Slot, from NetworkFunction::declare_blob, of up to max_bytes()
// bytes that an NF keeps for each flow.
class Blob {
 public:
  uint32_t index() const { return index_; }
  uint32_t offset() const { return offset_; }
  uint32_t max_bytes() const { return max_bytes_; }

 private:
  friend class NetworkFunction;
  Blob(uint32_t index, uint32_t offset, uint32_t max_bytes)
      : index_(index), offset_(offset), max_bytes_(max_bytes) {}

  uint32_t index_;
  uint32_t offset_;
  uint32_t max_bytes_;
};

// Theory of operation. A unit's state of a flow, for all NFs of its chain
// together, is one record: bytes without pointers, so that it can be copied
// between units, or lie in shared memory, as it is (proto/decisions.md 17).
//
//   offset 0   8 bytes, a bit for each slot: it has a value
//   then       the slots in the order of declaration, each 8-byte aligned
//   a blob     8 bytes length used, then the reserved maximum
//   a table    a blob of entries without gaps: the bytes of a key, which may be
//              any, then a record of the entries' schema
//
// All integers are in the machine's byte order. Every byte that holds no value
// is 0: a slot without value, a blob behind its length, gaps. So two records
// hold the same values if and only if their bytes are equal, and a record of
// zeros is that of a new flow. On the way between units a record lacks zeros at
// its end, in words of 8 bytes.
//
// The hash of a schema is over the NF's name and options and the slots' names,
// kinds of type, sizes and offsets. It is the same whatever compiler the unit
// was built with. The hash does not cover the members of a struct: if their
// meaning changes, but not their size, rename the slot. Then, if it is equal,
// two units interpret a record's bytes alike.
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
  static constexpr uint32_t kBlobHeaderBytes = 8;

  // Names the NF to which the slots belong, and the options that decide the
  // contents of the slots. Both are part of the hash.
  void set_nf(std::string_view name, std::string_view options = {});

  // Returns why such a slot cannot be added, or "" if it can.
  std::string WhyNot(std::string_view slot_name, uint64_t bytes,
                     bool is_blob) const;
  // Returns the type argument of AddSlot for a slot of type T.
  template <typename T>
  static constexpr std::string_view KindOf() {
    if constexpr (std::is_same_v<T, bool>) {
      return "bool";
    } else if constexpr (std::is_floating_point_v<T>) {
      return "floating point";
    } else if constexpr (std::is_integral_v<T>) {
      return std::is_signed_v<T> ? "signed" : "unsigned";
    } else if constexpr (std::is_enum_v<T>) {
      return "enum";
    } else {
      return alignof(T) == 1   ? "aligned to 1"
             : alignof(T) == 2 ? "aligned to 2"
             : alignof(T) == 4 ? "aligned to 4"
                               : "aligned to 8";
    }
  }
  // Adds a slot and returns its index; WhyNot must be "". `type` says what the
  // slot's type is, so that types of the same size give different hashes.
  uint32_t AddSlot(std::string_view name, uint32_t bytes,
                   std::string_view type);
  uint32_t AddBlob(std::string_view name, uint32_t max_bytes);
  // Says that few packets use the slot, so it is not worth a prefetch.
  void MarkSeldom(uint32_t slot) { specs_[slot].is_seldom = true; }

  // The shift from the slots of another schema to their places in this one.
  struct Shift {
    uint32_t slots = 0;
    uint32_t bytes = 0;
  };
  // Adds all slots of a schema without a table, as "prefix.name". They must fit
  // (HasRoomFor).
  Shift Append(std::string_view prefix, const StateSchema& other);
  // Adds a table and returns its slot; a schema has at most one. `key_bytes` is
  // a multiple of 8, and `entries` has slots and no table.
  uint32_t AddTable(std::string_view name, uint32_t key_bytes,
                    const StateSchema& entries, uint32_t max_entries);
  // Returns true if `slots` more slots of `bytes` bytes in all can be added.
  // Each takes a multiple of 8, and a blob or a table kBlobHeaderBytes besides.
  bool HasRoomFor(uint32_t slots, uint64_t bytes) const {
    return slots_ + slots <= kMaxSlots &&
           (record_bytes_ == 0 ? 8 : record_bytes_) + bytes <= kMaxRecordBytes;
  }

  uint32_t slots() const { return slots_; }
  std::string_view name(uint32_t slot) const { return specs_[slot].name; }
  uint32_t offset(uint32_t slot) const { return specs_[slot].offset; }
  // The size of a typed slot, or the maximum of a blob.
  uint32_t bytes(uint32_t slot) const { return specs_[slot].bytes; }
  bool is_blob(uint32_t slot) const { return specs_[slot].is_blob; }
  bool is_seldom(uint32_t slot) const { return specs_[slot].is_seldom; }
  // The argument of AddSlot.
  std::string_view type(uint32_t slot) const { return specs_[slot].type; }
  // The length of a blob, and of changes to it, is a multiple of this: the size
  // of an entry for a table, 1 for any other blob.
  uint32_t grain(uint32_t slot) const {
    return slot == table_slot_ ? entry_bytes_ : 1;
  }

  // The size of a record, a multiple of 8; 0 without slots.
  uint32_t record_bytes() const { return record_bytes_; }
  uint64_t hash() const { return hash_; }

  // Returns the record without words of zeros at its end, which is the part
  // that is sent.
  static std::span<const std::byte> WithoutZeros(
      std::span<const std::byte> record);
  // Returns true if bytes from elsewhere are a record as described above; words
  // of zeros at the end may be missing. Values themselves may be anything.
  // Budget: ≤ 10 ns for two slots, and a look at each byte without value (≤ 30
  // ns a KB).
  bool IsWellFormed(std::span<const std::byte> record) const;
  // Returns true if such bytes can stand in the blob `slot`. In a table they
  // must be entries, each with a well-formed record.
  bool CanHold(uint32_t slot, std::span<const std::byte> bytes) const;

 private:
  struct Spec {
    std::string name;
    uint32_t offset;
    uint32_t bytes;
    bool is_blob;
    std::string type{};
    bool is_seldom = false;
  };
  uint32_t Add(std::string_view name, std::string_view type, uint32_t bytes,
               bool is_blob);
  static bool AreWellFormed(std::span<const Spec> specs,
                            std::span<const std::byte> record);
  bool AreEntries(std::span<const std::byte> bytes) const;

  uint32_t slots_ = 0;
  uint32_t record_bytes_ = 0;
  uint64_t hash_ = 0;
  std::array<Spec, kMaxSlots> specs_{};
  // The table, if there is one.
  uint32_t table_slot_ = kMaxSlots;  // kMaxSlots for none
  uint32_t key_bytes_ = 0;
  uint32_t entry_bytes_ = 0;
  std::vector<Spec> entry_specs_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_STATE_SCHEMA_H_
