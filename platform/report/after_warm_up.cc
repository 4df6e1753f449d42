// SPDX-License-Identifier: Apache-2.0
#include "platform/report/after_warm_up.h"

namespace snf {

bool AfterWarmUp::Apply(RunResult& result) const {
  if (latency_ns_.count() == 0) return false;
  result.latency_ns = latency_ns_;
  result.units_max = provisioning_.units_max();
  result.units_mean_1000 = provisioning_.units_mean_1000();
  result.utilisation_1000 = provisioning_.utilisation();
  return true;
}

bool AfterWarmUp::IsOver(Instant now) {
  if (is_over_ || now < begin_) return is_over_;
  is_over_ = true;
  provisioning_.on_start(begin_);
  for (size_t i = 0; i < is_up_.size(); ++i) {
    if (!is_up_[i]) continue;
    provisioning_.on_unit_up(begin_, UnitId{static_cast<uint16_t>(i)});
  }
  return true;
}

void AfterWarmUp::on_arrival(Instant now, const FlowKey& key,
                             uint32_t original_length) {
  if (IsOver(now)) provisioning_.on_arrival(now, key, original_length);
}

void AfterWarmUp::on_unit_up(Instant now, UnitId unit) {
  if (IsOver(now)) {
    provisioning_.on_unit_up(now, unit);
  } else {
    is_up_[value(unit)] = true;
  }
}

void AfterWarmUp::on_unit_down(Instant now, UnitId unit) {
  if (IsOver(now)) {
    provisioning_.on_unit_down(now, unit);
  } else {
    is_up_[value(unit)] = false;
  }
}

void AfterWarmUp::on_drained(Instant now, UnitId unit, uint32_t packets,
                             uint64_t bytes) {
  if (IsOver(now)) provisioning_.on_drained(now, unit, packets, bytes);
}

void AfterWarmUp::on_release(const ReleasedPacket& packet) {
  const PacketRoute& route = packet.route;
  if (route.unit == kNoUnit || route.generated) return;
  if (packet.time < begin_ + route.latency) return;
  latency_ns_.Record(route.latency.ns);
}

void AfterWarmUp::on_end(Instant now) {
  if (IsOver(now)) provisioning_.on_end(now);
}

}  // namespace snf
