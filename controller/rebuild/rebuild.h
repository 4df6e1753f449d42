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
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "controller/core/controller.h"

// SNF_REBUILD_RULE(rule, condition, otherwise) marks a rule as
// SNF_FAILOVER_RULE does (failover.h).

#ifdef SNF_RULES_CAN_BE_LEFT_OUT

namespace snf {

enum class RebuildRule {
  kNone,
  kTombstone,  // a clock that nobody has becomes a tombstone
  kNext,       // the next clock is the highest seen plus 1
  kOver,       // a Takeover that is open, or an answer, says that more was run
  kEnd,        // a mark closes a flow
  kHistory,    // what earlier owners have is known
  kAlias,      // aliases are reported
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
// itself, and `newest` the highest that any unit has. The owner is the unit
// that has `newest`; the next clock is the one after. A clock between the two
// that no unit has was given by the old controller and never sent: it goes, as
// a tombstone, to the unit that the next packet names as the source of its
// state. Who has which clocks is the owner history.
//
// A flow is over, and is left alone, if all that is left of it is older than a
// clock that somebody was known to have: a unit that answered a Pull had been
// asked by one with a packet, and one that has told of a takeover ran its
// clock. A flow whose end is known, but not to be in a logger, is ending.
//
// Worked example: unit 0 has processed clock 5 of a flow. Clock 6, also for it,
// was not sent; unit 1 holds clock 7, with unit 0 as its source. The flow's
// newest clock is 7, its owner unit 1, and its history 1-6 at unit 0, which
// gets a tombstone for 6. Unit 1 has asked it for clock 6, and gets that.
//
// Used once, for a controller that has had no packet. Reports may come in any
// order; what cannot be is counted and left out. Owner-thread only. Grows with
// the flows and packets reported.
class Rebuild {
 public:
  struct Figures {
    uint64_t flows = 0;
    uint64_t flows_ending = 0;
    uint64_t flows_unnamed = 0;     // whose key nobody knows
    uint64_t flows_superseded = 0;  // whose key another has: its end was lost
    uint64_t tombstones = 0;
    uint64_t refused = 0;  // reports that cannot be
  };

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

  // All has been reported. The controller goes on with the figures of the one
  // before it.
  void Begin(Controller& c, Instant now, const Controller& before);
  // Does what is left, as far as there is room. Returns true once nothing is.
  bool Advance(Controller& c, Instant now, ControllerOut& out);

  const Figures& figures() const { return figures_; }

 private:
  struct Point {
    Clock clock{};
    UnitId unit = kNoUnit;
    bool is_packet = false;
    PacketMeta meta{};  // of a packet
  };
  struct Flow {
    FlowName name;
    std::vector<Point> points;  // where clocks are, or were processed
    Clock over{};               // a clock up to which copies mean nothing
    Clock handed{};             // the same, and it was not the last
    Clock end{};                // the last one, if that is known
    UnitId end_unit = kNoUnit;
    uint32_t flowlet = 0;
  };
  struct Missing {
    uint32_t slot;
    UnitId to;
    PacketMeta meta{};
  };

  bool IsOver(const Flow& flow) const;
  void FindMissing(uint32_t slot, FlowId id, Flow& flow);
  void RestoreFlow(Controller& c, Instant now, FlowId id, Flow& flow);
  void RestoreHistory(Controller& c, uint32_t slot, const Flow& flow);
  void LinkFlows(Controller& c, Instant now);
  void RestorePieces(Controller& c);

  uint32_t max_units_;
  uint32_t max_flows_;
  std::map<FlowId, Flow> flows_;
  std::vector<std::pair<uint64_t, FlowId>> named_;  // by version
  std::vector<UnitReport> units_;
  std::vector<GrantReport> grants_;
  std::map<std::pair<uint16_t, uint32_t>, uint64_t> words_;
  std::vector<Missing> missing_;
  size_t sent_ = 0;  // of those
  std::vector<uint32_t> unnamed_;
  size_t ended_ = 0;  // of those
  Figures figures_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_REBUILD_REBUILD_H_
