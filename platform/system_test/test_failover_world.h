// SPDX-License-Identifier: Apache-2.0
// A controller, units and their loggers, all real, with what is between them:
// queues, one of which is served in each step: a random or a chosen one.
// Units and loggers fail at any step.
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_WORLD_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_WORLD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/rng.h"
#include "controller/core/controller.h"
#include "platform/drivers/virtual_time/log_channel.h"
#include "platform/system_test/test_failover_check.h"
#include "platform/system_test/test_failover_nf.h"
#include "platform/system_test/test_failover_tables.h"
#include "runtime/core/unit.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/output_logger.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {

// Says what happens in a world.
struct FailoverPlan {
  uint32_t units = 3;
  uint32_t flows = 3;
  uint32_t packets = 30;
  uint32_t failures = 1;  // at most one at a time
  // A unit that fails lives on, and is refused.
  bool only_suspected = false;
  uint32_t flowlet_packets = 2;
  // Loggers that fail, in any of the ways of LoggerFailure.
  uint32_t logger_failures = 0;
  // What packets ask of the NF (kAsk…): the first packets of a world whose
  // steps are chosen; in random ones each packet some of `may_ask`.
  std::array<uint8_t, 6> asks{};
  uint8_t may_ask = 0;
  uint32_t pieces = 0;  // in the pool, at most 32
  // Updates of the NF's shared table are logged, and held to their sum. Only
  // of random steps.
  bool tables = false;
  // A rule that the driver is to keep, and leaves out.
  enum class LeavesOut {
    kNothing,
    kFence,    // F8: a logger that is replaced can still send
    kRecords,  // F8: a new logger does not get what its unit keeps
    kTells,    // U13: what a sealed logger kept for the controller is lost
    kFree,     // F10: so are the pieces that were free at the unit
    kGrants,   // F10: and those that its logger did not know of
    kNumbers,  // T4: a home takes updates without looking at their numbers
  } leaves_out{};
};

// Totals over worlds.
struct FailoverTotals {
  uint64_t released = 0;
  uint64_t tombstones = 0;
  uint64_t rerouted = 0;
  uint64_t moved = 0;
  uint64_t redirects = 0;
  uint64_t from_loggers = 0;  // States
  uint64_t to_loggers = 0;    // Takeovers
  uint64_t refused = 0;       // entries
  uint64_t restarts = 0;
  uint64_t given_up = 0;
  uint64_t loggers_replaced = 0;
  uint64_t lost_with_loggers = 0;  // packets
  uint64_t refused_of_fenced = 0;  // packets that a fenced logger would send
  uint64_t taken_by_new = 0;       // entries that were made for the one before
  uint64_t ended = 0;              // flows
  uint64_t fired = 0;              // timers
  uint64_t takes = 0;              // of pieces
  uint64_t aliases = 0;            // granted
  uint64_t tells_by_loggers = 0;
  uint64_t updates_refused = 0;  // of tables: messages that began elsewhere
  uint64_t updates_in_rest = 0;
  uint64_t keys_erased = 0;  // of tables
};

// A step that can be taken.
struct FailoverStep {
  enum class Kind : uint8_t {
    kNode,    // one of the queues at a node, `which`
    kMail,    // the message `number`
    kTimers,  // of the controller
    kSend,    // a packet, for whose flow the unit `number` is tried first
    kKill,    // the process of a node; its rings survive
    kLose,    // the host of a node; so many entries arrive
    kSuspect,
    kDetect,
    kFailLogger,     // of a node, in the way `number` of LoggerFailure
    kReplaceLogger,  // by one that loses `number` packets for it
    kToFenced,       // an entry comes to a logger that was replaced
    kWait,           // until the next timer: only if there is no other
  };
  Kind kind;
  uint8_t node = 0;
  uint8_t which = 0;
  uint8_t number = 0;

  bool is_failure() const {
    return kind == Kind::kKill || kind == Kind::kLose ||
           kind == Kind::kSuspect || kind == Kind::kFailLogger;
  }
};

class FailoverWorld {
 public:
  FailoverWorld(uint64_t seed, const FailoverPlan& plan);
  FailoverWorld(const FailoverWorld&) = delete;
  FailoverWorld& operator=(const FailoverWorld&) = delete;

  // Takes random steps. Returns what went wrong first, or "".
  std::string Run(FailoverTotals& totals);

  // --- In place of Run: each step is chosen. ---

  // Lists all that can happen next, failures among it; returns false if
  // nothing goes on by itself any more.
  bool ListSteps(std::vector<FailoverStep>& steps) const;
  // Takes a step that was listed last. Returns what is wrong, or "".
  const std::string& Take(const FailoverStep& step);
  // Returns a number that is equal for worlds in which each of the controller,
  // units and loggers got the same in the same order, whatever the order among
  // them was. These are the same.
  uint64_t Hash() const;
  std::string Describe(const FailoverStep& step) const;
  // Nothing goes on any more: returns what is wrong with that, or "".
  std::string End();

 private:
  using Bytes = std::vector<std::byte>;
  using Did = FailoverNf::Did;

  class AnyUnit final : public PlacementPolicy {
   public:
    explicit AnyUnit(FailoverWorld& world) : world_(&world) {}
    std::string_view name() const override { return "any"; }
    std::string_view help() const override { return "for tests"; }
    Placement Place(Instant now, const PlacementRequest& request,
                    UnitPool& pool, ControllerOut& out) const override;

   private:
    FailoverWorld* world_;
  };

  // From a unit to the controller. One with a number is what an entry tells,
  // and is acknowledged.
  struct Report {
    enum class Kind : uint8_t {
      kDrained,
      kTakeover,
      kDone,
      kReady,
      kAlias,
      kNote,
      kTimerDue,
      kRequest,
      kReturn,
      kEnded,
    } kind;
    uint64_t number = 0;
    DrainReport drained{};
    Takeover takeover{};
    DoneAnswer done{};
    Alias alias{};
    FlowNote note{};
    TimerDue timer_due{};
    PieceRequest request{};
    PieceBlock pieces{};
    EndFlow ended{};
  };
  // From the controller to a unit; with a number, an acknowledgement.
  struct Order {
    ControllerCommand command{};
    uint64_t told = 0;
    EndFlow ended{};
  };
  // From a sealed logger to the controller.
  struct Answer {
    LoggerCommand::Kind kind;
    SealAnswer sealed{};
    LoggerTell tell{};
    PieceBlock pieces{};
    uint64_t grants = 0;
    bool has_grants = false;
  };
  // From unit to unit, or from a logger.
  struct Mail {
    UnitId to = kNoUnit;
    UnitCommand command;
    Bytes record{};
    uint64_t id = 0;  // made of who sent it, and how many before
  };
  // Its process is gone, and its ring is not; its host is; or it lives on, and
  // is taken for gone, so that its way out is closed.
  enum class LoggerFailure { kProcess, kHost, kSuspected };
  struct Node {
    explicit Node(uint32_t pieces) : nf(pieces) {}

    FailoverNf nf;
    std::unique_ptr<Unit> unit;  // null while there is no process
    std::unique_ptr<LogChannel> log;
    uint32_t process = 0;      // counts starts
    uint32_t incarnation = 0;  // as the controller has it
    bool is_refused = false;   // the controller takes it for failed
    bool keeps_rings = false;  // it failed, and these survive
    uint64_t round = 0;        // that the logger answers
    uint64_t told = 0;         // entries whose tells the controller has heard
    bool is_seal_due = false;
    bool seals = false;
    uint64_t history = 0;         // of the unit: see Saw
    uint64_t logger_history = 0;  // of its logger
    std::deque<Order> in;
    std::deque<Report> out;
    std::deque<uint64_t> entries;     // are on their way to the logger
    std::deque<uint64_t> never_came;  // were lost with their host
    std::deque<uint64_t> released;    // is to be told: they are in the logger
    std::deque<Answer> answers;       // of the logger
    std::map<std::pair<FlowId, Clock>, ControllerCommand> inside;
    std::map<FlowId, Did> running;  // by flow: what its last call did
    std::map<uint64_t, Did> did;    // by entry
    LoggerFailure logger_failure{};
    uint64_t logger_taken = 0;  // entries, when it failed
    // A logger that was replaced, and does not know it.
    std::unique_ptr<OutputLogger> fenced;
    std::deque<std::pair<Bytes, Did>> fenced_entries;

    bool is_logger_gone() const { return log->failure.has_value(); }
  };

  void Fail(const std::string& what) { check_.Fail(what); }
  const std::string& wrong() const { return check_.wrong(); }
  Node& NodeOf(UnitId unit) { return nodes_[value(unit)]; }
  UnitId IdOf(const Node& node) const {
    return UnitId{static_cast<uint16_t>(&node - nodes_.data())};
  }
  bool Below(uint64_t percent) { return rng_.Below(100) < percent; }

  // Whoever has this history got something of that name.
  void Saw(uint64_t& history, uint64_t what) const;
  Instant NextWakeup() const;
  bool CanStep(const Node& node, uint64_t which) const;
  void TakeAtNode(Node& node, uint64_t which);
  bool CanWait(const std::vector<FailoverStep>& steps) const;
  void ListOfLoggers(std::vector<FailoverStep>& steps) const;
  void ListFailures(std::vector<FailoverStep>& steps) const;
  void BeginAll(Node& node);
  void DeliverDrained();
  void MakeUnit(Node& node);
  bool Begin(Node& node);
  bool Step();
  bool StepNode(Node& node, uint64_t which);
  bool StepTables();
  bool IsQuiet() const;
  void Settle(const char* when);
  void SendPacket(uint32_t flow);
  void Kill(Node& node, bool keeps_rings, size_t arrive);
  void Suspect(Node& node);
  void Detect(Node& node);

  void ExecuteController();
  void on_enqueue(const ControllerCommand& command);
  void StartUnit(const ControllerCommand& command);
  void DeliverReport(Node& node);
  void DeliverAnswer(Node& node);

  void CallUnit(Node& node, FlowId flow, absl::FunctionRef<void()> call);
  void DeliverIn(Node& node);
  void DeliverOrder(Node& node, const ControllerCommand& command);
  void AnswerDoneQuery(Node& node, DoneQuery query);
  void DeliverReleased(Node& node);
  void Tell(Node& node, const LogEntryView& entry);
  void DeliverMail(size_t i);
  void Serve(Node& node);
  void ExecuteUnit(Node& node);
  void Execute(Node& node, const UnitCommand& command, uint64_t id);
  void Say(Node& node, const Report& report) {
    if (!node.is_refused) node.out.push_back(report);
  }
  void Send(Node& node);

  void DeliverEntry(Node& node);
  void DeliverSeal(Node& node);
  void ExecuteLogger(Node& node);
  void Execute(Node& node, const LoggerCommand& command, uint64_t id);
  void SayReleased(Node& node, uint64_t number);
  void on_done(Node& node, const LogEntryView& entry, const Did& did,
               bool is_lost);
  void FailALogger();
  bool CanReplaceLogger(const Node& node) const;
  void FailLogger(Node& node, LoggerFailure failure);
  // Its process may have noted a packet that it did not send, the next.
  void ReplaceLogger(Node& node, bool loses_one);
  bool CanEndReplacing(const Node& node) const {
    return node.is_logger_gone() && !node.unit->has_parked();
  }
  void LoseEntry(Node& node, uint64_t number);
  void DeliverToFenced(Node& node);
  void CheckAlias(const LogEntryView& entry, const Did& did);
  void CheckEnd();
  void CheckPieces();

  Rng rng_;
  FailoverPlan plan_;
  FailoverCheck check_;
  FailoverTotals totals_;
  Instant now_{1'000'000'000};
  AnyUnit policy_;
  Controller controller_;
  ControllerOut controller_out_;
  UnitOut unit_out_;
  LoggerOut logger_out_;
  BufferPool buffers_;
  LoggerFigures figures_;
  std::vector<Node> nodes_;
  std::vector<Mail> mail_;
  std::unique_ptr<FailoverTables> tables_;  // null without
  std::map<PacketHandle, uint64_t> packets_;
  uint64_t sent_ = 0;
  uint32_t failing_ = ~uint32_t{0};  // the node that is
  uint32_t failed_ = 0;              // counts failures
  bool is_chosen_ = false;           // steps are, not random
  uint64_t first_place_ = 0;         // of the next placement
  uint64_t waits_ = 0;
  uint64_t history_ = 0;          // of the controller
  uint32_t logger_failures_ = 0;  // to come
  uint64_t logger_fails_at_ = 0;  // in so many steps
};

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_WORLD_H_
