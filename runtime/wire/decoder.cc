// SPDX-License-Identifier: Apache-2.0
#include "runtime/wire/decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "base/packet/flow_key.h"
#include "base/packet/link_type.h"
#include "runtime/wire/link_payload.h"

namespace snf {
namespace {

using FromUnit = UnitCommand::Kind;
using FromController = ControllerCommand::Kind;

constexpr size_t kBad = LinkIn::kNoMessage;

std::string_view NameOf(FromUnit kind) {
  constexpr std::array<std::string_view, 33> kNames = {
      "release",     "nf_drop",      "drop",          "consume",
      "advance",     "emit",         "wait",          "drop_payload",
      "pieces_came", "log",          "pull",          "state",
      "takeover",    "takeover_ack", "takeover",      "alias",
      "note",        "timer_due",    "piece_request", "pieces",
      "stopped",     "done",         "ended",         "grants",
      "report_name", "report_flow",  "report_packet", "report_parked",
      "report_word", "report_unit",  "reported",      "updates_merged",
      "show_state"};
  static_assert(static_cast<size_t>(FromUnit::kShowState) + 1 == kNames.size());
  const auto i = static_cast<size_t>(kind);
  return i < kNames.size() ? kNames[i] : "message";
}

std::string_view NameOf(FromController kind) {
  constexpr std::array<std::string_view, 18> kNames = {
      "replicas",  "packet",     "drop",      "start_unit", "park_unit",
      "stop_unit", "end_flow",   "alias_ack", "pieces",     "reclaim",
      "seal",      "done_query", "redirect",  "forsake",    "forget",
      "name",      "ask_state",  "take_state"};
  static_assert(static_cast<size_t>(FromController::kTakeState) + 1 ==
                kNames.size());
  const auto i = static_cast<size_t>(kind);
  return i < kNames.size() ? kNames[i] : "message";
}

// Looks at the byte: a bool that is neither must not be read.
uint8_t ByteOf(const bool& flag) {
  uint8_t byte = 0;
  std::memcpy(&byte, &flag, 1);
  return byte;
}
bool IsBool(const bool& flag) { return ByteOf(flag) <= 1; }

// Looks at the numbers of a logger's updates.
template <typename Refuse>
bool AreLogged(const TableMessage& message, const Refuse& bad) {
  const bool has_rest = message.rest != TableMessage::kNoRest;
  if (message.incarnation == 0) return bad("incarnation", 0);
  if (message.entries == 0) return bad("entries", 0);
  if (has_rest && message.rest >= message.entries) {
    return bad("rest", message.rest);
  }
  // Each entry has an update, or several of one key.
  if (message.seq < message.merged ||
      message.seq - message.merged < message.entries) {
    return bad("seq", message.seq);
  }
  return true;
}

bool IsForm(FlowKeyForm form) {
  switch (form) {
    case FlowKeyForm::kIpv4:
    case FlowKeyForm::kIpv6:
    case FlowKeyForm::kIpv4Fragment:
    case FlowKeyForm::kIpv6Fragment:
    case FlowKeyForm::kIpv4Endpoint:
    case FlowKeyForm::kIpv6Endpoint:
      return true;
    default:
      return false;
  }
}

// A flow that was over when it was moved has no key any more: a controller that
// is made of reports ends it (Rebuild::LinkFlows).
bool IsKeyOfName(const FlowKey& key) {
  return key == FlowKey{} || IsForm(key.form);
}

}  // namespace

UnitsOfLoop::UnitsOfLoop(uint32_t index, uint32_t loops, uint32_t max_units)
    : index_(index), has_(max_units) {
  for (uint32_t unit = index; unit < max_units; unit += loops) has_[unit] = 1;
}

// --- To a controller --------------------------------------------------------

WordsToController::WordsToController(UnitsOfLoop units, const Limits& limits,
                                     const BufferPool& buffers,
                                     const TableHomes& tables,
                                     WireFaults& faults)
    : units_(std::move(units)),
      limits_(limits),
      may_release_(limits.sender != Sender::kUnitsWithLoggers),
      emits_(buffers.share(
          BufferPool::Party{static_cast<uint8_t>(units_.index() + 1)})),
      buffers_(&buffers),
      tables_(&tables),
      faults_(&faults) {}

size_t WordsToController::Bad(const UnitCommand& word, std::string_view field,
                              uint64_t value) const {
  const UnitId unit = units_.Has(word.unit) ? word.unit : kNoUnit;
  // The reasons of these are the unit's as well.
  const bool has_reason =
      word.kind == FromUnit::kDrop || word.kind == FromUnit::kAdvance;
  const bool is_of_unit = limits_.sender == Sender::kLoggers &&
                          faults_->blames() && unit != kNoUnit &&
                          (has_reason || IsOfSender(word));
  if (!is_of_unit) {
    Refuse(unit, NameOf(word.kind), field, value);
    return kBad;
  }
  faults_->Add({.loop = units_.index(),
                .unit = unit,
                .kind = NameOf(word.kind),
                .field = field,
                .value = value});
  return LinkIn::kPassOver +
         (word.kind == FromUnit::kReportName ? sizeof(FlowName) : 0);
}

// Each kind of word has one sender.
bool WordsToController::IsOfSender(const UnitCommand& word) const {
  const bool is_loggers = limits_.sender == Sender::kLoggers;
  switch (word.kind) {
    case FromUnit::kDrop:
    case FromUnit::kAdvance:
      // The clock of a duplicate was logged before; a forsaken packet is never
      // logged.
      return is_loggers == (word.reason != DropReason::kDuplicateClock &&
                            word.reason != DropReason::kUnitFailed);
    case FromUnit::kRelease:
    case FromUnit::kNfDrop:
    case FromUnit::kConsume:
    case FromUnit::kEmit:
    case FromUnit::kSendNote:
    case FromUnit::kReturnPieces:
    case FromUnit::kStopped:
    case FromUnit::kSendEnded:
    case FromUnit::kSendGrants:
      return is_loggers;
    case FromUnit::kReportWord:
      return is_loggers;
    case FromUnit::kReportTakeover:
    case FromUnit::kSendDone:
    case FromUnit::kReportName:
    case FromUnit::kReportFlow:
    case FromUnit::kReportUnit:
    case FromUnit::kReported:
      return true;
    default:
      return !is_loggers;
  }
}

size_t WordsToController::Other(const Cell& cell) const {
  const bool is_loggers = limits_.sender == Sender::kLoggers;
  if (cell.is_table() && (!is_loggers || limits_.logs_tables)) {
    return sizeof(TableMessage);
  }
  const auto& word = cell.As<UnitCommand>();
  if (!units_.Has(word.unit)) return Bad(word, "unit", value(word.unit));
  if (limits_.sender != Sender::kUnits && !IsOfSender(word)) {
    return Bad(word, "kind", static_cast<uint8_t>(word.kind));
  }
  switch (word.kind) {
    case FromUnit::kRelease:
    case FromUnit::kNfDrop:
    case FromUnit::kDrop:
    case FromUnit::kConsume:
    case FromUnit::kAdvance:
    case FromUnit::kEmit:
    case FromUnit::kDropPayload:
      return OfPacket(word);
    case FromUnit::kReportTakeover:
      if (word.takeover.taker == word.unit) return 0;
      return Bad(word, "taker", value(word.takeover.taker));
    case FromUnit::kSendAlias:
      return sizeof(Alias);
    case FromUnit::kSendNote:
      if (IsBool(word.note.over)) return 0;
      return Bad(word, "over", ByteOf(word.note.over));
    case FromUnit::kSendTimerDue:
      if (word.timer_due.unit == word.unit) return 0;
      return Bad(word, "sender", value(word.timer_due.unit));
    case FromUnit::kRequestPieces:
      if (word.request.unit != word.unit) {
        return Bad(word, "sender", value(word.request.unit));
      }
      if (!IsBool(word.request.is_ahead)) {
        return Bad(word, "is_ahead", ByteOf(word.request.is_ahead));
      }
      if (word.request.pool < limits_.pools) return 0;
      return Bad(word, "pool", word.request.pool);
    case FromUnit::kReturnPieces:
      if (word.pieces.unit != word.unit) {
        return Bad(word, "sender", value(word.pieces.unit));
      }
      if (word.pieces.pool < limits_.pools) return 0;
      return Bad(word, "pool", word.pieces.pool);
    case FromUnit::kStopped:
      return 0;
    case FromUnit::kShowState:
      return OfShown(word);
    default:
      break;
  }
  if (limits_.sender == Sender::kUnits) {
    return Bad(word, "kind", static_cast<uint8_t>(word.kind));
  }
  return word.kind < FromUnit::kReportName ? OfRecovery(word) : OfReport(word);
}

// The controller checks whether it has the flow still.
size_t WordsToController::OfShown(const UnitCommand& word) const {
  const bool is_whole = !ByteOf(word.state.pushed) &&
                        !ByteOf(word.state.delta) && !ByteOf(word.state.named);
  if (!is_whole) return Bad(word, "delta", ByteOf(word.state.delta));
  if (word.state.bytes % 8 != 0) return Bad(word, "bytes", word.state.bytes);
  if (!IsLinkType(word.state.link)) {
    return Bad(word, "link", static_cast<uint64_t>(word.state.link));
  }
  return slot_of(word.state.flow) < limits_.max_flows
             ? RecordBytesOfShown(word.state)
             : Bad(word, "flow", value(word.state.flow));
}

// Checks words of units with loggers, and of their loggers.
size_t WordsToController::OfRecovery(const UnitCommand& word) const {
  const auto exists = [this](FlowId flow) {
    return slot_of(flow) < limits_.max_flows;
  };
  switch (word.kind) {
    case FromUnit::kSendDone:
      if (word.done.unit != word.unit) {
        return Bad(word, "sender", value(word.done.unit));
      }
      if (word.done.flow == kNoFlow || exists(word.done.flow)) return 0;
      return Bad(word, "flow", value(word.done.flow));
    case FromUnit::kSendEnded:
      if (exists(word.ended.flow)) return 0;
      return Bad(word, "flow", value(word.ended.flow));
    case FromUnit::kSendGrants:
      return 0;
    default:
      return Bad(word, "kind", static_cast<uint8_t>(word.kind));
  }
}

// Checks reports to a new controller, which judges their contents.
size_t WordsToController::OfReport(const UnitCommand& word) const {
  const auto bad_flow = [&](FlowId flow) {
    return slot_of(flow) < limits_.max_flows ? 0
                                             : Bad(word, "flow", value(flow));
  };
  switch (word.kind) {
    case FromUnit::kReportName:
      return sizeof(FlowName);
    case FromUnit::kReportFlow:
      if (word.report.unit != word.unit) {
        return Bad(word, "sender", value(word.report.unit));
      }
      if (word.report.kind > FlowReport::Kind::kOverAtLogger ||
          (limits_.sender == Sender::kLoggers) !=
              (word.report.kind >= FlowReport::Kind::kAtLogger)) {
        return Bad(word, "kind", static_cast<uint8_t>(word.report.kind));
      }
      // 0: the unit has run no packet of the flow.
      if (word.report.clock > kMaxReportedClock) {
        return Bad(word, "clock", value(word.report.clock));
      }
      return bad_flow(word.report.flow);
    case FromUnit::kReportPacket:
    case FromUnit::kReportParked:
      // An outdated report may name a packet that has left.
      if (word.packet != kNoPacket && !buffers_->IsHandle(word.packet)) {
        return Bad(word, "packet", value(word.packet));
      }
      if (word.meta.source_kind > StateSource::kLogger) {
        return Bad(word, "source", static_cast<uint8_t>(word.meta.source_kind));
      }
      if (word.meta.clock == Clock{} || word.meta.clock > kMaxReportedClock) {
        return Bad(word, "clock", value(word.meta.clock));
      }
      return bad_flow(word.meta.flow);
    case FromUnit::kReportWord:
      if (word.pieces.pool < limits_.pools) return 0;
      return Bad(word, "pool", word.pieces.pool);
    case FromUnit::kReportUnit:
      if (word.standing.unit != word.unit) {
        return Bad(word, "sender", value(word.standing.unit));
      }
      if (word.standing.state > UnitReport::State::kWarm) {
        return Bad(word, "state", static_cast<uint8_t>(word.standing.state));
      }
      if (IsBool(word.standing.was_sealed)) return 0;
      return Bad(word, "sealed", ByteOf(word.standing.was_sealed));
    case FromUnit::kReported:
      return 0;
    default:
      return Bad(word, "kind", static_cast<uint8_t>(word.kind));
  }
}

size_t WordsToController::OfPacket(const UnitCommand& word) const {
  const auto in = [](uint64_t what, uint64_t of) { return what < of; };
  if (word.kind == FromUnit::kEmit) {
    if (!in(slot_of(word.meta.flow), limits_.max_flows)) {
      return Bad(word, "flow", value(word.meta.flow));
    }
    return emits_.Has(word.packet) ? 0
                                   : Bad(word, "packet", value(word.packet));
  }
  if (word.meta.has_payload() != (word.kind != FromUnit::kAdvance)) {
    return Bad(word, "flags", word.meta.flags);
  }
  if (word.kind == FromUnit::kAdvance) return 0;
  if (!buffers_->IsInUse(word.packet)) {
    return Bad(word, "packet", value(word.packet));
  }
  if (word.kind == FromUnit::kNfDrop &&
      !in(word.nf_reason, limits_.nf_reasons)) {
    return Bad(word, "nf_reason", word.nf_reason);
  }
  if (!in(static_cast<uint8_t>(word.reason), kDropReasons)) {
    return Bad(word, "reason", static_cast<uint8_t>(word.reason));
  }
  return 0;
}

bool WordsToController::IsSound(const Cell& cell,
                                std::span<const std::byte> payload) const {
  if (cell.is_table()) {
    const TableMessage& message =
        *reinterpret_cast<const TableMessage*>(payload.data());
    const UnitId unit = units_.Has(message.unit) ? message.unit : kNoUnit;
    const auto bad = [&](std::string_view field, uint64_t value) {
      Refuse(unit, "table", field, value);
      return false;
    };
    if (unit == kNoUnit) return bad("unit", value(message.unit));
    if (message.table >= tables_->size()) return bad("table", message.table);
    const TableShape& shape = tables_->home(message.table).shape();
    if (message.entries > TableMessage::MaxEntries(shape)) {
      return bad("entries", message.entries);
    }
    if (!IsBool(message.leaves)) return bad("leaves", ByteOf(message.leaves));
    using Kind = TableMessage::Kind;
    const bool is_loggers = limits_.sender == Sender::kLoggers;
    if (is_loggers
            ? message.kind != Kind::kLogged
            : message.kind != Kind::kUpdate && message.kind != Kind::kToldAck) {
      return bad("kind", static_cast<uint8_t>(message.kind));
    }
    if (is_loggers) return AreLogged(message, bad);
    // Updates that are logged come from loggers alone.
    if (limits_.logs_tables && message.entries > 0) {
      return bad("entries", message.entries);
    }
    return true;
  }
  const auto& word = cell.As<UnitCommand>();
  if (word.kind == FromUnit::kReportName) {
    const auto name = LoadAs<FlowName>(payload.data());
    if (slot_of(name.flow) >= limits_.max_flows) {
      Bad(word, "flow", value(name.flow));
    } else if (!IsKeyOfName(name.key) ||
               (name.alias != FlowKey{} && !IsForm(name.alias.form))) {
      Bad(word, "form", static_cast<uint8_t>(name.key.form));
    } else {
      return true;
    }
    return false;
  }
  if (word.kind != FromUnit::kSendAlias) return true;
  const auto alias = LoadAs<Alias>(payload.data());
  if (alias.unit != word.unit) {
    Bad(word, "sender", value(alias.unit));
    return false;
  }
  if (IsForm(alias.key.form)) return true;
  Bad(word, "form", static_cast<uint8_t>(alias.key.form));
  return false;
}

// --- To units ---------------------------------------------------------------

WordsToUnits::WordsToUnits(UnitsOfLoop units, const Limits& limits,
                           const BufferPool& buffers, WireFaults& faults)
    : units_(std::move(units)),
      limits_(limits),
      packets_(buffers.share(BufferPool::Party{0})),
      own_(buffers.share(
          BufferPool::Party{static_cast<uint8_t>(units_.index() + 1)})),
      faults_(&faults) {}

size_t WordsToUnits::Bad(const ControllerCommand& word, std::string_view field,
                         uint64_t value) const {
  Refuse(NameOf(word.kind), field, value);
  return kBad;
}

size_t WordsToUnits::Other(const Cell& cell) const {
  if (cell.is_table()) return sizeof(TableMessage);
  const auto& word = cell.As<ControllerCommand>();
  if (word.kind == FromController::kDrop) {
    if (own_.Has(word.packet)) return 0;
    return Bad(word, "packet", value(word.packet));
  }
  if (!units_.Has(word.unit)) return Bad(word, "unit", value(word.unit));
  switch (word.kind) {
    case FromController::kReplicas:
      return OfReplicas(word);
    case FromController::kEnqueue:
      return OfPacket(word);
    case FromController::kStartUnit:
      if (IsBool(word.warm)) return 0;
      return Bad(word, "warm", ByteOf(word.warm));
    case FromController::kParkUnit:
    case FromController::kStopUnit:
    case FromController::kEndFlow:
    case FromController::kAliasAck:
    case FromController::kPieces:
    case FromController::kReclaim:
    case FromController::kDoneQuery:
    case FromController::kForsake:
    case FromController::kAskState:
      return 0;
    case FromController::kTakeState:
      return OfTaken(word);
    case FromController::kForget:
      // Loggers hear of it another way.
      if (ByteOf(word.of_logger) == 0) return 0;
      return Bad(word, "of_logger", ByteOf(word.of_logger));
    case FromController::kName:
      return sizeof(FlowName);
    case FromController::kRedirect:
      if (IsSource(word.redirect.source_kind, word.redirect.source)) return 0;
      return Bad(word, "source", value(word.redirect.source));
    default:
      return Bad(word, "kind", static_cast<uint8_t>(word.kind));
  }
}

// A state that is no whole record would never be taken, and the flow's packets
// would wait for it.
size_t WordsToUnits::OfTaken(const ControllerCommand& word) const {
  const State& state = word.state;
  if (ByteOf(state.pushed) != 1) {
    return Bad(word, "pushed", ByteOf(state.pushed));
  }
  if (ByteOf(state.named) != 0) return Bad(word, "named", ByteOf(state.named));
  if (ByteOf(state.delta) != 0) return Bad(word, "delta", ByteOf(state.delta));
  if (!IsLinkType(state.link)) {
    return Bad(word, "link", static_cast<uint64_t>(state.link));
  }
  if (state.bytes <= kMaxShownBytes && state.bytes % 8 == 0) return state.bytes;
  return Bad(word, "bytes", state.bytes);
}

size_t WordsToUnits::OfPacket(const ControllerCommand& word) const {
  if (!IsSource(word.meta.source_kind, word.meta.source)) {
    return Bad(word, "source", value(word.meta.source));
  }
  if (word.meta.has_payload() ? packets_.Has(word.packet)
                              : word.packet == kNoPacket) {
    return 0;
  }
  return Bad(word, "packet", value(word.packet));
}

size_t WordsToUnits::OfReplicas(const ControllerCommand& word) const {
  if (word.replicas.count > kMaxReplicas) {
    return Bad(word, "count", word.replicas.count);
  }
  for (const UnitId unit : word.replicas.span()) {
    if (value(unit) >= limits_.max_units) {
      return Bad(word, "replica", value(unit));
    }
  }
  return 0;
}

bool WordsToUnits::IsSound(const Cell& cell,
                           std::span<const std::byte> payload) const {
  if (!cell.is_table()) {
    const auto& word = cell.As<ControllerCommand>();
    if (word.kind != FromController::kName) return true;
    const auto name = LoadAs<FlowName>(payload.data());
    if (name.flow == word.end.flow && IsKeyOfName(name.key)) return true;
    Bad(word, "flow", value(name.flow));
    return false;
  }
  const TableMessage& message =
      *reinterpret_cast<const TableMessage*>(payload.data());
  const auto bad = [&](std::string_view field, uint64_t value) {
    Refuse("table", field, value);
    return false;
  };
  if (!units_.Has(message.unit)) return bad("unit", value(message.unit));
  if (message.table >= limits_.tables) return bad("table", message.table);
  if (!IsBool(message.leaves)) return bad("leaves", ByteOf(message.leaves));
  return true;
}

// --- Between units ----------------------------------------------------------

WordsBetweenUnits::WordsBetweenUnits(UnitsOfLoop from, UnitsOfLoop to,
                                     uint32_t record_bytes, WireFaults& faults)
    : from_(std::move(from)),
      to_(std::move(to)),
      record_bytes_(record_bytes),
      faults_(&faults) {}

size_t WordsBetweenUnits::Bad(const UnitCommand& word, std::string_view field,
                              uint64_t value) const {
  Refuse(NameOf(word.kind), field, value);
  return kBad;
}

size_t WordsBetweenUnits::FromUnit(const UnitCommand& word, UnitId sender,
                                   std::string_view field) const {
  return from_.Has(sender) ? 0 : Bad(word, field, value(sender));
}

size_t WordsBetweenUnits::OfState(const UnitCommand& word) const {
  if (!IsBool(word.state.pushed)) {
    return Bad(word, "pushed", ByteOf(word.state.pushed));
  }
  // Only a push may be a delta.
  if (!IsBool(word.state.delta) ||
      ByteOf(word.state.delta) > ByteOf(word.state.pushed)) {
    return Bad(word, "delta", ByteOf(word.state.delta));
  }
  if (word.state.bytes > record_bytes_ ||
      (ByteOf(word.state.delta) == 0 && word.state.bytes % 8 != 0)) {
    return Bad(word, "bytes", word.state.bytes);
  }
  if (!IsBool(word.state.named) ||
      (word.state.named && word.state.bytes + ByteOf(word.state.pushed) != 0)) {
    return Bad(word, "named", ByteOf(word.state.named));
  }
  return word.state.bytes;
}

size_t WordsBetweenUnits::operator()(const Cell& cell) const {
  const auto& word = cell.As<UnitCommand>();
  if (!to_.Has(word.unit)) return Bad(word, "unit", value(word.unit));
  switch (word.kind) {
    case FromUnit::kSendPull:
      if (!IsBool(word.pull.by_bytes)) {
        return Bad(word, "by_bytes", ByteOf(word.pull.by_bytes));
      }
      return FromUnit(word, word.pull.requester, "requester");
    case FromUnit::kSendState:
      return OfState(word);
    case FromUnit::kSendTakeover:
      return FromUnit(word, word.takeover.taker, "taker");
    case FromUnit::kSendTakeoverAck:
      return FromUnit(word, word.takeover_ack.sender, "sender");
    case FromUnit::kUpdatesMerged:
      // Sent by the unit's own logger.
      return FromUnit(word, word.unit, "unit");
    default:
      return Bad(word, "kind", static_cast<uint8_t>(word.kind));
  }
}

// --- To loggers -------------------------------------------------------------

WordsToLoggers::WordsToLoggers(UnitsOfLoop units, uint32_t max_units,
                               uint32_t entry_bytes, WireFaults& faults)
    : units_(std::move(units)),
      max_units_(max_units),
      entry_bytes_(entry_bytes),
      faults_(&faults) {}

size_t WordsToLoggers::Other(const LogWord& word) const {
  // A report of all units.
  if (word.kind == LogWord::Kind::kReport && word.bytes == sizeof(uint32_t)) {
    return 0;
  }
  // A Pull for a failed unit, of any loop.
  if (word.kind == LogWord::Kind::kPull && value(word.unit) < max_units_ &&
      word.bytes == sizeof(Pull)) {
    return word.payload_bytes();
  }
  if (word.kind == LogWord::Kind::kName && units_.Has(word.unit) &&
      word.bytes == sizeof(FlowName)) {
    return word.payload_bytes();
  }
  if (!units_.Has(word.unit)) {
    Refuse(kNoUnit, "log word", "unit", value(word.unit));
  } else if (word.kind > LogWord::Kind::kStopped) {
    Refuse(word.unit, "log word", "kind", static_cast<uint8_t>(word.kind));
  } else if (word.bytes != 0) {
    Refuse(word.unit, "log word", "bytes", word.bytes);
  } else {
    return 0;
  }
  return kBad;
}

bool OrdersToLoggers::IsSound(const TableMessage& answer) const {
  const auto bad = [&](std::string_view field, uint64_t value) {
    Refuse("table", field, value);
    return false;
  };
  if (answer.kind != TableMessage::Kind::kLoggedAck) {
    return bad("kind", static_cast<uint8_t>(answer.kind));
  }
  if (!units_.Has(answer.unit)) return bad("unit", value(answer.unit));
  if (answer.table >= tables_) return bad("table", answer.table);
  return true;
}

}  // namespace snf
