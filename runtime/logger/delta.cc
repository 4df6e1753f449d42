// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/delta.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/byte_order.h"
#include "base/check.h"

namespace snf {
namespace {

struct DeltaHeader {
  uint64_t dirty;
  uint64_t present;
};

struct BlobChange {
  uint32_t length;
  uint32_t begin;
  uint32_t end;
};

class Writer {
 public:
  explicit Writer(std::span<std::byte> to) : to_(to) {}
  void Write(const void* from, size_t bytes) {
    if (bytes == 0) return;
    SNF_CHECK(bytes <= to_.size() - used_);
    std::memcpy(&to_[used_], from, bytes);
    used_ += bytes;
  }
  uint32_t used() const { return static_cast<uint32_t>(used_); }

 private:
  std::span<std::byte> to_;
  size_t used_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : left_(from) {}
  bool at_end() const { return left_.empty(); }
  // Returns false if fewer bytes are left.
  bool Read(size_t bytes, std::span<const std::byte>& to) {
    if (bytes > left_.size()) return false;
    to = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return true;
  }
  template <typename T>
  bool Read(T& to) {
    std::span<const std::byte> bytes;
    if (!Read(sizeof to, bytes)) return false;
    to = LoadAs<T>(bytes.data());
    return true;
  }

 private:
  std::span<const std::byte> left_;
};

// The change of one slot. `blob` is not set for a typed slot.
struct Change {
  uint32_t slot;
  bool has_value;
  BlobChange blob;
  std::span<const std::byte> bytes;
};

// Returns true if a blob of length `before` can have been changed to this one.
bool IsPossible(const BlobChange& blob, uint32_t before, uint32_t max_bytes,
                uint32_t grain) {
  if (blob.length > max_bytes || blob.end > blob.length) return false;
  if (blob.begin > blob.end) return false;
  if (blob.begin % grain != 0 || blob.length % grain != 0) return false;
  return blob.length <= before ||
         (blob.begin <= before && blob.end == blob.length);
}

bool ReadChange(const StateSchema& schema, std::span<const std::byte> record,
                Reader& reader, Change& change) {
  if (!change.has_value) return true;
  const uint32_t slot = change.slot;
  if (!schema.is_blob(slot)) {
    return reader.Read(schema.bytes(slot), change.bytes);
  }
  const auto before = LoadAs<uint64_t>(&record[schema.offset(slot)]);
  return reader.Read(change.blob) &&
         IsPossible(change.blob, static_cast<uint32_t>(before),
                    schema.bytes(slot), schema.grain(slot)) &&
         reader.Read(change.blob.end - change.blob.begin, change.bytes) &&
         schema.CanHold(slot, change.bytes);
}

// Hands each change to `apply` until one is malformed; `apply` may change the
// record. Whether all were good.
template <typename Apply>
bool ForEachChange(const StateSchema& schema, const DeltaHeader& header,
                   std::span<const std::byte> delta,
                   std::span<const std::byte> record, Apply apply) {
  Reader reader(delta.subspan(sizeof header));
  for (uint64_t left = header.dirty; left != 0; left &= left - 1) {
    Change change{};
    change.slot = static_cast<uint32_t>(std::countr_zero(left));
    change.has_value = (header.present >> change.slot & 1) != 0;
    if (!ReadChange(schema, record, reader, change)) return false;
    apply(change);
  }
  return reader.at_end();
}

void Apply(const StateSchema& schema, const Change& change,
           std::span<std::byte> record) {
  std::byte* to = &record[schema.offset(change.slot)];
  uint32_t begin = 0;
  if (schema.is_blob(change.slot)) {
    const auto before = LoadAs<uint64_t>(to);
    const uint64_t length = change.blob.length;  // 0 without a value
    std::memcpy(to, &length, sizeof length);
    to += StateSchema::kBlobHeaderBytes;
    if (length < before) std::memset(to + length, 0, before - length);
    begin = change.blob.begin;
  } else if (!change.has_value) {
    std::memset(to, 0, schema.bytes(change.slot));
  }
  if (!change.bytes.empty()) {
    std::memcpy(to + begin, change.bytes.data(), change.bytes.size());
  }
}

// `range_of` returns the changed part of a blob that has a value.
template <typename RangeOfBlob>
uint32_t Encode(const StateSchema& schema, std::span<const std::byte> record,
                uint64_t dirty, RangeOfBlob range_of, std::span<std::byte> to) {
  if (dirty == 0) return 0;
  Writer writer(to);
  const DeltaHeader header = {.dirty = dirty,
                              .present = LoadAs<uint64_t>(record.data())};
  writer.Write(&header, sizeof header);
  for (uint64_t left = header.dirty & header.present; left != 0;
       left &= left - 1) {
    const auto slot = static_cast<uint32_t>(std::countr_zero(left));
    const std::byte* const from = &record[schema.offset(slot)];
    if (!schema.is_blob(slot)) {
      writer.Write(from, schema.bytes(slot));
      continue;
    }
    const StateView::Range range = range_of(slot);
    const BlobChange blob = {
        .length = static_cast<uint32_t>(LoadAs<uint64_t>(from)),
        .begin = range.begin,
        .end = range.end};
    writer.Write(&blob, sizeof blob);
    writer.Write(from + StateSchema::kBlobHeaderBytes + range.begin,
                 range.end - range.begin);
  }
  return writer.used();
}

// Returns the bytes of a slot; of a blob, its length and its content.
std::span<const std::byte> ValueOf(const StateSchema& schema, uint32_t slot,
                                   std::span<const std::byte> record) {
  const uint32_t offset = schema.offset(slot);
  if (!schema.is_blob(slot)) return record.subspan(offset, schema.bytes(slot));
  const auto length = LoadAs<uint64_t>(&record[offset]);
  return record.subspan(offset, StateSchema::kBlobHeaderBytes + length);
}

bool IsChanged(const StateSchema& schema, uint32_t slot,
               std::span<const std::byte> before,
               std::span<const std::byte> after) {
  const uint64_t present =
      LoadAs<uint64_t>(before.data()) ^ LoadAs<uint64_t>(after.data());
  if ((present >> slot & 1) != 0) return true;
  const auto was = ValueOf(schema, slot, before);
  const auto is = ValueOf(schema, slot, after);
  return was.size() != is.size() ||
         std::memcmp(was.data(), is.data(), is.size()) != 0;
}

// Returns the part of a blob outside of which both records have equal bytes, up
// to the shorter of the lengths, in whole entries of a table.
StateView::Range RangeOf(const StateSchema& schema, uint32_t slot,
                         std::span<const std::byte> before,
                         std::span<const std::byte> after) {
  const auto was =
      ValueOf(schema, slot, before).subspan(StateSchema::kBlobHeaderBytes);
  const auto is =
      ValueOf(schema, slot, after).subspan(StateSchema::kBlobHeaderBytes);
  const size_t least = std::min(was.size(), is.size());
  size_t begin = static_cast<size_t>(
      std::mismatch(is.begin(), is.begin() + least, was.begin()).first -
      is.begin());
  size_t end = is.size();
  if (is.size() <= was.size()) {
    while (end > begin && is[end - 1] == was[end - 1]) --end;
  }
  const size_t grain = schema.grain(slot);
  begin = begin / grain * grain;
  end = std::max(begin, (end + grain - 1) / grain * grain);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

}  // namespace

uint32_t MaxDeltaBytes(const StateSchema& schema) {
  if (schema.slots() == 0) return 0;
  uint32_t bytes = sizeof(DeltaHeader);
  for (uint32_t slot = 0; slot < schema.slots(); ++slot) {
    bytes += schema.bytes(slot);
    if (schema.is_blob(slot)) bytes += sizeof(BlobChange);
  }
  return bytes;
}

uint32_t EncodeDelta(const StateSchema& schema, const StateView& state,
                     std::span<std::byte> to) {
  return Encode(
      schema, state.record(), state.dirty(),
      [&](uint32_t slot) { return state.dirty_range(slot); }, to);
}

uint32_t EncodeDifference(const StateSchema& schema,
                          std::span<const std::byte> before,
                          std::span<const std::byte> after,
                          std::span<std::byte> to) {
  SNF_CHECK(before.size() == schema.record_bytes() &&
            after.size() == before.size());
  uint64_t dirty = 0;
  for (uint32_t slot = 0; slot < schema.slots(); ++slot) {
    dirty |= uint64_t{IsChanged(schema, slot, before, after)} << slot;
  }
  return Encode(
      schema, after, dirty,
      [&](uint32_t slot) { return RangeOf(schema, slot, before, after); }, to);
}

bool ApplyDelta(const StateSchema& schema, std::span<const std::byte> delta,
                std::span<std::byte> record) {
  SNF_CHECK(record.size() == schema.record_bytes());
  if (delta.empty()) return true;
  if (delta.size() < sizeof(DeltaHeader) || record.empty()) return false;
  const auto header = LoadAs<DeltaHeader>(delta.data());
  const uint32_t slots = schema.slots();
  const uint64_t known = slots < StateSchema::kMaxSlots
                             ? (uint64_t{1} << slots) - 1
                             : ~uint64_t{0};
  const auto before = LoadAs<uint64_t>(record.data());
  if (header.dirty == 0 || (header.dirty & ~known) != 0) return false;
  if (((header.present ^ before) & ~header.dirty) != 0) return false;
  // Twice, since nothing may have changed when a late byte proves to be bad.
  if (!ForEachChange(schema, header, delta, record, [](const Change&) {})) {
    return false;
  }
  ForEachChange(schema, header, delta, record,
                [&](const Change& change) { Apply(schema, change, record); });
  std::memcpy(record.data(), &header.present, sizeof header.present);
  return true;
}

}  // namespace snf
