// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_PUSH_BASES_H_
#define SNF_RUNTIME_CORE_PUSH_BASES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Theory of operation. The states that a unit pushed last, so that the next
// push of a flow takes only what changed since (proto/protocol.md U3). The
// bytes beside such a State are the clock of the base, in 8 bytes, and a delta
// (runtime/logger/delta.h) from the record of that clock. The receiver applies
// the delta to a copy of exactly that clock, and drops it otherwise.
//
// A flow has one place, that of its slot in FlowStore modulo the number of
// places; another flow may take the place. The sender does not know whether a
// receiver still has the base. So a state goes whole after kMaxDeltasInARow
// deltas, with a base older than kLifetime, and once it came from elsewhere.
//
// Worked example: clock 4 of flow 7, of 72 bytes, is pushed to unit 1: whole.
// Clock 9 is to be pushed to units 1 and 2: two numbers have changed. Unit 1
// gets clock 4, then 8 + 8 + 2 · 8 bytes, 40 in all; unit 2 gets 72 bytes. The
// base is clock 9 then. If unit 1 has evicted clock 4, it drops the delta, and
// pulls if the flow comes.
//
// A value; owner-thread only; nothing is allocated after construction. Memory:
// 64 bytes and a record a place, at most kMostBytes of records, touched on
// first use; and 16 KiB for the deltas of a call.
class PushBases {
 public:
  static constexpr size_t kMostBytes = size_t{4} << 20;
  static constexpr uint8_t kMaxDeltasInARow = 15;
  static constexpr Nanos kLifetime = Seconds(10);
  // Bytes of the base's clock.
  static constexpr uint32_t kClockBytes = 8;

  // The schema must outlive this and its copies.
  PushBases(const UnitOptions& options, const StateSchema& schema);

  // The deltas of earlier calls were sent.
  void BeginCall() {
    made_ = 0;
    used_ = 0;
  }
  // Returns the bytes that go beside the state, as a delta, to units for which
  // has() is true. Returns 0 if there is no base, or if the delta is not
  // smaller. `record` is the whole record of the flow with that slot.
  uint32_t MakeDelta(Instant now, uint32_t slot, const State& state,
                     std::span<const std::byte> record);
  bool has(uint32_t slot, UnitId unit) const;
  // The state was pushed to those units, and is the base from now on.
  void Keep(Instant now, uint32_t slot, const State& state,
            std::span<const std::byte> record, std::span<const UnitId> units);
  // Returns the bytes that MakeDelta made for the flow in this call.
  std::span<const std::byte> delta(FlowId flow) const;

 private:
  struct Base {
    FlowId flow;
    Clock clock;  // 0: no base
    Instant pushed;
    std::array<UnitId, kMaxReplicas> units;
    uint8_t count;
    uint8_t in_a_row;  // deltas
  };
  static_assert(sizeof(Base) == 64);
  // A delta of this call, in deltas_.
  struct Made {
    FlowId flow;
    uint32_t begin;
    uint32_t bytes;
  };
  static constexpr size_t kDeltaBytes = 16'384;
  static constexpr size_t kMaxMade = 64;

  size_t PlaceOf(uint32_t slot) const { return slot % bases_.size(); }
  std::span<std::byte> ImageOf(uint32_t slot) {
    return std::as_writable_bytes(
        std::span(&images_[PlaceOf(slot) * record_words_], record_words_));
  }

  const StateSchema* schema_;
  size_t record_words_;
  LazyArray<Base> bases_;
  LazyArray<uint64_t> images_;  // record_words_ for each base
  LazyArray<std::byte> deltas_;
  std::array<Made, kMaxMade> mades_{};  // made_ of them are valid
  size_t made_ = 0;
  uint32_t used_ = 0;  // bytes of deltas_
};

// Returns the clock of the base of a delta's bytes; nothing if they are too
// short.
std::optional<Clock> BaseOf(std::span<const std::byte> delta);

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_PUSH_BASES_H_
