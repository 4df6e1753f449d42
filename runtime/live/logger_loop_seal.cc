// SPDX-License-Identifier: Apache-2.0
//
// What a loop of loggers does when the process of their units has ended.
#include <utility>

#include "controller/core/commands.h"
#include "runtime/live/logger_loop.h"

namespace snf {

// Returns true if there was anything to do. `has_drained` says that nothing was
// in the ring of entries in this turn.
bool LoggerLoop::Recover(bool has_drained) {
  LoggerLoopLinks::Recovery& links = *links_.recovery;
  links.from_controller.Receive();
  const size_t orders = links.from_controller.Handle(
      [](const Cell&) { return size_t{0}; },
      [this](const Cell& cell, std::span<const std::byte>) {
        on_seal(cell.As<ControllerCommand>().seal);
      });
  // Read after the Seals: an end that these follow is seen.
  const uint32_t ends = links.control->ends.load(std::memory_order_acquire);
  if (ends != ends_) {
    // What was published before its end was seen is here by now.
    if (!has_drained || links_.from_units.has_items()) return true;
    links_.from_units.SkipAll();
    links.to_units.SkipAll();
    ends_ = ends;
    links.control->drained.store(ends, std::memory_order_release);
  }
  return ReportSome() || orders > 0;
}

// Of several Seals of a unit that come together, only the last is answered.
// What they seal may still be in the ring.
void LoggerLoop::on_seal(const Seal& seal) {
  if (value(seal.unit) >= sealed_.size() ||
      value(seal.unit) % options_.loops != options_.index) {
    words_->Refuse(kNoUnit, "seal", "unit", value(seal.unit));
    links_.recovery->from_controller.Close();
    return;
  }
  Sealed& sealed = sealed_[value(seal.unit)];
  sealed.seal = seal;
  sealed.is_new = true;
  if (!std::exchange(sealed.reports, true)) ++reporting_;
}

// A Seal is about a process that has ended: one that is sealed, or has begun
// anew since, only reports.
void LoggerLoop::Obey(UnitId unit) {
  OutputLogger& logger = LoggerOf(unit, incarnation() - 1);
  const bool has_begun = incarnation_[value(unit)] == incarnation();
  if (sealed_[value(unit)].seal.is_sealed || logger.sealed() || has_begun) {
    logger.Report();
  } else {
    logger.Seal();
  }
}

// Returns true if there is a report under way.
bool LoggerLoop::ReportSome() {
  if (reporting_ == 0) [[likely]]
    return false;
  for (size_t i = 0; i < sealed_.size(); ++i) {
    if (!sealed_[i].reports) continue;
    const UnitId unit{static_cast<uint16_t>(i)};
    if (std::exchange(sealed_[i].is_new, false)) Obey(unit);
    out_.clear();
    loggers_[i]->Resume(out_);
    for (const LoggerCommand& command : out_.commands()) Report(unit, command);
  }
  return true;
}

void LoggerLoop::Report(UnitId unit, const LoggerCommand& command) {
  using Kind = LoggerCommand::Kind;
  Sealed& sealed = sealed_[value(unit)];
  DoneAnswer answer = {.round = sealed.seal.round, .unit = unit};
  switch (command.kind) {
    case Kind::kTell:
      return;  // the controller was told with the entry
    case Kind::kFreePieces: {
      PieceBlock pieces = command.pieces;
      pieces.unit = unit;
      return Send(unit, UnitCommand::Return(pieces));
    }
    case Kind::kApplied:
      answer.flow = command.applied.flow;
      answer.applied = command.applied.clock;
      Send(unit, UnitCommand::Done(answer));
      // The controller knows of the end, by a word that is ahead of this one.
      if (command.applied.ended) {
        loggers_[value(unit)]->on_end_ack(answer.flow, answer.applied);
      }
      return;
    case Kind::kSealed:
      // Else another process has grants by now, with numbers of its own.
      if (!sealed.seal.is_sealed &&
          incarnation_[value(unit)] != incarnation()) {
        Send(unit, UnitCommand::Grants(command.sealed.grant));
      }
      Send(unit, UnitCommand::Done(answer));
      sealed.reports = false;
      --reporting_;
      return;
    default:
      // Entries come in order. One that did not was refused, and waits; what it
      // drops now was never released, and the controller has it still.
      return;
  }
}

// The next process of the units has something of this one.
void LoggerLoop::BeginAnew(UnitId unit) {
  OutputLogger& logger = *loggers_[value(unit)];
  logger.Seal();
  while (logger.has_more()) {
    out_.clear();
    logger.Resume(out_);
    const Sealed& sealed = sealed_[value(unit)];
    if (!sealed.reports || sealed.is_new) continue;
    for (const LoggerCommand& command : out_.commands()) Report(unit, command);
  }
  incarnation_[value(unit)] = incarnation();
  logger.Begin(incarnation());
}

void LoggerLoop::on_pull(UnitId unit, const Pull& pull) {
  if (!links_.recovery.has_value()) {
    words_->Refuse(unit, "log word", "kind",
                   static_cast<uint8_t>(LogWord::Kind::kPull));
    links_.from_units.Close();
    return;
  }
  LoggerLoop& of_unit = *all_[value(unit) % options_.loops];
  OutputLogger* const logger = of_unit.logger(unit);
  if (logger == nullptr) return;
  out_.clear();
  logger->on_pull(pull, out_);
  for (const LoggerCommand& command : out_.commands()) {
    SendState(
        command,
        logger->state_bytes(command.state.flow).first(command.state.bytes));
  }
}

// One for which there is no room is lost: the unit asks again.
void LoggerLoop::SendState(const LoggerCommand& command,
                           std::span<const std::byte> record) {
  LinkOut& to_units = links_.recovery->to_units;
  if (!to_units.has_room(record.size())) return;
  to_units.Send(UnitCommand::Send(command.unit, command.state), record);
}

}  // namespace snf
