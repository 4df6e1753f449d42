// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/packet_server.h"

namespace snf {

// A packet begins when the unit was free, be that long ago, as with one inbox.
bool PacketServer::TakeTurn(Instant now, LoopUnit& shell) {
  if (!turns_->Begin(shell.unit.id())) return false;
  shell.awaits_turn = false;
  const Instant free_since = turns_->last_end(shell.unit.id());
  if (service_.has_value() && free_since != Instant::min()) {
    shell.service.Start(now + (free_since - RealClock::Monotonic()));
  }
  BeginService(now, shell);
  return true;
}

void PacketServer::EndTurn(Instant now, const LoopUnit& shell) {
  Instant end = Instant::min();
  if (service_.has_value()) {
    end = RealClock::Monotonic() + (shell.service.end() - now);
  }
  turns_->on_served(shell.unit.id(), end);
}

void PacketServer::SeeEmpty(LoopUnit& shell) {
  turns_->on_empty(shell.unit.id());
  if (!shell.leaves || shell.unit.held_packets() > 0) return;
  shell.leaves = false;
  turns_->on_drained(shell.unit.id());
}

}  // namespace snf
