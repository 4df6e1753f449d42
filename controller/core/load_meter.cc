// SPDX-License-Identifier: Apache-2.0
#include "controller/core/load_meter.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace snf {
namespace {

__extension__ using Wide = unsigned __int128;
constexpr int kFractionBits = 48;

// ceil(amount * factor / 2^48), limited to kMaxLoad. Where the product is exact
// it may be one quantum more.
uint32_t ScaleUp(uint64_t amount, uint64_t factor) {
  if (amount == 0) return 0;
  const Wide quanta = (Wide{amount} * factor >> kFractionBits) + 1;
  return quanta < kMaxLoad ? static_cast<uint32_t>(quanta) : kMaxLoad;
}

}  // namespace

LoadMeter::LoadMeter(const ControllerOptions& options)
    : signal_(options.load_signal),
      bucket_ns_(options.load_bucket.ns),
      buckets_(options.load_buckets),
      meters_(options.max_units),
      rings_(size_t{options.max_units} * options.load_buckets) {
  SNF_CHECK(bucket_ns_ > 0 && buckets_ > 0 && options.unit_capacity_bps > 0);
  const auto capacity = static_cast<uint64_t>(options.unit_capacity_bps);
  const auto one = Wide{kFullLoad} << kFractionBits;
  quanta_per_bps_ = static_cast<uint64_t>(one / capacity);
  const Wide window_ns = Wide{static_cast<uint64_t>(bucket_ns_)} * buckets_;
  quanta_per_byte_ = static_cast<uint64_t>(
      std::min<Wide>(one * 8'000'000'000 / window_ns / capacity,
                     std::numeric_limits<uint64_t>::max()));
}

uint64_t LoadMeter::Bucket(Instant now) {
  const Nanos into = now - current_start_;
  if (current_bucket_ == 0 || into.ns < 0 || into.ns >= bucket_ns_) {
    // Counted from the smallest Instant, so that no bucket is negative and 0 is
    // before all.
    const auto width = static_cast<uint64_t>(bucket_ns_);
    const uint64_t since = static_cast<uint64_t>(now.ns) ^ uint64_t{1} << 63;
    current_bucket_ = since / width + 1;
    current_start_ = now + Nanos{-static_cast<int64_t>(since % width)};
  }
  return current_bucket_;
}

void LoadMeter::Advance(Meter& meter, UnitId unit, uint64_t bucket) {
  if (bucket <= meter.bucket) return;
  uint32_t* ring = &rings_[size_t{value(unit)} * buckets_];
  const uint64_t steps = bucket - meter.bucket;
  meter.bucket = bucket;
  if (meter.window_bytes == 0) {
    return;  // an empty ring may turn to any position
  }
  if (steps >= buckets_) {
    std::fill_n(ring, buckets_, 0);
    meter.window_bytes = 0;
    return;
  }
  for (uint64_t i = 0; i < steps; ++i) {
    meter.position = meter.position + 1 == buckets_ ? 0 : meter.position + 1;
    meter.window_bytes -= ring[meter.position];
    ring[meter.position] = 0;
  }
}

void LoadMeter::AddDrained(Instant now, UnitId unit, uint64_t bytes) {
  Meter& meter = meters_[value(unit)];
  Advance(meter, unit, Bucket(now));
  uint32_t& slot =
      rings_[size_t{value(unit)} * buckets_ + meter.position];
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

uint32_t LoadMeter::Load(Instant now, UnitId unit) {
  Meter& meter = meters_[value(unit)];
  Advance(meter, unit, Bucket(now));
  const uint32_t drained = ScaleUp(meter.window_bytes, quanta_per_byte_);
  if (signal_ == LoadSignal::kDrained) return drained;
  return std::max(drained, Quanta(meter.open_demand_bps));
}

uint32_t LoadMeter::Quanta(int64_t rate_bps) const {
  return ScaleUp(static_cast<uint64_t>(rate_bps), quanta_per_bps_);
}

}  // namespace snf
