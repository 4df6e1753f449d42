// SPDX-License-Identifier: Apache-2.0
//
// What reaches the controller from units: about aliases, pieces and flows; and
// the two sides of the traffic.
#include <algorithm>

#include "base/check.h"
#include "base/endpoint.h"
#include "base/rewrite.h"
#include "platform/virtual_driver.h"
#include "platform/virtual_driver_event.h"

namespace snf {
namespace {

bool Returns(const UnitOut& out) {
  return std::ranges::any_of(out.commands(), [](const UnitCommand& command) {
    return command.kind == UnitCommand::Kind::kReturnPieces;
  });
}

// That what was asked for is all back.
bool ReturnsAll(const UnitOut& out, uint16_t pool) {
  return std::ranges::any_of(out.commands(), [=](const UnitCommand& command) {
    return command.kind == UnitCommand::Kind::kReturnPieces &&
           command.pieces.pool == pool && command.pieces.mask == 0;
  });
}

void SetSide(PacketInfo& info, Side side, const Endpoints& ends) {
  const FlowKey& far_end = side == Side::kOutside ? ends.from : ends.to;
  info.side = side;
  info.far_address = far_end.source;
  info.far_port = far_end.source_port;
}

}  // namespace

void VirtualDriver::HandleAtController(const Event& event) {
  controller_out_.clear();
  switch (event.kind) {
    case Event::Kind::kTookAtController:
      controller_.on_took(event.took);
      return;
    case Event::Kind::kStoppedAtController:
      controller_.on_unit_stopped(event.unit);
      return;
    case Event::Kind::kHairpin:
      OnHairpin(event);
      return;
    case Event::Kind::kAliasAtController:
      OnAliasAtController();
      break;
    case Event::Kind::kNoteAtController:
      if (options_.check) checker_.OnFlowNote(event.note);
      if (event.note.over) ForgetAlias(event.note.flow, event.note.clock);
      controller_.on_flow_note(now_, event.note, controller_out_);
      break;
    case Event::Kind::kPieceRequestAtController:
      controller_.on_piece_request(now_, event.piece_request, controller_out_);
      break;
    case Event::Kind::kPiecesAtController:
      if (options_.check) checker_.OnPiecesReturned(now_, event.pieces);
      controller_.on_pieces_returned(now_, event.pieces, controller_out_);
      break;
    default:
      SNF_CHECK(false);
  }
  ExecuteAll();
}

void VirtualDriver::OnAliasAtController() {
  const Alias alias = aliases_.front();
  aliases_.pop_front();
  controller_.on_alias(alias, controller_out_);
  for (const ControllerCommand& command : controller_out_.commands()) {
    if (command.kind != ControllerCommand::Kind::kAliasAck) continue;
    const AliasResult result = command.alias_ack.result;
    if (options_.check) checker_.OnAlias(now_, alias, result);
    if (result != AliasResult::kGranted) continue;
    const FlowKey& inside = controller_.flows().hot(slot_of(alias.flow)).key;
    announced_[alias.flow] = {.inside = inside, .clock = alias.clock};
    far_side_.OnAlias(inside, alias.key);
    AliasFigures& figures = result_.aliases;
    figures.at_once_max =
        std::max<uint64_t>(figures.at_once_max, announced_.size());
  }
}

void VirtualDriver::ForgetAlias(FlowId flow, Clock clock) {
  const auto announced = announced_.find(flow);
  if (announced == announced_.end() || announced->second.clock > clock) return;
  far_side_.OnFlowOver(announced->second.inside);
  announced_.erase(announced);
}

// False, and the packet is gone, if the far side cannot have sent it.
bool VirtualDriver::PutOnSide(PacketHandle packet,
                              const FarSide::Placed& placed,
                              const Endpoints& ends) {
  PacketInfo& info = pool_.info(packet);
  SetSide(info, placed.side, ends);
  if (placed.untranslated) {
    CountDrop(kNoFlow, Clock{}, DropReason::kNotTranslated);
    pool_.Free(packet);
    return false;
  }
  if (placed.rewrite && placed.key.form == FlowKeyForm::kIpv4Endpoint) {
    RewriteDestination(pool_.bytes(packet), info.headers,
                       placed.key.source.ipv4(), placed.key.source_port);
  }
  return true;
}

// A packet from the outside is not sent back there once more, nor is one of the
// NF's own making.
bool VirtualDriver::ComesBack(const Event& released, FlowKey& to) {
  if (released.generated) return false;
  PacketInfo& info = pool_.info(released.packet);
  if (info.side != Side::kInside) return false;
  ParsedPacket headers;
  FlowKey connection;
  const Direction direction = released_.Classify(
      now_, info.link, pool_.bytes(released.packet), headers, connection);
  if (direction == Direction::kNone || !HasEnds(connection)) return false;
  const Endpoints ends = EndpointsOf(connection, direction);
  to = ends.to;
  if (far_side_.InsideOf(to) == nullptr) return false;
  SetSide(info, Side::kOutside, ends);
  return true;
}

void VirtualDriver::OnHairpin(const Event& event) {
  PacketInfo& info = pool_.info(event.packet);
  info.arrival = now_;
  provisioning_.OnOffered(now_, info.original_length);
  if (observer_ != nullptr) {
    const FlowKey* const inside = far_side_.InsideOf(event.key);
    observer_->OnArrival(now_, inside != nullptr ? *inside : event.key,
                         info.original_length);
  }
  Arrive(event.key, true, event.packet);
}

void VirtualDriver::ReclaimAt(UnitShell& shell, uint16_t pool) {
  shell.unit.on_reclaim(pool, unit_out_);
  // One that serves packets returns the others meanwhile.
  while (!shell.ready && Returns(unit_out_) && !ReturnsAll(unit_out_, pool)) {
    ExecuteAll(shell);
    unit_out_.clear();
    shell.unit.on_reclaim(pool, unit_out_);
  }
}

void VirtualDriver::StopAt(UnitShell& shell) {
  shell.unit.on_stop(unit_out_);
  while (Returns(unit_out_)) {
    ExecuteAll(shell);
    unit_out_.clear();
    shell.unit.on_stop(unit_out_);
  }
}

}  // namespace snf
