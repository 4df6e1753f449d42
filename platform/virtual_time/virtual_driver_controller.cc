// SPDX-License-Identifier: Apache-2.0
//
// What reaches the controller from units: about aliases, pieces and flows; and
// packets that come back.
#include "base/check.h"
#include "platform/virtual_time/virtual_driver.h"
#include "platform/virtual_time/virtual_driver_event.h"

namespace snf {
void VirtualDriver::HandleAtController(const Event& event) {
  controller_out_.clear();
  switch (event.kind) {
    case Event::Kind::kTookAtController:
      controller_.on_takeover(event.takeover);
      return;
    case Event::Kind::kStoppedAtController:
      controller_.on_unit_stopped(event.unit);
      return;
    case Event::Kind::kHairpin:
      on_hairpin(event);
      return;
    case Event::Kind::kAliasAtController:
      on_alias_at_controller();
      break;
    case Event::Kind::kNoteAtController:
      observers_.on_flow_note(event.note);
      if (event.note.over) {
        ingress_.ForgetAlias(event.note.flow, event.note.clock);
      }
      controller_.on_flow_note(now_, event.note, controller_out_);
      break;
    case Event::Kind::kPieceRequestAtController:
      controller_.on_piece_request(now_, event.piece_request, controller_out_);
      break;
    case Event::Kind::kPiecesAtController:
      observers_.on_pieces_returned(now_, event.pieces);
      controller_.on_pieces_returned(now_, event.pieces, controller_out_);
      break;
    default:
      SNF_CHECK(false);
  }
  ExecuteAll();
}

void VirtualDriver::on_alias_at_controller() {
  const Alias alias = aliases_.front();
  aliases_.pop_front();
  controller_.on_alias(alias, controller_out_);
  for (const ControllerCommand& command : controller_out_.commands()) {
    if (command.kind != ControllerCommand::Kind::kAliasAck) continue;
    const AliasResult result = command.alias_ack.result;
    observers_.on_alias(now_, alias, result);
    if (result != AliasResult::kGranted) continue;
    const FlowKey& inside = controller_.flows().hot(slot_of(alias.flow)).key;
    ingress_.on_alias(alias, inside);
  }
}

void VirtualDriver::on_hairpin(const Event& event) {
  PacketInfo& info = buffers_.info(event.packet);
  info.arrival = now_;
  observers_.on_arrival(now_, ingress_.FlowOf(event.key), info.original_length);
  Arrive(event.key, true, event.packet);
}

}  // namespace snf
