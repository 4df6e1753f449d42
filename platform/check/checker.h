// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CHECK_CHECKER_H_
#define SNF_PLATFORM_CHECK_CHECKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/check/single_unit_oracle.h"
#include "platform/check/uniqueness_check.h"
#include "platform/run/run_events.h"

namespace snf {

// Watches a run from outside and holds it to the invariants of
// proto/protocol.md §4. It sees only what the cores exchange and shares no code
// with them; it changes nothing, so a run's digest is the same with and without
// it. Checked so far:
//
//   I1  single writer: a flow is in service at one unit at a time, namely at
//       the packet's unit, and no clock is processed twice
//   I2  clock n is processed after n - 1
//   I3  the packets of a flow are released in clock order, and none before it
//       was processed, by the unit that did
//   I4  with loggers: no packet is released before its delta is in the logger
//       of the unit that processed it
//   I6  a packet has the same outcome as on a unit that runs all packets of
//       the flow (single_unit_oracle.h)
//   I7  in the end every packet that was given a clock was released, dropped or
//       consumed, once
//   I8  a piece of a pool is in one place only, and no two flows have the same
//       piece or the same alias (uniqueness_check.h)
//
// If several rules are broken at once, the first is reported.
//
// Tombstones and null packets are clocks like others, for I1, I2 and I7; but
// they are advanced, never released. A tombstone's packet was dropped before,
// once, and only such a clock is one.
//
// If a unit fails (ExpectLosses), its clocks that no logger has are lost: only
// such a clock is given again, in order, and its run at the failed unit counts
// as undone (I5). A clock that a logger has is never given again. The end of a
// flow may be given again, behind its last clock: behind one without payload,
// if no clock is lost.
//
// If a controller fails, the clocks that it gave and did not send are lost,
// too; lost clocks at the end of a flow count as never given once a successor
// takes over.
//
// A flow may end, and its slot have a next user, while packets of it are still
// under way: both are followed.
//
// Owner-thread only. Memory: 64 bytes a flow slot, some 100 for each flow that
// lost its slot and has packets under way, 50 a packet under way, and the
// records of single_unit_oracle.h.
class Checker final : public RunObserver {
 public:
  // Returns what a user calls a flow; empty if it is forgotten.
  using FlowName = std::function<std::string(FlowId)>;

  // I6 is checked with the NF of the units; null: it is not. `flow_name` may be
  // empty, and is called for messages only.
  // `nf_logs` is SingleUnitOracle's.
  explicit Checker(const NfSpec* nf = nullptr, FlowName flow_name = nullptr,
                   bool nf_logs = false);

  // Units have loggers: I4 is checked from now on.
  void ExpectLoggers() { expects_loggers_ = true; }
  // Units may fail.
  void ExpectLosses() {
    expects_losses_ = true;
    if (oracle_ != nullptr) oracle_->KeepUntilLogged();
    uniqueness_.KeepGrants();
  }

  // Messages count time from then.
  void on_start(Instant first_packet) override { start_ = first_packet; }
  void on_enqueue(Instant now, UnitId unit, const PacketMeta& meta) override;
  void on_end_flow(Instant now, UnitId unit, const EndFlow& end) override;
  // The packet is lost, and its clock a tombstone from now on.
  void on_payload_dropped(Instant now, UnitId unit,
                          const PacketMeta& meta) override;
  void on_service_begin(Instant now, UnitId unit, const PacketMeta& meta,
                        Nanos wait) override;
  void on_service_again(Instant now, UnitId unit,
                        const PacketMeta& meta) override;
  void on_service_end(Instant now, UnitId unit,
                      const PacketMeta& meta) override;
  void on_nf_begin(const PacketInfo& info,
                   std::span<const std::byte> bytes) override;
  // If the packet is to be run again, this service does not count.
  void on_nf_end(Instant now, UnitId unit, const PacketMeta& meta,
                 const NfOutcome& outcome) override;
  void on_logged(Instant now, UnitId unit, const PacketMeta& meta) override;
  void on_release(const ReleasedPacket& released) override;
  void on_taken(Instant now, UnitId unit, const PacketMeta& meta) override;
  void on_advanced(Instant now, UnitId unit, const PacketMeta& meta) override;
  void on_lost(Instant now, UnitId unit, const PacketMeta& meta) override;
  void on_alias(Instant now, const Alias& alias, AliasResult result) override;
  void on_alias_refused(Instant now, const AliasAck& ack,
                        BufferPool& buffers) override;
  void on_flow_note(const FlowNote& note) override;
  void on_pieces_granted(Instant now, const PieceBlock& pieces) override;
  void on_pieces_returned(Instant now, const PieceBlock& pieces) override;
  void on_grants_sealed(Instant now, UnitId unit, uint64_t logged) override;
  void on_process_begins(Instant now, UnitId unit) override;
  void on_unsent(Instant now, UnitId unit, const PacketMeta& meta) override;
  void on_end_unsent(Instant now, const EndFlow& end) override;
  void on_grant_unsent(Instant now, const PieceBlock& pieces) override;
  void on_flow_found(FlowId id, Clock newest) override;
  void on_successor(Instant now) override;
  void on_end(Instant now) override;

  // Reports that the logger's final copy of a flow differs from the unit's;
  // `what` describes the difference.
  void on_copy_differs(Instant now, UnitId unit, const PacketMeta& meta,
                       const std::string& what) {
    Violation(now, unit, meta, what);
  }

  // This checker's data of a flow that moves to another controller, and so to
  // another checker, where the flow has another id and its next clock follows
  // `last`.
  struct Moved {
    SingleUnitOracle::Moved state;
    std::vector<uint64_t> pieces;
  };
  Moved Read(FlowId flow) const;
  void on_moved_here(FlowId flow, Clock last, const Moved& moved);
  // Pieces of the controller came back from units of others.
  void on_pieces_came(const PieceBlock& pieces) {
    uniqueness_.on_pieces_came(pieces);
  }

  // Returns true if the flow is over with the packet: a unit keeps no record
  // then, so that none is asked for in on_nf_end.
  bool IsLast(const PacketMeta& meta) const;

  uint64_t violations() const { return violations_; }
  // The first kMaxMessages, one line each: time, flow, unit, clock, what.
  const std::vector<std::string>& messages() const { return messages_; }
  static constexpr size_t kMaxMessages = 10;

  // Null without an NF.
  const SingleUnitOracle* oracle() const { return oracle_.get(); }

 private:
  struct Flow {
    FlowId id = kNoFlow;
    uint64_t given = 0;      // last clock enqueued
    uint64_t processed = 0;  // last clock processed
    uint64_t released = 0;   // last clock released
    uint64_t serving = 0;    // clock in service
    uint64_t logged = 0;     // last clock in a logger
    uint32_t under_way = 0;  // packets
    UnitId in_service = kNoUnit;
    UnitId last_unit = kNoUnit;  // to which the last clock was given
    bool ended = false;
  };
  static_assert(sizeof(Flow) == 64);
  // A packet that was given a clock and has not left.
  struct UnderWay {
    UnitId unit = kNoUnit;  // to which it was given; kNoUnit: it has left
    bool has_payload = false;
    bool is_logged = false;
  };

  Flow& InSlot(FlowId id);
  Flow& Begin(FlowId id);
  void ForgetRecord(const Flow& flow);
  void GiveAgain(Instant now, UnitId unit, const PacketMeta& meta, Flow& flow);
  void BeginService(Instant now, UnitId unit, const PacketMeta& meta);
  // Null, and a violation, if no packet of the flow was given a clock.
  Flow* Find(Instant now, UnitId unit, const PacketMeta& meta);
  UnderWay PacketOf(const PacketMeta& meta) const;
  void Left(Flow& flow, Clock clock);
  void TakeBack(Flow& flow, uint64_t newest);
  void FreePiecesIfOver(const Flow& flow);
  void CheckAllLeft(Instant now, const Flow& flow);
  void Violation(Instant now, UnitId unit, const PacketMeta& meta,
                 const std::string& what);
  void AddMessage(Instant now, const std::string& what);

  std::vector<Flow> flows_;        // by slot
  std::map<FlowId, Flow> ending_;  // lost their slot, have packets under way
  absl::flat_hash_map<std::pair<FlowId, Clock>, UnderWay> under_way_;
  std::set<std::pair<FlowId, Clock>> lost_;  // and not given again
  std::map<FlowId, uint64_t> found_;  // by a new controller, up to that clock
  std::unique_ptr<SingleUnitOracle> oracle_;
  bool expects_loggers_ = false;
  bool expects_losses_ = false;
  FlowName flow_name_;
  Instant start_;
  UniquenessCheck uniqueness_;
  uint64_t violations_ = 0;
  std::vector<std::string> messages_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CHECK_CHECKER_H_
