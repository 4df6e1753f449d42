// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_failover_world.h"

#include <algorithm>
#include <cstring>

#include "base/packet/ip_address.h"
#include "runtime/logger/log_entry.h"

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

uint64_t Extended(uint64_t digest, uint64_t packet) {
  uint64_t hash = (digest ^ packet) * 0x9e37'79b9'7f4a'7c15;
  return hash ^ hash >> 29;
}

std::string Of(FlowId flow, Clock clock) {
  return " (flow " + std::to_string(slot_of(flow)) + ", clock " +
         std::to_string(value(clock)) + ")";
}

}  // namespace

Verdict FailoverWorld::Chronicle::process_packet(Packet& packet,
                                                 FlowState& flow) {
  uint64_t number = 0;
  std::memcpy(&number, packet.bytes().data(), sizeof number);
  seen = flow.get(digest_);
  flow.put(digest_, Extended(seen, number));
  return Verdict::forward();
}

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
      nodes_(plan.units),
      logger_failures_(plan.logger_failures) {
  for (Node& node : nodes_) {
    node.unit =
        std::make_unique<Unit>(IdOf(node), UnitOptionsOf(), node.nf.schema());
    node.logger = std::make_unique<OutputLogger>(
        node.process, OutputLoggerOptions{.max_flows = 64, .packets = 512},
        node.nf.schema());
  }
}

std::string FailoverWorld::Run(FailoverTotals& totals) {
  uint32_t failures = plan_.failures;
  uint64_t fails_at = rng_.Below(300);
  const uint64_t sends = 2 + rng_.Below(20);  // the more, the less is idle
  for (uint64_t step = 0; wrong_.empty() && sent_ < plan_.packets; ++step) {
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
      if (node.unit == nullptr || node.is_refused || node.is_logger_gone) {
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
  for (uint32_t flow = 0; wrong_.empty() && flow < plan_.flows; ++flow) {
    SendPacket(flow);
    Settle("after one more packet of each flow");
  }
  if (wrong_.empty()) CheckEnd();
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
  for (const Node& node : nodes_) totals.refused += node.logger->refused();
  return wrong_;
}

// --- What happens next. ---

// Returns false if nothing can go on at this time.
bool FailoverWorld::Step() {
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
  if (controller_.next_wakeup() > now_) return false;
  controller_.on_timers(now_, controller_out_);
  ExecuteController();
  return true;
}

bool FailoverWorld::StepNode(Node& node, uint64_t which) {
  const bool lives = node.unit != nullptr;
  if (which == 0 && lives && !node.in.empty()) {
    DeliverIn(node);
  } else if (which == 1 && !node.out.empty()) {
    DeliverReport(node);
  } else if (which == 2 && !node.entries.empty() && !node.is_logger_gone) {
    DeliverEntry(node);
  } else if (which == 3 && lives && !node.released.empty()) {
    const PacketMeta meta = node.released.front();
    node.released.pop_front();
    node.unit->on_released(now_, meta, {node.nf, buffers_}, unit_out_);
    ExecuteUnit(node);
  } else if (which == 4 && !node.answers.empty()) {
    const SealAnswer answer = node.answers.front();
    node.answers.pop_front();
    controller_.on_sealed(now_, answer, controller_out_);
    ExecuteController();
  } else if (which == 5 && node.is_seal_due &&
             (lives || node.entries.empty())) {
    DeliverSeal(node);
  } else if (which == 7 && node.is_logger_gone && Below(20)) {
    const bool has_next = !node.entries.empty();
    ReplaceLogger(node, has_next && Below(50));
  } else if (which == 8 && !node.fenced_entries.empty()) {
    DeliverToFenced(node);
  } else if (which == 6 && lives) {
    if (node.unit->next_wakeup() <= now_ && Below(50)) {
      node.unit->on_timers(now_, unit_out_);
      ExecuteUnit(node);
    } else {
      if (!node.unit->busy() && !node.unit->begin(now_, unit_out_)) {
        const bool has_done = !unit_out_.empty();
        ExecuteUnit(node);
        return has_done;
      }
      ExecuteUnit(node);
      if (Below(50)) Serve(node);
    }
  } else {
    return false;
  }
  return true;
}

void FailoverWorld::Serve(Node& node) {
  node.unit->finish(now_, {node.nf, buffers_}, unit_out_);
  ExecuteUnit(node);
}

bool FailoverWorld::IsQuiet() const {
  if (!mail_.empty() || controller_.is_recovering()) return false;
  return std::ranges::all_of(nodes_, [](const Node& node) {
    const bool is_idle =
        node.unit == nullptr ||
        (node.in.empty() && node.released.empty() && !node.unit->busy() &&
         (node.unit->held_packets() == 0 || node.is_refused));
    return is_idle && node.out.empty() && node.entries.empty() &&
           node.answers.empty() && !node.is_seal_due && !node.is_logger_gone &&
           node.fenced_entries.empty();
  });
}

// Lets everything come to rest.
void FailoverWorld::Settle(const char* when) {
  for (int steps = 0; steps < 20'000 && wrong_.empty(); ++steps) {
    if (Step()) continue;
    if (IsQuiet()) return;
    now_ = now_ + Milliseconds(1);
  }
  if (wrong_.empty()) Fail(std::string("I7: nothing settles ") + when);
}

void FailoverWorld::SendPacket(uint32_t flow) {
  const PacketHandle packet = buffers_.Allocate(sizeof sent_);
  buffers_.info(packet).length = sizeof sent_;
  packets_[packet] = ++sent_;
  std::memcpy(buffers_.bytes(packet).data(), &sent_, sizeof sent_);
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
  for (; node.entries.size() > arrive; node.entries.pop_back()) {
    const auto lost = LoadAs<LogEntry>(node.entries.back().bytes.data());
    if (lost.number <= node.logger->kept_through()) LosePacket(lost);
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
    for (const ControllerCommand& command : node.in) {
      if (command.kind == ControllerCommand::Kind::kEnqueue) survives(command);
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
        if (!NodeOf(command.unit).is_refused) {
          NodeOf(command.unit).in.push_back(command);
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
      case Kind::kDrop:
        packets_.erase(command.packet);
        break;
      default:
        Fail("an unexpected command");
    }
  }
}

void FailoverWorld::on_enqueue(const ControllerCommand& command) {
  const PacketMeta& meta = command.meta;
  std::vector<ClockStory>& clocks = flows_[meta.flow];
  if (value(meta.clock) > clocks.size()) {
    clocks.resize(value(meta.clock));
    if (command.packet != kNoPacket) {
      clocks.back().packet = packets_.at(command.packet);
    }
  } else {
    ClockStory& story = clocks[value(meta.clock) - 1];
    if (story.is_released || story.is_lost_with_logger) {
      Fail("I5: a released clock is lost" + Of(meta.flow, meta.clock));
    }
    if ((meta.flags & PacketMeta::kTombstone) != 0) story.is_lost = true;
  }
  Node& node = NodeOf(command.unit);
  if (node.is_refused) {
    Fail("F2: a failed unit gets a packet");
  } else {
    node.in.push_back(command);
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
    node.kept.clear();
    node.released.clear();
    node.entry = 0;
    node.unit =
        std::make_unique<Unit>(IdOf(node), UnitOptionsOf(), node.nf.schema());
    node.logger->Begin(++node.process);
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
  }
  ExecuteController();
}

// --- Units. ---

void FailoverWorld::DeliverIn(Node& node) {
  using Kind = ControllerCommand::Kind;
  const ControllerCommand command = node.in.front();
  node.in.pop_front();
  if (command.kind == Kind::kReplicas) {
    node.unit->on_replicas(command.replicas);
  } else if (command.kind == Kind::kRedirect) {
    node.unit->on_redirect(now_, command.redirect, unit_out_);
  } else if (command.kind == Kind::kDoneQuery) {
    uint32_t at = 0;
    while (auto answer = node.unit->NextDone(at)) {
      answer->round = command.done_query.round;
      node.out.push_back({.kind = Report::Kind::kDone, .done = *answer});
    }
    node.out.push_back(
        {.kind = Report::Kind::kDone,
         .done = {.round = command.done_query.round, .unit = command.unit}});
  } else if (command.kind == Kind::kEnqueue) {
    node.inside.insert_or_assign({command.meta.flow, command.meta.clock},
                                 command);
    node.unit->on_packet(command.packet, command.meta);
  }
  ExecuteUnit(node);
}

void FailoverWorld::ExecuteUnit(Node& node) {
  using Kind = UnitCommand::Kind;
  const UnitOut out = unit_out_;
  unit_out_.clear();
  PacketHandle packet = kNoPacket;
  uint64_t id = node.history;
  for (const UnitCommand& command : out.commands()) {
    ++id;
    switch (command.kind) {
      case Kind::kRelease:
      case Kind::kAdvance:
      case Kind::kDrop: {
        packet = command.packet;
        node.inside.erase({command.meta.flow, command.meta.clock});
        const uint64_t bytes =
            command.packet == kNoPacket ? 0 : controller_.CostOf(kLength);
        if (node.is_refused) break;
        node.out.push_back({.kind = Report::Kind::kDrained,
                            .drained = {IdOf(node), 1, bytes}});
        break;
      }
      case Kind::kLog:
        Log(node, command, packet);
        break;
      case Kind::kSendTakeoverAck:
        SendForget(node, command);
        break;
      case Kind::kReportTakeover:
        if (node.is_refused) break;
        node.out.push_back(
            {.kind = Report::Kind::kTakeover, .takeover = command.takeover});
        break;
      case Kind::kSendPull:
      case Kind::kSendTakeover:
        mail_.push_back({.to = command.unit, .command = command, .id = id});
        break;
      case Kind::kSendState: {
        const auto bytes = node.unit->state_bytes(command.state.flow)
                               .first(command.state.bytes);
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
}

void FailoverWorld::Log(Node& node, const UnitCommand& log,
                        PacketHandle packet) {
  const Unit::Change change = node.unit->change();
  LogEntry entry;
  entry.number = ++node.entry;
  entry.meta = log.meta;
  entry.base = log.meta.clock - 1;
  entry.state = log.meta.clock;
  entry.timer = change.timer;
  entry.schema = node.nf.schema().hash();
  entry.incarnation = node.process;
  entry.link = change.link;
  entry.flags = change.is_whole ? LogEntry::kWhole : uint8_t{0};
  entry.delta_bytes = static_cast<uint32_t>(change.bytes.size());
  entry.packet = log.meta.has_payload() ? packet : kNoPacket;
  entry.outcome = log.meta.has_payload() ? LogEntry::Outcome::kRelease
                                         : LogEntry::Outcome::kNone;
  Bytes bytes(MaxLogEntryBytes(node.nf.schema()));
  bytes.resize(WriteLogEntry(entry, {}, {}, nullptr, change.bytes, bytes));
  node.entries.push_back({std::move(bytes), node.nf.seen});
  node.kept.push_back(node.entries.back());
}

// The logger acknowledges a Takeover, once it has forgotten the flow too.
void FailoverWorld::SendForget(Node& node, const UnitCommand& ack) {
  LogEntry entry;
  entry.number = ++node.entry;
  entry.kind = LogEntry::Kind::kForget;
  entry.meta.flow = ack.takeover_ack.flow;
  entry.meta.clock = ack.takeover_ack.clock;
  entry.schema = node.nf.schema().hash();
  entry.incarnation = node.process;
  entry.block.unit = ack.unit;
  Bytes bytes(MaxLogEntryBytes(node.nf.schema()));
  bytes.resize(WriteLogEntry(entry, {}, {}, nullptr, {}, bytes));
  node.entries.push_back({std::move(bytes)});
  node.kept.push_back(node.entries.back());
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
    node.logger->on_pull(command.pull, logger_out_);
    ExecuteLogger(node, 0);
  } else if (to_logger) {
    ++totals_.to_loggers;
    node.logger->on_takeover(command.takeover, logger_out_);
    ExecuteLogger(node, 0);
  }
  if (to_logger || node.unit == nullptr) return;
  if (command.kind == Kind::kSendPull) {
    node.unit->on_pull(now_, command.pull, unit_out_);
  } else if (command.kind == Kind::kSendTakeover) {
    node.unit->on_takeover(now_, command.takeover, unit_out_);
  } else if (command.kind == Kind::kSendTakeoverAck) {
    node.unit->on_takeover_ack(now_, command.takeover_ack, unit_out_);
  } else {
    node.unit->on_state(now_, command.state, mail.record, unit_out_);
  }
  ExecuteUnit(node);
}

// --- Checks. ---

void FailoverWorld::on_released(const PacketMeta& meta, uint64_t seen) {
  std::vector<ClockStory>& clocks = flows_[meta.flow];
  ClockStory& story = clocks[value(meta.clock) - 1];
  ++totals_.released;
  if (story.is_released) Fail("I1: released twice" + Of(meta.flow, meta.clock));
  if (story.is_lost) {
    Fail("I1: released after it was lost" + Of(meta.flow, meta.clock));
  }
  if (story.is_lost_with_logger) {
    Fail("F8: released after it was lost with a logger" +
         Of(meta.flow, meta.clock));
  }
  story.is_released = true;
  uint64_t digest = 0;
  for (uint64_t clock = 0; clock < value(meta.clock) - 1; ++clock) {
    const ClockStory& before = clocks[clock];
    if (before.packet == 0 || before.is_lost) continue;
    digest = Extended(digest, before.packet);
    if (!before.is_released && !before.is_lost_with_logger) {
      Fail("I3: overtook" + Of(meta.flow, meta.clock));
    }
  }
  for (uint64_t clock = value(meta.clock); clock < clocks.size(); ++clock) {
    if (clocks[clock].is_released) {
      Fail("I3: out of order" + Of(meta.flow, meta.clock));
    }
  }
  if (digest != seen) {
    Fail("I2: ran on another state" + Of(meta.flow, meta.clock));
  }
}

void FailoverWorld::CheckEnd() {
  for (const auto& [flow, clocks] : flows_) {
    for (size_t i = 0; i < clocks.size(); ++i) {
      if (clocks[i].packet == 0 || clocks[i].is_lost) continue;
      if (!clocks[i].is_released && !clocks[i].is_lost_with_logger)
        Fail("I7: not released" + Of(flow, Clock{i + 1}));
    }
  }
}

}  // namespace snf
