// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_KEPT_BY_UNITS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_KEPT_BY_UNITS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "runtime/shell/kept_report.h"

namespace snf {

// Keeps, with each unit of a run in virtual time, what only the controller has
// said of the unit, for the reports to a successor (KeptReport): the names of
// flows, the pieces of pools, and the unit's incarnation.
//
// Owner-thread only.
class KeptByUnits {
 public:
  // All references must outlive the object.
  KeptByUnits(uint32_t max_units, VirtualUnits& units, VirtualNetwork& network)
      : units_(units), network_(network), of_units_(max_units) {}

  // The controller sends the name of a flow to the unit, which hears of it by
  // the event kNameAtUnit.
  void SendName(UnitId unit, const FlowName& name);
  void on_name(const VirtualEvent& event);
  // The event was never sent.
  void LoseName(const VirtualEvent& event) { names_.erase(event.number); }
  // The unit gets kStartUnit.
  void on_start(const ControllerCommand& command);
  void on_grant(const PieceBlock& pieces);
  void on_grants_logged(UnitId unit, uint64_t number) {
    of_units_[value(unit)].kept.on_grants_logged(number);
  }
  void on_grants_sealed(UnitId unit, uint64_t logged) {
    of_units_[value(unit)].kept.on_grants_sealed(logged);
  }
  void on_returned(const PieceBlock& pieces) {
    of_units_[value(pieces.unit)].kept.on_returned(pieces);
  }

  KeptReport& report(UnitId unit) { return of_units_[value(unit)].kept; }
  // Returns 0 for a unit that was never started.
  uint32_t incarnation(UnitId unit) const {
    return of_units_[value(unit)].incarnation;
  }

 private:
  struct OfUnit {
    KeptReport kept;
    uint32_t incarnation = 0;
  };

  static bool Keeps(const VirtualUnit& shell, FlowId flow);

  VirtualUnits& units_;
  VirtualNetwork& network_;
  std::vector<OfUnit> of_units_;        // by number
  std::map<uint64_t, FlowName> names_;  // on their way
  uint64_t last_name_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_KEPT_BY_UNITS_H_
