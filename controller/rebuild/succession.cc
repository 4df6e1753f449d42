// SPDX-License-Identifier: Apache-2.0
#include "controller/rebuild/succession.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/counters.h"

namespace snf {

void Succession::Fail(Controller failed) {
  SNF_CHECK(has_controller());
  former_.emplace(std::move(failed));
  Restart();
}

void Succession::Restart() {
  phase_ = Phase::kDead;
  rebuild_.emplace(max_units_, max_flows_);
  std::ranges::fill(awaited_, uint8_t{0});
  awaits_ = 0;
}

void Succession::Inherit(uint32_t epoch, Controller blank) {
  epoch_ = epoch;
  Fail(std::move(blank));
}

uint32_t Succession::Gather() {
  SNF_CHECK(phase_ == Phase::kDead);
  phase_ = Phase::kGathering;
  return ++epoch_;
}

void Succession::Await(size_t source) {
  SNF_CHECK(awaited_[source] < std::numeric_limits<uint8_t>::max());
  ++awaited_[source];
  ++awaits_;
}

void Succession::on_reported(size_t source) {
  SNF_CHECK(awaits(source));
  --awaited_[source];
  --awaits_;
}

void Succession::Begin(Controller& controller, Instant now) {
  SNF_CHECK(phase_ == Phase::kGathering && has_all());
  rebuild_->Begin(controller, now, *former_);
  former_.reset();
  phase_ = Phase::kMending;
}

bool Succession::Mend(Controller& controller, Instant now, ControllerOut& out) {
  SNF_CHECK(phase_ == Phase::kMending);
  return rebuild_->Advance(controller, now, out);
}

std::vector<Arrival> Succession::Finish() {
  SNF_CHECK(phase_ == Phase::kMending);
  AddCounters(counters_, rebuild_->counters());
  phase_ = Phase::kUp;
  return std::exchange(waiting_, {});
}

bool Succession::Hold(const Arrival& arrival) {
  SNF_CHECK(!is_up());
  if (phase_ == Phase::kDead || waiting_.size() == kMaxWaiting) {
    ++counters_.packets_lost;
    return false;
  }
  ++counters_.packets_waited;
  waiting_.push_back(arrival);
  // The successor has other slots than the controller that expected it.
  waiting_.back().slot = Arrival{}.slot;
  waiting_.back().hash = Arrival{}.hash;
  return true;
}

std::vector<Arrival> Succession::LoseWaiting() {
  counters_.packets_lost += waiting_.size();
  return std::exchange(waiting_, {});
}

}  // namespace snf
