// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/kept_by_units.h"

#include "platform/drivers/virtual_time/log_channel.h"

namespace snf {

void KeptByUnits::SendName(UnitId unit, const FlowName& name) {
  names_.emplace(++last_name_, name);
  network_.AfterHop({.kind = VirtualEvent::Kind::kNameAtUnit,
                     .unit = unit,
                     .number = last_name_});
}

void KeptByUnits::on_name(const VirtualEvent& event) {
  const auto name = names_.extract(event.number);
  VirtualUnit& shell = units_.of(event.unit);
  if (!shell.process.lives()) return;
  report(event.unit).on_name(name.mapped(), [&](FlowId flow) {
    return Keeps(shell, flow);
  });
}

void KeptByUnits::on_start(const ControllerCommand& command) {
  OfUnit& of = of_units_[value(command.unit)];
  of.incarnation = command.incarnation;
  const VirtualUnit& shell = units_.of(command.unit);
  if (!command.warm) {
    // If an earlier start has failed, packets may wait in the channel.
    of.kept.BeginAnew([&](FlowId flow) { return Keeps(shell, flow); });
  }
}

void KeptByUnits::on_grant(const PieceBlock& pieces) {
  if (pieces.mask != 0) report(pieces.unit).on_grant(pieces);
}

// Returns true if the unit has anything of the flow.
bool KeptByUnits::Keeps(const VirtualUnit& shell, FlowId flow) {
  if (shell.unit.Keeps(flow)) return true;
  if (shell.log->logger().applied(flow) != Clock{}) return true;
  const auto& inside = shell.process.inside;
  const auto packet = inside.lower_bound({flow, Clock{}});
  return packet != inside.end() && packet->first.first == flow;
}

}  // namespace snf
