// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_CHAIN_UNDO_H_
#define SNF_RUNTIME_SDK_CHAIN_UNDO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/lazy_array.h"
#include "base/messages/log_batch.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "runtime/sdk/packet.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/state.h"

namespace snf {

// Lets a chain undo a call whose packet is to wait. It copies the packet's
// bytes and the flow's record, and stands in for the unit's services: requests
// are kept until it is known that the packet need not wait. Only pieces are
// taken at once; Undo gives them back.
//
// All memory is reserved at construction and costs nothing until it is used.
// Owner-thread only.
class ChainUndo final : public FlowServices {
 public:
  // The most pieces that one call may take; more are refused as if the pool had
  // none.
  static constexpr size_t kMaxTaken = 64;
  // The most pieces that one call may give back; more is a programmer's error.
  static constexpr size_t kMaxGiven = 65'536;
  // The largest packet, and the most bytes of all frames that one call emits.
  static constexpr size_t kMaxPacketBytes = 256 * 1024;
  static constexpr size_t kMaxEmittedBytes = 1024 * 1024;

  explicit ChainUndo(uint32_t record_bytes);

  // Saves the packet and the record; called before the call.
  void Begin(FlowServices& services, const Packet& packet,
             const StateView& state);
  // Restores everything after a call whose packet waits.
  void Undo(Packet& packet, StateView& state);
  // Carries out the requests after a call whose packet does not wait.
  void Do();

  bool Emit(std::span<const std::byte> frame) override;
  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference& wish) override;
  void GivePiece(PoolId pool, uint32_t piece) override;
  bool IsExhausted(PoolId pool) const override {
    return services_->IsExhausted(pool);
  }
  void SetAlias(const FlowKey& key, uint64_t group,
                uint32_t group_limit) override {
    alias_ = {.key = key, .group = group, .group_limit = group_limit};
  }
  void Note(Nanos idle_timeout, bool over) override {
    if (idle_timeout.ns >= 0) idle_timeout_ = idle_timeout;
    is_over_ |= over;
  }
  LogBatch* Records() override;

 private:
  struct Piece {
    PoolId pool;
    uint16_t number;
  };
  struct AskedAlias {
    FlowKey key;
    uint64_t group;
    uint32_t group_limit;
  };

  std::optional<uint32_t> TakeGiven(PoolId pool, const PiecePreference& wish);

  FlowServices* services_ = nullptr;
  LazyArray<std::byte> record_;
  LazyArray<std::byte> packet_;
  PacketInfo info_;  // of the packet
  size_t packet_bytes_ = 0;
  uint64_t dirty_ = 0;

  LazyArray<std::byte> frames_;  // the emitted frames, end to end
  std::array<size_t, FlowState::kMaxEmits> frame_ends_;
  size_t frames_emitted_ = 0;
  LazyArray<std::byte> record_bytes_;
  LogBatch records_;
  std::array<Piece, kMaxTaken> taken_;
  size_t pieces_taken_ = 0;
  LazyArray<Piece> given_;
  size_t pieces_given_ = 0;
  std::optional<AskedAlias> alias_;
  std::optional<Nanos> idle_timeout_;
  bool is_over_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_CHAIN_UNDO_H_
