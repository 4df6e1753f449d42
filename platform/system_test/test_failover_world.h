// SPDX-License-Identifier: Apache-2.0
// A controller, units and their loggers, all real, with what is between them:
// queues of which one goes on in each step, a random one or one that is chosen.
// Units and loggers fail at any step.
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_WORLD_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_FAILOVER_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "controller/core/controller.h"
#include "runtime/core/unit.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/output_logger.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Says what happens in a world.
struct FailoverPlan {
  uint32_t units = 3;
  uint32_t flows = 3;
  uint32_t packets = 30;
  uint32_t failures = 1;  // one after the other
  // A unit that fails lives on, and is refused.
  bool only_suspected = false;
  uint32_t flowlet_packets = 2;
  // Loggers that fail, in any of the ways of LoggerFailure.
  uint32_t logger_failures = 0;
  // A rule of F8 that the driver is to keep, and leaves out.
  enum class LeavesOut { kNothing, kFence, kRecords } leaves_out{};
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

  // Its digest is made of the packets that it has seen, in order.
  class Chronicle final : public NetworkFunction {
   public:
    Verdict process_packet(Packet& packet, FlowState& flow) override;
    uint64_t seen = 0;  // the digest before the last packet

   private:
    Slot<uint64_t> digest_ = declare<uint64_t>("digest");
  };
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

  // From a unit to the controller.
  struct Report {
    enum class Kind : uint8_t { kDrained, kTakeover, kDone, kReady } kind;
    DrainReport drained{};
    Takeover takeover{};
    DoneAnswer done{};
  };
  struct Entry {
    Bytes bytes;
    uint64_t seen = 0;  // by the NF
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
    Chronicle nf;
    std::unique_ptr<Unit> unit;  // null while there is no process
    std::unique_ptr<OutputLogger> logger;
    uint32_t process = 0;      // counts starts
    uint32_t incarnation = 0;  // as the controller has it
    bool is_refused = false;   // the controller takes it for failed
    bool keeps_rings = false;  // it failed, and these survive
    uint64_t entry = 0;        // the newest
    uint64_t round = 0;        // that the logger answers
    bool is_seal_due = false;
    bool seals = false;
    uint64_t history = 0;         // of the unit: see Saw
    uint64_t logger_history = 0;  // of its logger
    std::deque<ControllerCommand> in;
    std::deque<Report> out;
    std::deque<Entry> entries;
    std::deque<PacketMeta> released;  // is to be told
    std::deque<SealAnswer> answers;   // of the logger
    std::map<std::pair<FlowId, Clock>, ControllerCommand> inside;
    bool is_logger_gone = false;
    LoggerFailure logger_failure{};
    uint64_t logger_taken = 0;  // entries, when it failed
    std::deque<Entry> kept;     // the unit does not know that these are taken
    // A logger that was replaced, and does not know it.
    std::unique_ptr<OutputLogger> fenced;
    std::deque<Entry> fenced_entries;
  };
  // Tells what became of a clock.
  struct ClockStory {
    uint64_t packet = 0;  // 0: none
    bool is_lost = false;
    bool is_released = false;
    bool is_lost_with_logger = false;  // what it did is kept
  };

  void Fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }
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
  void ListOfLoggers(std::vector<FailoverStep>& steps) const;
  void ListFailures(std::vector<FailoverStep>& steps) const;
  void BeginAll(Node& node);
  void DeliverDrained();
  bool Step();
  bool StepNode(Node& node, uint64_t which);
  bool IsQuiet() const;
  void Settle(const char* when);
  void SendPacket(uint32_t flow);
  void Kill(Node& node, bool keeps_rings, size_t arrive);
  void Suspect(Node& node);
  void Detect(Node& node);

  void ExecuteController();
  void on_enqueue(const ControllerCommand& command);
  void StartUnit(const ControllerCommand& command);
  void DeliverIn(Node& node);
  void DeliverReport(Node& node);
  void DeliverEntry(Node& node);
  void DeliverSeal(Node& node);
  void DeliverMail(size_t i);
  void Serve(Node& node);
  void ExecuteUnit(Node& node);
  void Log(Node& node, const UnitCommand& log, PacketHandle packet);
  void SendForget(Node& node, const UnitCommand& ack);
  void ExecuteLogger(Node& node, uint64_t seen);
  void FailALogger();
  bool CanReplaceLogger(const Node& node) const;
  void FailLogger(Node& node, LoggerFailure failure);
  // Its process may have noted a packet that it did not send, the next.
  void ReplaceLogger(Node& node, bool loses_one);
  void RestoreFlows(Node& node, uint64_t released, OutputLogger& next);
  void DeliverToFenced(Node& node);
  void LosePacket(const LogEntry& entry);
  void on_released(const PacketMeta& meta, uint64_t seen);
  void CheckEnd();

  Rng rng_;
  FailoverPlan plan_;
  std::string wrong_;
  FailoverTotals totals_;
  Instant now_{1'000'000'000};
  AnyUnit policy_;
  Controller controller_;
  ControllerOut controller_out_;
  UnitOut unit_out_;
  LoggerOut logger_out_;
  BufferPool buffers_;
  std::vector<Node> nodes_;
  std::vector<Mail> mail_;
  std::map<FlowId, std::vector<ClockStory>> flows_;  // by clock - 1
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
