// SPDX-License-Identifier: Apache-2.0
//
// What units made of packets, and what they ask of the controller.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "platform/real_driver.h"

namespace snf {

void RealDriver::Handle(const UnitCommand& command,
                        std::span<const std::byte> payload) {
  using Kind = UnitCommand::Kind;
  if (command.kind <= Kind::kDropPayload) {
    HandlePacket(command);
    return;
  }
  ReportDrained();
  out_.clear();
  switch (command.kind) {
    case Kind::kReportTook:
      controller_.on_took(command.took);
      return;
    case Kind::kSendAlias: {
      Alias alias;
      SNF_CHECK(payload.size() == sizeof alias);
      std::memcpy(&alias, payload.data(), sizeof alias);
      OnAlias(alias);
      break;
    }
    case Kind::kSendNote:
      if (command.note.over) {
        intake_.ForgetAlias(command.note.flow, command.note.clock);
      }
      controller_.on_flow_note(now_, command.note, out_);
      break;
    case Kind::kRequestPieces:
      controller_.on_piece_request(now_, command.request, out_);
      break;
    case Kind::kReturnPieces:
      controller_.on_pieces_returned(now_, command.pieces, out_);
      break;
    case Kind::kStopped:
      controller_.on_unit_stopped(command.unit);
      return;
    default:
      SNF_CHECK(false);
  }
  ExecuteAll();
}

void RealDriver::HandlePacket(const UnitCommand& command) {
  if (command.kind == UnitCommand::Kind::kDropPayload) {
    CountDrop(command.reason);
    ShowDrop(command.packet, RouteOf(command), ToString(command.reason));
    Free(command.packet);
    return;
  }
  const bool is_first =
      order_.On(command, [this](const UnitCommand& next) { EndPacket(next); });
  if (is_first) return;
  Violation(fmt::format("I3: clock {} of a flow ended twice",
                        value(command.meta.clock)));
  EndPacket(command);
}

void RealDriver::EndPacket(const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  switch (command.kind) {
    case Kind::kEmit:
      ++result_.packets_generated;
      Release(command);
      return;
    case Kind::kRelease:
      Release(command);
      break;
    case Kind::kAdvance:
      ++((command.meta.flags & PacketMeta::kNull) != 0
             ? result_.state.null_packets
             : result_.state.tombstones);
      break;
    case Kind::kNfDrop:
      ++result_.nf_dropped[command.nf_reason];
      provisioning_.OnDropped(now_);
      ShowDrop(command.packet, RouteOf(command),
               result_.nf_drop_names[command.nf_reason]);
      Free(command.packet);
      break;
    case Kind::kDrop:
      CountDrop(command.reason);
      ShowDrop(command.packet, RouteOf(command), ToString(command.reason));
      Free(command.packet);
      break;
    case Kind::kConsume:
      ++result_.packets_consumed;
      Free(command.packet);
      break;
    default:
      SNF_CHECK(false);
  }
  Drained(command);
}

void RealDriver::OnAlias(const Alias& alias) {
  controller_.on_alias(alias, out_);
  for (const ControllerCommand& command : out_.commands()) {
    if (command.kind != ControllerCommand::Kind::kAliasAck ||
        command.alias_ack.result != AliasResult::kGranted) {
      continue;
    }
    intake_.OnAlias(alias, controller_.flows().hot(slot_of(alias.flow)).key);
    AliasFigures& figures = result_.aliases;
    figures.at_once_max =
        std::max<uint64_t>(figures.at_once_max, intake_.aliases());
  }
}

void RealDriver::OnTable(const TableMessage& message) {
  tables_.Count(message);
  tables_.OnMessage(now_, message,
                    [this](const TableMessage& answer) { SendToUnit(answer); });
}

void RealDriver::SendToUnit(const TableMessage& message) {
  tables_.Count(message);
  link_to_[value(message.unit)]->Send(Cell::OfTable(),
                                      std::as_bytes(std::span(&message, 1)));
}

void RealDriver::Release(const UnitCommand& command) {
  const bool is_generated = command.kind == UnitCommand::Kind::kEmit;
  const PacketMeta& meta = command.meta;
  const auto& [info, bytes] = pool_.view(command.packet);
  ++result_.packets_released;
  if (!is_generated) result_.latency_ns.Record((now_ - meta.arrival).ns);
  if (options_.check) digest_.Add(meta.flow, bytes);
  if (sink_ != nullptr) {
    sink_->OnRelease({.time = now_,
                      .bytes = bytes,
                      .original_length = info.original_length,
                      .link = info.link,
                      .route = RouteOf(command)});
  }
  std::optional<FlowKey> to;
  if (!is_generated) to = intake_.ComesBack(now_, command.packet);
  if (!to.has_value()) {
    Free(command.packet);
    return;
  }
  ++result_.aliases.packets_hairpinned;
  info.arrival = now_;
  provisioning_.OnOffered(now_, info.original_length);
  Arrive({.fate = Intake::Taken::Fate::kPacket,
          .by_alias = true,
          .key = *to,
          .flow = {},
          .packet = command.packet},
         info);
}

PacketRoute RealDriver::RouteOf(const UnitCommand& command) const {
  return {.unit = command.unit,
          .flowlet = command.meta.flowlet,
          .clock = command.meta.clock,
          .latency = now_ - command.meta.arrival,
          .generated = command.kind == UnitCommand::Kind::kEmit};
}

void RealDriver::Free(PacketHandle packet) {
  const auto party = static_cast<size_t>(pool_.owner(packet));
  if (party == 0) {
    pool_.Free(packet);
  } else {
    crews_[party - 1].out.Send(ControllerCommand::Drop(packet, {}));
  }
}

void RealDriver::Drained(const UnitCommand& command) {
  const PacketMeta& meta = command.meta;
  --in_channels_;
  if (under_way_.size() > 0) --under_way_[slot_of(meta.flow)];
  if (drained_.unit != command.unit) ReportDrained();
  drained_.unit = command.unit;
  ++drained_.packets;
  drained_.bytes += meta.original_length;
  if (!meta.has_payload()) return;
  ++drained_payloads_.packets;
  drained_payloads_.bytes += meta.original_length;
}

void RealDriver::ReportDrained() {
  if (drained_.packets == 0) return;
  provisioning_.OnDrained(now_, drained_.unit, drained_payloads_.packets,
                          drained_payloads_.bytes);
  controller_.on_drained(now_, drained_);
  drained_ = {};
  drained_payloads_ = {};
}

}  // namespace snf
