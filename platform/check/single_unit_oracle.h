// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CHECK_SINGLE_UNIT_ORACLE_H_
#define SNF_PLATFORM_CHECK_SINGLE_UNIT_ORACLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/packet/packet_info.h"
#include "base/time.h"
#include "platform/check/uniqueness_check.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// Theory of operation. Computes the outcome of a flow's packets if its state
// had never moved (I6): a second instance of the NF runs, on a record of the
// flow that stays here, on a copy of each packet as it was before the unit's NF
// saw it, in the order in which units run the flow's clocks. The verdict, the
// frames emitted, the resulting bytes and the record must equal the unit's.
// State that is stale, lost or doubled shows at once; so does what an NF keeps
// elsewhere than in its slots, in the first packet that depends on it.
//
// Worked example: an NF numbers a flow's packets in a byte of each. Clock 3 ran
// on a copy of the state that clock 1 left: the unit's packet says 2, the one
// here 3.
//
// Pieces that the unit's NF took out of pools it takes here too, because it
// cannot know which pieces the unit had; if the unit's NF found none and did
// not wait, the pool is empty here, too. So the bytes must be equal; that no
// two flows have the same piece is checked by UniquenessCheck, to which each
// piece is reported. A packet that is to wait for a piece was not run at all.
// Aliases and notes change nothing here.
//
// A timer of the NF runs here at the timer packet at which it runs there. Not
// compared, but counted: a flow's packets once the NF has read a shared table
// for one of them, since the values that it reads depend on timing, and only
// its own updates are known here; and a flow's packets after a difference was
// found. An NF that cannot emit because no buffer is free cannot here either.
//
// The verdict on a packet that waits for its alias is not compared either: it
// comes later.
//
// Owner-thread only. Memory: a record for each flow that was not forgotten.
class SingleUnitOracle {
 public:
  // The outcome of a packet at a unit. None of the commands, which Unit::finish
  // has pushed, has been executed yet, so the pool is unchanged.
  struct Outcome {
    BufferPool& buffers;
    PacketHandle packet = kNoPacket;
    std::span<const UnitCommand> commands;
    std::span<const std::optional<uint32_t>> pieces_taken;
    // The flow's, after the packet; none where the unit keeps none.
    std::span<const std::byte> record = {};
  };

  // Faults in words; "" if there is none.
  struct Findings {
    std::string difference;  // first difference to the unit
    std::string pieces;      // fault of the pieces that the packet took
  };

  // Why a packet was not compared: before it, in its flow, or by itself.
  enum class Cause : uint8_t {
    kTableRead,   // the NF read a shared table
    kDifference,  // a difference was found
  };
  static constexpr size_t kCauses = 2;

  // `nf_logs` is UnitOptions::nf_logs: log records are compared as well.
  explicit SingleUnitOracle(const NfSpec& nf, bool nf_logs = false);

  // The packet that a unit is about to run: copies it.
  void Before(const PacketInfo& info, std::span<const std::byte> bytes);
  // Runs the copy and compares it with the unit's outcome. Not for packets that
  // are to wait. A timer packet comes without Before.
  Findings After(Instant now, const PacketMeta& meta,
                 UniquenessCheck& uniqueness, const Outcome& outcome);
  // The unit is about to tell the NF that the flow's alias was refused; what
  // that emits, it takes from the pool.
  void on_alias_refused(Instant now, FlowId flow, AliasResult why,
                        UniquenessCheck& uniqueness, BufferPool& buffers);
  // Keeps the state before each clock from now on, until the clock is logged: a
  // clock may be lost with its unit.
  void KeepUntilLogged() { keeps_ = true; }
  void on_logged(FlowId flow, Clock clock);
  // Called when the clock is lost with its unit: the pieces that it took are
  // back in their earlier places, as in the unit's logger.
  void on_lost(FlowId flow, Clock clock, UniquenessCheck& uniqueness);
  // Counts the clock and all later ones as not run.
  void Undo(FlowId flow, Clock clock, UniquenessCheck& uniqueness);
  // The flow is over.
  void Forget(FlowId flow) { flows_.erase(flow); }

  // Data of a flow that moves to another oracle. Without a record, the flow is
  // not compared any more, or has not been run yet.
  struct Moved {
    bool is_known = false;
    std::vector<uint64_t> record;
    Instant timer = Instant::max();
    Cause cause{};
  };
  Moved Read(FlowId flow) const;
  void Begin(FlowId flow, const Moved& moved);

  size_t flows() const { return flows_.size(); }
  uint64_t compared() const { return compared_; }  // packets
  uint64_t not_compared() const {
    return std::accumulate(not_compared_.begin(), not_compared_.end(),
                           uint64_t{0});
  }
  uint64_t not_compared(Cause cause) const {
    return not_compared_[static_cast<size_t>(cause)];
  }

  // A piece that the NF took, or gave back.
  struct PieceMove {
    PoolId pool{};
    uint32_t piece = 0;
    bool gives = false;
  };

 private:
  // The state before a clock, and the pieces that the clock moved.
  struct Earlier {
    Clock clock{};
    std::vector<uint64_t> record;
    Instant timer;
    std::vector<PieceMove> moves;
  };
  struct Flow {
    std::unique_ptr<uint64_t[]> record;  // null: not compared any more
    Instant timer = Instant::max();
    Cause cause{};               // why it is not
    std::deque<Earlier> kept{};  // by clock
  };
  std::span<std::byte> StateOf(const Flow& flow) const {
    return {reinterpret_cast<std::byte*>(flow.record.get()), record_bytes_};
  }
  void RunTimer(const PacketMeta& meta, Flow& own, StateView& state,
                FlowServices& services);
  void StopComparing(FlowId id, Flow& own, Cause cause,
                     UniquenessCheck& uniqueness);
  uint64_t TableReads() const;

  std::unique_ptr<NetworkFunction> nf_;
  std::vector<const TableCopy*> tables_;  // of all its parts
  uint32_t record_bytes_;
  bool nf_logs_;
  PacketInfo info_;
  std::vector<std::byte> copy_;
  absl::flat_hash_map<FlowId, Flow> flows_;
  bool keeps_ = false;
  uint64_t compared_ = 0;
  std::array<uint64_t, kCauses> not_compared_{};  // by Cause
};

}  // namespace snf

#endif  // SNF_PLATFORM_CHECK_SINGLE_UNIT_ORACLE_H_
