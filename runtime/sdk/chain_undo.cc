// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/chain_undo.h"

#include <algorithm>

#include "base/check.h"

namespace snf {

ChainUndo::ChainUndo(uint32_t record_bytes)
    : record_(record_bytes),
      packet_(kMaxPacketBytes),
      frames_(kMaxEmittedBytes),
      record_bytes_(LogBatch::kMaxBytes),
      given_(kMaxGiven) {}

void ChainUndo::Begin(FlowServices& services, const Packet& packet,
                      const StateView& state) {
  const std::span<const std::byte> bytes = packet.bytes();
  SNF_CHECK(bytes.size() <= kMaxPacketBytes);
  services_ = &services;
  std::ranges::copy(bytes, packet_.data());
  info_ = packet.info_;
  packet_bytes_ = bytes.size();
  std::ranges::copy(state.record(), record_.data());
  dirty_ = state.dirty();
  frames_emitted_ = pieces_taken_ = pieces_given_ = 0;
  alias_.reset();
  idle_timeout_.reset();
  is_over_ = false;
  records_ = {};
}

void ChainUndo::Undo(Packet& packet, StateView& state) {
  if (packet.is_resized()) {
    *packet.resizable_ = info_;
    packet.SetSize(packet_bytes_, false);
  }
  std::copy_n(packet_.data(), packet_bytes_, packet.bytes().begin());
  state.Undo({record_.data(), state.record().size()}, dirty_);
  for (const Piece& piece : std::span(taken_).first(pieces_taken_)) {
    services_->GivePiece(piece.pool, piece.number);
  }
}

void ChainUndo::Do() {
  size_t begin = 0;
  for (const size_t end : std::span(frame_ends_).first(frames_emitted_)) {
    // If there is no buffer now, the frame is lost, as if on the wire.
    services_->Emit({frames_.data() + begin, end - begin});
    begin = end;
  }
  if (records_.is_open()) {
    LogBatch* const batch = services_->Records();
    if (batch != nullptr) batch->Append(records_);
  }
  for (size_t i = 0; i < pieces_given_; ++i) {
    services_->GivePiece(given_[i].pool, given_[i].number);
  }
  if (alias_.has_value()) {
    services_->SetAlias(alias_->key, alias_->group, alias_->group_limit);
  }
  if (idle_timeout_.has_value() || is_over_) {
    services_->Note(idle_timeout_.value_or(Nanos{-1}), is_over_);
  }
}

bool ChainUndo::Emit(std::span<const std::byte> frame) {
  const size_t begin =
      frames_emitted_ == 0 ? 0 : frame_ends_[frames_emitted_ - 1];
  if (frames_emitted_ == frame_ends_.size() || frame.empty() ||
      frame.size() > std::min(kMaxPacketBytes, kMaxEmittedBytes - begin)) {
    return false;
  }
  std::ranges::copy(frame, frames_.data() + begin);
  frame_ends_[frames_emitted_++] = begin + frame.size();
  return true;
}

// Without a reader of logs the unit refuses the batch in Do().
LogBatch* ChainUndo::Records() {
  if (!records_.is_open()) records_ = LogBatch(record_bytes_.span());
  return &records_;
}

std::optional<uint32_t> ChainUndo::TakePiece(PoolId pool,
                                             const PiecePreference& wish) {
  if (pieces_taken_ == kMaxTaken) return std::nullopt;
  const std::optional<uint32_t> piece = services_->TakePiece(pool, wish);
  if (!piece.has_value()) return TakeGiven(pool, wish);
  taken_[pieces_taken_++] = {pool, static_cast<uint16_t>(*piece)};
  return piece;
}

// Takes a piece that was given back during this call.
std::optional<uint32_t> ChainUndo::TakeGiven(PoolId pool,
                                             const PiecePreference& wish) {
  const std::span<Piece> given = given_.span().first(pieces_given_);
  const auto found = std::ranges::find_if(given, [&](const Piece& piece) {
    return piece.pool == pool && wish.Admits(piece.number);
  });
  if (found == given.end()) return std::nullopt;
  const uint32_t piece = found->number;
  std::move(found + 1, given.end(), found);
  --pieces_given_;
  return piece;
}

void ChainUndo::GivePiece(PoolId pool, uint32_t piece) {
  SNF_CHECK(pieces_given_ < kMaxGiven);
  given_[pieces_given_++] = {pool, static_cast<uint16_t>(piece)};
}

}  // namespace snf
