// SPDX-License-Identifier: Apache-2.0
//
// What loggers do, how they fail, and how others take their places.
#include <algorithm>

#include "platform/system_test/test_failover_world.h"
#include "runtime/logger/log_entry.h"

namespace snf {

// --- Loggers. ---

void FailoverWorld::DeliverEntry(Node& node) {
  const Entry entry = std::move(node.entries.front());
  node.entries.pop_front();
  const auto number = LoadAs<LogEntry>(entry.bytes.data()).number;
  totals_.taken_by_new += number <= node.logger->kept_through() ? 1 : 0;
  const auto result = node.logger->on_entry(entry.bytes, logger_out_);
  if (result != OutputLogger::Result::kTaken &&
      result != OutputLogger::Result::kRefused) {
    Fail("L2: an entry is not taken");
  }
  if (result == OutputLogger::Result::kRefused &&
      number <= node.logger->kept_through()) {
    LosePacket(LoadAs<LogEntry>(entry.bytes.data()));
  }
  ExecuteLogger(node, entry.seen);
}

void FailoverWorld::DeliverSeal(Node& node) {
  node.is_seal_due = false;
  node.answers.clear();
  if (node.seals && !node.logger->sealed()) {
    node.logger->Seal();
  } else {
    node.logger->Report();
  }
  while (node.logger->has_more()) {
    Saw(node.logger_history, 0);
    node.logger->Resume(logger_out_);
    ExecuteLogger(node, 0);
  }
}

void FailoverWorld::ExecuteLogger(Node& node, uint64_t seen) {
  using Kind = LoggerCommand::Kind;
  const LoggerOut out = logger_out_;
  logger_out_.clear();
  uint64_t id = node.logger_history;
  for (const LoggerCommand& command : out.commands()) {
    ++id;
    switch (command.kind) {
      case Kind::kRelease:
        on_released(command.meta, seen);
        break;
      case Kind::kReleased:
        if (node.unit != nullptr) node.released.push_back(command.meta);
        break;
      case Kind::kSendTakeoverAck: {
        UnitCommand ack = UnitCommand::Send(command.unit, command.takeover_ack);
        ack.takeover_ack.sender = IdOf(node);
        mail_.push_back({.to = command.unit, .command = ack, .id = id});
        break;
      }
      case Kind::kSendState: {
        ++totals_.from_loggers;
        const auto bytes = node.logger->state_bytes(command.state.flow)
                               .first(command.state.bytes);
        mail_.push_back(
            {.to = command.unit,
             .command = UnitCommand::Send(command.unit, command.state),
             .record = {bytes.begin(), bytes.end()},
             .id = id});
        break;
      }
      case Kind::kApplied:
        node.answers.push_back({.flow = command.applied.flow,
                                .applied = command.applied.clock,
                                .round = static_cast<uint32_t>(node.round),
                                .unit = IdOf(node)});
        break;
      case Kind::kSealed:
        node.answers.push_back(
            {.round = static_cast<uint32_t>(node.round), .unit = IdOf(node)});
        break;
      default:
        Fail("an unexpected command of a logger");
    }
  }
}

// --- Loggers that fail. ---

// A logger whose unit is there, so that it can give all back.
bool FailoverWorld::CanReplaceLogger(const Node& node) const {
  if (node.unit == nullptr || node.is_refused || node.is_logger_gone ||
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
  node.is_logger_gone = true;
  node.logger_taken = node.logger->taken();
  node.logger_failure = failure;
  if (failure != LoggerFailure::kSuspected) return;
  // It goes on with what is on its way to it, from now on in vain.
  node.fenced_entries.swap(node.entries);
}

void FailoverWorld::ReplaceLogger(Node& node, bool loses_one) {
  const uint64_t taken = node.logger_taken;
  uint64_t released = node.entry;
  if (node.logger_failure == LoggerFailure::kProcess) {
    released = taken + (loses_one ? 1 : 0);
  }
  OutputLogger next(node.process, {.max_flows = 64, .packets = 512},
                    node.nf.schema(), {}, /*takes_over=*/true);
  RestoreFlows(node, released, next);
  next.EndRestore(released, node.entry);
  for (const Entry& entry : node.kept) {
    const auto lost = LoadAs<LogEntry>(entry.bytes.data());
    if (lost.number <= taken || lost.number > released) continue;
    if (lost.kind != LogEntry::Kind::kClock) continue;
    node.released.push_back(lost.meta);
    LosePacket(lost);
  }
  std::erase_if(node.entries, [&](const Entry& entry) {
    return LoadAs<LogEntry>(entry.bytes.data()).number <= released;
  });
  if (node.logger_failure == LoggerFailure::kSuspected) {
    node.fenced = std::move(node.logger);
  }
  node.logger = std::make_unique<OutputLogger>(std::move(next));
  node.is_logger_gone = false;
  ++totals_.loggers_replaced;
}

// A new logger has what the packet did, and nobody sends it.
void FailoverWorld::LosePacket(const LogEntry& entry) {
  if (entry.kind != LogEntry::Kind::kClock || entry.packet == kNoPacket) return;
  ++totals_.lost_with_loggers;
  ClockStory& story = flows_[entry.meta.flow][value(entry.meta.clock) - 1];
  story.is_lost_with_logger = true;
}

// Gives a new logger the records of flows that the unit keeps.
void FailoverWorld::RestoreFlows(Node& node, uint64_t released,
                                 OutputLogger& next) {
  if (plan_.leaves_out == FailoverPlan::LeavesOut::kRecords) return;
  std::map<FlowId, Clock> clocks;
  for (const Entry& entry : node.kept) {
    const auto kept = LoadAs<LogEntry>(entry.bytes.data());
    if (kept.number > released && kept.kind == LogEntry::Kind::kClock) {
      clocks.emplace(kept.meta.flow, Clock{value(kept.meta.clock) - 1});
    }
  }
  uint32_t at = 0;
  while (const auto flow = node.unit->NextLogged(at)) {
    const auto clock = clocks.find(flow->flow);
    LogEntry entry;
    entry.number = node.entry;
    entry.meta.flow = flow->flow;
    entry.meta.clock = entry.state = flow->record.clock;
    entry.base = clock == clocks.end() ? flow->record.clock : clock->second;
    entry.timer = flow->record.timer;
    entry.schema = node.nf.schema().hash();
    entry.incarnation = node.process;
    entry.link = flow->record.link;
    entry.flags = LogEntry::kWhole;
    entry.delta_bytes = static_cast<uint32_t>(flow->record.bytes.size());
    Bytes bytes(MaxLogEntryBytes(node.nf.schema()));
    bytes.resize(
        WriteLogEntry(entry, {}, {}, nullptr, flow->record.bytes, bytes));
    if (!next.Restore(bytes)) Fail("F8: a record is not taken");
  }
}

// What it would release goes nowhere.
void FailoverWorld::DeliverToFenced(Node& node) {
  const Entry entry = std::move(node.fenced_entries.front());
  node.fenced_entries.pop_front();
  OutputLogger& logger = node.fenced != nullptr ? *node.fenced : *node.logger;
  logger.on_entry(entry.bytes, logger_out_);
  const bool is_fenced = plan_.leaves_out != FailoverPlan::LeavesOut::kFence;
  for (const LoggerCommand& command : logger_out_.commands()) {
    if (command.kind != LoggerCommand::Kind::kRelease) continue;
    ++totals_.refused_of_fenced;
    if (!is_fenced) on_released(command.meta, entry.seen);
  }
  logger_out_.clear();
}

}  // namespace snf
