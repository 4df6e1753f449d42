// SPDX-License-Identifier: Apache-2.0
//
// What loggers do, how they fail, and how others take their places.
#include <algorithm>

#include "platform/system_test/test_failover_world.h"

namespace snf {

void FailoverWorld::DeliverEntry(Node& node) {
  const uint64_t number = node.entries.front();
  node.entries.pop_front();
  const std::span<const std::byte> kept = node.log->entry(number);
  const Bytes bytes(kept.begin(), kept.end());
  const auto entry = node.log->Parse(bytes);
  if (!entry.has_value()) return Fail("L1: an entry cannot be read");
  OutputLogger& logger = node.log->logger();
  totals_.taken_by_new += number <= logger.kept_through() ? 1 : 0;
  const auto result = logger.on_entry(bytes, logger_out_);
  const Did did = node.did[number];
  if (result == OutputLogger::Result::kTaken) {
    if ((*entry)->kind == LogEntry::Kind::kClock) {
      on_done(node, *entry, did, /*is_lost=*/false);
    }
    SayReleased(node, number);
  } else if (result != OutputLogger::Result::kRefused) {
    Fail("L2: an entry is not taken");
  } else if (number <= logger.kept_through()) {
    LoseEntry(node, number);
  }
  ExecuteLogger(node);
}

// What an entry did is in a logger, and its packet leaves, or is lost.
void FailoverWorld::on_done(Node& node, const LogEntryView& entry,
                            const Did& did, bool is_lost) {
  const bool is_packet = entry->packet != kNoPacket;
  totals_.lost_with_loggers += is_packet && is_lost ? 1 : 0;
  totals_.released += is_packet && !is_lost ? 1 : 0;
  for (size_t i = 0; i < entry->pieces; ++i) {
    totals_.takes += entry.piece(i).gives == 0 ? 1 : 0;
  }
  check_.on_done(entry, did, is_lost);
  if (tables_ != nullptr) tables_->on_done(did);
  if (did.alias != FlowKey{}) CheckAlias(entry, did);
  const OutputLogger& logger = node.log->logger();
  if (logger.applied(entry->meta.flow) < entry->meta.clock) {
    Fail("I4: released, and not in the logger");
  }
}

// Return traffic of a flow must find it. An alias that all want may be another
// flow's by the time that a lost clock does not take it from this one after all
// (U9).
void FailoverWorld::CheckAlias(const LogEntryView& entry, const Did& did) {
  const FlowTable& flows = controller_.flows();
  const uint32_t slot = slot_of(entry->meta.flow);
  const bool is_there =
      slot < flows.used() && flows.cold(slot).owner != kNoUnit &&
      flows.numbers(slot).generation == generation_of(entry->meta.flow) &&
      (flows.hot(slot).flags & FlowHot::kEnding) == 0;
  const AliasTable& aliases = controller_.aliases();
  if (did.alias == FailoverNf::CommonAlias()) return;
  if (!is_there || aliases.clock(slot) > entry->meta.clock) return;
  if (aliases.Find(did.alias, flows.HashOf(did.alias)) != slot) {
    Fail("U9: released with an alias that the controller has not (flow " +
         std::to_string(slot) + ", clock " +
         std::to_string(value(entry->meta.clock)) + ")");
  }
}

void FailoverWorld::SayReleased(Node& node, uint64_t number) {
  if (node.unit == nullptr) return;
  const auto entry = LoadAs<LogEntry>(node.log->entry(number).data());
  const bool matters = entry.kind == LogEntry::Kind::kClock || entry.tells();
  if (!matters && node.released.empty()) {
    node.log->Pop();
  } else {
    node.released.push_back(number);
  }
}

void FailoverWorld::DeliverSeal(Node& node) {
  node.is_seal_due = false;
  OutputLogger& logger = node.log->logger();
  if (node.seals && !logger.sealed()) {
    logger.Seal();
    for (const uint64_t number : node.never_came) LoseEntry(node, number);
    node.never_came.clear();
  } else {
    logger.Report();
  }
  while (logger.has_more()) {
    Saw(node.logger_history, 0);
    logger.Resume(logger_out_);
    ExecuteLogger(node);
  }
}

void FailoverWorld::ExecuteLogger(Node& node) {
  const LoggerOut out = logger_out_;
  logger_out_.clear();
  uint64_t id = node.logger_history;
  for (const LoggerCommand& command : out.commands()) {
    Execute(node, command, ++id);
  }
}

void FailoverWorld::Execute(Node& node, const LoggerCommand& command,
                            uint64_t id) {
  using Kind = LoggerCommand::Kind;
  const auto round = static_cast<uint32_t>(node.round);
  switch (command.kind) {
    case Kind::kRelease:
    case Kind::kDrop:
    case Kind::kReleased:
      break;
    case Kind::kSendTakeoverAck: {
      UnitCommand ack = UnitCommand::Send(command.unit, command.takeover_ack);
      ack.takeover_ack.sender = IdOf(node);
      mail_.push_back({.to = command.unit, .command = ack, .id = id});
      break;
    }
    case Kind::kSendState: {
      ++totals_.from_loggers;
      const auto bytes = node.log->logger()
                             .state_bytes(command.state.flow)
                             .first(command.state.bytes);
      mail_.push_back(
          {.to = command.unit,
           .command = UnitCommand::Send(command.unit, command.state),
           .record = {bytes.begin(), bytes.end()},
           .id = id});
      break;
    }
    case Kind::kTell:
      // The controller acknowledges it as soon as it comes.
      if (command.tell.ended) {
        node.log->logger().on_end_ack(command.tell.note.flow,
                                      command.tell.note.clock);
      }
      node.answers.push_back({.kind = command.kind, .tell = command.tell});
      break;
    case Kind::kFreePieces:
      node.answers.push_back({.kind = command.kind, .pieces = command.pieces});
      break;
    case Kind::kApplied:
      node.answers.push_back({.kind = command.kind,
                              .sealed = {.flow = command.applied.flow,
                                         .applied = command.applied.clock,
                                         .round = round,
                                         .unit = IdOf(node)}});
      break;
    case Kind::kSealed:
      // Else another process has grants by now, with numbers of its own.
      node.answers.push_back({.kind = command.kind,
                              .sealed = {.round = round, .unit = IdOf(node)},
                              .grants = command.sealed.grant,
                              .has_grants = node.seals});
      break;
    default:
      Fail("an unexpected command of a logger");
  }
}

// --- Loggers that fail. ---

// A logger whose unit is there, so that it can give all back.
bool FailoverWorld::CanReplaceLogger(const Node& node) const {
  if (node.unit == nullptr || node.is_refused || node.is_logger_gone() ||
      node.fenced != nullptr || value(IdOf(node)) == failing_) {
    return false;
  }
  // What it has of earlier processes is not its unit's.
  return node.process == 0;
}

void FailoverWorld::FailALogger() {
  if (logger_failures_ == 0) return;
  if (logger_fails_at_ == 0) logger_fails_at_ = 1 + rng_.Below(150);
  if (--logger_fails_at_ > 0) return;
  Node& node = nodes_[rng_.Below(nodes_.size())];
  if (!CanReplaceLogger(node)) return;
  FailLogger(node, static_cast<LoggerFailure>(rng_.Below(3)));
}

void FailoverWorld::FailLogger(Node& node, LoggerFailure failure) {
  --logger_failures_;
  node.log->failure.emplace();
  node.logger_taken = node.log->logger().taken();
  node.logger_failure = failure;
  if (failure != LoggerFailure::kSuspected) return;
  // It goes on with what is on its way to it, from now on in vain.
  for (const uint64_t number : node.entries) {
    const auto entry = node.log->entry(number);
    node.fenced_entries.push_back(
        {{entry.begin(), entry.end()}, node.did[number]});
  }
  node.entries.clear();
}

void FailoverWorld::ReplaceLogger(Node& node, bool loses_one) {
  using LeavesOut = FailoverPlan::LeavesOut;
  LogChannel& log = *node.log;
  const uint64_t taken = node.logger_taken;
  uint64_t released = log.maker().number();
  if (node.logger_failure == LoggerFailure::kProcess) {
    released = taken + (loses_one ? 1 : 0);
  }
  if (plan_.leaves_out == LeavesOut::kRecords) {
    Unit nothing(IdOf(node), {}, node.nf.schema(), node.nf.pools());
    log.Restore(nothing, released);
  } else {
    log.Restore(*node.unit, released);
  }
  OutputLogger before = log.logger();
  log.Replace();
  for (uint64_t number = taken + 1; number <= released; ++number) {
    LoseEntry(node, number);
    SayReleased(node, number);
  }
  std::erase_if(node.entries,
                [&](uint64_t number) { return number <= released; });
  if (node.logger_failure == LoggerFailure::kSuspected) {
    node.fenced = std::make_unique<OutputLogger>(std::move(before));
  }
  ++totals_.loggers_replaced;
}

// What an entry did is in the logger that took over, if that had it from its
// unit, and nobody sends its packet.
void FailoverWorld::LoseEntry(Node& node, uint64_t number) {
  if (number > node.log->logger().kept_through()) return;
  const auto entry = node.log->Parse(node.log->entry(number));
  if (!entry.has_value()) return Fail("L1: an entry cannot be read");
  if ((*entry)->kind != LogEntry::Kind::kClock) return;
  on_done(node, *entry, node.did[number], /*is_lost=*/true);
}

// What it would release goes nowhere.
void FailoverWorld::DeliverToFenced(Node& node) {
  const auto [bytes, did] = node.fenced_entries.front();
  node.fenced_entries.pop_front();
  OutputLogger& logger =
      node.fenced != nullptr ? *node.fenced : node.log->logger();
  logger.on_entry(bytes, logger_out_);
  const bool is_fenced = plan_.leaves_out != FailoverPlan::LeavesOut::kFence;
  for (const LoggerCommand& command : logger_out_.commands()) {
    if (command.kind != LoggerCommand::Kind::kRelease) continue;
    ++totals_.refused_of_fenced;
    const auto entry = node.log->Parse(bytes);
    if (!is_fenced) check_.on_done(*entry, did, /*is_lost_with_logger=*/false);
  }
  logger_out_.clear();
}

}  // namespace snf
