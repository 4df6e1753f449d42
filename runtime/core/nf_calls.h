// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_NF_CALLS_H_
#define SNF_RUNTIME_CORE_NF_CALLS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "runtime/core/flow_record.h"
#include "runtime/core/flow_store.h"
#include "runtime/core/packet_guard.h"
#include "runtime/core/unit_limits.h"
#include "runtime/core/unit_options.h"
#include "runtime/core/unit_pieces.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// A unit works on these but does not own them; they are the same for all calls.
struct NfContext {
  NetworkFunction& nf;
  BufferPool& buffers;
};

// Theory of operation. NfCalls calls a unit's NF, for packets, timers, ends of
// flows and refused aliases, and carries out what the NF asks for meanwhile:
// frames to emit, notes to the controller, an alias, pieces of its pools.
//
// A packet whose NF sets an alias is run but not released: its record is parked
// until the controller has answered. Meanwhile no other packet of the flow is
// run, and its state does not leave (U6, U9).
//
// A packet whose NF waits for a piece of a pool is run again when pieces come,
// as many packets as pieces, or when the controller has none: then the NF sees
// the pool exhausted, and may wait for one other.
//
// Worked example: packets 1 and 2, of two flows, wait for pool 0, which was
// requested of the controller. One piece comes: packet 1 is resumed, and pool 0
// requested again. Without any piece in the answer to that, packet 2 is resumed
// as well, finds pool 0 exhausted, and is dropped by its NF.
//
// An NF that breaks its contract ends the process (nf_call.h).
//
// Each call names the unit's store, which is always the same one. A value;
// owner-thread only; nothing is allocated after construction.
class NfCalls {
 public:
  // The outcome of a packet that was run: one number, so that it is passed in a
  // register.
  class Outcome {
   public:
    using Kind = UnitCommand::Kind;
    explicit Outcome(Kind kind, DropReason reason = {}, uint8_t nf_reason = 0)
        : word_(uint32_t{static_cast<uint8_t>(kind)} |
                uint32_t{static_cast<uint8_t>(reason)} << 8 |
                uint32_t{nf_reason} << 16) {}
    Kind kind() const { return static_cast<Kind>(word_ & 0xff); }
    DropReason reason() const {
      return static_cast<DropReason>(word_ >> 8 & 0xff);
    }
    uint8_t nf_reason() const { return static_cast<uint8_t>(word_ >> 16); }

   private:
    uint32_t word_;
  };

  // More about a packet that waits for its alias, or has waited for pieces.
  struct WaitingPacket {
    Alias alias;
    UnitCommand::Kind kind;  // is the packet's outcome
    uint8_t nf_reason;       // goes with kNfDrop
    uint16_t pool;           // is the pool that it waits for
    std::array<uint16_t, kMaxRefusals> refused;  // are pools, then kNoPool
    uint8_t in_vain;  // counts runs with pieces there, but none of use

    bool IsRefused(uint16_t by) const {
      return std::ranges::find(refused, by) != refused.end();
    }
  };

  // The schema must outlive this and its copies.
  NfCalls(UnitId id, const UnitOptions& options, const StateSchema& schema,
          std::span<const NetworkFunction::Pool> pools);

  // No pieces are requested ahead of need from on_stop until on_start.
  void on_stop() { stopping_ = true; }
  void on_start() { stopping_ = false; }

  // Runs the NF on a packet with payload. Returns kWait if the packet is to be
  // run again. Parks the record if the packet waits for its alias. Callers
  // include nf_services.h.
  Outcome Process(Instant now, NfContext env, uint32_t slot, uint32_t node,
                  FlowStore& flows, UnitOut& out) noexcept;
  // Runs the NF's timer of the flow, if it is due at the arrival of the timer
  // packet, whose metadata this is.
  void RunTimer(NfContext env, uint32_t slot, const PacketMeta& meta,
                FlowStore& flows, UnitOut& out);
  // Tells the NF that the flow is over.
  void RunEnd(Instant now, NfContext env, uint32_t slot, FlowStore& flows,
              UnitOut& out);

  // Returns the alias that the NF set at a parked packet.
  const Alias& alias(uint32_t node) const { return waiting_[node].alias; }
  // Returns the outcome of the packet, which is not parked any more. If the
  // alias was refused, the NF has been told.
  Outcome on_alias_ack(Instant now, AliasResult result, NfContext env,
                       uint32_t slot, uint32_t node, FlowStore& flows,
                       UnitOut& out);
  // Pieces come, or an answer without any: resumes packets that wait for them.
  void on_pieces(const PieceBlock& pieces, FlowStore& flows, UnitOut& out);

  // Pieces that the NF gave at a clock that is released now are free.
  void on_pieces_released(const PieceBlock& pieces, FlowStore& flows,
                          UnitOut& out);

  // Returns the partial delta of the last call for a packet or a timer, with a
  // logger. Valid until the next call.
  std::span<const std::byte> delta() const {
    return std::span(delta_).first(delta_bytes_);
  }
  // Returns the pieces that the flow got and gave back in the last call.
  std::span<const PieceUse> piece_uses() const { return uses_; }
  // Logs from now on what the NF merges into shared tables, which are these.
  void LogTables(std::span<TableCopy* const> tables);
  // Returns the updates of shared tables in the last call, without numbers
  // (table_update.h).
  std::span<const std::byte> table_updates() const { return updates_; }
  // Clears the changes, before the next clock is applied.
  void BeginEntry() {
    delta_bytes_ = 0;
    uses_.clear();
    updates_.clear();
  }

  UnitPieces& pieces() { return pieces_; }
  const UnitPieces& pieces() const { return pieces_; }
  const WaitingPacket& waiting(uint32_t node) const { return waiting_[node]; }
  // Counts the pieces that came from the controller or the NF but cannot be.
  uint64_t pieces_refused() const { return pieces_refused_; }
  // Counts log records without a buffer.
  uint64_t records_refused() const { return records_refused_; }

 private:
  static constexpr uint32_t kNone = FlowStore::kNone;
  static constexpr uint16_t kNoPool = kMaxPools;

  class Services;

  Verdict ProcessGuarded(const NfContext& env, PacketHandle packet,
                         Packet& view, FlowState& flow);
  static void CheckWait(const NfContext& env, const StateView& state,
                        const Services& services, const FlowState& flow,
                        Instant timer_before);
  // Fails the NF that names a pool which it has not declared.
  void CheckPool(uint16_t pool) const;
  bool AwaitPieces(uint32_t slot, uint32_t node, uint16_t pool,
                   FlowStore& flows, UnitOut& out);
  void RunRefused(Instant now, NfContext env, uint32_t slot, uint32_t node,
                  AliasResult why, FlowStore& flows, UnitOut& out);
  void Refuse(WaitingPacket& packet);
  void TakeUpdates();
  void Wake(uint16_t pool, FlowStore& flows);
  void Resume(uint32_t node, FlowStore& flows);

  UnitId id_;
  bool stopping_ = false;
  bool has_logger_;
  bool nf_logs_;
  const StateSchema* schema_;
  std::vector<std::byte> delta_;  // is empty without a logger
  uint32_t delta_bytes_ = 0;
  std::vector<PieceUse> uses_;      // of the present call, with a logger
  std::vector<TableCopy*> tables_;  // that are logged
  std::vector<std::byte> updates_;  // of the present call
  uint32_t guard_every_;
  uint32_t unguarded_ = 0;            // counts packets since one was guarded
  LazyArray<WaitingPacket> waiting_;  // by node
  UnitPieces pieces_;
  uint64_t pieces_refused_ = 0;
  uint64_t records_refused_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_NF_CALLS_H_
