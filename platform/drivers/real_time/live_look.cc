// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/live_look.h"

#include <atomic>
#include <utility>

#include "base/ids.h"
#include "platform/run/figures/figures.h"
#include "platform/run/figures/live_board.h"
#include "platform/run/figures/nf_states.h"
#include "platform/run/figures/report_figures.h"
#include "platform/run/provisioning.h"
#include "runtime/shell/state_figures.h"

namespace snf {

LiveLook::LiveLook(const RunOptions& options, const RealOptions& real,
                   const NetworkFunction& example,
                   std::span<const LoopRegion::Loop> loops,
                   const ControllerLoop& loop, Egress& egress,
                   RunResult& result)
    : board_(real.live),
      amend_(real.amend),
      measures_busy_(real.measures_busy),
      example_(example),
      speed_(real.speed),
      max_units_(options.controller.max_units),
      loops_(loops),
      loop_(loop),
      egress_(egress),
      result_(result) {
  if (!real.unpaced) unit_capacity_bps_ = options.controller.unit_capacity_bps;
  if (board_ == nullptr) return;
  latency_times_ = std::make_unique<LiveTimes>();
  late_times_ = std::make_unique<LiveTimes>();
}

void LiveLook::Begin(Instant now) {
  began_ = now;
  if (board_ != nullptr) next_ = now;
}

void LiveLook::Stop() {
  board_ = nullptr;
  next_ = Instant::max();
}

void LiveLook::TellBusy() {
  if (!measures_busy_) return;
  Nanos sum;
  for (const LoopRegion::Loop& loop : loops_) {
    sum.ns += loop.progress->busy_ns.load(std::memory_order_relaxed);
  }
  if (sum == busy_) return;
  egress_.on_busy(loop_.now(), {sum.ns - busy_.ns});
  busy_ = sum;
}

void LiveLook::Publish() {
  if (board_ == nullptr) return;
  next_ = loop_.now() + LiveBoard::kPeriod;
  LiveFigures live = Look();
  live.latency = latency_times_->Take(result_.latency_ns);
  live.late = late_times_->Take(result_.real.schedule_error_ns);
  live.nf_objects = LookAtObjects();
  if (amend_) amend_(live);
  board_->Publish(std::move(live));
}

std::vector<LiveFigures::NfObject> LiveLook::LookAtObjects() const {
  return NfObjects(example_, loop_.tables(), loop_.now());
}

LiveFigures LiveLook::Look() {
  const Controller& controller = loop_.controller();
  result_.controller = controller.counters();
  result_.cold_starts = controller.units().cold_starts();
  result_.warm_starts = controller.units().warm_starts();
  LiveFigures live = {.elapsed = loop_.now() - began_,
                      .speed = speed_,
                      .done_1000 = {},
                      .counts = FigureCounts(result_),
                      .drops = DropCounts(result_)};
  for (const LoopRegion::Loop& loop : loops_) {
    const LoopProgress& progress = *loop.progress;
    live.counts[&StateCounters::seamless] +=
        progress.seamless.load(std::memory_order_relaxed);
    live.counts[&StateCounters::pulled] +=
        progress.pulled.load(std::memory_order_relaxed);
  }
  for (uint32_t i = 0; i < max_units_; ++i) {
    const UnitId id{static_cast<uint16_t>(i)};
    const Provisioning::Total total = egress_.provisioning().total(id);
    if (!total.was_up) continue;
    live.units.push_back({.id = id,
                          .is_up = total.is_up,
                          .packets = total.packets,
                          .bytes = total.bytes});
  }
  live.unit_capacity_bps = unit_capacity_bps_;
  if (hosts_ != nullptr) hosts_(live);
  return live;
}

}  // namespace snf
