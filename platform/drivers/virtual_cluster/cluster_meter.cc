// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/cluster_meter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace snf {
namespace {

ControllerOptions WithUnits(ControllerOptions options, uint32_t units) {
  options.max_units = units;
  return options;
}

}  // namespace

class ClusterMeter::Watcher final : public RunObserver {
 public:
  Watcher(ClusterMeter& meter, absl::AnyInvocable<Unit(UnitId)> unit_of)
      : meter_(meter), unit_of_(std::move(unit_of)) {}

  void on_arrival(Instant now, const FlowKey& /*key*/,
                  uint32_t original_length) override {
    meter_.last_ = now;
    meter_.provisioning_.on_offered(now, original_length);
  }
  void on_drop(const ReleasedPacket& packet,
               std::string_view /*reason*/) override {
    meter_.last_ = packet.time;
    meter_.provisioning_.on_dropped(packet.time);
  }
  void on_drained(Instant now, UnitId unit, uint32_t packets,
                  uint64_t bytes) override {
    const auto at = meter_.up_.find(unit_of_(unit));
    SNF_CHECK(at != meter_.up_.end());
    meter_.last_ = now;
    meter_.provisioning_.on_drained(now, at->second, packets, bytes);
  }

 private:
  ClusterMeter& meter_;
  absl::AnyInvocable<Unit(UnitId)> unit_of_;
};

ClusterMeter::ClusterMeter(ControllerOptions options, uint32_t most_units)
    : provisioning_(WithUnits(std::move(options), most_units)) {
  SNF_CHECK(most_units <= kMaxUnits);
  for (uint32_t i = 0; i < most_units; ++i) {
    unused_.insert(UnitId{static_cast<uint16_t>(i)});
  }
}

ClusterMeter::~ClusterMeter() = default;

RunObserver& ClusterMeter::Watch(absl::AnyInvocable<Unit(UnitId)> unit_of) {
  return *watchers_.emplace_back(
      std::make_unique<Watcher>(*this, std::move(unit_of)));
}

void ClusterMeter::on_unit_up(Instant now, const Unit& unit) {
  SNF_CHECK(!unused_.empty());
  const UnitId number = unused_.extract(unused_.begin()).value();
  SNF_CHECK(up_.emplace(unit, number).second);
  last_ = std::max(last_, now);
  provisioning_.on_unit_up(last_, number);
}

void ClusterMeter::on_unit_down(Instant now, const Unit& unit) {
  const auto at = up_.find(unit);
  SNF_CHECK(at != up_.end());
  last_ = std::max(last_, now);
  provisioning_.on_unit_down(last_, at->second);
  unused_.insert(at->second);
  up_.erase(at);
}

void ClusterMeter::Finish(RunResult& result) {
  provisioning_.on_end(last_);
  result.units_max = provisioning_.units_max();
  result.units_mean_1000 = provisioning_.units_mean_1000();
  result.unit_ns_with_traffic = provisioning_.unit_ns_with_traffic();
  result.utilisation_1000 = provisioning_.utilisation();
  result.epochs = provisioning_.samples();
  result.forgotten = provisioning_.forgotten();
}

}  // namespace snf
