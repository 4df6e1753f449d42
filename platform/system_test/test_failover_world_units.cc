// SPDX-License-Identifier: Apache-2.0
//
// What units of a world of failures get and say.
#include <utility>

#include "platform/system_test/test_failover_world.h"

namespace snf {

// Makes a call of the unit, in which its NF may be called for that flow.
void FailoverWorld::CallUnit(Node& node, FlowId flow,
                             absl::FunctionRef<void()> call) {
  unit_out_.clear();
  node.nf.was_called = false;
  call();
  if (node.nf.was_called) {
    node.running[flow] = node.nf.did;
    if (node.nf.did.adds == FailoverNf::kFired) ++totals_.fired;
  }
  ExecuteUnit(node);
  while (node.unit->has_more()) {
    node.unit->Resume(now_, unit_out_);
    ExecuteUnit(node);
  }
}

void FailoverWorld::Serve(Node& node) {
  const FlowId flow = node.unit->in_service().flow;
  node.running.erase(flow);
  node.nf.did = {};
  CallUnit(node, flow, [&] {
    node.unit->finish(now_, {node.nf, buffers_}, unit_out_);
  });
}

void FailoverWorld::DeliverIn(Node& node) {
  const Order order = node.in.front();
  node.in.pop_front();
  if (order.told == 0) return DeliverOrder(node, order.command);
  EntryMaker& maker = node.log->maker();
  maker.MakeTold(order.told);
  Send(node);
  if (order.ended.last == Clock{}) return;
  maker.MakeEnded(order.ended.flow, order.ended.last);
  Send(node);
}

void FailoverWorld::DeliverOrder(Node& node, const ControllerCommand& command) {
  using Kind = ControllerCommand::Kind;
  Unit& unit = *node.unit;
  const NfContext env = {node.nf, buffers_};
  node.nf.did = {};
  switch (command.kind) {
    case Kind::kReplicas:
      unit.on_replicas(command.replicas);
      break;
    case Kind::kRedirect:
      CallUnit(node, kNoFlow,
               [&] { unit.on_redirect(now_, command.redirect, unit_out_); });
      break;
    case Kind::kDoneQuery:
      AnswerDoneQuery(node, command.done_query);
      break;
    case Kind::kEnqueue:
      node.inside.insert_or_assign({command.meta.flow, command.meta.clock},
                                   command);
      unit.on_packet(command.packet, command.meta);
      break;
    case Kind::kEndFlow:
      CallUnit(node, command.end.flow,
               [&] { unit.on_end_flow(now_, command.end, env, unit_out_); });
      break;
    case Kind::kAliasAck: {
      const AliasAck& ack = command.alias_ack;
      node.log->maker().on_alias_ack(ack);
      // What the packet did before its alias was asked for still counts.
      node.nf.did = node.running[ack.flow];
      CallUnit(node, ack.flow,
               [&] { unit.on_alias_ack(now_, ack, env, unit_out_); });
      break;
    }
    case Kind::kPieces:
      CallUnit(node, kNoFlow,
               [&] { unit.on_pieces(now_, command.pieces, unit_out_); });
      break;
    case Kind::kReclaim:
      CallUnit(node, kNoFlow,
               [&] { unit.on_reclaim(command.pieces.pool, unit_out_); });
      break;
    case Kind::kForsake:
      for (bool has_more = true; has_more;) {
        CallUnit(node, kNoFlow, [&] {
          has_more = unit.on_forsake(now_, command.end.flow, unit_out_);
        });
      }
      break;
    default:
      Fail("an unexpected order for a unit");
  }
}

void FailoverWorld::AnswerDoneQuery(Node& node, DoneQuery query) {
  uint32_t at = 0;
  while (auto answer = node.unit->NextDone(at)) {
    answer->round = query.round;
    Say(node, {.kind = Report::Kind::kDone, .done = *answer});
  }
  Say(node, {.kind = Report::Kind::kDone,
             .done = {.round = query.round, .unit = IdOf(node)}});
}

// The unit hears that its logger has an entry.
void FailoverWorld::DeliverReleased(Node& node) {
  const uint64_t number = node.released.front();
  node.released.pop_front();
  const Bytes bytes = node.log->Pop();
  const auto entry = node.log->Parse(bytes);
  if (!entry.has_value() || (*entry)->number != number) {
    return Fail("L1: entries are released in another order");
  }
  Tell(node, *entry);
  if ((*entry)->kind != LogEntry::Kind::kClock) return;
  for (size_t i = 0; i < (*entry)->pieces; ++i) {
    const PieceUse use = entry->piece(i);
    if (use.gives == 0) continue;
    const PieceBlock given = {.word = use.piece / 64,
                              .pool = use.pool,
                              .unit = IdOf(node),
                              .mask = uint64_t{1} << use.piece % 64};
    CallUnit(node, kNoFlow,
             [&] { node.unit->on_pieces_released(given, unit_out_); });
  }
  const PacketMeta meta = (*entry)->meta;
  node.nf.did = {};
  CallUnit(node, meta.flow, [&] {
    node.unit->on_released(now_, meta, {node.nf, buffers_}, unit_out_);
  });
}

// What the entry has for the controller goes on its way.
void FailoverWorld::Tell(Node& node, const LogEntryView& entry) {
  if (!entry->tells()) return;
  Report report = {.kind = Report::Kind::kNote, .number = entry->number};
  if (entry->is(LogEntry::kEnd)) {
    report.kind = Report::Kind::kEnded;
    report.ended = {entry->meta.flow, entry->meta.clock};
  } else if (entry->kind == LogEntry::Kind::kReturn) {
    report.kind = Report::Kind::kReturn;
    report.pieces = entry->block;
  } else {
    report.note.flow = entry->meta.flow;
    report.note.clock = entry->meta.clock;
    report.note.idle_timeout = entry->idle_timeout;
    report.note.over = entry->is(LogEntry::kOver);
  }
  Say(node, report);
}

void FailoverWorld::ExecuteUnit(Node& node) {
  using Kind = UnitCommand::Kind;
  const UnitOut out = unit_out_;
  unit_out_.clear();
  uint64_t id = node.history;
  EntryMaker& maker = node.log->maker();
  for (const UnitCommand& command : out.commands()) {
    ++id;
    if (command.kind <= Kind::kAdvance) {
      node.inside.erase({command.meta.flow, command.meta.clock});
      const uint64_t bytes =
          command.meta.has_payload()
              ? controller_.CostOf(command.meta.original_length)
              : 0;
      Say(node,
          {.kind = Report::Kind::kDrained, .drained = {IdOf(node), 1, bytes}});
    }
    switch (maker.Take(command, *node.unit)) {
      case EntryMaker::Taken::kNot:
        Execute(node, command, id);
        break;
      case EntryMaker::Taken::kPart:
        break;
      case EntryMaker::Taken::kEntry:
        Send(node);
        break;
    }
  }
  maker.EndCall();
}

// The maker's newest entry goes to the logger.
void FailoverWorld::Send(Node& node) {
  const uint64_t number = node.log->Keep(figures_);
  const LogEntry& entry = node.log->maker().header();
  if (entry.kind == LogEntry::Kind::kClock) {
    const auto did = node.running.find(entry.meta.flow);
    if (did != node.running.end()) {
      node.did[number] = did->second;
      node.running.erase(did);
    }
  }
  node.entries.push_back(number);
}

void FailoverWorld::Execute(Node& node, const UnitCommand& command,
                            uint64_t id) {
  using Kind = UnitCommand::Kind;
  switch (command.kind) {
    case Kind::kRelease:
    case Kind::kNfDrop:
    case Kind::kConsume:
      Fail("a packet leaves past the logger");
      break;
    case Kind::kDrop:
    case Kind::kAdvance:
    case Kind::kWait:
      break;
    case Kind::kReportTakeover:
      Say(node,
          {.kind = Report::Kind::kTakeover, .takeover = command.takeover});
      break;
    case Kind::kSendAlias:
      Say(node, {.kind = Report::Kind::kAlias,
                 .alias = node.unit->alias(command.meta.flow)});
      break;
    case Kind::kSendTimerDue:
      Say(node,
          {.kind = Report::Kind::kTimerDue, .timer_due = command.timer_due});
      break;
    case Kind::kRequestPieces:
      Say(node, {.kind = Report::Kind::kRequest, .request = command.request});
      break;
    case Kind::kSendPull:
    case Kind::kSendTakeover:
      mail_.push_back({.to = command.unit, .command = command, .id = id});
      break;
    case Kind::kSendState: {
      const auto bytes = node.unit->bytes_of(command.state);
      mail_.push_back({.to = command.unit,
                       .command = command,
                       .record = {bytes.begin(), bytes.end()},
                       .id = id});
      break;
    }
    default:
      Fail("an unexpected command of a unit");
  }
}

void FailoverWorld::DeliverMail(size_t i) {
  using Kind = UnitCommand::Kind;
  const Mail mail = std::move(mail_[i]);
  mail_.erase(mail_.begin() + static_cast<std::ptrdiff_t>(i));
  const UnitCommand& command = mail.command;
  Node& node = NodeOf(mail.to);
  const bool to_logger =
      command.to_logger ||
      (node.unit == nullptr && command.kind == Kind::kSendTakeover);
  if (to_logger && command.kind == Kind::kSendPull) {
    node.log->logger().on_pull(command.pull, logger_out_);
    ExecuteLogger(node);
  } else if (to_logger) {
    ++totals_.to_loggers;
    node.log->logger().on_takeover(command.takeover, logger_out_);
    ExecuteLogger(node);
  }
  if (to_logger || node.unit == nullptr) return;
  CallUnit(node, kNoFlow, [&] {
    if (command.kind == Kind::kSendPull) {
      node.unit->on_pull(now_, command.pull, unit_out_);
    } else if (command.kind == Kind::kSendTakeover) {
      node.unit->on_takeover(now_, command.takeover, unit_out_);
    } else if (command.kind == Kind::kSendTakeoverAck) {
      node.unit->on_takeover_ack(now_, command.takeover_ack, unit_out_);
    } else {
      node.unit->on_state(now_, command.state, mail.record, unit_out_);
    }
  });
}

}  // namespace snf
