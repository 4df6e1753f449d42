// SPDX-License-Identifier: Apache-2.0
#include "platform/report/unit_series.h"

#include <algorithm>
#include <span>

#include "fmt/format.h"

namespace snf {
namespace {

std::string SecondsText(int64_t ns) {
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}

// The least that so many of 100 do not exceed; `sorted` is not empty.
int64_t Quantile(std::span<const int64_t> sorted, size_t percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

}  // namespace

UnitSeries::UnitSeries(int64_t unit_capacity_bps, uint32_t max_units)
    : bytes_per_ns_(static_cast<double>(unit_capacity_bps) / 8e9),
      units_(max_units),
      times_("unit,up_s,down_s,packets,bytes\n"),
      steps_("start_s,unit,up,utilisation,packets,p50_s,p99_s\n") {}

void UnitSeries::Advance(Instant now) {
  const int64_t step = (now - start_).ns / kStepNs;
  if (step == step_) return;
  CloseStep();
  // Steps in which units are up and idle.
  constexpr int64_t kMost = 1'000'000'000 / kStepNs;
  const int64_t last = std::min(step, step_ + 1 + kMost);
  while (++step_ < last) CloseStep();
  step_ = step;
}

void UnitSeries::on_unit_up(Instant now, UnitId unit) {
  Advance(now);
  Unit& u = units_[value(unit)];
  u.is_up = true;
  u.up_since = now;
  u.packets = 0;
  u.bytes = 0;
}

void UnitSeries::on_unit_down(Instant now, UnitId unit) {
  Advance(now);
  Unit& u = units_[value(unit)];
  u.is_up = false;
  const int64_t since = (u.up_since - start_).ns;
  const int64_t until = (now - start_).ns;
  u.up_ns += until - std::max(since, step_ * kStepNs);
  times_ += fmt::format("{},{},{},{},{}\n", value(unit), SecondsText(since),
                        SecondsText(until), u.packets, u.bytes);
}

void UnitSeries::on_drained(Instant now, UnitId unit, uint32_t packets,
                            uint64_t bytes) {
  Advance(now);
  Unit& u = units_[value(unit)];
  u.packets += packets;
  u.bytes += bytes;
  u.step_bytes += bytes;
}

void UnitSeries::on_release(const ReleasedPacket& packet) {
  if (packet.route.unit == kNoUnit) return;
  Advance(packet.time);
  units_[value(packet.route.unit)].latencies_ns.push_back(
      packet.route.latency.ns);
}

void UnitSeries::on_end(Instant now) {
  Advance(now);
  for (uint16_t i = 0; i < units_.size(); ++i) {
    if (units_[i].is_up) on_unit_down(now, UnitId{i});
  }
  CloseStep();
}

void UnitSeries::CloseStep() {
  const int64_t begin_ns = step_ * kStepNs;
  for (uint16_t id = 0; id < units_.size(); ++id) {
    const Unit& unit = units_[id];
    if (unit.is_up || unit.up_ns > 0 || unit.step_bytes > 0 ||
        !unit.latencies_ns.empty()) {
      WriteStep(id, begin_ns);
    }
  }
}

void UnitSeries::WriteStep(uint16_t id, int64_t begin_ns) {
  Unit& unit = units_[id];
  if (unit.is_up) {
    const int64_t since = (unit.up_since - start_).ns;
    unit.up_ns += begin_ns + kStepNs - std::max(since, begin_ns);
  }
  const double could = bytes_per_ns_ * static_cast<double>(unit.up_ns);
  std::vector<int64_t>& latencies = unit.latencies_ns;
  std::ranges::sort(latencies);
  steps_ += fmt::format(
      "{},{},{:.4f},{:.4f},{},{},{}\n", SecondsText(begin_ns), id,
      static_cast<double>(unit.up_ns) / kStepNs,
      could == 0 ? 0 : static_cast<double>(unit.step_bytes) / could,
      latencies.size(),
      latencies.empty() ? "" : SecondsText(Quantile(latencies, 50)),
      latencies.empty() ? "" : SecondsText(Quantile(latencies, 99)));
  unit.up_ns = 0;
  unit.step_bytes = 0;
  latencies.clear();
}

}  // namespace snf
