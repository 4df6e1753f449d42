// SPDX-License-Identifier: Apache-2.0
#include "controller/live/loop_words.h"

#include "base/byte_order.h"
#include "base/check.h"
#include "controller/live/loop_recovery.h"
#include "controller/live/unled_loop.h"
#include "runtime/wire/link_payload.h"

namespace snf {

void LoopWords::Take(Instant now, size_t loop, bool of_logger, const Cell& cell,
                     std::span<const std::byte> payload,
                     ControllerEvents& events) {
  using Kind = UnitCommand::Kind;
  parts_.out.clear();
  // Loggers forward other words of units.
  const bool is_loggers = of_logger && cell.is_table();
  if (!parts_.links.words(loop, is_loggers).IsSound(cell, payload)) {
    parts_.links.in(loop, is_loggers).Close();
    return;
  }
  if (cell.is_table()) {
    parts_.tables.Take(now, LoadAs<TableMessage>(payload.data()), parts_.links);
    return;
  }
  const auto& command = cell.As<UnitCommand>();
  switch (command.kind) {
    case Kind::kReportTakeover:
      parts_.controller.on_takeover(command.takeover);
      break;
    case Kind::kSendAlias:
      on_alias(LoadAs<Alias>(payload.data()), events);
      break;
    case Kind::kSendNote:
    case Kind::kSendEnded:
      TakeTell(now, command, events);
      break;
    case Kind::kSendTimerDue:
      parts_.controller.on_timer_due(now, command.timer_due, parts_.out);
      break;
    case Kind::kRequestPieces:
      parts_.controller.on_piece_request(now, command.request, parts_.out);
      break;
    case Kind::kReturnPieces:
      parts_.controller.on_pieces_returned(now, command.pieces, parts_.out);
      break;
    case Kind::kStopped:
      on_stopped(now, command.unit, events);
      break;
    case Kind::kShowState:
      events.on_state(command.state, payload);
      break;
    case Kind::kSendDone:
      SNF_CHECK(parts_.recovery.has_value());
      parts_.recovery->on_done(command.done, of_logger, events);
      break;
    case Kind::kSendGrants:
      SNF_CHECK(parts_.recovery.has_value());
      parts_.controller.on_grants_sealed(now, command.unit, command.grants,
                                         parts_.out);
      break;
    default:
      // A new process of loggers reports again if its predecessor may not have
      // finished.
      if (of_logger && parts_.unled.has_value() &&
          parts_.unled->succession().begun()) {
        break;
      }
      // No controller has asked for a report.
      parts_.links.Refuse(command.unit, "report", "kind",
                          static_cast<uint8_t>(command.kind));
  }
}

void LoopWords::TakeTell(Instant now, const UnitCommand& word,
                         ControllerEvents& events) {
  parts_.out.clear();
  if (word.kind == UnitCommand::Kind::kSendEnded) {
    parts_.controller.on_ended(word.ended.flow);
    return;
  }
  if (word.note.over) events.on_alias_over(word.note.flow, word.note.clock);
  parts_.controller.on_flow_note(now, word.note, parts_.out);
  if (parts_.unled.has_value()) parts_.unled->Note(word);
}

void LoopWords::on_stopped(Instant now, UnitId unit, ControllerEvents& events) {
  const bool is_leased = parts_.commands.is_leased();
  if (parts_.controller.on_unit_stopped(unit)) {
    if (!is_leased) return;
    left_.push_back(unit);
    parts_.commands.SetUp(now, unit, false, events);
  } else if (!is_leased && !parts_.recovery.has_value()) {
    // Otherwise a lease, or a recovery that found no other unit, has withdrawn
    // the Stop; or the unit has failed as it stopped.
    parts_.links.Refuse(unit, "stopped", "flows",
                        parts_.controller.units().owned_flows(unit));
  }
}

void LoopWords::on_alias(const Alias& alias, ControllerEvents& events) {
  if (parts_.controller.on_alias(alias, parts_.out) != AliasResult::kGranted)
    return;
  events.on_alias_granted(
      alias, parts_.controller.flows().hot(slot_of(alias.flow)).key);
}

}  // namespace snf
