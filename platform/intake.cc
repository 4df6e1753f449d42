// SPDX-License-Identifier: Apache-2.0
#include "platform/intake.h"

#include <cstring>

#include "base/rewrite.h"

namespace snf {
namespace {

void SetSide(PacketInfo& info, Side side, const Endpoints& ends) {
  const FlowKey& far_end = side == Side::kOutside ? ends.from : ends.to;
  info.side = side;
  info.far_address = far_end.source;
  info.far_port = far_end.source_port;
}

}  // namespace

Intake::Intake(const RunOptions& options, bool has_sides, BufferPool& pool)
    : pool_(pool),
      has_sides_(has_sides),
      classifier_(options.flow),
      far_side_(options.inside),
      released_({.fragments = options.flow.fragments}) {}

Intake::Taken Intake::Take(Instant arrival, const CapturedPacket& captured) {
  direction_ = classifier_.Classify(arrival, captured.link, captured.bytes,
                                    headers_, key_);
  return TakeAgain(arrival, captured);
}

Intake::Taken Intake::TakeAgain(Instant arrival,
                                const CapturedPacket& captured) {
  Taken taken;
  if (direction_ == Direction::kNone) return taken;
  taken.fate = Taken::Fate::kDropped;
  taken.key = taken.flow = key_;
  FarSide::Placed placed;
  Endpoints ends;
  if (has_sides_) {
    if (!HasEnds(key_)) {
      taken.reason = DropReason::kFragmentEarly;
      return taken;
    }
    ends = EndpointsOf(key_, direction_);
    placed = far_side_.Place(key_, direction_);
    taken.key = placed.key;
    taken.flow = placed.inside;
    taken.by_alias = placed.side == Side::kOutside;
    if (placed.untranslated) {
      taken.reason = DropReason::kNotTranslated;
      return taken;
    }
  }
  const auto length = static_cast<uint32_t>(captured.bytes.size());
  const PacketHandle packet = pool_.Allocate(length);
  if (packet == kNoPacket) {
    taken.reason = length > BufferPool::kMaxPacketBytes
                       ? DropReason::kPacketTooLarge
                       : DropReason::kBufferPoolEmpty;
    return taken;
  }
  std::memcpy(pool_.room(packet).data(), captured.bytes.data(), length);
  PacketInfo& info = pool_.info(packet);
  info = {.arrival = arrival,
          .length = length,
          .original_length = captured.original_bytes,
          .headers = headers_,
          .link = captured.link};
  if (has_sides_) SetSide(info, placed.side, ends);
  if (placed.rewrite && placed.key.form == FlowKeyForm::kIpv4Endpoint) {
    RewriteDestination(pool_.bytes(packet), headers_, placed.key.source.ipv4(),
                       placed.key.source_port);
  }
  taken.fate = Taken::Fate::kPacket;
  taken.packet = packet;
  return taken;
}

void Intake::OnAlias(const Alias& alias, const FlowKey& flow) {
  announced_[alias.flow] = {.inside = flow, .clock = alias.clock};
  far_side_.OnAlias(flow, alias.key);
}

void Intake::ForgetAlias(FlowId flow, Clock clock) {
  const auto announced = announced_.find(flow);
  if (announced == announced_.end() || announced->second.clock > clock) return;
  far_side_.OnFlowOver(announced->second.inside);
  announced_.erase(announced);
}

// A packet from the outside is not sent back there once more.
std::optional<FlowKey> Intake::ComesBack(Instant now, PacketHandle released) {
  PacketInfo& info = pool_.info(released);
  if (info.side != Side::kInside) return std::nullopt;
  ParsedPacket headers;
  FlowKey connection;
  const Direction direction = released_.Classify(
      now, info.link, pool_.bytes(released), headers, connection);
  if (direction == Direction::kNone || !HasEnds(connection)) {
    return std::nullopt;
  }
  const Endpoints ends = EndpointsOf(connection, direction);
  if (far_side_.InsideOf(ends.to) == nullptr) return std::nullopt;
  SetSide(info, Side::kOutside, ends);
  return ends.to;
}

}  // namespace snf
