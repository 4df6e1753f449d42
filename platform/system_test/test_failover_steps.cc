// SPDX-License-Identifier: Apache-2.0
//
// The world of failures when its steps are chosen one by one.
#include <algorithm>

#include "base/check.h"
#include "platform/system_test/test_failover_world.h"

namespace snf {
namespace {

using Kind = FailoverStep::Kind;

constexpr uint64_t kQueues = 7;  // of a node that are steps by number
constexpr uint64_t kMostWaits = 60;
// Between packets, whatever is due within such a time is done.
constexpr Nanos kPause = Milliseconds(1);
// A flow that is idle for so long will be over one day: nobody waits for it.
constexpr Nanos kNever = Seconds(10);

// What the queues of a node are, in the words of a trace.
constexpr const char* kNames[kQueues] = {
    "takes what the controller sent",
    "is heard by the controller",
    "logs an entry",
    "hears that an entry is released",
    "has its logger's answer heard",
    "has its logger sealed",
    "has its timers run",
};
constexpr uint64_t kService = kQueues;  // a packet's ends

uint64_t Mix(uint64_t hash, uint64_t next) {
  hash = (hash ^ next) * 0x9e37'79b9'7f4a'7c15;
  return (hash ^ hash >> 32) * 0xd6e8'feb8'6659'fd93;
}

}  // namespace

void FailoverWorld::Saw(uint64_t& history, uint64_t what) const {
  history = Mix(Mix(history, what + 1), static_cast<uint64_t>(now_.ns));
}

uint64_t FailoverWorld::Hash() const {
  uint64_t hash = Mix(history_, static_cast<uint64_t>(now_.ns));
  for (const Node& node : nodes_) {
    hash = Mix(Mix(hash, node.history), node.logger_history);
  }
  return hash;
}

Instant FailoverWorld::NextWakeup() const {
  Instant next = controller_.next_wakeup();
  for (const Node& node : nodes_) {
    if (node.unit != nullptr) next = std::min(next, node.unit->next_wakeup());
  }
  return next;
}

bool FailoverWorld::CanStep(const Node& node, uint64_t which) const {
  const bool lives = node.unit != nullptr;
  switch (which) {
    case 0:
      return lives && !node.in.empty();
    case 1:
      return !node.out.empty();
    case 2:
      return !node.entries.empty() && !node.is_logger_gone();
    case 3:
      return lives && !node.released.empty();
    case 4:
      return !node.answers.empty();
    case 5:
      return node.is_seal_due && (lives || node.entries.empty());
    case 6:
      return lives && node.unit->next_wakeup() <= now_;
    default:
      return lives && node.unit->busy();
  }
}

bool FailoverWorld::ListSteps(std::vector<FailoverStep>& steps) const {
  steps.clear();
  const auto units = static_cast<uint8_t>(nodes_.size());
  if (sent_ < plan_.packets) {
    // Units are alike: the first packet may go to the first.
    for (uint8_t unit = 0; unit < (sent_ == 0 ? 1 : units); ++unit) {
      steps.push_back({.kind = Kind::kSend, .number = unit});
    }
  }
  for (uint8_t node = 0; node < units; ++node) {
    for (uint8_t which = 0; which <= kService; ++which) {
      if (!CanStep(nodes_[node], which)) continue;
      steps.push_back({.kind = Kind::kNode, .node = node, .which = which});
    }
  }
  for (size_t i = 0; i < mail_.size(); ++i) {
    steps.push_back({.kind = Kind::kMail, .number = static_cast<uint8_t>(i)});
  }
  if (controller_.next_wakeup() <= now_) {
    steps.push_back({.kind = Kind::kTimers});
  }
  if (failing_ < nodes_.size()) {
    steps.push_back(
        {.kind = Kind::kDetect, .node = static_cast<uint8_t>(failing_)});
  }
  ListOfLoggers(steps);
  if (CanWait(steps)) steps.push_back({.kind = Kind::kWait});
  const bool goes_on = !steps.empty();
  ListFailures(steps);
  return goes_on;
}

// Time passes when there is nothing else to do, or before the next packet.
bool FailoverWorld::CanWait(const std::vector<FailoverStep>& steps) const {
  const bool has_others = std::ranges::any_of(
      steps, [](const FailoverStep& s) { return s.kind != Kind::kSend; });
  if (has_others) return false;
  if (!steps.empty()) return NextWakeup() <= now_ + kPause;
  return !IsQuiet() && NextWakeup() < now_ + kNever;
}

// A logger that is gone is replaced, and one that was learns nothing of it.
void FailoverWorld::ListOfLoggers(std::vector<FailoverStep>& steps) const {
  for (uint8_t node = 0; node < nodes_.size(); ++node) {
    const Node& of = nodes_[node];
    if (CanEndReplacing(of)) {
      const bool may_lose =
          of.logger_failure == LoggerFailure::kProcess && !of.entries.empty();
      for (uint8_t lost = 0; lost <= (may_lose ? 1 : 0); ++lost) {
        steps.push_back(
            {.kind = Kind::kReplaceLogger, .node = node, .number = lost});
      }
    }
    if (!of.fenced_entries.empty()) {
      steps.push_back({.kind = Kind::kToFenced, .node = node});
    }
  }
}

void FailoverWorld::ListFailures(std::vector<FailoverStep>& steps) const {
  const auto units = static_cast<uint8_t>(nodes_.size());
  for (uint8_t node = 0; node < units && logger_failures_ > 0; ++node) {
    if (!CanReplaceLogger(nodes_[node])) continue;
    for (uint8_t way = 0; way < 3; ++way) {
      steps.push_back({.kind = Kind::kFailLogger, .node = node, .number = way});
    }
  }
  if (failing_ < nodes_.size() || failed_ == plan_.failures ||
      controller_.is_recovering()) {
    return;
  }
  for (uint8_t node = 0; node < units; ++node) {
    const Node& of = nodes_[node];
    if (of.unit == nullptr || of.is_refused || of.is_logger_gone()) continue;
    if (plan_.only_suspected) {
      steps.push_back({.kind = Kind::kSuspect, .node = node});
      continue;
    }
    steps.push_back({.kind = Kind::kKill, .node = node});
    for (size_t arrive = 0; arrive <= of.entries.size(); ++arrive) {
      steps.push_back({.kind = Kind::kLose,
                       .node = node,
                       .number = static_cast<uint8_t>(arrive)});
    }
  }
}

const std::string& FailoverWorld::Take(const FailoverStep& step) {
  is_chosen_ = true;
  Node& node = nodes_[step.node];
  const uint64_t name = static_cast<uint64_t>(step.kind) << 16 |
                        uint64_t{step.node} << 8 | step.number;
  switch (step.kind) {
    case Kind::kNode:
      TakeAtNode(node, step.which);
      break;
    case Kind::kMail: {
      Node& to = NodeOf(mail_[step.number].to);
      Saw(to.history, mail_[step.number].id);
      // Its logger may get it.
      Saw(to.logger_history, mail_[step.number].id);
      DeliverMail(step.number);
      BeginAll(to);
      break;
    }
    case Kind::kTimers:
      Saw(history_, name);
      controller_.on_timers(now_, controller_out_);
      ExecuteController();
      break;
    case Kind::kSend:
      Saw(history_, name);
      first_place_ = step.number;
      SendPacket(static_cast<uint32_t>(sent_ % plan_.flows));
      break;
    case Kind::kKill:
    case Kind::kLose:
      Saw(node.history, name);
      ++failed_;
      Kill(node, step.kind == Kind::kKill, step.number);
      break;
    case Kind::kSuspect:
      Saw(node.history, name);
      ++failed_;
      Suspect(node);
      break;
    case Kind::kDetect:
      // What the unit says from now on is not heard.
      Saw(node.history, name);
      Saw(history_, name);
      Detect(node);
      break;
    case Kind::kFailLogger:
      Saw(node.logger_history, name);
      FailLogger(node, static_cast<LoggerFailure>(step.number));
      break;
    case Kind::kReplaceLogger: {
      const uint64_t of_unit = node.history;
      Saw(node.history, node.logger_history);
      Saw(node.logger_history, of_unit + step.number);
      ReplaceLogger(node, step.number > 0);
      break;
    }
    case Kind::kToFenced:
      Saw(node.logger_history, name);
      DeliverToFenced(node);
      break;
    case Kind::kWait:
      now_ = std::max(now_, NextWakeup());
      if (++waits_ > kMostWaits) Fail("I7: nothing settles");
      break;
  }
  DeliverDrained();
  return wrong();
}

void FailoverWorld::TakeAtNode(Node& node, uint64_t which) {
  const uint64_t name = which << 8 | value(IdOf(node));
  switch (which) {
    case 1:
    case 4:
      Saw(history_, name);
      break;
    case 2:
      Saw(node.logger_history, name);
      break;
    case 5:
      Saw(node.logger_history, node.round << 16 | name);
      break;
    default:
      Saw(node.history, name);
      break;
  }
  if (which == kService) {
    Serve(node);
  } else if (which == 6) {
    CallUnit(node, kNoFlow, [&] { node.unit->on_timers(now_, unit_out_); });
  } else {
    StepNode(node, which);
  }
  BeginAll(node);
}

// A unit that is idle takes the next packet at once.
void FailoverWorld::BeginAll(Node& node) {
  bool did = node.unit != nullptr;
  while (did && !node.unit->busy()) {
    did = Begin(node);
    if (did) Saw(node.history, kService + 1);
  }
}

// Credits come back at once: in which order they do makes no difference, unless
// something follows from them.
void FailoverWorld::DeliverDrained() {
  for (Node& node : nodes_) {
    while (!node.out.empty() &&
           node.out.front().kind == Report::Kind::kDrained) {
      if (!controller_.on_drained(now_, node.out.front().drained)) {
        Fail("a drain is refused");
      }
      node.out.pop_front();
      if (!controller_out_.empty()) Saw(history_, value(IdOf(node)));
      ExecuteController();
    }
  }
}

std::string FailoverWorld::End() {
  is_chosen_ = false;
  if (!IsQuiet()) Fail("I7: nothing goes on, and it is not all done");
  // What is kept of each flow shows in one more packet.
  for (uint32_t flow = 0; wrong().empty() && flow < plan_.flows; ++flow) {
    SendPacket(flow);
    Settle("after one more packet of each flow");
  }
  if (wrong().empty()) CheckEnd();
  return wrong();
}

std::string FailoverWorld::Describe(const FailoverStep& step) const {
  const std::string unit = "unit " + std::to_string(step.node);
  switch (step.kind) {
    case Kind::kNode:
      return unit + " " +
             (step.which == kService ? "finishes a packet"
                                     : kNames[step.which]);
    case Kind::kMail: {
      const Mail& mail = mail_[step.number];
      const char* what = "an acknowledgement";
      if (mail.command.kind == UnitCommand::Kind::kSendPull) what = "a Pull";
      if (mail.command.kind == UnitCommand::Kind::kSendState) what = "a State";
      if (mail.command.kind == UnitCommand::Kind::kSendTakeover) {
        what = "a Takeover";
      }
      return "unit " + std::to_string(value(mail.to)) + " gets " + what;
    }
    case Kind::kTimers:
      return "timers of the controller run";
    case Kind::kSend:
      return "packet " + std::to_string(sent_ + 1) + " comes, for unit " +
             std::to_string(step.number) + " if it can be";
    case Kind::kKill:
      return "the process of " + unit + " ends";
    case Kind::kLose:
      return "the host of " + unit + " ends; " + std::to_string(step.number) +
             " entries arrive";
    case Kind::kSuspect:
      return unit + " is slow";
    case Kind::kDetect:
      return "the controller takes " + unit + " for failed";
    case Kind::kFailLogger: {
      constexpr const char* kWays[] = {"'s process ends", "'s host ends",
                                       " is slow"};
      return "the logger of " + unit + kWays[step.number];
    }
    case Kind::kReplaceLogger:
      return unit + " gets another logger" +
             (step.number > 0 ? ", and a packet was not sent" : "");
    case Kind::kToFenced:
      return "the replaced logger of " + unit + " gets an entry";
    case Kind::kWait:
      return "time passes";
  }
  return "";
}

}  // namespace snf
