// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_WIRE_LINK_PAYLOAD_H_
#define SNF_RUNTIME_WIRE_LINK_PAYLOAD_H_

#include <algorithm>
#include <cstddef>

#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/messages/unit_commands.h"
#include "runtime/ring/thread_link.h"
#include "runtime/tables/table_message.h"

// How long the payloads of messages are on the links between the loops of a
// controller and of units. Each function takes a message's first cell.
namespace snf {

// The longest record that goes between units and a controller.
inline constexpr size_t kMaxShownBytes = 1'024;
// A state that is longer is shown without its record.
inline size_t RecordBytesOfShown(const State& state) {
  return state.bytes <= kMaxShownBytes ? state.bytes : 0;
}

// On a link from a controller.
inline size_t PayloadFromController(const Cell& cell) {
  if (cell.is_table()) return sizeof(TableMessage);
  const auto& command = cell.As<ControllerCommand>();
  switch (command.kind) {
    case ControllerCommand::Kind::kName:
      return sizeof(FlowName);
    case ControllerCommand::Kind::kTakeState:
      return command.state.bytes;
    default:
      return 0;
  }
}
inline constexpr size_t kMaxPayloadFromController =
    std::max({sizeof(TableMessage), sizeof(FlowName), kMaxShownBytes});

// On a link from units to a controller.
inline size_t PayloadToController(const Cell& cell) {
  if (cell.is_table()) return sizeof(TableMessage);
  const auto& command = cell.As<UnitCommand>();
  switch (command.kind) {
    case UnitCommand::Kind::kSendAlias:
      return sizeof(Alias);
    case UnitCommand::Kind::kShowState:
      return RecordBytesOfShown(command.state);
    case UnitCommand::Kind::kReportName:
      return sizeof(FlowName);
    default:
      return 0;
  }
}
inline constexpr size_t kMaxPayloadToController = std::max(
    {sizeof(Alias), sizeof(TableMessage), sizeof(FlowName), kMaxShownBytes});

// On a link from units to units: a record of state.
inline size_t PayloadBetweenUnits(const Cell& cell) {
  const auto& message = cell.As<UnitCommand>();
  return message.kind == UnitCommand::Kind::kSendState ? message.state.bytes
                                                       : 0;
}

}  // namespace snf

#endif  // SNF_RUNTIME_WIRE_LINK_PAYLOAD_H_
