// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_STATE_H_
#define SNF_RUNTIME_SDK_STATE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "base/byte_order.h"
#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// A record (state_schema.h) while an NF works on it: every change goes through
// here and is noted, which is what makes the delta (runtime/core/delta.h). The
// record must be well-formed, which it then stays, and outlive the view.
//
// The view knows no schema: index, offset and sizes are those of a slot of it,
// and no blob is made longer than its maximum. FlowState sees to that.
class StateView {
 public:
  // A part of a blob, in bytes from its beginning.
  struct Range {
    uint32_t begin;
    uint32_t end;
  };

  explicit StateView(std::span<std::byte> record) : record_(record) {}
  StateView(const StateView&) = delete;
  StateView& operator=(const StateView&) = delete;

  std::span<const std::byte> record() const { return record_; }
  // A bit for each slot that was put, patched or erased.
  uint64_t dirty() const { return dirty_; }
  // Of a blob whose bit is set, what was written. Outside of it, and below the
  // lengths before and now, the blob is as it was; what was appended is inside.
  Range dirty_range(uint32_t index) const { return ranges_[index]; }

  bool Has(uint32_t index) const { return (Present() >> index & 1) != 0; }

  void Get(uint32_t offset, void* to, size_t bytes) const {
    std::memcpy(to, &record_[offset], bytes);
  }
  void Put(uint32_t index, uint32_t offset, const void* from, size_t bytes) {
    std::memcpy(&record_[offset], from, bytes);
    Mark(index, true);
  }
  void Erase(uint32_t index, uint32_t offset, size_t bytes) {
    std::memset(&record_[offset], 0, bytes);
    Mark(index, false);
  }

  std::span<const std::byte> GetBlob(uint32_t offset) const {
    return record_.subspan(offset + StateSchema::kBlobHeaderBytes,
                           BlobLength(offset));
  }
  uint32_t BlobLength(uint32_t offset) const {
    return static_cast<uint32_t>(LoadAs<uint64_t>(&record_[offset]));
  }
  // `bytes` may be a part of the blob itself.
  void PutBlob(uint32_t index, uint32_t offset,
               std::span<const std::byte> bytes) {
    const uint32_t before = BlobLength(offset);
    const auto length = static_cast<uint32_t>(bytes.size());
    WriteBlob(offset, 0, bytes);
    if (length < before) {
      std::memset(BlobBytes(offset) + length, 0, before - length);
    }
    SetBlobLength(offset, length);
    ranges_[index] = {0, length};
    Mark(index, true);
  }
  // `begin` is at most the blob's length; `bytes` may be a part of it.
  void PatchBlob(uint32_t index, uint32_t offset, uint32_t begin,
                 std::span<const std::byte> bytes) {
    const uint32_t end = begin + static_cast<uint32_t>(bytes.size());
    WriteBlob(offset, begin, bytes);
    SetBlobLength(offset, std::max(BlobLength(offset), end));
    MarkBlob(index, begin, end);
  }
  // A part of a blob that may be changed in place, within its length; once it
  // is, MarkBlob must say so.
  std::span<std::byte> BlobInPlace(uint32_t offset, uint32_t begin,
                                   uint32_t bytes) const {
    return record_.subspan(offset + StateSchema::kBlobHeaderBytes + begin,
                           bytes);
  }
  void MarkBlob(uint32_t index, uint32_t begin, uint32_t end) {
    Range& range = ranges_[index];
    if ((dirty_ >> index & 1) == 0 || range.begin == range.end) {
      range = {begin, end};
    } else {
      range = {std::min(range.begin, begin), std::max(range.end, end)};
    }
    Mark(index, true);
  }
  void EraseBlob(uint32_t index, uint32_t offset) {
    std::memset(&record_[offset], 0,
                StateSchema::kBlobHeaderBytes + BlobLength(offset));
    ranges_[index] = {0, 0};
    Mark(index, false);
  }
  // Takes back what was changed since the record was `before` and the dirty
  // bits were these.
  void Undo(std::span<const std::byte> before, uint64_t dirty) {
    if (!before.empty()) {
      std::memcpy(record_.data(), before.data(), before.size());
    }
    dirty_ = dirty;
  }

 private:
  uint64_t Present() const { return LoadAs<uint64_t>(record_.data()); }
  void Mark(uint32_t index, bool has_value) {
    const uint64_t bit = uint64_t{1} << index;
    const uint64_t present = has_value ? Present() | bit : Present() & ~bit;
    std::memcpy(record_.data(), &present, sizeof present);
    dirty_ |= bit;
  }
  std::byte* BlobBytes(uint32_t offset) {
    return record_.data() + offset + StateSchema::kBlobHeaderBytes;
  }
  void WriteBlob(uint32_t offset, uint32_t begin,
                 std::span<const std::byte> bytes) {
    if (bytes.empty()) return;  // its data() may be null
    std::memmove(BlobBytes(offset) + begin, bytes.data(), bytes.size());
  }
  void SetBlobLength(uint32_t offset, uint64_t bytes) {
    std::memcpy(&record_[offset], &bytes, sizeof bytes);
  }

  std::span<std::byte> record_;
  uint64_t dirty_ = 0;
  // Of dirty blobs only: not even zeroed, since a view is made for each packet.
  std::array<Range, StateSchema::kMaxSlots> ranges_;
};

// What a unit does for an NF while it handles a packet or a timer.
class FlowServices {
 public:
  virtual bool Emit(std::span<const std::byte> frame) = 0;
  virtual std::optional<uint32_t> TakePiece(PoolId pool,
                                            const PiecePreference& wish) = 0;
  virtual void GivePiece(PoolId pool, uint32_t piece) = 0;
  virtual bool IsExhausted(PoolId pool) const = 0;
  virtual void SetAlias(const FlowKey& key, uint64_t group,
                        uint32_t group_limit) = 0;
  // Of FlowNote.
  virtual void Note(Nanos idle_timeout, bool over) = 0;

 protected:
  ~FlowServices() = default;
};

// Where the slots and pools of one NF are among those of its chain.
struct NfPart {
  uint32_t first_slot = 0;
  uint32_t first_byte = 0;  // added to the offset of each slot
  uint16_t first_pool = 0;
};

// The flow that a packet belongs to, for the length of one call. It is the same
// flow, with the same state, on whichever unit the packet is processed.
class FlowState {
 public:
  FlowState(FlowId id, Instant now, Instant timer, StateView& state,
            FlowServices& services, NfPart part = {})
      : id_(id),
        now_(now),
        timer_(timer),
        state_(state),
        services_(services),
        part_(part) {}
  FlowState(const FlowState&) = delete;
  FlowState& operator=(const FlowState&) = delete;

  FlowId id() const { return id_; }

  // The value of a slot: what was put last, at whichever unit; T{} where there
  // is none. Budget: ≤ 2 ns.
  template <typename T>
  T get(Slot<T> slot) const {
    T value{};
    if (has(slot)) state_.Get(OffsetOf(slot), &value, sizeof value);
    return value;
  }
  template <typename T>
  void put(Slot<T> slot, const std::type_identity_t<T>& value) {
    state_.Put(IndexOf(slot), OffsetOf(slot), &value, sizeof value);
  }
  template <typename T>
  void erase(Slot<T> slot) {
    state_.Erase(IndexOf(slot), OffsetOf(slot), sizeof(T));
  }
  template <typename T>
  bool has(Slot<T> slot) const {
    return state_.Has(IndexOf(slot));
  }

  // The bytes of a blob; none where there is no value. Valid until the blob
  // changes or the call ends.
  std::span<const std::byte> get(Blob blob) const {
    return state_.GetBlob(OffsetOf(blob));
  }
  // Replaces a blob, if need be by no bytes, which is a value too; false, and
  // nothing changes, if it would exceed its maximum. Here and in patch, `bytes`
  // may be a part of the blob itself.
  bool put(Blob blob, std::span<const std::byte> bytes) {
    if (bytes.size() > blob.max_bytes()) return false;
    state_.PutBlob(IndexOf(blob), OffsetOf(blob), bytes);
    return true;
  }
  // Overwrites or appends a part of a blob, from `begin` on, which is at most
  // its length; false, and nothing changes, if it would exceed its maximum.
  // Costs, here and on the way to the logger, only what changes.
  bool patch(Blob blob, uint32_t begin, std::span<const std::byte> bytes) {
    if (begin > state_.BlobLength(OffsetOf(blob)) ||
        bytes.size() > blob.max_bytes() - begin) {
      return false;
    }
    state_.PatchBlob(IndexOf(blob), OffsetOf(blob), begin, bytes);
    return true;
  }
  void erase(Blob blob) { state_.EraseBlob(IndexOf(blob), OffsetOf(blob)); }
  bool has(Blob blob) const { return state_.Has(IndexOf(blob)); }

  // The most packets that one call may emit.
  static constexpr int kMaxEmits = 16;

  // Sends a packet of the NF's own making, framed as the capture's link type.
  // It leaves before the packet being processed. False when the frame is
  // empty or too large, when there is no buffer, or when the call has emitted
  // kMaxEmits: nothing was sent.
  bool emit(std::span<const std::byte> frame) { return services_.Emit(frame); }

  // Asks for NetworkFunction::on_timer once, `after` from now, in place of the
  // flow's timer so far; from on_timer itself at least kMinPeriod, so that time
  // passes. The timer moves with the flow. While one is pending, the flow's
  // state is not replicated ahead: a flowlet that moves has to wait for it.
  static constexpr Nanos kMinPeriod = Microseconds(1);
  void set_timer(Nanos after) { timer_ = now_ + after; }
  void cancel_timer() { timer_ = Instant::max(); }
  Instant timer() const { return timer_; }  // Instant::max() for none

  // Takes a piece out of a pool that the NF declared: it is nobody else's until
  // given back, by whichever unit then has the flow. Without a value none is
  // here: return Verdict::wait(pool) before anything is changed, to be called
  // again with the same packet when more may have come; or, if the pool
  // is_exhausted(), as the platform found before this call, do without.
  std::optional<uint32_t> take(PoolId pool, const PiecePreference& wish) {
    return services_.TakePiece(In(pool), wish);
  }
  void give_back(PoolId pool, uint32_t piece) {
    services_.GivePiece(In(pool), piece);
  }
  bool is_exhausted(PoolId pool) const {
    return services_.IsExhausted(In(pool));
  }

  // From process_packet: packets that come to `key` belong to this flow from
  // now on, instead of its alias before; of a flow there is one alias at most.
  // It stands once the packet is released. Where another flow has it, or where
  // `group` has group_limit flows with an alias already (0: no limit), the
  // packet is dropped and on_alias_refused called.
  void set_alias(const FlowKey& key, uint64_t group = 0,
                 uint32_t group_limit = 0) {
    services_.SetAlias(key, group, group_limit);
  }

  // The flow is over, and on_end called, after so long without any packet; in
  // place of --flow_timeout.
  void set_idle_timeout(Nanos timeout) { services_.Note(timeout, false); }
  // The flow is over, unless packets of it are on their way, and its alias is
  // gone in any case. From process_packet or on_timer.
  void end() { services_.Note(Nanos{-1}, true); }

 private:
  friend class Chain;

  template <typename Handle>
  uint32_t IndexOf(const Handle& slot) const {
    return part_.first_slot + slot.index();
  }
  template <typename Handle>
  uint32_t OffsetOf(const Handle& slot) const {
    return part_.first_byte + slot.offset();
  }
  PoolId In(PoolId pool) const {
    return PoolId{
        static_cast<uint16_t>(part_.first_pool + static_cast<uint16_t>(pool))};
  }

  FlowId id_;
  Instant now_;
  Instant timer_;
  StateView& state_;
  FlowServices& services_;
  NfPart part_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_STATE_H_
