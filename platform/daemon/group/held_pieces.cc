// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/held_pieces.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/messages/messages.h"
#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/state.h"

namespace snf {
namespace {

constexpr uint32_t kWordPieces = 64;

uint64_t BitOf(const HeldPiece& one) {
  return uint64_t{1} << one.piece % kWordPieces;
}

// Notes what is given back, and does nothing else.
class GivenBack final : public FlowServices {
 public:
  bool Emit(std::span<const std::byte>) override { return false; }
  std::optional<uint32_t> TakePiece(PoolId, const PiecePreference&) override {
    return std::nullopt;
  }
  void GivePiece(PoolId pool, uint32_t piece) override {
    pieces.push_back({.pool = static_cast<uint16_t>(pool), .piece = piece});
  }
  bool IsExhausted(PoolId) const override { return true; }
  void SetAlias(const FlowKey&, uint64_t, uint32_t) override {}
  void Note(Nanos, bool) override {}

  std::vector<HeldPiece> pieces;
};

}  // namespace

std::vector<HeldPiece> PiecesOf(NetworkFunction& nf,
                                std::span<const std::byte> record) {
  if (nf.pools().empty()) return {};
  std::vector<std::byte> own(
      std::max<size_t>(record.size(), nf.schema().record_bytes()));
  std::ranges::copy(record, own.begin());
  StateView state(own);
  GivenBack services;
  FlowState flow(kNoFlow, Instant::min(), Instant::max(), state, services);
  const PacketMeta meta{};
  CallNf(nf, NfCall::Hook::kOnEnd, &meta, kNoPacket, [&] { nf.on_end(flow); });
  return std::move(services.pieces);
}

PieceTaking::PieceTaking(PoolPieces& pools) : pools_(pools) {
  for (size_t i = 0; i < pools.pools().size(); ++i) {
    free_.push_back(pools.Free(i));
    taken_.emplace_back(free_.back().size());
  }
}

bool PieceTaking::Take(std::span<const HeldPiece> pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const HeldPiece& one = pieces[i];
    const size_t word = one.piece / kWordPieces;
    const bool is_free = one.pool < free_.size() &&
                         word < free_[one.pool].size() &&
                         (free_[one.pool][word] & BitOf(one)) != 0;
    if (!is_free) {
      for (const HeldPiece& taken : pieces.first(i)) {
        const size_t at = taken.piece / kWordPieces;
        free_[taken.pool][at] |= BitOf(taken);
        taken_[taken.pool][at] &= ~BitOf(taken);
      }
      return false;
    }
    free_[one.pool][word] &= ~BitOf(one);
    taken_[one.pool][word] |= BitOf(one);
  }
  return true;
}

void PieceTaking::Finish() {
  for (size_t i = 0; i < taken_.size(); ++i) pools_.Remove(i, taken_[i]);
}

void PieceTaking::PutBack(PoolPieces& pools,
                          std::span<const HeldPiece> pieces) {
  for (const HeldPiece& one : pieces) {
    Words words(pools.pools()[one.pool].words());
    words[one.piece / kWordPieces] = BitOf(one);
    pools.Add(one.pool, words);
  }
}

}  // namespace snf
