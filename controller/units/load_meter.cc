// SPDX-License-Identifier: Apache-2.0
#include "controller/units/load_meter.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace snf {
namespace {

__extension__ using Wide = unsigned __int128;
constexpr int kFractionBits = 48;

// Returns ceil(amount * factor / 2^48), limited to kMaxLoad. A whole unit's
// capacity is never more than kFullLoad, for the factor was rounded down.
uint32_t ScaleUp(uint64_t amount, uint64_t factor) {
  constexpr Wide kRoundUp = (Wide{1} << kFractionBits) - 1;
  const Wide quanta = (Wide{amount} * factor + kRoundUp) >> kFractionBits;
  return quanta < kMaxLoad ? static_cast<uint32_t>(quanta) : kMaxLoad;
}

// Sets n buckets to 0 and returns the sum that they held.
uint64_t TakeAll(uint32_t* ring, uint64_t n) {
  // Use as many sums as a vector register may hold: each addition to a single
  // sum would wait for the previous one.
  constexpr uint64_t kLanes = 8;
  std::array<uint64_t, kLanes> sums{};
  uint64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (uint64_t lane = 0; lane < kLanes; ++lane) sums[lane] += ring[i + lane];
  }
  for (; i < n; ++i) sums[0] += ring[i];
  std::fill_n(ring, n, 0);
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0});
}

}  // namespace

LoadMeter::LoadMeter(const UnitPoolOptions& options)
    : signal_(options.load_signal),
      bucket_ns_(options.load_bucket.ns),
      buckets_(options.load_buckets),
      meters_(options.max_units),
      rings_(size_t{options.max_units} * options.load_buckets) {
  SNF_CHECK(bucket_ns_ > 0 && buckets_ > 0 && options.unit_capacity_bps > 0);
  const auto capacity = static_cast<uint64_t>(options.unit_capacity_bps);
  SNF_CHECK(options.latency_target.ns > 0);
  const auto one = Wide{kFullLoad} << kFractionBits;
  const auto limited = [](Wide factor) {
    return static_cast<uint64_t>(
        std::min<Wide>(factor, std::numeric_limits<uint64_t>::max()));
  };
  const auto per_byte_over = [&](Wide time_ns) {
    return limited(one * 8'000'000'000 / time_ns / capacity);
  };
  quanta_per_byte_ =
      per_byte_over(Wide{static_cast<uint64_t>(bucket_ns_)} * buckets_);
  if (fades()) {
    quanta_per_queued_ = per_byte_over(kDemandHorizon.ns);
    quanta_per_bps_ = limited(one / capacity);
  } else {
    const auto target_ns = static_cast<uint64_t>(options.latency_target.ns);
    quanta_per_queued_ = per_byte_over(target_ns);
    quanta_per_bps_ = limited(one * static_cast<uint64_t>(kDemandHorizon.ns) /
                              target_ns / capacity);
  }
}

uint64_t LoadMeter::Bucket(Instant now) {
  const Nanos into = now - current_start_;
  if (current_bucket_ == 0 || into.ns < 0 || into.ns >= bucket_ns_) {
    // Buckets count from the smallest Instant, so that none is negative and 0
    // is before all.
    const auto width = static_cast<uint64_t>(bucket_ns_);
    const uint64_t since = static_cast<uint64_t>(now.ns) ^ uint64_t { 1 } << 63;
    current_bucket_ = since / width + 1;
    current_position_ = static_cast<uint32_t>(current_bucket_ % buckets_);
    current_start_ = now + Nanos{-static_cast<int64_t>(since % width)};
  }
  return current_bucket_;
}

uint32_t LoadMeter::PositionOf(uint64_t bucket) const {
  return bucket == current_bucket_ ? current_position_
                                   : static_cast<uint32_t>(bucket % buckets_);
}

void LoadMeter::Advance(Meter& meter, UnitId unit, uint64_t bucket) {
  if (bucket <= meter.bucket) return;
  const uint64_t steps = bucket - meter.bucket;
  meter.bucket = bucket;
  if (meter.window_bytes == 0) return;
  uint32_t* ring = RingOf(unit);
  if (steps >= buckets_) {
    std::fill_n(ring, buckets_, 0);
    meter.window_bytes = 0;
    return;
  }
  // The last `steps` positions up to that of `bucket`, around the ring's end.
  const uint64_t end = PositionOf(bucket) + uint64_t{1};
  const uint64_t here = std::min(steps, end);
  meter.window_bytes -= TakeAll(ring + end - here, here);
  meter.window_bytes -= TakeAll(ring + buckets_ - (steps - here), steps - here);
}

void LoadMeter::AddDrained(Instant now, UnitId unit, uint64_t bytes) {
  if (!fades()) return;
  Meter& meter = meters_[value(unit)];
  Advance(meter, unit, Bucket(now));
  uint32_t& slot = RingOf(unit)[PositionOf(meter.bucket)];
  const uint64_t fits = std::numeric_limits<uint32_t>::max() - slot;
  const uint64_t added = std::min(bytes, fits);
  slot += static_cast<uint32_t>(added);
  meter.window_bytes += added;
}

void LoadMeter::AddOpenDemand(UnitId unit, int64_t demand_bps) {
  Meter& meter = meters_[value(unit)];
  meter.open_demand_bps += demand_bps;
  ++meter.open_flowlets;
}

void LoadMeter::RemoveOpenDemand(UnitId unit, int64_t demand_bps) {
  Meter& meter = meters_[value(unit)];
  SNF_CHECK(meter.open_flowlets > 0);
  meter.open_demand_bps -= demand_bps;
  --meter.open_flowlets;
}

uint32_t LoadMeter::Load(Instant now, UnitId unit, uint64_t queued_bytes) {
  if (fades()) Advance(meters_[value(unit)], unit, Bucket(now));
  return LastLoad(unit, queued_bytes);
}

uint32_t LoadMeter::LastLoad(UnitId unit, uint64_t queued_bytes) const {
  const uint32_t queued = ScaleUp(queued_bytes, quanta_per_queued_);
  if (signal_ == LoadSignal::kWait) return queued;
  const Meter& meter = meters_[value(unit)];
  const uint32_t drained = ScaleUp(meter.window_bytes, quanta_per_byte_);
  if (signal_ == LoadSignal::kDrained) return drained;
  const uint32_t present = std::max(drained, Quanta(meter.open_demand_bps));
  return std::min(present + queued, kMaxLoad);
}

uint32_t LoadMeter::Quanta(int64_t rate_bps) const {
  return ScaleUp(static_cast<uint64_t>(rate_bps), quanta_per_bps_);
}

}  // namespace snf
