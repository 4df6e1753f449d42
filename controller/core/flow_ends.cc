// SPDX-License-Identifier: Apache-2.0
#include "controller/core/flow_ends.h"

#include <algorithm>

#include "base/check.h"
#include "controller/core/controller.h"

namespace snf {

FlowEnds::FlowEnds(const ControllerOptions& options)
    : awaits_ends_(options.awaits_ends), evict_after_(options.evict_after) {
  SNF_CHECK(evict_after_.ns >= 0);
}

void FlowEnds::on_flow_timer(Controller& c, Instant now, uint32_t slot,
                             ControllerOut& out) {
  if (c.IsEnding(slot)) return EndAgain(c, now, slot, out);
  const FlowHot& flow = c.flows_.hot(slot);
  if ((flow.flags & FlowHot::kOpen) != 0) {
    if (now - flow.last_packet > c.flowlets_.timeout()) c.CloseFlowlet(slot);
  } else if (now - flow.last_packet >= c.idle_timeouts_.Of(slot)) {
    if (IsMoving(c, slot)) {
      WaitToEnd(c, now, slot, out);
    } else {
      End(c, now, slot, out);
    }
    return;
  }
  if ((flow.flags & FlowHot::kOpen) != 0) {
    c.flow_timers_.Arm(slot,
                       flow.last_packet + c.flowlets_.timeout() + Nanos{1});
  } else {
    ArmIdle(c, slot);
  }
}

void FlowEnds::ArmIdle(Controller& c, uint32_t slot) {
  const Nanos timeout = c.idle_timeouts_.Of(slot);
  c.flow_timers_.Arm(slot, timeout == Nanos::max()
                               ? Instant::max()
                               : c.flows_.hot(slot).last_packet + timeout);
}

bool FlowEnds::IsMoving(const Controller& c, uint32_t slot) {
  const UnitId owner = c.flows_.cold(slot).owner;
  if (c.forgets_copies_ && owner != kNoUnit && c.owners_.runs(slot) > 0) {
    return true;
  }
  if (!c.failover_.is_active()) return false;
  return owner != kNoUnit &&
         (c.failover_.HasCrashed(owner) || c.owners_.runs(slot) > 0);
}

// Requires that the flowlet is closed and the flow's timer not armed.
void FlowEnds::End(Controller& c, Instant now, uint32_t slot,
                   ControllerOut& out) {
  const UnitId owner = c.flows_.cold(slot).owner;
  ++c.counters_.flows_ended;
  c.flows_.Unlink(slot);
  if (owner == kNoUnit) {
    c.flows_.Free(slot);
    return;
  }
  const Clock last = c.flows_.hot(slot).clock;
  out.push(ControllerCommand::End(owner, {c.IdOf(slot), last}));
  c.Disown(now, owner);
  c.aliases_.Erase(slot, last);
  c.idle_timeouts_.Erase(slot);
  if (awaits_ends_) {
    FlowHot& flow = c.flows_.hot(slot);
    flow.flags = FlowHot::kEnding | (flow.flags & FlowHot::kHanded);
  } else {
    Forget(c, slot);
  }
}

void FlowEnds::EndOpenFlow(Controller& c, Instant now, uint32_t slot,
                           ControllerOut& out) {
  if ((c.flows_.hot(slot).flags & FlowHot::kOpen) != 0) c.CloseFlowlet(slot);
  c.flow_timers_.Disarm(slot);
  End(c, now, slot, out);
}

// While there is a run of an earlier owner, a packet may still pull its copy,
// and no pull is answered for a flow that is forgotten.
bool FlowEnds::Delete(Controller& c, Instant now, FlowId flow, Deletion why,
                      ControllerOut& out) {
  const uint32_t slot = slot_of(flow);
  if (!c.Knows(flow)) return false;
  if (IsMoving(c, slot) || c.owners_.runs(slot) > 0) {
    ForgetOldest(c, slot, out);
    return false;
  }
  EndOpenFlow(c, now, slot, out);
  if (why == Deletion::kByHand) ++c.counters_.flows_deleted;
  return true;
}

bool FlowEnds::on_ended(Controller& c, FlowId flow) {
  if (!c.Keeps(flow) || !c.IsEnding(slot_of(flow))) return false;
  Forget(c, slot_of(flow));
  return true;
}

bool FlowEnds::Evict(Controller& c, Instant now, ControllerOut& out) {
  uint32_t victim = FlowTable::kNone;
  Nanos shortest = Nanos::max();
  for (uint32_t i = 0; i < std::min(kEvictSlots, c.flows_.used()); ++i) {
    const uint32_t slot = evict_next_;
    evict_next_ = slot + 1 < c.flows_.used() ? slot + 1 : 0;
    const FlowHot& flow = c.flows_.hot(slot);
    const Nanos idle = now - flow.last_packet;
    if ((flow.flags & FlowHot::kOpen) != 0 || idle < evict_after_) continue;
    if (IsMoving(c, slot) || c.IsEnding(slot)) continue;
    // A flow without a timeout stays.
    const Nanos timeout = c.idle_timeouts_.Of(slot);
    if (timeout == Nanos::max()) continue;
    const Nanos left{timeout.ns - idle.ns};
    if (victim != FlowTable::kNone && left >= shortest) continue;
    victim = slot;
    shortest = left;
  }
  if (victim == FlowTable::kNone) return false;
  c.flow_timers_.Disarm(victim);
  End(c, now, victim, out);
  ++c.counters_.flows_evicted;
  return true;
}

// Has the oldest copy of the flow forgotten, if a newer one was taken over. An
// older copy that is left although a newer one is gone was taken over. The news
// of that is lost if the unit that took it over failed before it could report,
// and the receiver of the Takeover has restarted since.
void FlowEnds::ForgetOldest(Controller& c, uint32_t slot, ControllerOut& out) {
  if (!c.forgets_copies_ || c.is_recovering() || c.owners_.runs(slot) < 2) {
    return;
  }
  const OwnerHistory::Run oldest = c.owners_.run(slot, 0);
  if (oldest.is_taken || !c.owners_.run(slot, 1).is_taken) return;
  out.push(ControllerCommand::Forget(oldest.unit, oldest.at_logger,
                                     {c.IdOf(slot), oldest.last + 1}));
}

// The flow may not end yet: tries again later, and has the remaining old copies
// forgotten.
void FlowEnds::WaitToEnd(Controller& c, Instant now, uint32_t slot,
                         ControllerOut& out) {
  c.flow_timers_.Arm(slot, now + kEndRetry);
  ForgetOldest(c, slot, out);
}

// While older copies are left, only the owner knows of the end, and might fail
// together with the controller; and the owner forgets the end once a logger has
// it.
void FlowEnds::EndAgain(Controller& c, Instant now, uint32_t slot,
                        ControllerOut& out) {
  if (c.forgets_copies_ && IsMoving(c, slot)) {
    WaitToEnd(c, now, slot, out);
    return;
  }
  ++c.counters_.failures.ends_repeated;
  out.push(ControllerCommand::End(c.flows_.cold(slot).owner,
                                  {c.IdOf(slot), c.flows_.hot(slot).clock}));
}

void FlowEnds::Forget(Controller& c, uint32_t slot) {
  c.flow_timers_.Disarm(slot);
  c.owners_.Erase(slot);
  c.failover_.Erase(slot);
  c.flows_.Free(slot);
}

}  // namespace snf
