// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_LOAD_METER_H_
#define SNF_CONTROLLER_UNITS_LOAD_METER_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/time.h"
#include "controller/units/pool_options.h"

namespace snf {

// Loads and demands are compared in quanta of 1/1024 of a unit's capacity. They
// are rounded up, so that a unit never seems to have room that it has not: a
// load is less than one quantum above the true value, and (because its factor
// is rounded down) up to a full unit at most 2^-8 of a quantum below it.
inline constexpr uint32_t kFullLoad = 1024;
inline constexpr uint32_t kMaxLoad = 1 << 20;

// Theory of operation. The load of each unit (proto/protocol.md 2.6), by the
// signal. LoadSignal::kWait: the time that the bytes which wait at the unit
// will take, where latency_target is a full unit. It follows every packet and
// looks neither back nor ahead, so nothing else is kept. What is ahead is in a
// demand: the room that a flowlet needs is that of the bytes which its rate
// brings in kDemandHorizon.
//
// Worked example, capacity 1 Gbit/s, target 350 µs: 17,500 bytes wait at a
// unit, which take 140 µs: load 410 quanta. A flowlet of 50 Mbit/s brings
// 6250 bytes in 1 ms, which take 50 µs: 147 quanta.
//
// LoadSignal::kDemand: the rate at which packets left the unit over the last
// `load_buckets` buckets (SNF §8: 200 × 500 µs), plus the demand of its open
// flowlets that this window does not yet hold. For the unit as a whole, that is
//
//     drained + max(0, open demand - drained) = max(drained, open demand)
//
// The bytes that still wait at the unit are added, spread over kDemandHorizon:
// flowlets that have ended, or were cut by B, need nothing any more, but their
// packets delay those that follow.
//
//     load = max(drained, open demand) + queued
//
// A burst on an idle unit counts at once (drained = 0); under steady traffic
// both terms measure the same flow of bits and are not added up; when traffic
// ends, the load fades with the window.
//
// Worked example, capacity 1 Gbit/s: ten flowlets of 20 Mbit/s open at once on
// an idle unit: load 200 Mbit/s = 205 quanta. After 50 ms of it 1.25 MB have
// drained, which over 100 ms is 100 Mbit/s; still 205 quanta. After 100 ms both
// are 200 Mbit/s. The flowlets close: 205 quanta, falling to 0 within 100 ms.
//
// LoadSignal::kDrained is the drained rate alone.
//
// A unit's window is brought up to date when it is looked at: an idle unit
// costs nothing, and a gap of years one step. A value; owner-thread only.
class LoadMeter {
 public:
  // The time over which a demand is taken to last, and in which a queue is to
  // be gone. A flow's bursts go on after B has cut a flowlet.
  static constexpr Nanos kDemandHorizon = Milliseconds(1);

  explicit LoadMeter(const UnitPoolOptions& options);

  // Records that `bytes` (original lengths) left the unit at `now`.
  void AddDrained(Instant now, UnitId unit, uint64_t bytes);

  // Prefetches the memory that AddDrained will need, for the case of many
  // units.
  void Prefetch(UnitId unit) const {
    const uint32_t* ring = &rings_[size_t{value(unit)} * buckets_];
    __builtin_prefetch(&meters_[value(unit)], 1);
    __builtin_prefetch(&ring[current_position_], 1);
    __builtin_prefetch(
        &ring[current_position_ < 16 ? 0 : current_position_ - 16], 1);
  }

  // Record that a flowlet of this demand opened on, or is no longer open on,
  // the unit.
  void AddOpenDemand(UnitId unit, int64_t demand_bps);
  void RemoveOpenDemand(UnitId unit, int64_t demand_bps);
  // Returns the sum of the demands of the flowlets that are open on the unit.
  int64_t open_demand_bps(UnitId unit) const {
    return meters_[value(unit)].open_demand_bps;
  }
  uint32_t open_flowlets(UnitId unit) const {
    return meters_[value(unit)].open_flowlets;
  }

  // Returns the load at `now`, in quanta, at most kMaxLoad. `queued_bytes` wait
  // at the unit. Budget: ≤ 20 ns if the unit was looked at in this bucket or
  // the previous one.
  uint32_t Load(Instant now, UnitId unit, uint64_t queued_bytes = 0);

  // Returns the load by the window of the last Load or AddDrained, which is
  // never below the result of Load. Budget: ≤ 5 ns.
  uint32_t LastLoad(UnitId unit, uint64_t queued_bytes = 0) const;

  // Returns the room that a demand needs, in quanta, rounded up.
  uint32_t Quanta(int64_t rate_bps) const;

  // True if loads change as time passes, though nothing happens.
  bool fades() const { return signal_ != LoadSignal::kWait; }

  // Returns the number of the bucket into which `now` falls. As time passes,
  // loads change only when this number does.
  uint64_t Bucket(Instant now);

 private:
  struct Meter {
    uint64_t window_bytes;
    uint64_t bucket;  // the window's newest bucket
    int64_t open_demand_bps;
    uint32_t open_flowlets;
  };

  // A bucket's bytes stand at its number modulo buckets_.
  uint32_t PositionOf(uint64_t bucket) const;
  uint32_t* RingOf(UnitId unit) {
    return &rings_[size_t{value(unit)} * buckets_];
  }
  void Advance(Meter& meter, UnitId unit, uint64_t bucket);

  LoadSignal signal_;
  int64_t bucket_ns_;
  uint32_t buckets_;
  uint64_t quanta_per_byte_;    // of the window, in 2^-48
  uint64_t quanta_per_queued_;  // of a byte that waits, in 2^-48
  uint64_t quanta_per_bps_;     // in 2^-48
  uint64_t current_bucket_ = 0;
  uint32_t current_position_ = 0;
  Instant current_start_;
  LazyArray<Meter> meters_;
  LazyArray<uint32_t> rings_;  // unit-major; bytes of each bucket
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_LOAD_METER_H_
