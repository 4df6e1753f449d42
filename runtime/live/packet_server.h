// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_PACKET_SERVER_H_
#define SNF_RUNTIME_LIVE_PACKET_SERVER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "runtime/core/service_model.h"
#include "runtime/core/unit_limits.h"
#include "runtime/live/loop_unit.h"
#include "runtime/live/unit_turns.h"
#include "runtime/ring/real_clock.h"
#include "runtime/shell/state_figures.h"

namespace snf {

// Serves the packets of a loop's units: each listed unit that has packets,
// kServedInATurn packets at most. If units have a capacity, what a packet
// causes happens when its service ends (PacedService). Where loops of several
// controllers share units, a packet begins when the unit is to serve it
// (UnitTurns).
//
// `Calls` is the loop's side:
//   CallNow()            a UnitCall, with room for commands
//   ExecuteAll(shell)    executes and clears these commands
//   ExecutesEach()       true if commands of two packets must not be mixed
//   NoteTimer(shell)     a call may have armed or disarmed a timer
//
// Called for each packet, so its bodies are here. Owner-thread only; allocates
// nothing for a packet.
class PacketServer {
 public:
  static constexpr uint32_t kServedInATurn = 32;

  // Units are as fast as `service` says; absent: as fast as can be. `turns` may
  // be null. Moves of flowlets are counted in `state`, which outlives the
  // object.
  PacketServer(std::optional<ServiceModel> service, bool measures_busy,
               UnitTurns* turns, StateFigures& state)
      : service_(service),
        measures_busy_(measures_busy),
        turns_(turns),
        state_(state) {}

  // Makes room in the list for this number of units.
  void Reserve(size_t units) { runnable_.reserve(units); }
  // The unit can serve from now on.
  void on_start(Instant now, LoopUnit& shell) const {
    if (service_.has_value()) shell.service.Start(now);
  }
  // The unit may have something to do.
  void List(LoopUnit& shell) {
    if (shell.is_listed || !shell.ready) return;
    shell.is_listed = true;
    runnable_.push_back(&shell);
  }
  // Serves all listed units; returns true if a packet was served.
  template <typename Calls>
  bool ServeAll(Instant now, Calls calls) {
    return measures_busy_ ? ServeAllByTheClock(now, calls)
                          : ServeListed(now, calls);
  }

  // Returns when the next service ends; Instant::max() if none is under way.
  Instant next_end() const { return next_end_; }
  // Counts for how long units were busy, if that is measured or modeled.
  Nanos busy() const { return busy_; }
  // Counts packets held by one unit, at most.
  uint32_t held_packets_max() const { return held_packets_max_; }

 private:
  template <typename Calls>
  bool ServeListed(Instant now, Calls& calls);
  template <typename Calls>
  [[gnu::noinline]] bool ServeAllByTheClock(Instant now, Calls& calls);
  template <typename Calls>
  bool Serve(Instant now, LoopUnit& shell, Calls& calls);
  template <typename Calls>
  bool Begin(Instant now, LoopUnit& shell, Calls& calls);
  template <typename Calls>
  void Finish(LoopUnit& shell, Calls& calls);
  void BeginService(Instant now, LoopUnit& shell);
  [[gnu::noinline]] bool TakeTurn(Instant now, LoopUnit& shell);
  [[gnu::noinline]] void EndTurn(Instant now, const LoopUnit& shell);
  [[gnu::noinline]] void SeeEmpty(LoopUnit& shell);

  const std::optional<ServiceModel> service_;
  const bool measures_busy_;
  UnitTurns* const turns_;
  StateFigures& state_;
  std::vector<LoopUnit*> runnable_;
  Instant next_end_ = Instant::max();
  Nanos busy_;
  uint32_t held_packets_max_ = 0;
};

// Units that have nothing to do any more leave the list.
template <typename Calls>
bool PacketServer::ServeListed(Instant now, Calls& calls) {
  bool did = false;
  next_end_ = Instant::max();
  for (size_t i = 0; i < runnable_.size();) {
    LoopUnit& shell = *runnable_[i];
    did |= Serve(now, shell, calls);
    calls.NoteTimer(shell);
    if (shell.unit.busy()) {
      // Until its turn comes, the service of another inbox has an end.
      if (!shell.awaits_turn) {
        next_end_ = std::min(next_end_, shell.service.end());
      }
    } else if (!shell.is_listed) {
      runnable_[i] = runnable_.back();
      runnable_.pop_back();
      continue;
    }
    ++i;
  }
  return did;
}

template <typename Calls>
bool PacketServer::ServeAllByTheClock(Instant now, Calls& calls) {
  const Instant begin = RealClock::Monotonic();
  const bool did = ServeListed(now, calls);
  if (did && !service_.has_value()) {
    busy_.ns += (RealClock::Monotonic() - begin).ns;
  }
  return did;
}

// Clears is_listed if there is nothing more to do.
template <typename Calls>
bool PacketServer::Serve(Instant now, LoopUnit& shell, Calls& calls) {
  bool did = false;
  calls.CallNow().out.clear();
  for (uint32_t served = 0; served < kServedInATurn; ++served) {
    if (!shell.unit.busy() && (!shell.ready || !Begin(now, shell, calls))) {
      shell.is_listed = false;
      if (turns_ != nullptr) [[unlikely]]
        SeeEmpty(shell);
      break;
    }
    if (shell.awaits_turn && !TakeTurn(now, shell)) break;
    if (shell.service.end() > now) break;
    Finish(shell, calls);
    if (turns_ != nullptr) [[unlikely]]
      EndTurn(now, shell);
    did = true;
  }
  calls.ExecuteAll(shell);
  if (did) shell.tables.on_called(now);
  return did;
}

// Returns true if a packet is in service now. Commands about packets before it
// may stay in the call's room: it is cheaper to execute all at once.
template <typename Calls>
bool PacketServer::Begin(Instant now, LoopUnit& shell, Calls& calls) {
  const bool serves =
      shell.Begin(calls.CallNow(), [&] { calls.ExecuteAll(shell); });
  held_packets_max_ = std::max(held_packets_max_, shell.unit.held_packets());
  if (!serves) {
    shell.service.SeeIdle();
    return false;
  }
  if (turns_ != nullptr) [[unlikely]] {
    shell.awaits_turn = true;
    turns_->on_next(shell.unit.id(),
                    std::max(shell.unit.in_service().original_length, 1u));
    return true;
  }
  BeginService(now, shell);
  return true;
}

inline void PacketServer::BeginService(Instant now, LoopUnit& shell) {
  const PacketMeta& meta = shell.unit.in_service();
  const Nanos wait = shell.unit.in_service_wait();
  const bool is_again = shell.unit.in_service_again();
  // Few packets are counted: the call took 15 instructions of each.
  if (!is_again && BeginsMovedFlowlet(meta)) [[unlikely]]
    CountMove(state_, shell.unit.id(), meta, wait);
  if (service_.has_value() && meta.has_payload()) {
    const Nanos takes = service_->ServiceTime(meta.original_length);
    shell.service.Begin(now, meta.arrival, is_again || wait != Unit::kNeverHeld,
                        takes);
    busy_.ns += takes.ns;
  }
}

template <typename Calls>
void PacketServer::Finish(LoopUnit& shell, Calls& calls) {
  UnitOut& out = calls.CallNow().out;
  if (out.room() < kMaxUnitCommandsPerCall) calls.ExecuteAll(shell);
  const size_t before = out.commands().size();
  shell.Finish(calls.CallNow());
  // Other commands than what becomes of the packet are about the state as it
  // is now, and an entry is about this call.
  if (out.commands().size() != before + 1 || calls.ExecutesEach()) {
    calls.ExecuteAll(shell);
  }
}

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_PACKET_SERVER_H_
