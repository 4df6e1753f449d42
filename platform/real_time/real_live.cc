// SPDX-License-Identifier: Apache-2.0
//
// What a run in real time lets be seen while it goes on.
#include <utility>

#include "platform/real_time/real_driver.h"
#include "platform/run/live_board.h"

namespace snf {

void RealDriver::PublishLive() {
  result_.controller = controller_.counters();
  next_live_ = now_ + LiveBoard::kPeriod;
  LiveFigures live = {.elapsed = now_ - began_,
                      .speed = real_.speed,
                      .done_1000 = {},
                      .counts = FigureCounts(result_),
                      .drops = DropCounts(result_)};
  for (const Crew& crew : crews_) {
    const RealWorker::Progress& progress = crew.worker->progress();
    live.counts[&StateCounters::seamless] +=
        progress.seamless.load(std::memory_order_relaxed);
    live.counts[&StateCounters::pulled] +=
        progress.pulled.load(std::memory_order_relaxed);
  }
  for (uint32_t i = 0; i < options_.controller.max_units; ++i) {
    const UnitId id{static_cast<uint16_t>(i)};
    const Provisioning::Total total = provisioning_.total(id);
    if (!total.was_up) continue;
    live.units.push_back({.id = id,
                          .is_up = total.is_up,
                          .packets = total.packets,
                          .bytes = total.bytes});
  }
  if (!real_.unpaced) {
    live.unit_capacity_bps = options_.controller.unit_capacity_bps;
  }
  live.latency = latency_times_->Take(result_.latency_ns);
  live.late = late_times_->Take(result_.real.schedule_error_ns);
  real_.live->Publish(std::move(live));
}

}  // namespace snf
