// SPDX-License-Identifier: Apache-2.0
#include "platform/run/provisioning.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace snf {
namespace {

int64_t EpochOf(Instant now) {
  const int64_t epoch = now.ns / Provisioning::kEpochNs;
  return now.ns % Provisioning::kEpochNs < 0 ? epoch - 1 : epoch;
}

}  // namespace

void Provisioning::StartEpoch(Instant now) {
  const int64_t epoch = EpochOf(now);
  samples_.push_back({.epoch = epoch});
  // The first epoch of all time begins before the first Instant.
  int64_t end = 0;
  const bool overflow = __builtin_mul_overflow(epoch + 1, kEpochNs, &end);
  epoch_end_ = overflow ? Instant::max() : Instant{end};
}

void Provisioning::AdvanceEpochs(Instant now) {
  if (samples_.empty()) StartEpoch(now);
  while (IsOver(now) && units_up_ > 0) {
    const Instant end = epoch_end_;
    CloseEpoch(end);
    StartEpoch(end);
  }
  if (IsOver(now)) {
    CloseEpoch(epoch_end_);
    StartEpoch(now);
  }
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
  if (__builtin_add_overflow(unit_ns_, samples_.back().unit_ns, &unit_ns_)) {
    unit_ns_ = std::numeric_limits<int64_t>::max();
  }
  this_epoch_.resize(still_up);
}

void Provisioning::on_unit_up(Instant now, UnitId unit) {
  Advance(now);
  Unit& u = units_[value(unit)];
  SNF_CHECK(!u.up);
  u.up = true;
  u.was_up = true;
  u.up_since = now;
  if (!u.listed) this_epoch_.push_back(value(unit));
  u.listed = true;
  if (++units_up_ == 1) any_up_since_ = now;
  units_max_ = std::max(units_max_, units_up_);
}

void Provisioning::on_unit_down(Instant now, UnitId unit) {
  Advance(now);
  Unit& u = units_[value(unit)];
  SNF_CHECK(u.up);
  u.up = false;
  u.up_ns += (now - u.up_since).ns;
  if (--units_up_ == 0) any_up_ns_ += (now - any_up_since_).ns;
}

void Provisioning::on_end(Instant now) {
  if (samples_.empty()) return;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].up) on_unit_down(now, UnitId{static_cast<uint16_t>(i)});
  }
  CloseEpoch(epoch_end_);
}

int64_t Provisioning::units_mean_1000() const {
  __extension__ using Wide = __int128;
  if (any_up_ns_ == 0) return 0;
  return static_cast<int64_t>(Wide{unit_ns_} * 1000 / any_up_ns_);
}

}  // namespace snf
