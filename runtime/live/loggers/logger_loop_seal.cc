// SPDX-License-Identifier: Apache-2.0
//
// The part of a loop of loggers that recovers: when the process of their units
// has ended, or its own, which another one replaces; and updates of shared
// tables, which no end of a process may lose.
#include <algorithm>
#include <span>

#include "base/byte_order.h"
#include "base/messages/controller_commands.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/ring/real_clock.h"

namespace snf {

// Returns true if there was anything to do. `has_drained` says that nothing was
// in the ring of entries in this turn.
bool LoggerLoop::Recover(bool has_drained) {
  LoggerLoopLinks::Recovery& links = *links_.recovery;
  // What the controller has ordered and seen before it asked is here by then.
  const uint32_t asked = links.control->asked.load(std::memory_order_acquire);
  links.from_controller.ReceiveKept();
  const size_t orders = links.from_controller.Handle(
      *order_words_,
      [this](const Cell& cell, std::span<const std::byte> payload) {
        if (cell.is_table()) {
          on_home(LoadAs<TableMessage>(payload.data()));
        } else {
          on_order(cell.As<ControllerCommand>());
        }
      });
  links.from_controller.Release();
  // Read after the Seals: an end that these follow is seen.
  const uint32_t ends = links.control->ends.load(std::memory_order_acquire);
  if (ends != loggers_.ends()) {
    // What was published before its end was seen is here by now.
    if (!has_drained || links_.from_units.has_items()) return true;
    awaits_homes_ = !loggers_.updates().Hurry();
    if (awaits_homes_) return orders > 0;
    links_.from_units.SkipAll();
    links.to_units.SkipAll();
    links.kept.SkipAll();
    Note(LogNote::Others::kNone);
    loggers_.on_end(ends);
    links.control->drained.store(ends, std::memory_order_release);
  }
  if (seals_.has_forgets()) [[unlikely]] {
    seals_.ForgetSome(
        [this](UnitId unit, FlowId flow) { fresh_.Erase(unit, flow); });
  }
  if (asked > controller_) [[unlikely]] {
    ReportAlone(asked);
    return true;
  }
  return ReportSome() || orders > 0;
}

void LoggerLoop::on_order(const ControllerCommand& order) {
  using Kind = ControllerCommand::Kind;
  if (value(order.unit) >= loggers_.units() ||
      value(order.unit) % options_.loops != options_.index) {
    words_->Refuse(kNoUnit, "order", "unit", value(order.unit));
    links_.recovery->from_controller.Close();
  } else if (order.kind == Kind::kForget) {
    seals_.on_forget(
        {.flow = order.end.flow, .clock = order.end.last, .taker = order.unit});
  } else {
    seals_.on_seal(order.seal);
  }
}

// Returns true if there is a report under way. What it says is behind all that
// entries led to, as is noted, so that nobody takes one for the other.
bool LoggerLoop::ReportSome() {
  if (!seals_.is_due()) [[likely]]
    return false;
  Publish();
  if (!FlushAndRelease() || sent_before_ > 0) return true;
  Note(LogNote::Others::kAnswers);
  seals_.GoOn();
  seals_.TakeWords(
      [this](const UnitCommand& word) { links_.to_controller.Send(word); });
  return true;
}

// The next process of the units has something of this one.
void LoggerLoop::BeginAnew(UnitId unit) {
  OutputLogger& logger = loggers_[unit];
  logger.Seal();
  while (logger.has_more()) {
    out_.clear();
    logger.Resume(out_);
    for (const LoggerCommand& command : out_.commands()) {
      seals_.on_command(unit, command);
    }
  }
  loggers_.Begin(unit);
  if (kept_.empty()) return;
  fresh_.EraseAllOf(unit);
  kept_[value(unit)].BeginAnew(
      [&](FlowId flow) { return logger.applied(flow) != Clock{}; });
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

// --- In place of another process of loggers. ---

// Goes on where the process before this one has noted that it was.
void LoggerLoop::TakeOver() {
  LoggerLoopLinks::Recovery& links = *links_.recovery;
  kept_words_.emplace(
      UnitsOfLoop(options_.index, options_.loops, options_.max_units),
      loggers_.max_entry_bytes(), *links_.faults);
  loggers_.on_end(links.control->drained.load(std::memory_order_acquire));
  restore_.Begin();
  noted_ = links.note->Read();
  controller_ = noted_.controller;
  if (!links_.from_units.SkipTo(noted_.entries)) {
    Refuse(kNoUnit, "a position before", noted_.entries);
    return;
  }
  if (noted_.others == LogNote::Others::kNone) {
    sent_before_ = links_.to_controller.cells() - noted_.words;
  } else if (noted_.others == LogNote::Others::kReport) {
    reporting_to_ = Reporting::kDue;
  }
  // What came behind a bad word of the process before this one was dropped.
  if (links_.to_controller.cells() < noted_.words) {
    links_.faults->Add({.loop = options_.index,
                        .kind = "words",
                        .field = "position",
                        .value = noted_.words,
                        .of_logger = true});
  }
  Publish();
  links_.units_bell->Ring();
}

// Takes what the units hand over; returns true if there was anything. Where
// they have no process there is nothing: what the last one had is sealed, or
// lost with the process of loggers that was to have it.
bool LoggerLoop::Restore() {
  LoggerLoopLinks::Recovery& links = *links_.recovery;
  const bool have_process =
      links.control->begun.load(std::memory_order_acquire) ==
      links.control->ends.load(std::memory_order_acquire);
  if (!have_process) {
    EndRestore();
    return true;
  }
  links.kept.ReceiveKept();
  bool is_all = false;
  const size_t words = links.kept.Handle(
      *kept_words_, [&](const Cell& cell, std::span<const std::byte>) {
        const KeptWord word = KeptWord::Of(cell);
        is_all |= on_kept(word, word.entry(cell));
      });
  links.kept.Release();
  if (is_all) EndRestore();
  return words > 0;
}

// Returns true if that was all.
bool LoggerLoop::on_kept(const KeptWord& word,
                         std::span<const std::byte> bytes) {
  using Got = LoggerRestore::Got;
  switch (restore_.on_word(word, bytes)) {
    case Got::kAll:
      return true;
    case Got::kName:
      on_name(word.unit, LoadAs<FlowName>(bytes.data()));
      break;
    case Got::kRecord:
      links_.recovery->control->records.fetch_add(1, std::memory_order_relaxed);
      break;
    case Got::kTooEarly:
      kept_words_->Refuse(kNoUnit, "end after", word.number);
      links_.recovery->kept.Close();
      break;
    case Got::kImpossible:
      kept_words_->Refuse(word.unit, "impossible contents, kind",
                          static_cast<uint8_t>(word.kind));
      links_.recovery->kept.Close();
      break;
    case Got::kNothing:
    case Got::kEntry:
      break;
  }
  return false;
}

void LoggerLoop::EndRestore() {
  restore_.End();
  TellIfRestored();
}

// Entries whose effects are in the records may be in no ring yet, so they are
// lost if the units' process ends before they come.
void LoggerLoop::TellIfRestored() {
  if (!restore_.EndIfWhole()) return;
  links_.recovery->control->restored.store(options_.process,
                                           std::memory_order_release);
}

void LoggerLoop::Note(LogNote::Others others) {
  const uint64_t words = links_.to_controller.cells() - sent_before_;
  const LogNote::Positions now = {.entries = links_.from_units.handled(),
                                  .words = words,
                                  .controller = controller_,
                                  .others = others};
  if (now == noted_) return;
  noted_ = now;
  links_.recovery->note->Write(now);
}

// --- Updates of shared tables. ---

// An earlier process of loggers may have asked a home that answers.
void LoggerLoop::on_home(const TableMessage& answer) {
  LinkIn& link = links_.recovery->from_controller;
  if (!order_words_->IsSound(answer)) return link.Close();
  UpdateSenders& updates = loggers_.updates();
  if (!updates.Has(answer.unit)) return;
  if (answer.incarnation > loggers_.incarnation(answer.unit)) {
    order_words_->Refuse("table", "incarnation", answer.incarnation);
    return link.Close();
  }
  // A lost word is repeated with a later answer.
  const uint64_t merged = updates.on_home(RealClock::Monotonic(), answer);
  LinkOut& to_units = links_.recovery->to_units;
  if (merged == 0 || !to_units.has_room(0) ||
      !loggers_.is_of_now(answer.unit)) {
    return;
  }
  updates.on_told(answer.unit, merged);
  to_units.Send(UnitCommand::Merged(answer.unit, merged));
}

// Returns true if there was anything to send. As with a report (ReportSome),
// the words of all entries are sent before, and noted: updates have no place
// among the words that a process that takes over counts.
bool LoggerLoop::SendUpdates() {
  const Instant now = RealClock::Monotonic();
  if (!loggers_.updates().IsDue(now)) return false;
  Publish();
  if (!FlushAndRelease() || sent_before_ > 0) return true;
  Note(LogNote::Others::kAnswers);
  loggers_.updates().SendDue(now, [this](const TableMessage& message) {
    links_.to_controller.Send(Cell::OfTable(),
                              std::as_bytes(std::span(&message, 1)));
  });
  return true;
}

// --- Another controller. ---

// Names of which nothing has come yet are of packets that are on their way.
void LoggerLoop::on_name(UnitId unit, const FlowName& name) {
  if (kept_.empty()) return;
  const OutputLogger* const logger = loggers_.Find(unit);
  if (logger != nullptr && !loggers_.is_of_now(unit)) BeginAnew(unit);
  const auto has = [logger](FlowId flow) {
    return logger != nullptr && logger->applied(flow) != Clock{};
  };
  kept_[value(unit)].on_name(
      name, [&](FlowId flow) { return has(flow) || fresh_.Has(unit, flow); });
  fresh_.Add(unit, name.flow);
}

// The units have reported to a controller, as they say.
void LoggerLoop::on_report(uint32_t controller) {
  if (links_.recovery.has_value() &&
      controller > links_.recovery->control->newest.load()) {
    words_->Refuse(kNoUnit, "log word", "controller", controller);
    links_.from_units.Close();
    return;
  }
  BeginReport(controller);
  links_.from_units.Pause();
}

// All that the units did before they reported, or have done at all, is here.
void LoggerLoop::BeginReport(uint32_t controller) {
  controller_ = controller;
  reporting_to_ = Reporting::kDue;
}

// That a report is due is noted, and all that entries have led to is sent.
void LoggerLoop::GoOnReporting() {
  if (reporting_to_ != Reporting::kDue) return;
  reporting_to_ = Reporting::kSending;
  MakeReport();
}

void LoggerLoop::MakeReport() {
  seals_.DropForAnother();
  if (options_.index >= kept_.size()) return;
  const UnitId any{static_cast<uint16_t>(options_.index)};
  // What a process before this one has said of a report is void.
  Send(any, UnitCommand::Reported(any, 0));
  for (size_t i = options_.index; i < kept_.size(); i += options_.loops) {
    ReportUnit(UnitId{static_cast<uint16_t>(i)});
  }
  ledger_->ForEachWord(any, [&](const PieceBlock& word) {
    Send(any, UnitCommand::OfWord(word));
  });
  Send(any, UnitCommand::Reported(any, controller_));
}

void LoggerLoop::ReportUnit(UnitId unit) {
  KeptReport& kept = kept_[value(unit)];
  OutputLogger* const logger = loggers_.Find(unit);
  const bool was_sealed = logger != nullptr && logger->was_sealed();
  if (was_sealed) {
    // Whatever an earlier controller has asked for.
    seals_.Cancel(unit);
    logger->Report();
    while (logger->has_more()) {
      out_.clear();
      logger->Resume(out_);
      for (const LoggerCommand& command : out_.commands()) {
        ReportSealed(unit, command);
      }
    }
    kept.ForEachName([&](const FlowName& name) {
      UnitCommand word = UnitCommand::OfName(unit);
      links_.to_controller.Send(word, std::as_bytes(std::span(&name, 1)));
    });
  }
  // A process that has logged nothing yet has got none.
  const bool has_begun = logger != nullptr && loggers_.is_of_now(unit);
  Send(unit,
       UnitCommand::Of(UnitReport{.unit = unit,
                                  .was_sealed = was_sealed,
                                  .grants = has_begun ? logger->grants() : 0}));
}

// Free pieces are the next controller's, which has them by the ledger.
void LoggerLoop::ReportSealed(UnitId unit, const LoggerCommand& command) {
  using Kind = LoggerCommand::Kind;
  if (command.kind == Kind::kFreePieces) {
    PieceBlock pieces = command.pieces;
    pieces.unit = unit;
    ledger_->TurnOver(pieces);
  } else if (command.kind == Kind::kApplied) {
    Send(unit,
         UnitCommand::Of(FlowReport{
             .flow = command.applied.flow,
             .clock = command.applied.clock,
             .unit = unit,
             .kind = command.applied.ended ? FlowReport::Kind::kOverAtLogger
                                           : FlowReport::Kind::kAtLogger}));
  }
}

// The units have no process, and all that they did is here.
void LoggerLoop::ReportAlone(uint32_t controller) {
  loggers_.SealEnded();
  BeginReport(controller);
}

}  // namespace snf
