// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/logger_loop.h"

#include <utility>

#include "base/byte_order.h"
#include "base/check.h"
#include "runtime/wire/link_payload.h"

namespace snf {

LoggerLoop::LoggerLoop(const LoggerLoopOptions& options, const NfSpec& nf,
                       LoggerLoopLinks links)
    : options_(options),
      links_(std::move(links)),
      loggers_(options, nf, /*logs_tables=*/links_.recovery.has_value()),
      restore_(options.process, loggers_),
      seals_(loggers_, ledger_),
      kept_(options.reports ? options.max_units : 0) {
  if (options.reports) {
    std::vector<uint32_t> words;
    for (const NetworkFunction::Pool& pool : loggers_.nf().pools()) {
      words.push_back(pool.words());
    }
    ledger_.emplace(links_.ledger, words);
  }
  const UnitsOfLoop units(options.index, options.loops, options.max_units);
  words_.emplace(units, options.max_units, loggers_.max_entry_bytes(),
                 *links_.faults);
  order_words_.emplace(units, static_cast<uint32_t>(loggers_.tables()),
                       *links_.faults);
  if (options.process > 0) TakeOver();
}

uint32_t LoggerLoop::PieceWordsOf(const NetworkFunction& nf) {
  uint32_t words = 0;
  for (const NetworkFunction::Pool& pool : nf.pools()) words += pool.words();
  return words;
}

bool LoggerLoop::Turn() {
  if (restore_.is_restoring()) [[unlikely]]
    return Restore();
  if (!FlushAndRelease()) return true;
  bool did = true;
  if (has_report()) [[unlikely]] {
    GoOnReporting();
  } else {
    did = HandleEntries() > 0;
    if (restore_.lacks_entries()) [[unlikely]]
      TellIfRestored();
    if (links_.recovery.has_value() && !has_report()) [[unlikely]]
      did |= Recover(!did);
    if (!loggers_.updates().empty() && !has_report()) did |= SendUpdates();
  }
  Publish();
  FlushAndRelease();
  return did;
}

// Before anybody can have got any of it: see LoopProgress. That entries are
// released counts as messages to the units.
void LoggerLoop::Publish() {
  uint64_t received = links_.from_units.handled();
  uint64_t sent = links_.to_controller.sent_in_all() + received;
  if (links_.recovery.has_value()) {
    received += links_.recovery->from_controller.handled();
    sent += links_.recovery->to_units.sent_in_all();
  }
  // A process that takes over does not know yet what units will hand over.
  links_.progress->has_updates.store(
      restore_.is_restoring() || loggers_.updates().HasUpdates(),
      std::memory_order_relaxed);
  links_.progress->sent.store(sent, std::memory_order_release);
  links_.progress->received.store(received, std::memory_order_release);
}

size_t LoggerLoop::HandleEntries() {
  // A process that takes over sees entries again whose updates it has already:
  // until it is through with these, nothing else may get in between.
  if (sent_before_ == 0 && loggers_.updates().IsFull()) return 0;
  links_.from_units.ReceiveKept();
  CloseIfBroken();
  return links_.from_units.Handle(
      *words_, [this](const Cell& cell, std::span<const std::byte>) {
        const LogWord word = LogWord::Of(cell);
        if (word.kind == LogWord::Kind::kEntry) [[likely]] {
          Handle(word.unit, word.entry(cell));
        } else if (word.kind == LogWord::Kind::kStopped) {
          Send(word.unit, UnitCommand::Stopped());
        } else if (word.kind == LogWord::Kind::kReport) {
          on_report(LoadAs<uint32_t>(word.entry(cell).data()));
        } else if (word.kind == LogWord::Kind::kName) {
          on_name(word.unit, LoadAs<FlowName>(word.entry(cell).data()));
        } else {
          on_pull(word.unit, LoadAs<Pull>(word.entry(cell).data()));
        }
      });
}

// A link whose ring has had a position that cannot be, at either end.
void LoggerLoop::CloseIfBroken() {
  LinkIn& in = links_.from_units;
  if (in.faults() + links_.to_controller.faults() == 0 || in.is_closed()) {
    return;
  }
  words_->Refuse(kNoUnit, "ring", "position", in.received());
  in.Close();
}

void LoggerLoop::Handle(UnitId unit, std::span<const std::byte> bytes) {
  using Result = OutputLogger::Result;
  OutputLogger& logger = loggers_.Of(unit, loggers_.incarnation());
  if (!loggers_.is_of_now(unit)) [[unlikely]]
    BeginAnew(unit);
  out_.clear();
  const Result result = logger.on_entry(bytes, out_);
  if (result == Result::kTaken) [[likely]] {
    for (const LoggerCommand& command : out_.commands()) Execute(unit, command);
    const auto entry = LoadAs<LogEntry>(bytes.data());
    if (entry.tells()) [[unlikely]]
      Tell(unit, entry);
    if (!fresh_.empty() && entry.kind <= LogEntry::Kind::kEnded) [[unlikely]]
      fresh_.Erase(unit, entry.meta.flow);
    if (restore_.has_flows_ahead()) [[unlikely]]
      restore_.on_entry(unit, entry);
    if (entry.kind == LogEntry::Kind::kGrant && ledger_.has_value()) {
      ledger_->TurnOver(links_.from_units.handled(), entry.block);
    }
    return;
  }
  const uint64_t next = logger.taken() + 1;
  switch (result) {
    case Result::kAsked:
      return Refuse(unit, "another base, number", next);
    case Result::kRefused:
      return Refuse(unit, "another incarnation, behind number", next - 1);
    case Result::kImpossible:
      return Refuse(unit, "impossible contents, number", next);
    default:
      return Refuse(unit, "a number out of order, not", next);
  }
}

void LoggerLoop::Refuse(UnitId unit, std::string_view field, uint64_t number) {
  words_->Refuse(unit, "log entry", field, number);
  links_.from_units.Close();
}

void LoggerLoop::Execute(UnitId unit, const LoggerCommand& command) {
  using Kind = LoggerCommand::Kind;
  UnitCommand::Kind kind{};
  switch (command.kind) {
    case Kind::kRelease:
      kind = UnitCommand::Kind::kRelease;
      break;
    case Kind::kNfDrop:
      kind = UnitCommand::Kind::kNfDrop;
      break;
    case Kind::kDrop:
      kind = UnitCommand::Kind::kDrop;
      break;
    case Kind::kConsume:
      kind = UnitCommand::Kind::kConsume;
      break;
    case Kind::kEmit:
      kind = UnitCommand::Kind::kEmit;
      break;
    case Kind::kReleased:
      // Packets were let go above, and the end of a flow is none.
      if (command.meta.has_payload() ||
          (command.meta.flags & PacketMeta::kEnd) != 0) {
        return;
      }
      kind = UnitCommand::Kind::kAdvance;
      break;
    default:
      // The unit acknowledges Takeovers when it sees the entry released, and
      // nothing is asked for of a unit whose link is closed.
      return;
  }
  Send(unit, {.kind = kind,
              .reason = command.reason,
              .nf_reason = command.nf_reason,
              .packet = command.packet,
              .meta = command.meta});
}

// Where units do not fail, the controller has ended the flow itself, and does
// not wait for the entry that is its end.
void LoggerLoop::Tell(UnitId unit, const LogEntry& entry) {
  told_.push_back({.logger = loggers_.Find(unit), .number = entry.number});
  if (entry.is(LogEntry::kEnd)) {
    if (!links_.recovery.has_value() && kept_.empty()) return;
    Send(unit, UnitCommand::Ended({entry.meta.flow, entry.meta.clock}));
    return;
  }
  if (entry.kind == LogEntry::Kind::kReturn) {
    PieceBlock pieces = entry.block;
    pieces.unit = unit;
    if (ledger_.has_value()) {
      ledger_->TurnOver(links_.from_units.handled(), pieces);
    }
    Send(unit, UnitCommand::Return(pieces));
    return;
  }
  Send(unit, UnitCommand::Send(FlowNote{.flow = entry.meta.flow,
                                        .clock = entry.meta.clock,
                                        .idle_timeout = entry.idle_timeout,
                                        .over = entry.is(LogEntry::kOver)}));
}

void LoggerLoop::Send(UnitId unit, UnitCommand command) {
  if (sent_before_ > 0) [[unlikely]] {
    --sent_before_;
    return;
  }
  command.unit = unit;
  links_.to_controller.Send(command);
}

// Returns true if the controller's ring has had room for everything. Then it
// has all that the entries led to, whatever becomes of this loop. That is noted
// before the entries can leave the ring.
bool LoggerLoop::FlushAndRelease() {
  if (links_.recovery.has_value()) links_.recovery->to_units.Flush();
  if (!links_.to_controller.FlushWhole(PayloadToController)) return false;
  for (const Told& told : told_) told.logger->on_told(told.number);
  told_.clear();
  if (reporting_to_ == Reporting::kSending) [[unlikely]] {
    reporting_to_ = Reporting::kNobody;
    links_.from_units.GoOn();
  }
  if (links_.recovery.has_value()) {
    Note(has_report() ? LogNote::Others::kReport : LogNote::Others::kNone);
  }
  links_.from_units.Release(*links_.units_bell);
  return true;
}

}  // namespace snf
