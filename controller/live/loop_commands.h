// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_LOOP_COMMANDS_H_
#define SNF_CONTROLLER_LIVE_LOOP_COMMANDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/live/controller_events.h"
#include "controller/live/controller_links.h"
#include "controller/live/loop_links.h"
#include "controller/live/unit_starter.h"

namespace snf {

class LoopRecovery;
class UnledLoop;

// Executes what the controller of a loop commands, except for packets that go
// to units: starts units (UnitStarter), sends the commands to units and
// loggers, and tells events of packets that are dropped, of flows that end, and
// which units are up. A unit that has failed hears nothing more.
//
// Owner-thread only.
class LoopCommands {
 public:
  // All references must outlive the object. `recovery` and `unled` are parts
  // that not each loop has.
  LoopCommands(const ControllerLoopOptions& options, Controller& controller,
               LoopLinks& links, std::optional<LoopRecovery>& recovery,
               std::optional<UnledLoop>& unled);

  void Execute(Instant now, const ControllerCommand& command,
               ControllerEvents& events);
  void Send(const ControllerCommand& command) {
    links_.to(command.unit).Send(command);
  }
  // Tells events that the unit is up, or down.
  void SetUp(Instant now, UnitId unit, bool is_up, ControllerEvents& events);

  UnitStarter& starter() { return starter_; }
  const UnitStarter& starter() const { return starter_; }
  // Starts the units whose start is ready.
  void FinishStarts(Instant now);
  // A loop of units runs now: starts that wait for it are ready.
  void BeginStarts(Instant now, size_t loop);

  bool is_leased() const { return is_leased_; }
  // Counts packets that came by an alias that no flow has.
  uint64_t aliases_unknown() const { return aliases_unknown_; }
  // Returns false for a unit that has failed.
  bool hears(UnitId unit) const {
    return controller_.units().state(unit) != UnitPool::State::kCrashed;
  }

 private:
  void SendName(const ControllerCommand& command);
  void FinishStart(Instant now, const ControllerCommand& command);

  const bool is_leased_;
  const bool shares_units_;
  Controller& controller_;
  LoopLinks& links_;
  std::optional<LoopRecovery>& recovery_;
  std::optional<UnledLoop>& unled_;
  UnitStarter starter_;
  std::vector<bool> leased_up_;  // by unit: events were told
  uint64_t aliases_unknown_ = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_COMMANDS_H_
