// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_REBUILD_REBUILD_H_
#define SNF_CONTROLLER_REBUILD_REBUILD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/core/controller_counters.h"

// SNF_REBUILD_RULE(rule, condition, otherwise) marks a rule as
// SNF_FAILOVER_RULE does (failover.h).

#ifdef SNF_RULES_CAN_BE_LEFT_OUT

namespace snf {

enum class RebuildRule {
  kNone,
  kTombstone,  // a clock that no unit has becomes a tombstone
  kNext,       // the next clock is the highest seen plus 1
  kOver,       // a Takeover that is open, or an answer, says that more was run
  kEnd,        // a mark closes a flow
  kHistory,    // what earlier owners have is known
  kAlias,      // aliases are reported
  kWithdraw,   // but none that was asked for at a clock that is lost
  kSealed,     // sealed loggers report
  kNull,       // a flow that only a sealed logger has is moved by a null packet
  kRedirect,   // a packet that waits for another place hears of the right one
  kForget,     // copies that are old, and whose takers may be dead, go
  kPieces,     // the pool is what no report holds
  kUnlogged,   // grants that no logger knows are reported
};
inline RebuildRule left_out_rebuild_rule = RebuildRule::kNone;

}  // namespace snf

#define SNF_REBUILD_RULE(rule, condition, otherwise)                      \
  (::snf::left_out_rebuild_rule == ::snf::RebuildRule::rule ? (otherwise) \
                                                            : (condition))

#else

#define SNF_REBUILD_RULE(rule, condition, otherwise) (condition)

#endif

namespace snf {

// Theory of operation. Makes a controller of what units report after another
// has failed (proto/protocol.md F9, F10). All reports are collected; then the
// controller gets the units, the flows, and the pools; then, step by step,
// clocks that nobody has become tombstones. It takes packets once that is done.
//
// Of a flow, let `applied` be the highest clock that a unit has processed
// itself, or the sealed logger of a unit that failed has, and `newest` the
// highest that anybody has. The owner is the unit that has `newest`; the next
// clock is the one after. A clock between the two that nobody has was given by
// the old controller and never sent, or was lost with a unit: it goes, as a
// tombstone, to the unit that has the clock before, or, if a logger has that,
// to the unit that has the next. If a logger has `newest`, a null packet moves
// the flow from there to a unit. Who has which clocks is the owner history. A
// packet that waits for state from elsewhere than that says hears of the right
// place by a Redirect. Whoever has an older copy than is released elsewhere is
// told to forget it: who took it over may have failed before it said so (U7).
//
// A flow is over, and is left alone, if all that is left of it is older than a
// clock that somebody was known to have: a unit that answered a Pull had been
// asked by one with a packet, and one that has told of a takeover ran its
// clock. A flow whose end is known, but not to be in a logger, is ending.
//
// Worked example: unit 0 has processed clock 5 of a flow. Clock 6, also for it,
// was not sent; unit 1 holds clock 7, with unit 0 as its source. The flow's
// newest clock is 7, its owner unit 1, and its history 1-6 at unit 0, which
// gets a tombstone for 6. Unit 1 has asked it for clock 6, and gets that. If
// unit 0 has failed, the tombstone goes to unit 1, with the logger of unit 0 as
// its source, and a Redirect tells that 7 follows it there.
//
// Units are not trusted: impossible clocks are refused, and tombstones have a
// limit, kMaxMissing. If a flow needs more tombstones than the rest of the
// limit, the flow is given up, and restarts with its next packet.
//
// Used once, for a controller that has had no packet. Reports may come in any
// order; what cannot be is counted and left out. Owner-thread only. Grows with
// the flows and packets reported.
class Rebuild {
 public:
  // Limit of the tombstones for all flows together.
  static constexpr uint64_t kMaxMissing = 1 << 20;

  // Its units are below `max_units`, its flows below `max_flows`.
  Rebuild(uint32_t max_units, uint32_t max_flows)
      : max_units_(max_units), max_flows_(max_flows) {}

  void on_name(const FlowName& name);
  void on_flow(const FlowReport& report);
  void on_packet(const PacketReport& report);
  // A word of a unit's ledger of pieces.
  void on_word(const PieceBlock& word) {
    words_[{word.pool, word.word}] ^= word.mask;
  }
  void on_grant(const GrantReport& report) { grants_.push_back(report); }
  void on_unit(const UnitReport& report);
  // Units that start get higher incarnations than this, and than all reported.
  void set_incarnation(uint32_t newest) { incarnation_ = newest; }
  // Drops what the unit's logger has reported: the logger will report again.
  void ForgetLogger(UnitId unit);

  // All has been reported: fills `c`, which goes on with the counters of its
  // predecessor `before`.
  void Begin(Controller& c, Instant now, const Controller& before);
  // Commands what is left to do, as far as there is room. Returns true once
  // nothing is left.
  bool Advance(Controller& c, Instant now, ControllerOut& out);

  // What was found and done so far; nothing of packets_lost, clocks_lost and
  // packets_waited.
  const SuccessionCounters& counters() const { return counters_; }
  // After Begin: the aliases that were withdrawn, as AliasAck names them.
  const std::vector<AliasAck>& withdrawn() const { return withdrawn_; }

 private:
  struct Point {
    Clock clock{};
    UnitId unit = kNoUnit;
    bool is_packet = false;
    bool at_logger = false;
    PacketMeta meta{};  // of a packet
  };
  struct Flow {
    FlowName name;
    std::vector<FlowName> older;
    std::vector<Point> points;  // where clocks are, or were processed
    Clock over{};               // a clock up to which copies mean nothing
    Clock handed{};             // the same, and it was not the last
    bool is_over = false;       // a logger has its end
    Clock end{};                // the last clock, if known
    UnitId end_unit = kNoUnit;
    uint32_t flowlet = 0;
    Clock applied{};   // the highest known
    Clock released{};  // the highest known
  };
  struct Missing {
    uint32_t slot;
    UnitId to;
    PacketMeta meta{};
  };
  struct Old {
    UnitId unit;
    bool at_logger;
    EndFlow end;
  };
  struct Redirected {
    UnitId to;
    Redirect redirect;
  };

  bool IsOver(const Flow& flow) const;
  static void Sort(Flow& flow);
  static const Point* PlaceOf(const Flow& flow, Clock clock);
  static UnitId AnyUnit(const Controller& c);
  static uint64_t MissingOf(const Flow& flow);
  bool FindMissing(const Controller& c, FlowId id, Flow& flow);
  void MoveFromLogger(const Controller& c, FlowId id, Flow& flow);
  Point AddMissing(FlowId id, const Point* before, Clock clock, UnitId to,
                   uint8_t flag);
  void FindOld(FlowId id, const Flow& flow);
  void FindRedirects(FlowId id, const Flow& flow);
  static bool IsLost(const Flow& flow, Clock clock);
  static bool IsPlaced(const Controller& c, const Missing& missing);
  void RestoreFlow(Controller& c, Instant now, FlowId id, Flow& flow);
  void RestoreHistory(Controller& c, uint32_t slot, const Flow& flow);
  void LinkFlows(Controller& c, Instant now);
  void RestoreAlias(Controller& c, uint32_t slot, FlowId id);
  void RestorePieces(Controller& c);
  static void CountFlows(Controller& c);

  uint32_t max_units_;
  uint32_t max_flows_;
  std::map<FlowId, Flow> flows_;
  std::vector<std::pair<uint64_t, FlowId>> named_;  // by version
  std::vector<UnitReport> units_;
  uint32_t incarnation_ = 0;
  std::vector<GrantReport> grants_;
  std::map<std::pair<uint16_t, uint32_t>, uint64_t> words_;
  uint64_t tombstones_left_ = kMaxMissing;
  std::vector<Missing> missing_;
  size_t sent_ = 0;                 // of those
  std::vector<uint32_t> hopeless_;  // slots of flows that are given up
  size_t given_up_ = 0;             // of those
  std::vector<Redirected> redirects_;
  size_t redirected_ = 0;  // of those
  std::vector<Old> old_;
  size_t forgotten_ = 0;  // of those
  std::vector<AliasAck> withdrawn_;
  bool has_sealed_ = false;  // a unit has failed, some time
  std::vector<uint32_t> unnamed_;
  size_t ended_ = 0;  // of those
  SuccessionCounters counters_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_REBUILD_REBUILD_H_
