// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/controller_asks.h"

#include <algorithm>

namespace snf {

LeaseRefusal ControllerAsks::Check(ControllerLife life) const {
  const Controller& c = of(life.controller);
  if (life.epoch < c.epoch) return LeaseRefusal::kStaleEpoch;
  if (life.epoch == c.epoch && c.epoch != 0) {
    return c.alive ? LeaseRefusal::kNone : LeaseRefusal::kUnknownController;
  }
  // Only an earlier manager can have given an epoch that this one does not
  // know.
  const bool is_earlier = life.epoch >> 32 > 0 && life.epoch >> 32 < epoch_;
  return is_earlier ? LeaseRefusal::kNone : LeaseRefusal::kUnknownController;
}

void ControllerAsks::Begin(ControllerLife life) {
  Controller& c = of(life.controller);
  c = {.epoch = life.epoch, .alive = true, .waits = c.waits};
}

void ControllerAsks::Succeed(ControllerLife life) {
  of(life.controller).epoch = life.epoch;
  of(life.controller).ask = 0;
}

LeaseRefusal ControllerAsks::on_ask(const Ask& ask, int64_t most) {
  Controller& c = of(ask.from.controller);
  if (ask.number <= c.ask) return LeaseRefusal::kStaleNumber;
  if (ask.capacity < 0) return LeaseRefusal::kNegative;
  if (ask.capacity > most) return LeaseRefusal::kTooMuch;
  c.ask = ask.number;
  c.wanted = ask.capacity;
  return LeaseRefusal::kNone;
}

void ControllerAsks::LimitTo(ControllerId controller, int64_t capacity) {
  Controller& c = of(controller);
  c.wanted = std::min(c.wanted, capacity);
}

int64_t ControllerAsks::MissingInAll(const LeaseBook& leases) const {
  int64_t missing = 0;
  for (const uint32_t c : waiting_) missing += Missing(c, leases);
  return missing;
}

void ControllerAsks::Await(uint32_t controller, const LeaseBook& leases) {
  Controller& c = controllers_[controller];
  if (c.waits || Missing(controller, leases) <= 0) return;
  c.waits = true;
  waiting_.push_back(controller);
}

uint32_t ControllerAsks::NextWaiting(const LeaseBook& leases) const {
  uint32_t best = kNone;
  for (const uint32_t c : waiting_) {
    if (best == kNone || leases.held(c) < leases.held(best)) best = c;
  }
  return best;
}

void ControllerAsks::Served(uint32_t controller) {
  controllers_[controller].waits = false;
  std::erase(waiting_, controller);
}

}  // namespace snf
