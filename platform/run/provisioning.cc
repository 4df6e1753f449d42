// SPDX-License-Identifier: Apache-2.0
#include "platform/run/provisioning.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace snf {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Returns ns of so many units for so long, at most what fits.
int64_t UnitTime(uint32_t units, Nanos time) {
  int64_t product = 0;
  return __builtin_mul_overflow(time.ns, int64_t{units}, &product)
             ? std::numeric_limits<int64_t>::max()
             : product;
}

// Returns what FloorDivide leaves: 0 … b - 1.
int64_t FloorModulo(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest < 0 ? rest + b : rest;
}

int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum)
             ? std::numeric_limits<int64_t>::max()
             : sum;
}

}  // namespace

void Provisioning::on_start(Instant first_packet) {
  phase_ns_ = FloorModulo(first_packet.ns, kEpochNs);
  began_ = std::min(began_, first_packet);
}

// The rest of a division by 100 ms is in the same epoch or the one before.
int64_t Provisioning::EpochOf(Instant now) const {
  const int64_t whole = FloorDivide(now.ns, kEpochNs);
  return FloorModulo(now.ns, kEpochNs) < phase_ns_ ? whole - 1 : whole;
}

void Provisioning::StartEpoch(Instant now) {
  const int64_t epoch = EpochOf(now);
  samples_.push_back({.epoch = epoch});
  // The first epoch of all time begins before the first Instant.
  int64_t end = 0;
  const bool overflow = __builtin_mul_overflow(epoch + 1, kEpochNs, &end) ||
                        __builtin_add_overflow(end, phase_ns_, &end);
  epoch_end_ = overflow ? Instant::max() : Instant{end};
}

void Provisioning::AdvanceEpochs(Instant now) {
  if (samples_.empty()) {
    began_ = std::min(began_, now);
    StartEpoch(now);
  }
  while (IsOver(now) && units_up_ > 0) {
    const Instant end = epoch_end_;
    CloseEpoch(end);
    StartEpoch(now - end > kLongIdle ? SkipEpochs(end, now) : end);
  }
  if (IsOver(now)) {
    CloseEpoch(epoch_end_);
    StartEpoch(now);
  }
}

Instant Provisioning::SkipEpochs(Instant from, Instant now) {
  const int64_t epochs = EpochOf(now) - EpochOf(from);
  const Instant to = from + Nanos{epochs * kEpochNs};
  samples_.Forget(epochs);
  for (const uint16_t i : this_epoch_) {
    units_[i].up_since = to;
    constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
    for (int64_t left = epochs; left > 0; left -= kMost) {
      utilisation_.Record(0, static_cast<uint32_t>(std::min(left, kMost)));
    }
  }
  return to;
}

void Provisioning::CloseEpoch(Instant end) {
  // Those that are still up stay, in place.
  size_t still_up = 0;
  for (const uint16_t i : this_epoch_) {
    Unit& unit = units_[i];
    if (unit.up) {
      unit.up_ns += (end - unit.up_since).ns;
      unit.up_since = end;
      this_epoch_[still_up++] = i;
    }
    samples_.back().unit_ns += unit.up_ns;
    if (unit.up_ns > 0) {
      const double could = static_cast<double>(capacity_bps_) / 8e9 *
                           static_cast<double>(unit.up_ns);
      utilisation_.Record(static_cast<int64_t>(
          static_cast<double>(unit.drained_bytes) * 1000 / could + 0.5));
    }
    unit.bytes += unit.drained_bytes;
    unit.drained_bytes = 0;
    unit.up_ns = 0;
    unit.listed = unit.up;
  }
  this_epoch_.resize(still_up);
}

void Provisioning::CountUnitTime(Instant now) {
  const auto until = [this](Instant time) {
    return SaturatingSum(counted_unit_ns_,
                         UnitTime(units_up_, time - counted_until_));
  };
  if (last_traffic_ >= counted_until_) {
    unit_ns_with_traffic_ = until(last_traffic_);
  }
  counted_unit_ns_ = until(now);
  counted_until_ = now;
}

void Provisioning::on_unit_up(Instant now, UnitId unit) {
  Advance(now);
  Unit& u = units_[value(unit)];
  SNF_CHECK(!u.up);
  CountUnitTime(now);
  u.up = true;
  u.was_up = true;
  u.up_since = now;
  if (!u.listed) this_epoch_.push_back(value(unit));
  u.listed = true;
  units_max_ = std::max(units_max_, ++units_up_);
}

void Provisioning::on_unit_down(Instant now, UnitId unit) {
  Advance(now);
  Unit& u = units_[value(unit)];
  SNF_CHECK(u.up);
  CountUnitTime(now);
  u.up = false;
  u.up_ns = SaturatingSum(u.up_ns, (now - u.up_since).ns);
  --units_up_;
}

void Provisioning::on_end(Instant now) {
  if (samples_.empty()) return;
  CountUnitTime(now);
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].up) on_unit_down(now, UnitId{static_cast<uint16_t>(i)});
  }
  CloseEpoch(epoch_end_);
}

int64_t Provisioning::units_mean_1000() const {
  __extension__ using Wide = __int128;
  if (last_traffic_ <= began_) return 0;
  return static_cast<int64_t>(Wide{unit_ns_with_traffic_} * 1000 /
                              (last_traffic_ - began_).ns);
}

}  // namespace snf
