// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_MANAGER_HELD_UNITS_H_
#define SNF_PLATFORM_MANAGER_HELD_UNITS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/messages/lease_messages.h"
#include "platform/real_cluster/lease_mail.h"
#include "resource_manager/core/manager_commands.h"
#include "runtime/leases/unit_leases.h"

namespace snf {

// Theory of operation. The parts of a machine's units that one daemon has. A
// unit is capacity, which several daemons use, each by a unit of its own of
// that number: so no process knows all leases of a unit. This one knows those
// of its controller, answers the resource manager as a unit does
// (proto/protocol.md §7), and refuses what earlier managers say.
//
// A lease that is set to 0 is over once the controller uses the unit no more:
// at once where it does not use it.
//
// Worked example: the controller has 512 of unit 3, and flows there. The
// manager sets that to 0. When the last flow has left, the answer goes out, and
// the 512 are free for another daemon.
//
// Owner-thread only.
class HeldUnits {
 public:
  // `uses` says whether the controller uses a unit, and is called by the
  // owner's calls.
  HeldUnits(uint32_t units, std::function<bool(GlobalUnitId)> uses)
      : uses_(std::move(uses)), units_(units) {}

  // Messages of a resource manager.
  void on_set_share(const SetShare& set);
  void on_ask_report(const AskReport& ask);
  void on_stop_unit(const StopUnit& stop);
  // The controller may have left units.
  void on_left();
  std::vector<ToManager> TakeAnswers();

  // Counts messages that were refused, which change nothing.
  uint64_t refused() const { return refused_; }
  // The sum of all shares of the unit, also of those that are ending.
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

#endif  // SNF_PLATFORM_MANAGER_HELD_UNITS_H_
