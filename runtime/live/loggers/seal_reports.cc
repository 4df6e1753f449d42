// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/seal_reports.h"

#include <utility>

namespace snf {

SealReports::SealReports(LoopLoggers& loggers,
                         std::optional<LoggerLedger>& ledger)
    : loggers_(loggers), ledger_(ledger), sealed_(loggers.units()) {}

// Entries that the Seal is about may still be in the ring.
void SealReports::on_seal(const Seal& seal) {
  Sealed& sealed = sealed_[value(seal.unit)];
  sealed.seal = seal;
  sealed.is_new = true;
  if (!std::exchange(sealed.reports, true)) ++reporting_;
}

void SealReports::Obey(UnitId unit) {
  OutputLogger& logger = loggers_.Of(unit, loggers_.incarnation() - 1);
  if (sealed_[value(unit)].seal.is_sealed || logger.sealed() ||
      loggers_.is_of_now(unit)) {
    logger.Report();
  } else {
    logger.Seal();
  }
}

void SealReports::GoOn() {
  for (size_t i = 0; i < sealed_.size(); ++i) {
    if (!sealed_[i].reports) continue;
    const UnitId unit{static_cast<uint16_t>(i)};
    if (std::exchange(sealed_[i].is_new, false)) Obey(unit);
    out_.clear();
    loggers_[unit].Resume(out_);
    for (const LoggerCommand& command : out_.commands()) Report(unit, command);
  }
}

void SealReports::Report(UnitId unit, const LoggerCommand& command) {
  using Kind = LoggerCommand::Kind;
  Sealed& sealed = sealed_[value(unit)];
  DoneAnswer answer = {.round = sealed.seal.round, .unit = unit};
  switch (command.kind) {
    case Kind::kTell:
      return;  // the controller was told with the entry
    case Kind::kFreePieces: {
      PieceBlock pieces = command.pieces;
      pieces.unit = unit;
      if (ledger_.has_value()) ledger_->TurnOver(pieces);
      return Say(unit, UnitCommand::Return(pieces));
    }
    case Kind::kApplied:
      answer.flow = command.applied.flow;
      answer.applied = command.applied.clock;
      Say(unit, UnitCommand::Done(answer));
      // The controller knows of the end, by a word that is ahead of this one.
      if (command.applied.ended) {
        loggers_[unit].on_end_ack(answer.flow, answer.applied);
      }
      return;
    case Kind::kSealed:
      // Else another process has grants by now, with numbers of its own.
      if (!sealed.seal.is_sealed && !loggers_.is_of_now(unit)) {
        Say(unit, UnitCommand::Grants(command.sealed.grant));
      }
      Say(unit, UnitCommand::Done(answer));
      sealed.reports = false;
      --reporting_;
      return;
    default:
      // An entry out of order was refused, and waits. Packets that the logger
      // drops with it now were never released: the controller has them still.
      return;
  }
}

}  // namespace snf
