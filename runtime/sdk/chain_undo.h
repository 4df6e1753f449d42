// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_CHAIN_UNDO_H_
#define SNF_RUNTIME_SDK_CHAIN_UNDO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/lazy_array.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "runtime/sdk/packet.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/state.h"

namespace snf {

// What a chain needs to have done nothing to a packet that is to wait: a copy
// of its bytes and of the flow's record, and in place of the unit's services
// these, which do nothing until it is known that it need not wait. Only pieces
// are taken at once, and given back then.
//
// All memory is reserved at construction, and touched where used.
class ChainUndo final : public FlowServices {
 public:
  // In one call; more is refused, as if there were none.
  static constexpr size_t kMaxTaken = 64;
  // More is a programmer's error.
  static constexpr size_t kMaxGiven = 65'536;
  // The largest packet, and what frames emitted may have together.
  static constexpr size_t kMaxPacketBytes = 256 * 1024;
  static constexpr size_t kMaxEmittedBytes = 1024 * 1024;

  explicit ChainUndo(uint32_t record_bytes);

  // Before the call.
  void Begin(FlowServices& services, const Packet& packet,
             const StateView& state);
  // After it: all is as it was …
  void Undo(const Packet& packet, StateView& state);
  // … or what was asked for is done.
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
  uint64_t dirty_ = 0;

  LazyArray<std::byte> frames_;  // one after the other
  std::array<size_t, FlowState::kMaxEmits> frame_ends_;
  size_t frames_emitted_ = 0;
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
