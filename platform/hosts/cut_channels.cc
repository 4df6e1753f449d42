// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/cut_channels.h"

#include <cstring>

#include "base/check.h"
#include "runtime/mirror/mirror_frame.h"

namespace snf {
namespace {

constexpr unsigned Bit(CutChannel channel) {
  return 1u << static_cast<unsigned>(channel);
}
constexpr unsigned kRings = Bit(CutChannel::kFirst) | Bit(CutChannel::kSecond) |
                            Bit(CutChannel::kThird);
constexpr unsigned kTold = Bit(CutChannel::kTold);

using Waits = std::array<unsigned, kCutChannels>;
constexpr Waits kHomeWaits = {
    0, 0, Bit(CutChannel::kFirst),
    Bit(CutChannel::kFirst) | Bit(CutChannel::kSecond), kRings};
constexpr Waits kAwayWaits = {kRings | Bit(CutChannel::kWords), kTold, kTold,
                              kTold, kTold | kRings};

CutChannel ChannelOf(const MirrorItem& item) {
  if (item.kind == MirrorItem::Kind::kTold) return CutChannel::kTold;
  if (item.kind != MirrorItem::Kind::kCells) return CutChannel::kWords;
  switch (static_cast<MirroredRing>(item.ring)) {
    case MirroredRing::kDown:
    case MirroredRing::kLog:
    case MirroredRing::kKept:
      return CutChannel::kFirst;
    case MirroredRing::kRelayed:
    case MirroredRing::kToRelay:
      return CutChannel::kSecond;
    default:
      return CutChannel::kThird;
  }
}

}  // namespace

void CutSplitter::Split(std::span<const std::byte> frame, Messages& messages) {
  for (auto& message : messages) message.clear();
  MirrorReader reader(frame);
  // Packets go with the cells that follow.
  const std::byte* from = frame.data();
  while (reader.Next()) {
    if (reader.item().kind == MirrorItem::Kind::kPacket) continue;
    const std::byte* const to = reader.bytes().data() + reader.bytes().size();
    auto& message = messages[static_cast<size_t>(ChannelOf(reader.item()))];
    if (message.empty()) message.resize(sizeof(CutHead));
    message.insert(message.end(), from, to);
    from = to;
  }
  SNF_CHECK(!reader.is_bad() && from == frame.data() + frame.size());
  for (size_t i = 0; i < kCutChannels; ++i) {
    if (messages[i].empty()) continue;
    const CutHead head = {
        .bytes = static_cast<uint32_t>(messages[i].size() - sizeof(CutHead)),
        .sent = sent_};
    std::memcpy(messages[i].data(), &head, sizeof(head));
    ++sent_[i];
  }
}

bool CutOrder::MayApply(CutChannel channel, const CutHead& head) const {
  const Waits& waits =
      side_ == LoopMirror::Side::kHome ? kHomeWaits : kAwayWaits;
  const unsigned for_these = waits[static_cast<size_t>(channel)];
  for (size_t i = 0; i < kCutChannels; ++i) {
    if ((for_these >> i & 1u) == 0) continue;
    if (static_cast<int32_t>(head.sent[i] - applied_[i]) > 0) return false;
  }
  return true;
}

}  // namespace snf
