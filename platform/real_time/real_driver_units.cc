// SPDX-License-Identifier: Apache-2.0
//
// What units made of packets, and what they ask of the controller.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "platform/real_time/real_driver.h"

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
      controller_.on_takeover(command.takeover);
      return;
    case Kind::kSendAlias: {
      Alias alias;
      SNF_CHECK(payload.size() == sizeof alias);
      std::memcpy(&alias, payload.data(), sizeof alias);
      on_alias(alias);
      break;
    }
    case Kind::kSendNote:
      if (command.note.over) {
        ingress_.ForgetAlias(command.note.flow, command.note.clock);
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
  if (command.kind == UnitCommand::Kind::kDropPayload) [[unlikely]] {
    CountDrop(command.reason);
    ShowDrop(command.packet, RouteOf(command), ToString(command.reason));
    Free(command.packet);
    return;
  }
  const bool is_first =
      order_.On(command, [this](const UnitCommand& next) { EndPacket(next); });
  if (!is_first) [[unlikely]]
    EndTwice(command);
}

void RealDriver::EndTwice(const UnitCommand& command) {
  Violation(fmt::format("I3: clock {} of a flow ended twice",
                        value(command.meta.clock)));
  EndPacket(command);
}

inline void RealDriver::Drained(const UnitCommand& command) {
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

inline void RealDriver::Release(const UnitCommand& command, bool is_generated) {
  const PacketMeta& meta = command.meta;
  ++result_.packets_released;
  if (is_generated) {
    ++result_.packets_generated;
  } else {
    const Nanos latency = now_ - meta.arrival;
    if (latency != latency_) RecordLatency();
    latency_ = latency;
    ++packets_of_latency_;
  }
  if (options_.check) digest_.Add(meta.flow, buffers_.bytes(command.packet));
  if (sink_ != nullptr) ShowRelease(command);
  const bool comes_back =
      result_.aliases.has_sides && !is_generated && BringBack(command.packet);
  if (!comes_back) Free(command.packet);
}

void RealDriver::EndPacket(const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  const bool is_generated = command.kind == Kind::kEmit;
  if (command.kind == Kind::kRelease || is_generated) [[likely]] {
    Release(command, is_generated);
  } else {
    EndUnreleased(command);
  }
  if (!is_generated) Drained(command);
}

void RealDriver::EndUnreleased(const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  switch (command.kind) {
    case Kind::kAdvance:
      ++((command.meta.flags & PacketMeta::kNull) != 0
             ? result_.state.null_packets
             : result_.state.tombstones);
      return;
    case Kind::kNfDrop:
      ++result_.nf_dropped[command.nf_reason];
      provisioning_.on_dropped(now_);
      ShowDrop(command.packet, RouteOf(command),
               result_.nf_drop_names[command.nf_reason]);
      break;
    case Kind::kDrop:
      CountDrop(command.reason);
      ShowDrop(command.packet, RouteOf(command), ToString(command.reason));
      break;
    case Kind::kConsume:
      ++result_.packets_consumed;
      break;
    default:
      SNF_CHECK(false);
  }
  Free(command.packet);
}

void RealDriver::on_alias(const Alias& alias) {
  controller_.on_alias(alias, out_);
  for (const ControllerCommand& command : out_.commands()) {
    if (command.kind != ControllerCommand::Kind::kAliasAck ||
        command.alias_ack.result != AliasResult::kGranted) {
      continue;
    }
    ingress_.on_alias(alias, controller_.flows().hot(slot_of(alias.flow)).key);
    AliasFigures& figures = result_.aliases;
    figures.at_once_max =
        std::max<uint64_t>(figures.at_once_max, ingress_.aliases());
  }
}

void RealDriver::on_table(const TableMessage& message) {
  tables_.Count(message);
  tables_.on_message(now_, message, [this](const TableMessage& answer) {
    SendToUnit(answer);
  });
}

void RealDriver::SendToUnit(const TableMessage& message) {
  tables_.Count(message);
  link_to_[value(message.unit)]->Send(Cell::OfTable(),
                                      std::as_bytes(std::span(&message, 1)));
}

// Whether the network would bring back what was released: then it arrives.
bool RealDriver::BringBack(PacketHandle packet) {
  const std::optional<FlowKey> to = ingress_.ComesBack(now_, packet);
  if (!to.has_value()) return false;
  ++result_.aliases.packets_hairpinned;
  PacketInfo& info = buffers_.info(packet);
  info.arrival = now_;
  provisioning_.on_offered(now_, info.original_length);
  Arrive({.fate = Ingress::Taken::Fate::kPacket,
          .by_alias = true,
          .packet = packet,
          .key = &*to},
         now_, info.original_length);
  return true;
}

void RealDriver::ShowRelease(const UnitCommand& command) {
  sink_->on_release(
      ReleasedPacket::Of(now_, buffers_, command.packet, RouteOf(command)));
}

PacketRoute RealDriver::RouteOf(const UnitCommand& command) const {
  return {.unit = command.unit,
          .flowlet = command.meta.flowlet,
          .clock = command.meta.clock,
          .latency = now_ - command.meta.arrival,
          .generated = command.kind == UnitCommand::Kind::kEmit};
}

void RealDriver::SendHome(PacketHandle packet) {
  const auto party = static_cast<size_t>(buffers_.owner(packet));
  SNF_CHECK(party > 0);
  crews_[party - 1].out.Send(ControllerCommand::Drop(packet, {}));
}

void RealDriver::RecordLatency() {
  if (packets_of_latency_ == 0) return;
  result_.latency_ns.Record(latency_.ns, packets_of_latency_);
  packets_of_latency_ = 0;
}

void RealDriver::ReportDrained() {
  RecordLatency();
  if (drained_.packets == 0) return;
  provisioning_.on_drained(now_, drained_.unit, drained_payloads_.packets,
                           drained_payloads_.bytes);
  controller_.on_drained(now_, drained_);
  drained_ = {};
  drained_payloads_ = {};
}

}  // namespace snf
