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
#include <string_view>
#include <type_traits>

#include "base/byte_order.h"
#include "base/ids.h"
#include "base/messages/log_batch.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// A view of a record (state_schema.h) while an NF works on it. Every change
// goes through the view and is noted, so that a delta can be made
// (runtime/logger/delta.h). The record must be well-formed, stays so, and must
// outlive the view.
//
// The view knows no schema: the caller passes index, offset and size of a slot,
// and never makes a blob longer than its maximum. FlowState ensures this.
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
  // The written part of a blob whose dirty bit is set. Appended bytes are
  // inside it. Outside of it the blob is unchanged, up to the shorter of its
  // lengths before and now.
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
  // Returns a part of a blob, within its length, to be changed in place. The
  // caller calls MarkBlob after changing it.
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
  // Restores the record to `before` and the dirty bits to `dirty`.
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
  // Valid only for dirty blobs. Not zeroed, since a view is made for each
  // packet.
  std::array<Range, StateSchema::kMaxSlots> ranges_;
};

// The services of a unit for an NF that handles a packet or a timer. FlowState
// documents each of them.
class FlowServices {
 public:
  virtual bool Emit(std::span<const std::byte> frame) = 0;
  virtual std::optional<uint32_t> TakePiece(PoolId pool,
                                            const PiecePreference& wish) = 0;
  virtual void GivePiece(PoolId pool, uint32_t piece) = 0;
  virtual bool IsExhausted(PoolId pool) const = 0;
  virtual void SetAlias(const FlowKey& key, uint64_t group,
                        uint32_t group_limit) = 0;
  // Sets the fields of FlowNote; a negative idle_timeout leaves it unchanged.
  virtual void Note(Nanos idle_timeout, bool over) = 0;
  // Returns the batch of the call's log records; null if logs have no reader,
  // or if the unit has no room for a batch.
  virtual LogBatch* Records() { return nullptr; }

 protected:
  ~FlowServices() = default;
};

// The place of one NF's slots and pools among those of its chain.
struct NfPart {
  uint32_t first_slot = 0;
  uint32_t first_byte = 0;  // added to the offset of each slot
  uint16_t first_pool = 0;
  uint16_t first_log = 0;
};

namespace internal {
// Checks that end the process if the NF that is called may not do so
// (nf_call.h).
void CheckSetTimer();
void CheckSetAlias();
void RefuseFrame(size_t bytes);
}  // namespace internal

// The flow to which a packet belongs, valid during one call. It is the same
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

  // The value of a slot: the one put last, at whichever unit, or T{} if there
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

  // The bytes of a blob; empty if it has no value. Valid until the blob changes
  // or the call ends.
  std::span<const std::byte> get(Blob blob) const {
    return state_.GetBlob(OffsetOf(blob));
  }
  // Replaces a blob; no bytes are a value too. Returns false, and changes
  // nothing, if the blob would exceed its maximum. Here and in patch, `bytes`
  // may be a part of the blob itself.
  bool put(Blob blob, std::span<const std::byte> bytes) {
    if (bytes.size() > blob.max_bytes()) return false;
    state_.PutBlob(IndexOf(blob), OffsetOf(blob), bytes);
    return true;
  }
  // Overwrites or appends a part of a blob, from `begin` on, which is at most
  // its length. Returns false, and changes nothing, if the blob would exceed
  // its maximum. The cost, here and on the way to the logger, is that of the
  // changed bytes only.
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

  // The longest frame that may be emitted: the longest IP packet, and room for
  // a link header with tags.
  static constexpr size_t kMaxFrameBytes = 65'535 + 64;

  // Sends a packet of the NF's own making, of at most kMaxFrameBytes, framed as
  // the capture's link type. It leaves before the packet being processed.
  // Returns false, and sends nothing, if the frame is empty, if there is no
  // buffer, or if the call has emitted kMaxEmits packets.
  bool emit(std::span<const std::byte> frame) {
    if (frame.size() > kMaxFrameBytes) {
      internal::RefuseFrame(frame.size());
      return false;
    }
    return services_.Emit(frame);
  }

  // Writes a record into a log that the NF declared. The record leaves with the
  // packet being processed: once if the packet leaves or is dropped by an NF,
  // and not at all if the packet is lost with its unit. Text becomes a line;
  // other bytes are for NetworkFunction::write_record. Returns false, and
  // writes nothing, if logs have no reader, or if the records of this call
  // exceed LogBatch::kMaxBytes; then the record is counted as lost. A call that
  // returns Verdict::wait writes no record.
  bool log(LogId id, std::span<const std::byte> record) {
    LogBatch* const batch = services_.Records();
    if (batch == nullptr) return false;
    return batch->Add(In(id), record);
  }
  bool log(LogId id, std::string_view line) {
    return log(id, std::as_bytes(std::span(line)));
  }

  // Requests one call of NetworkFunction::on_timer, `after` from now, in place
  // of the flow's timer so far. From on_timer itself, `after` is at least
  // kMinPeriod, so that time passes. The timer is part of the flow's state and
  // moves with it. The call comes in the order of the flow's packets, some hops
  // after the timer is due, and sees as now the time at which it was due.
  // Only an NF whose has_timer() is true may call it.
  static constexpr Nanos kMinPeriod = Microseconds(1);
  void set_timer(Nanos after) {
    internal::CheckSetTimer();
    timer_ = now_ + after;
  }
  void cancel_timer() { timer_ = Instant::max(); }
  Instant timer() const { return timer_; }  // Instant::max() for none

  // Takes a piece out of a pool that the NF declared. No other flow has it
  // until it is given back, by whichever unit then has the flow. Returns
  // nothing if the unit has no such piece. The NF then returns
  // Verdict::wait(pool), before it has changed anything, and is called again
  // with the same packet when pieces may have come; or, if is_exhausted(pool),
  // it does without a piece.
  std::optional<uint32_t> take(PoolId pool, const PiecePreference& wish) {
    return services_.TakePiece(In(pool), wish);
  }
  // Gives back a piece that the flow has.
  void give_back(PoolId pool, uint32_t piece) {
    services_.GivePiece(In(pool), piece);
  }
  // True if the platform found, before this call, that no unit can spare a
  // piece.
  bool is_exhausted(PoolId pool) const {
    return services_.IsExhausted(In(pool));
  }

  // Gives the flow an alias, in place of the one it has: packets that come to
  // `key` then belong to this flow. Only from process_packet, and of an NF
  // whose flow_scope() is kInsideEndpoint. The alias is in
  // force once the packet is released. If another flow has it, or if `group`
  // already has group_limit flows with an alias (0: no limit), the packet is
  // dropped and on_alias_refused called.
  void set_alias(const FlowKey& key, uint64_t group = 0,
                 uint32_t group_limit = 0) {
    internal::CheckSetAlias();
    services_.SetAlias(key, group, group_limit);
  }

  // Sets the time without any packet after which the flow is over and on_end is
  // called, in place of --flow_timeout.
  void set_idle_timeout(Nanos timeout) { services_.Note(timeout, false); }
  // Ends the flow, unless packets of it are on their way; its alias is removed
  // in any case. Only from process_packet or on_timer.
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
  LogId In(LogId log) const {
    return LogId{
        static_cast<uint16_t>(part_.first_log + static_cast<uint16_t>(log))};
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
