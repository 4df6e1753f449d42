// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_failover_world.h"

#include <algorithm>
#include <cstring>

#include "base/packet/ip_address.h"

namespace snf {
namespace {

constexpr uint32_t kQueue = 4;
constexpr uint32_t kReserve = 1;
constexpr uint32_t kLength = 1'000;
constexpr uint64_t kQueues = 9;  // of a node

ControllerOptions OptionsOf(const FailoverPlan& plan) {
  ControllerOptions options;
  options.flowlet_bytes = plan.flowlet_packets * kLength;
  options.max_flows = 16;
  options.max_units = plan.units;
  options.warm_units = plan.units;
  options.unit_queue_packets = kQueue;
  options.recovery_slots = kReserve;
  options.start_buffer_packets = 2;
  options.unit_idle_timeout = Seconds(1'000);
  options.max_owner_runs = 1'000;
  options.awaits_ends = true;
  options.replicas = 1;
  options.replica_choice = ReplicaChoice::kWeighted;
  return options;
}

UnitOptions UnitOptionsOf() {
  return {.max_flows = 16,
          .queue_packets = kQueue + kReserve,
          .packets_elsewhere = 64,
          .hold_packets = 64,
          .replicas = 1,
          .max_replicas = 8,
          .push_bases = 2,
          .retry_after = Milliseconds(1),
          .has_logger = true};
}

FlowKey KeyOf(uint32_t flow) {
  FlowKey key;
  key.source = IpAddress::FromIpv4(be32(0x0a00'0000 + flow));
  key.destination = IpAddress::FromIpv4(be32(0xc000'0209));
  key.form = FlowKeyForm::kIpv4;
  return key;
}

}  // namespace

Placement FailoverWorld::AnyUnit::Place(Instant now,
                                        const PlacementRequest& /*request*/,
                                        UnitPool& pool,
                                        ControllerOut& out) const {
  const uint64_t first = world_->is_chosen_
                             ? world_->first_place_
                             : world_->rng_.Below(pool.max_units());
  for (uint32_t i = 0; i < pool.max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>((first + i) % pool.max_units())};
    if (pool.Use(now, unit, out)) return {.unit = unit};
  }
  return {};
}

FailoverWorld::FailoverWorld(uint64_t seed, const FailoverPlan& plan)
    : rng_(seed),
      plan_(plan),
      policy_(*this),
      controller_(OptionsOf(plan), policy_),
      buffers_({.small = 512, .medium = 0, .large = 0}),
      logger_failures_(plan.logger_failures) {
  if (plan.pieces > 0) controller_.AddPiecePool(0, plan.pieces - 1);
  nodes_.reserve(plan.units);  // an NF with tables stays where it is
  for (uint32_t i = 0; i < plan.units; ++i) nodes_.emplace_back(plan.pieces);
  std::vector<TableShape> tables;
  if (plan.tables) {
    tables.push_back(TablesOf(nodes_.front().nf).front()->shape());
    tables_ = std::make_unique<FailoverTables>(
        tables.front(), plan.units,
        plan.leaves_out != FailoverPlan::LeavesOut::kNumbers);
  }
  for (Node& node : nodes_) {
    MakeUnit(node);
    node.log =
        std::make_unique<LogChannel>(64, node.nf.schema(), node.nf.pools(),
                                     /*may_fail=*/true, /*window=*/1, tables);
  }
}

void FailoverWorld::MakeUnit(Node& node) {
  node.unit = std::make_unique<Unit>(IdOf(node), UnitOptionsOf(),
                                     node.nf.schema(), node.nf.pools());
  if (plan_.tables) node.unit->LogTables(TablesOf(node.nf));
}

std::string FailoverWorld::Run(FailoverTotals& totals) {
  uint32_t failures = plan_.failures;
  uint64_t fails_at = rng_.Below(300);
  const uint64_t sends = 2 + rng_.Below(20);  // the more, the less is idle
  for (uint64_t step = 0; wrong().empty() && sent_ < plan_.packets; ++step) {
    now_ = now_ + Nanos{static_cast<int64_t>(rng_.Below(100'000))};
    if (Below(sends))
      SendPacket(static_cast<uint32_t>(rng_.Below(plan_.flows)));
    Step();
    FailALogger();
    if (failing_ < nodes_.size()) {
      if (Below(5)) Detect(nodes_[failing_]);
    } else if (failures > 0 && step >= fails_at &&
               !controller_.is_recovering()) {
      Node& node = nodes_[rng_.Below(nodes_.size())];
      if (node.unit == nullptr || node.is_refused || node.is_logger_gone()) {
        continue;
      }
      --failures;
      fails_at = step + rng_.Below(300);
      if (plan_.only_suspected) {
        Suspect(node);
      } else {
        Kill(node, Below(50), rng_.Below(node.entries.size() + 1));
      }
    }
  }
  if (failing_ < nodes_.size()) Detect(nodes_[failing_]);
  Settle("after the last packet");
  // What is kept of each flow shows in one more packet.
  for (uint32_t flow = 0; wrong().empty() && flow < plan_.flows; ++flow) {
    SendPacket(flow);
    Settle("after one more packet of each flow");
  }
  if (wrong().empty()) CheckEnd();
  if (tables_ != nullptr) {
    totals.updates_refused += tables_->refused();
    totals.updates_in_rest += tables_->in_rest();
    totals.keys_erased += tables_->erased();
  }
  const FailureCounters& counters = controller_.counters().failures;
  totals.released += totals_.released;
  totals.tombstones += counters.clocks_lost;
  totals.rerouted += counters.packets_rerouted;
  totals.moved += counters.flows_moved;
  totals.redirects += counters.redirects;
  totals.given_up += counters.flows_given_up;
  totals.from_loggers += totals_.from_loggers;
  totals.to_loggers += totals_.to_loggers;
  totals.restarts += totals_.restarts;
  totals.loggers_replaced += totals_.loggers_replaced;
  totals.lost_with_loggers += totals_.lost_with_loggers;
  totals.refused_of_fenced += totals_.refused_of_fenced;
  totals.taken_by_new += totals_.taken_by_new;
  for (const Node& node : nodes_) {
    totals.refused += std::as_const(*node.log).logger().refused();
  }
  for (const auto& [flow, story] : check_.flows()) {
    totals.ended += story.has_ended ? 1 : 0;
  }
  totals.fired += totals_.fired;
  totals.takes += totals_.takes;
  totals.aliases += controller_.counters().aliases_granted;
  totals.tells_by_loggers += totals_.tells_by_loggers;
  return wrong();
}

// --- What happens next. ---

// Returns false if nothing can go on at this time.
bool FailoverWorld::Step() {
  if (tables_ != nullptr && Below(20) && StepTables()) return true;
  if (controller_.next_wakeup() <= now_ && Below(50)) {
    controller_.on_timers(now_, controller_out_);
    ExecuteController();
    return true;
  }
  const uint64_t places = nodes_.size() * kQueues + mail_.size();
  const uint64_t first = rng_.Below(places);
  for (uint64_t i = 0; i < places; ++i) {
    const uint64_t place = (first + i) % places;
    if (place >= nodes_.size() * kQueues) {
      DeliverMail(place - nodes_.size() * kQueues);
      return true;
    }
    if (StepNode(nodes_[place / kQueues], place % kQueues)) return true;
  }
  if (controller_.next_wakeup() > now_) {
    return tables_ != nullptr && StepTables();
  }
  controller_.on_timers(now_, controller_out_);
  ExecuteController();
  return true;
}

// Carries updates of tables between a logger, which its unit hears of in vain
// at times, and the home.
bool FailoverWorld::StepTables() {
  const uint64_t first = rng_.Below(nodes_.size());
  for (uint64_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[(first + i) % nodes_.size()];
    UpdateLog* const log =
        node.is_logger_gone() ? nullptr : &node.log->logger().updates();
    if (!tables_->Step(now_, IdOf(node), log, rng_)) continue;
    if (log != nullptr && node.unit != nullptr && Below(50)) {
      node.log->on_updates_merged(
          log->entries_merged(node.log->logger().taken()));
    }
    return true;
  }
  return false;
}

bool FailoverWorld::StepNode(Node& node, uint64_t which) {
  const bool lives = node.unit != nullptr;
  if (which == 0 && lives && !node.in.empty()) {
    DeliverIn(node);
  } else if (which == 1 && !node.out.empty()) {
    DeliverReport(node);
  } else if (which == 2 && !node.entries.empty() && !node.is_logger_gone()) {
    DeliverEntry(node);
  } else if (which == 3 && lives && !node.released.empty()) {
    DeliverReleased(node);
  } else if (which == 4 && !node.answers.empty()) {
    DeliverAnswer(node);
  } else if (which == 5 && node.is_seal_due &&
             (lives || node.entries.empty())) {
    DeliverSeal(node);
  } else if (which == 7 && CanEndReplacing(node) && Below(20)) {
    const bool has_next = !node.entries.empty();
    ReplaceLogger(node, has_next && Below(50));
  } else if (which == 8 && !node.fenced_entries.empty()) {
    DeliverToFenced(node);
  } else if (which == 6 && lives) {
    if (node.unit->next_wakeup() <= now_ && Below(50)) {
      CallUnit(node, kNoFlow, [&] { node.unit->on_timers(now_, unit_out_); });
    } else {
      if (!node.unit->busy() && !Begin(node)) return false;
      if (node.unit->busy() && Below(50)) Serve(node);
    }
  } else {
    return false;
  }
  return true;
}

// A unit that is idle takes the next packet. Returns whether anything came of
// it.
bool FailoverWorld::Begin(Node& node) {
  unit_out_.clear();
  node.unit->begin(now_, unit_out_);
  bool did = !unit_out_.empty() || node.unit->busy();
  ExecuteUnit(node);
  while (node.unit->has_more()) {
    did = true;
    node.unit->Resume(now_, unit_out_);
    ExecuteUnit(node);
  }
  return did;
}

bool FailoverWorld::IsQuiet() const {
  if (!mail_.empty() || controller_.is_recovering()) return false;
  if (check_.IsAwaitingTimer()) return false;
  return std::ranges::all_of(nodes_, [this](const Node& node) {
    const bool has_updates =
        tables_ != nullptr && (!tables_->IsQuiet(IdOf(node)) ||
                               !node.log->logger().updates().empty());
    if (has_updates) return false;
    const bool is_idle =
        node.unit == nullptr ||
        (node.in.empty() && node.released.empty() && !node.unit->busy() &&
         (node.is_refused || (node.inside.empty() && node.log->empty())));
    return is_idle && node.out.empty() && node.entries.empty() &&
           node.answers.empty() && !node.is_seal_due &&
           !node.is_logger_gone() && node.fenced_entries.empty();
  });
}

// Lets everything come to rest.
void FailoverWorld::Settle(const char* when) {
  for (int steps = 0; steps < 20'000 && wrong().empty(); ++steps) {
    if (Step()) continue;
    if (IsQuiet()) return;
    now_ = now_ + Milliseconds(1);
  }
  if (wrong().empty()) Fail(std::string("I7: nothing settles ") + when);
}

void FailoverWorld::SendPacket(uint32_t flow) {
  FailoverPacket sent = {.number = ++sent_};
  if (is_chosen_) {
    if (sent_ <= plan_.asks.size()) sent.asks = plan_.asks[sent_ - 1];
  } else if (plan_.may_ask != 0 && sent_ <= plan_.packets) {
    sent.asks = plan_.may_ask & rng_.Below(256);
    // Ends are few, or nothing else comes to pass.
    if (!Below(20)) sent.asks &= ~uint64_t{kAskEnd};
  }
  const PacketHandle packet = buffers_.Allocate(sizeof sent);
  buffers_.info(packet).length = sizeof sent;
  packets_[packet] = sent.number;
  std::memcpy(buffers_.bytes(packet).data(), &sent, sizeof sent);
  const Arrival arrival = {.key = KeyOf(flow),
                           .time = now_,
                           .original_length = kLength,
                           .packet = packet};
  controller_.on_packets(now_, std::span(&arrival, 1), controller_out_);
  ExecuteController();
}

// --- Failures. ---

// The process ends. Its rings survive, or, with its host, some of what is under
// way to the logger arrives.
void FailoverWorld::Kill(Node& node, bool keeps_rings, size_t arrive) {
  failing_ = value(IdOf(node));
  node.unit = nullptr;
  node.keeps_rings = keeps_rings;
  node.released.clear();
  if (keeps_rings) return;
  node.inside.clear();
  node.in.clear();
  while (node.entries.size() > arrive) {
    node.never_came.push_front(node.entries.back());
    node.entries.pop_back();
  }
}

void FailoverWorld::Suspect(Node& node) {
  failing_ = value(IdOf(node));
  node.keeps_rings = false;
}

void FailoverWorld::Detect(Node& node) {
  failing_ = ~uint32_t{0};
  node.is_refused = true;
  node.out.clear();
  if (!controller_.on_unit_failed(now_, IdOf(node), node.incarnation,
                                  controller_out_)) {
    Fail("the controller refuses a failure");
  }
  const auto survives = [&](const ControllerCommand& command) {
    if (command.packet == kNoPacket) return;
    if (!controller_.on_survivor(command.meta, command.packet)) {
      Fail("the controller refuses a survivor");
    }
  };
  if (node.keeps_rings) {
    for (const auto& [clock, command] : node.inside) survives(command);
    for (const Order& order : node.in) {
      const ControllerCommand& command = order.command;
      const bool is_packet = command.kind == ControllerCommand::Kind::kEnqueue;
      if (order.told == 0 && is_packet) survives(command);
    }
  }
  node.in.clear();
  node.inside.clear();
  ExecuteController();
}

// --- The controller. ---

void FailoverWorld::ExecuteController() {
  using Kind = ControllerCommand::Kind;
  const ControllerOut out = controller_out_;
  controller_out_.clear();
  for (const ControllerCommand& command : out.commands()) {
    switch (command.kind) {
      case Kind::kEnqueue:
        on_enqueue(command);
        break;
      case Kind::kReplicas:
      case Kind::kRedirect:
      case Kind::kDoneQuery:
      case Kind::kEndFlow:
      case Kind::kAliasAck:
      case Kind::kPieces:
      case Kind::kReclaim:
      case Kind::kForsake:
        if (command.kind == Kind::kForsake) {
          check_.on_given_up(command.end.flow);
        }
        if (!NodeOf(command.unit).is_refused) {
          NodeOf(command.unit).in.push_back({command});
        }
        break;
      case Kind::kSeal: {
        Node& node = NodeOf(command.unit);
        node.is_seal_due = true;
        node.seals = !command.seal.is_sealed;
        node.round = command.seal.round;
        break;
      }
      case Kind::kStartUnit:
        StartUnit(command);
        break;
      case Kind::kParkUnit:
        break;  // its process stays
      case Kind::kDrop:
        packets_.erase(command.packet);
        break;
      default:
        Fail("an unexpected command");
    }
  }
}

void FailoverWorld::on_enqueue(const ControllerCommand& command) {
  const bool has_packet = command.packet != kNoPacket;
  check_.on_enqueue(command.meta, has_packet ? packets_.at(command.packet) : 0);
  Node& node = NodeOf(command.unit);
  if (node.is_refused) {
    Fail("F2: a failed unit gets a packet");
  } else {
    node.in.push_back({command});
  }
}

void FailoverWorld::StartUnit(const ControllerCommand& command) {
  Node& node = NodeOf(command.unit);
  node.incarnation = command.incarnation;
  if (!command.warm) {
    if (!node.is_refused) Fail("a start of a unit that runs");
    if (node.is_seal_due && node.seals) {
      Fail("F2: a unit starts anew before its logger is sealed");
      return;
    }
    node.is_refused = false;
    node.entries.clear();
    node.released.clear();
    node.inside.clear();
    node.running.clear();
    node.did.clear();
    node.told = 0;
    MakeUnit(node);
    node.log->BeginAnew();
    ++node.process;
    Saw(node.history, history_);
    Saw(node.logger_history, history_);
    ++totals_.restarts;
  }
  node.out.push_back({.kind = Report::Kind::kReady});
}

void FailoverWorld::DeliverReport(Node& node) {
  const Report report = node.out.front();
  node.out.pop_front();
  switch (report.kind) {
    case Report::Kind::kDrained:
      if (!controller_.on_drained(now_, report.drained)) {
        Fail("a drain is refused");
      }
      break;
    case Report::Kind::kTakeover:
      controller_.on_takeover(report.takeover);
      break;
    case Report::Kind::kDone:
      controller_.on_done(now_, report.done, controller_out_);
      break;
    case Report::Kind::kReady:
      controller_.on_unit_ready(now_, IdOf(node));
      break;
    case Report::Kind::kAlias: {
      const AliasResult result =
          controller_.on_alias(report.alias, controller_out_);
      const bool is_common = report.alias.key == FailoverNf::CommonAlias();
      if (result == AliasResult::kConflict && !is_common) {
        Fail("I8: another flow has the alias of a piece");
      }
      break;
    }
    case Report::Kind::kNote:
      controller_.on_flow_note(now_, report.note, controller_out_);
      break;
    case Report::Kind::kTimerDue:
      controller_.on_timer_due(now_, report.timer_due, controller_out_);
      break;
    case Report::Kind::kRequest:
      controller_.on_piece_request(now_, report.request, controller_out_);
      break;
    case Report::Kind::kReturn:
      controller_.on_pieces_returned(now_, report.pieces, controller_out_);
      break;
    case Report::Kind::kEnded:
      controller_.on_ended(report.ended.flow);
      break;
  }
  if (report.number > 0) {
    node.told = report.number;
    node.in.push_back({.told = report.number, .ended = report.ended});
  }
  ExecuteController();
}

void FailoverWorld::DeliverAnswer(Node& node) {
  using Kind = LoggerCommand::Kind;
  using LeavesOut = FailoverPlan::LeavesOut;
  const Answer answer = node.answers.front();
  node.answers.pop_front();
  const auto leaves_out = [&](LeavesOut rule) {
    return plan_.leaves_out == rule;
  };
  const auto take_back = [&](PieceBlock pieces) {
    pieces.unit = IdOf(node);
    controller_.on_pieces_returned(now_, pieces, controller_out_);
  };
  if (answer.kind == Kind::kTell) {
    if (leaves_out(LeavesOut::kTells) || answer.tell.number <= node.told)
      return;
    ++totals_.tells_by_loggers;
    if (answer.tell.ended) {
      controller_.on_ended(answer.tell.note.flow);
    } else if (answer.tell.is_return) {
      take_back(answer.tell.pieces);
    } else {
      controller_.on_flow_note(now_, answer.tell.note, controller_out_);
    }
  } else if (answer.kind == Kind::kFreePieces) {
    if (!leaves_out(LeavesOut::kFree)) take_back(answer.pieces);
  } else {
    if (answer.has_grants && !leaves_out(LeavesOut::kGrants)) {
      controller_.on_grants_sealed(now_, IdOf(node), answer.grants,
                                   controller_out_);
    }
    controller_.on_sealed(now_, answer.sealed, controller_out_);
  }
  ExecuteController();
}

// --- The end. ---

void FailoverWorld::CheckEnd() {
  check_.CheckEnd();
  for (uint32_t slot = 0; slot < controller_.flows().used(); ++slot) {
    if (controller_.flows().cold(slot).owner == kNoUnit) continue;
    if ((controller_.flows().hot(slot).flags & FlowHot::kEnding) != 0) {
      Fail("I7: a flow's end is awaited");
    }
  }
  if (plan_.pieces > 0) CheckPieces();
  if (tables_ == nullptr) return;
  if (const std::string wrong = tables_->End(); !wrong.empty()) Fail(wrong);
}

// Each piece is at one place: the controller, a unit, or a flow.
void FailoverWorld::CheckPieces() {
  uint64_t found = 0;
  const auto find = [&](uint64_t pieces, const char* where) {
    if ((found & pieces) != 0) {
      Fail(std::string("I8: a piece is twice, once ") + where);
    }
    found |= pieces;
  };
  find(controller_.free_pieces(0, 0), "at the controller");
  for (Node& node : nodes_) {
    if (node.unit == nullptr || node.is_refused) continue;
    find(node.log->logger().pieces(0).word(0), "at a unit");
  }
  bool is_all_there = true;
  for (const auto& [id, flow] : check_.flows()) {
    if (flow.is_given_up) is_all_there = false;
    if (!flow.has_ended) find(flow.pieces, "with a flow");
  }
  if (is_all_there && found != (uint64_t{1} << plan_.pieces) - 1) {
    Fail("I8: a piece is nowhere");
  }
}

}  // namespace snf
