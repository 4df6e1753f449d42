// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CHECKER_H_
#define SNF_PLATFORM_CHECKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages.h"
#include "base/time.h"
#include "platform/ledger.h"
#include "platform/reference.h"

namespace snf {

// Watches a run from outside and holds it to the invariants of protocol.md §4.
// It sees only what the cores exchange and shares no code with them; it changes
// nothing, so a run's digest is the same with and without it. Checked so far:
//
//   I1  single writer: a flow is in service at one unit at a time, and no clock
//       is processed twice
//   I2  clock n is processed after n - 1
//   I3  the packets of a flow are released in clock order, and none before it
//       was processed
//   I6  what a unit makes of a packet is what a unit would that runs all
//       packets of the flow (reference.h)
//   I7  in the end every packet that was given a clock was released, dropped or
//       consumed
//   I8  a piece of a pool is in one place only, and no two flows have the same
//       piece or the same alias (ledger.h)
//
// Tombstones and null packets are clocks like others, for I1, I2 and I7; but
// they are advanced, never released. A tombstone's packet was dropped before,
// once, and only such a clock is one.
//
// A flow may end, and its slot have a next user, while packets of it are still
// under way: both are followed.
//
// Owner-thread only. Memory: 48 bytes a flow slot, some 100 for each flow that
// lost its slot and has packets under way, and the records of reference.h.
class Checker {
 public:
  // I6 is checked with the NF of the units; null: it is not.
  explicit Checker(const NfRegistration* nf = nullptr,
                   const NfOptions& options = {});

  void OnEnqueue(Instant now, UnitId unit, const PacketMeta& meta);
  void OnEndFlow(Instant now, UnitId unit, const EndFlow& end);
  // The packet is lost, and its clock a tombstone from now on.
  void OnPayloadDropped(Instant now, UnitId unit, const PacketMeta& meta);
  void OnServiceBegin(Instant now, UnitId unit, const PacketMeta& meta);
  void OnServiceEnd(Instant now, UnitId unit, const PacketMeta& meta);
  // Of a packet with payload, after OnServiceEnd: as it is before the unit's NF
  // sees it, and what comes of it, before any of it is executed; or that it is
  // to be run again, as if this service had not been.
  void BeforeNf(const PacketInfo& info, std::span<const std::byte> bytes);
  void AfterNf(Instant now, UnitId unit, const PacketMeta& meta,
               const Reference::Outcome& outcome);
  void OnWait(Instant now, UnitId unit, const PacketMeta& meta);
  void OnRelease(Instant now, UnitId unit, const PacketMeta& meta);
  // The packet was dropped or consumed where it was to be processed.
  void OnTaken(Instant now, UnitId unit, const PacketMeta& meta);
  // A clock without payload is done.
  void OnAdvanced(Instant now, UnitId unit, const PacketMeta& meta);
  // What reaches the controller or leaves it about aliases and pieces; an alias
  // with the answer, and its refusal again where the unit tells the NF.
  void OnAlias(Instant now, const Alias& alias, AliasResult result);
  void OnAliasRefused(Instant now, const AliasAck& ack);
  void OnFlowNote(const FlowNote& note);
  void OnPiecesGranted(Instant now, const PieceWord& pieces);
  void OnPiecesReturned(Instant now, const PieceWord& pieces);
  // Call once nothing is in flight any more.
  void OnEnd(Instant now);

  uint64_t violations() const { return violations_; }
  // The first kMaxMessages, one line each: time, flow, unit, clock, what.
  const std::vector<std::string>& messages() const { return messages_; }
  static constexpr size_t kMaxMessages = 10;

  // Flows of which a record is kept for I6.
  size_t reference_flows() const {
    return reference_ == nullptr ? 0 : reference_->flows();
  }

 private:
  struct Flow {
    FlowId id = kNoFlow;
    uint64_t given = 0;      // last clock enqueued
    uint64_t processed = 0;  // last clock processed
    uint64_t released = 0;   // last clock released
    uint64_t left = 0;       // packets that were released, taken or advanced
    UnitId in_service = kNoUnit;
    UnitId last_unit = kNoUnit;  // to which the last clock was given
    bool ended = false;
  };
  static_assert(sizeof(Flow) == 48);
  Flow& InSlot(FlowId id);
  // Null, and a violation, if no packet of the flow was given a clock.
  Flow* Find(Instant now, UnitId unit, const PacketMeta& meta);
  bool HasPayload(const PacketMeta& meta) const {
    return without_payload_.empty() ||
           !without_payload_.contains({meta.flow, meta.clock});
  }
  void Left(Flow& flow);
  void FreePiecesIfOver(const Flow& flow);
  void CheckAllLeft(Instant now, const Flow& flow);
  void Violation(Instant now, UnitId unit, const PacketMeta& meta,
                 const std::string& what);
  void AddMessage(const std::string& message);

  std::vector<Flow> flows_;        // by slot
  std::map<FlowId, Flow> ending_;  // lost their slot, have packets under way
  std::set<std::pair<FlowId, Clock>> without_payload_;  // and under way
  std::unique_ptr<Reference> reference_;
  Ledger ledger_;
  uint64_t violations_ = 0;
  std::vector<std::string> messages_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CHECKER_H_
