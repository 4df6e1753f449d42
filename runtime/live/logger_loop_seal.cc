// SPDX-License-Identifier: Apache-2.0
//
// The part of a loop of loggers that recovers: when the process of their units
// has ended, or its own, which another one replaces; and updates of shared
// tables, which no end of a process may lose.
#include <algorithm>
#include <span>
#include <utility>

#include "base/byte_order.h"
#include "base/messages/controller_commands.h"
#include "runtime/live/logger_loop.h"
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
  if (ends != ends_) {
    // What was published before its end was seen is here by now.
    if (!has_drained || links_.from_units.has_items()) return true;
    // No unit has the updates now.
    awaits_homes_ = !HaveHomesAll();
    if (awaits_homes_) return orders > 0;
    links_.from_units.SkipAll();
    links.to_units.SkipAll();
    links.kept.SkipAll();
    Note(LogNote::Others::kNone);
    ends_ = ends;
    links.control->drained.store(ends, std::memory_order_release);
  }
  if (!forgets_.empty()) [[unlikely]]
    ForgetSome();
  if (asked > controller_) [[unlikely]] {
    ReportAlone(asked);
    return true;
  }
  return ReportSome() || orders > 0;
}

void LoggerLoop::on_order(const ControllerCommand& order) {
  using Kind = ControllerCommand::Kind;
  if (value(order.unit) >= sealed_.size() ||
      value(order.unit) % options_.loops != options_.index) {
    words_->Refuse(kNoUnit, "order", "unit", value(order.unit));
    links_.recovery->from_controller.Close();
  } else if (order.kind == Kind::kForget) {
    forgets_.push_back(
        {.flow = order.end.flow, .clock = order.end.last, .taker = order.unit});
  } else {
    on_seal(order.seal);
  }
}

// Of several Seals of a unit that come together, only the last is answered.
// What they seal may still be in the ring.
void LoggerLoop::on_seal(const Seal& seal) {
  Sealed& sealed = sealed_[value(seal.unit)];
  sealed.seal = seal;
  sealed.is_new = true;
  if (!std::exchange(sealed.reports, true)) ++reporting_;
}

// Drops older copies than those that the controller has told of, and tells it.
// A logger that has still to report keeps what it has until then.
void LoggerLoop::ForgetSome() {
  std::erase_if(forgets_, [this](const Takeover& forget) {
    const UnitId unit = forget.taker;
    OutputLogger* const logger = loggers_[value(unit)].get();
    if (logger != nullptr && logger->was_sealed()) {
      if (logger->has_more()) return false;
      out_.clear();
      logger->on_takeover(forget, out_);
      fresh_.Erase(unit, forget.flow);
    }
    UnitCommand gone = UnitCommand::Report(forget);
    gone.unit = unit;
    reported_.push_back(gone);
    return true;
  });
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

// Returns true if there is a report under way. What it says is behind all that
// entries led to, as is noted, so that nobody takes one for the other.
bool LoggerLoop::ReportSome() {
  if (reporting_ == 0 && reported_.empty()) [[likely]]
    return false;
  Publish();
  if (!FlushAndRelease() || sent_before_ > 0) return true;
  Note(LogNote::Others::kAnswers);
  for (size_t i = 0; i < sealed_.size(); ++i) {
    if (!sealed_[i].reports) continue;
    const UnitId unit{static_cast<uint16_t>(i)};
    if (std::exchange(sealed_[i].is_new, false)) Obey(unit);
    out_.clear();
    loggers_[i]->Resume(out_);
    for (const LoggerCommand& command : out_.commands()) Report(unit, command);
  }
  for (const UnitCommand& word : reported_) links_.to_controller.Send(word);
  reported_.clear();
  return true;
}

// Leaves what is to be said in reported_.
void LoggerLoop::Report(UnitId unit, const LoggerCommand& command) {
  using Kind = LoggerCommand::Kind;
  Sealed& sealed = sealed_[value(unit)];
  DoneAnswer answer = {.round = sealed.seal.round, .unit = unit};
  const auto say = [&](UnitCommand word) {
    word.unit = unit;
    reported_.push_back(word);
  };
  switch (command.kind) {
    case Kind::kTell:
      return;  // the controller was told with the entry
    case Kind::kFreePieces: {
      PieceBlock pieces = command.pieces;
      pieces.unit = unit;
      if (ledger_.has_value()) ledger_->TurnOver(pieces);
      return say(UnitCommand::Return(pieces));
    }
    case Kind::kApplied:
      answer.flow = command.applied.flow;
      answer.applied = command.applied.clock;
      say(UnitCommand::Done(answer));
      // The controller knows of the end, by a word that is ahead of this one.
      if (command.applied.ended) {
        loggers_[value(unit)]->on_end_ack(answer.flow, answer.applied);
      }
      return;
    case Kind::kSealed:
      // Else another process has grants by now, with numbers of its own.
      if (!sealed.seal.is_sealed &&
          incarnation_[value(unit)] != incarnation()) {
        say(UnitCommand::Grants(command.sealed.grant));
      }
      say(UnitCommand::Done(answer));
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
  const auto sender = senders_.find(unit);
  if (sender != senders_.end()) sender->second.told = 0;
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
      MaxLogEntryBytes(schema_, tables_), *links_.faults);
  ends_ = links.control->drained.load(std::memory_order_acquire);
  is_restoring_ = true;
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
  using Kind = KeptWord::Kind;
  if (word.kind == Kind::kBegin) is_for_this_ = word.number == options_.process;
  if (!is_for_this_ || word.kind == Kind::kBegin) return false;
  if (word.kind == Kind::kAll) {
    const auto is_open = [](const std::unique_ptr<OutputLogger>& logger) {
      return logger != nullptr && logger->is_restoring();
    };
    if (std::ranges::none_of(loggers_, is_open)) return true;
    kept_words_->Refuse(kNoUnit, "end after", word.number);
    links_.recovery->kept.Close();
    return false;
  }
  if (word.kind == Kind::kName) {
    on_name(word.unit, LoadAs<FlowName>(bytes.data()));
    return false;
  }
  if (loggers_[value(word.unit)] == nullptr) {
    MakeLogger(word.unit, incarnation());
  }
  OutputLogger& logger = *loggers_[value(word.unit)];
  const bool is_entry = word.kind == Kind::kEntry;
  if (!logger.is_restoring() || (is_entry && !logger.Restore(bytes))) {
    kept_words_->Refuse(word.unit, "impossible contents, kind",
                        static_cast<uint8_t>(word.kind));
    links_.recovery->kept.Close();
  } else if (is_entry) {
    const auto entry = LoadAs<LogEntry>(bytes.data());
    const bool is_record =
        entry.is(LogEntry::kWhole) && !entry.is(LogEntry::kEnd);
    links_.recovery->control->records.fetch_add(is_record ? 1 : 0,
                                                std::memory_order_relaxed);
    if (word.is_ahead != 0) {
      ahead_[{word.unit, entry.meta.flow}] = entry.meta.clock;
    }
  } else {
    logger.EndRestore(word.released, word.number);
  }
  return false;
}

void LoggerLoop::EndRestore() {
  is_restoring_ = false;
  lacks_entries_ = true;
  TellIfRestored();
}

// Entries whose effects are in the records may be in no ring yet, so they are
// lost if the units' process ends before they come.
void LoggerLoop::TellIfRestored() {
  const auto lacks = [](const std::unique_ptr<OutputLogger>& logger) {
    return logger != nullptr && logger->taken() < logger->kept_through();
  };
  if (!ahead_.empty() || std::ranges::any_of(loggers_, lacks)) return;
  lacks_entries_ = false;
  links_.recovery->control->restored.store(options_.process,
                                           std::memory_order_release);
}

// An entry came of a flow whose record may be ahead.
void LoggerLoop::on_ahead(UnitId unit, const LogEntry& entry) {
  const auto ahead = ahead_.find({unit, entry.meta.flow});
  if (ahead == ahead_.end() || entry.meta.clock <= ahead->second) return;
  ahead_.erase(ahead);
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

bool LoggerLoop::HasUpdates() const {
  return std::ranges::any_of(senders_, [this](const auto& one) {
    return !loggers_[value(one.first)]->updates().empty();
  });
}

// A process that takes over sees entries again whose updates it has already:
// until it is through with these, nothing else may get in between.
bool LoggerLoop::MustHoldEntries() const {
  return sent_before_ == 0 &&
         std::ranges::any_of(senders_, [this](const auto& one) {
           return loggers_[value(one.first)]->updates().is_full();
         });
}

// Asked when the units' process has ended, and all its entries are here: what
// is not merged is sent at once.
bool LoggerLoop::HaveHomesAll() {
  for (auto& [unit, one] : senders_) {
    one.sender.Hurry(loggers_[value(unit)]->updates());
  }
  return !HasUpdates();
}

// A home answers. What follows at once is sent with the next SendUpdates.
void LoggerLoop::on_home(const TableMessage& answer) {
  LinkIn& link = links_.recovery->from_controller;
  if (!order_words_->IsSound(answer)) return link.Close();
  const auto sender = senders_.find(answer.unit);
  // An earlier process may have asked.
  if (sender == senders_.end()) return;
  if (answer.incarnation > incarnation_[value(answer.unit)]) {
    order_words_->Refuse("table", "incarnation", answer.incarnation);
    return link.Close();
  }
  OutputLogger& logger = *loggers_[value(answer.unit)];
  Sender& one = sender->second;
  TableMessage next;
  if (one.sender.on_message(RealClock::Monotonic(), answer, logger.updates(),
                            next)) {
    to_homes_.push_back(next);
  }
  // A lost word is repeated with a later answer.
  LinkOut& to_units = links_.recovery->to_units;
  const uint64_t merged = logger.updates().entries_merged(logger.taken());
  if (merged <= one.told || !to_units.has_room(0) ||
      incarnation_[value(answer.unit)] != incarnation()) {
    return;
  }
  one.told = merged;
  to_units.Send(UnitCommand::Merged(answer.unit, merged));
}

// Returns true if there was anything to send. As with a report (ReportSome),
// the words of all entries are sent before, and noted: updates have no place
// among the words that a process that takes over counts.
bool LoggerLoop::SendUpdates() {
  const Instant now = RealClock::Monotonic();
  const bool is_due =
      !to_homes_.empty() || std::ranges::any_of(senders_, [&](const auto& one) {
        const UpdateLog& log = loggers_[value(one.first)]->updates();
        return one.second.sender.next_wakeup(log) <= now;
      });
  if (!is_due) return false;
  Publish();
  if (!FlushAndRelease() || sent_before_ > 0) return true;
  Note(LogNote::Others::kAnswers);
  const auto send = [this](const TableMessage& message) {
    links_.to_controller.Send(Cell::OfTable(),
                              std::as_bytes(std::span(&message, 1)));
  };
  std::ranges::for_each(to_homes_, send);
  to_homes_.clear();
  TableMessage out;
  for (auto& [unit, one] : senders_) {
    const UpdateLog& log = loggers_[value(unit)]->updates();
    while (one.sender.on_timers(now, log, out)) send(out);
  }
  return true;
}

// --- Another controller. ---

// Names of which nothing has come yet are of packets that are on their way.
void LoggerLoop::on_name(UnitId unit, const FlowName& name) {
  if (kept_.empty()) return;
  const OutputLogger* const logger = loggers_[value(unit)].get();
  if (logger != nullptr && incarnation_[value(unit)] != incarnation()) {
    BeginAnew(unit);
  }
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
  // These were for the controller before.
  reported_.clear();
  forgets_.clear();
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
  OutputLogger* const logger = loggers_[value(unit)].get();
  const bool was_sealed = logger != nullptr && logger->was_sealed();
  if (was_sealed) {
    // Whatever an earlier controller has asked for.
    Sealed& sealed = sealed_[value(unit)];
    reporting_ -= std::exchange(sealed.reports, false) ? 1 : 0;
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
  const bool has_begun =
      logger != nullptr && incarnation_[value(unit)] == incarnation();
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
  for (size_t i = options_.index; i < loggers_.size(); i += options_.loops) {
    OutputLogger* const logger = loggers_[i].get();
    if (logger != nullptr && incarnation_[i] != incarnation()) logger->Seal();
  }
  BeginReport(controller);
}

}  // namespace snf
