// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LEASES_HELD_UNITS_H_
#define SNF_RUNTIME_LEASES_HELD_UNITS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "runtime/leases/unit_leases.h"

namespace snf {

// Theory of operation. The parts of a machine's units that one daemon has. A
// unit is capacity, which several daemons use, each by a unit of its own of
// that number: so no process knows all leases of a unit. Each daemon knows the
// leases of its controller, answers the resource manager as a unit does
// (proto/protocol.md §7), and refuses messages of earlier managers.
//
// A lease that is set to 0 is over once the controller has left the unit: at
// once, if the controller does not use the unit.
//
// Worked example: the controller has 512 of unit 3, and flows there. The
// manager sets that lease to 0. When the last flow has left, the answer goes
// out, and the 512 are free for another daemon.
//
// Owner-thread only.
class HeldUnits {
 public:
  // `uses` returns whether the controller uses a unit; only the methods of this
  // class call it.
  HeldUnits(uint32_t units, std::function<bool(GlobalUnitId)> uses)
      : uses_(std::move(uses)), units_(units) {}

  // Messages of a resource manager.
  void on_set_share(const SetShare& set);
  void on_ask_report(const AskReport& ask);
  void on_stop_unit(const StopUnit& stop);
  // All leases have ended, and are not answered for any more. Returns them.
  std::vector<LeaseId> EndAll();
  // Checks whether the controller has left units.
  void on_left();
  std::vector<ToManager> TakeAnswers();

  // Counts refused messages, which change nothing.
  uint64_t refused() const { return refused_; }
  // Returns the sum of all shares of the unit, ending ones included.
  int64_t promised(GlobalUnitId unit) const {
    const auto& part = units_[value(unit)].leases;
    return part.has_value() ? part->promised() : 0;
  }
  uint64_t manager_epoch() const { return manager_epoch_; }

 private:
  struct Part {
    std::optional<UnitLeases> leases{};
    std::optional<UnitLife> stops{};  // is to be answered
  };

  // Returns null if the message is to be refused.
  Part* Find(GlobalUnitId unit, uint64_t manager_epoch);
  void Answer(std::vector<ShareSet> answers);
  void StopIfLeft(Part& part);

  std::function<bool(GlobalUnitId)> uses_;
  std::vector<Part> units_;  // by number
  uint64_t manager_epoch_ = 0;
  std::vector<ToManager> answers_;
  uint64_t refused_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LEASES_HELD_UNITS_H_
