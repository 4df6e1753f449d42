// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_loads.h"

#include <algorithm>

#include "base/check.h"

namespace snf {

UnitLoads::UnitLoads(const UnitPoolOptions& options)
    : max_units_(options.max_units),
      hosts_(options),
      queue_packets_(options.unit_queue_packets),
      recovery_slots_(options.recovery_slots),
      start_buffer_packets_(
          std::min(options.start_buffer_packets, options.unit_queue_packets)),
      latency_target_(options.latency_target),
      units_(options.max_units),
      meter_(options),
      fill_(options),
      index_(options.max_units),
      parts_(options.max_units),
      part_ids_(options.max_units),
      ranks_(options.max_units) {
  SNF_CHECK(latency_target_ <= Seconds(10));
  SNF_CHECK(queue_packets_ + recovery_slots_ < UnitChannel::kMaxSlots);
  // Numbers of a later controller's packets are above all numbers of ended
  // channels.
  constexpr int kNumberBits = 40;
  for (uint32_t i = 0; options.epoch > 0 && i < max_units_; ++i) {
    units_[i].channel.NumberFrom(uint64_t{options.epoch} << kNumberBits);
  }
}

void UnitLoads::Insert(Instant now, UnitId unit) {
  const Unit& u = units_[value(unit)];
  const uint32_t load = meter_.Load(now, unit, u.channel.queued_bytes());
  if (u.share % kFullLoad == 0) {
    index_.Insert(unit, load);
  } else {
    parts_.Insert(unit);
    part_ids_.Insert(unit);
  }
  ranks_.Insert(unit);
}

void UnitLoads::RefreshFading(Instant now, uint32_t first_untouched) {
  const uint64_t bucket = meter_.Bucket(now);
  ForEachPart([&](UnitId unit) { meter_.Load(now, unit); });
  if (bucket != refresh_bucket_) {
    refresh_bucket_ = bucket;
    refresh_left_ = std::min(first_untouched, kRefreshPerBucket);
  }
  if (refresh_left_ == 0) return;
  const bool all = first_untouched <= kRefreshPerBucket;
  const uint32_t now_due =
      all ? refresh_left_ : std::min(refresh_left_, kRefreshPerDecision);
  refresh_left_ -= now_due;
  for (uint32_t i = 0; i < now_due; ++i) {
    refresh_next_ = refresh_next_ + 1 < first_untouched ? refresh_next_ + 1 : 0;
    Touch(now, UnitId{static_cast<uint16_t>(refresh_next_)});
  }
}

UnitId UnitLoads::LeastLoadedWithParts(UnitId least) const {
  ForEachPart([&](UnitId unit) {
    if (least == kNoUnit || load(unit) < load(least)) least = unit;
  });
  return least;
}

bool UnitLoads::on_drained(Instant now, const DrainReport& report) {
  meter_.Prefetch(report.unit);
  index_.Prefetch(report.unit);
  if (!channel(report.unit).Drain(report.packets, report.bytes)) [[unlikely]] {
    return false;
  }
  meter_.AddDrained(now, report.unit, report.bytes);
  Touch(now, report.unit);
  return true;
}

void UnitLoads::OpenFlowlet(UnitId unit, int64_t demand_bps) {
  meter_.AddOpenDemand(unit, demand_bps);
  TouchSameTime(unit);
}

void UnitLoads::CloseFlowlet(UnitId unit, int64_t demand_bps) {
  meter_.RemoveOpenDemand(unit, demand_bps);
  TouchSameTime(unit);
}

}  // namespace snf
