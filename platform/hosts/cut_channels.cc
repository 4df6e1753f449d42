// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/cut_channels.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "platform/hosts/host_stream.h"
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

bool CutArrivals::Take(const ChannelDatagram& piece) {
  Incoming& in = incoming_[piece.channel];
  if (!in.receiver.Take(piece.number, piece.offset, piece.bytes)) return false;
  in.is_ack_due = true;
  return true;
}

void CutArrivals::Start(LoopMirror::Side side, Deliver deliver) {
  order_.emplace(side);
  deliver_ = std::move(deliver);
}

// Returns true if the head of the message that comes is here.
absl::StatusOr<bool> CutArrivals::ReadHead(Incoming& in) {
  if (in.head.has_value()) return true;
  CutHead head;
  if (in.receiver.ready().size() < sizeof(head)) return false;
  std::memcpy(&head, in.receiver.ready().data(), sizeof(head));
  if (head.bytes == 0 || head.bytes > HostStream::kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("a message of {} bytes", head.bytes));
  }
  in.head = head;
  in.receiver.Consume(sizeof(head));
  in.is_ack_due = true;
  return true;
}

absl::Status CutArrivals::DeliverMessage(Incoming& in,
                                         std::span<const std::byte> rest) {
  if (in.begun.empty()) return deliver_(rest);
  in.begun.insert(in.begun.end(), rest.begin(), rest.end());
  const absl::Status status = deliver_(in.begun);
  in.begun = {};
  return status;
}

// Returns true if a message was delivered.
absl::StatusOr<bool> CutArrivals::DeliverOne(CutChannel channel) {
  Incoming& in = incoming_[static_cast<size_t>(channel)];
  const absl::StatusOr<bool> has_head = ReadHead(in);
  if (!has_head.ok() || !*has_head) return has_head;
  const std::span<const std::byte> ready = in.receiver.ready();
  const size_t rest = in.head->bytes - in.begun.size();
  if (ready.size() < rest) {
    if (ready.size() < kChannelWindow / 2) return false;
    in.begun.insert(in.begun.end(), ready.begin(), ready.end());
    in.receiver.Consume(ready.size());
    in.is_ack_due = true;
    return false;
  }
  if (!order_->MayApply(channel, *in.head)) return false;
  if (absl::Status s = DeliverMessage(in, ready.first(rest)); !s.ok()) return s;
  in.receiver.Consume(rest);
  in.is_ack_due = true;
  in.head.reset();
  order_->on_applied(channel);
  return true;
}

absl::Status CutArrivals::DeliverAll() {
  for (bool did = order_.has_value(); did;) {
    did = false;
    for (size_t i = 0; i < kCutChannels; ++i) {
      while (true) {
        const auto one = DeliverOne(static_cast<CutChannel>(i));
        if (!one.ok()) return one.status();
        if (!*one) break;
        did = true;
      }
    }
  }
  return absl::OkStatus();
}

std::vector<ChannelDatagram> CutArrivals::TakeAcks() {
  std::vector<ChannelDatagram> all;
  size_t bytes = 0;
  for (size_t i = 0; i < kCutChannels; ++i) {
    if (!std::exchange(incoming_[i].is_ack_due, false)) continue;
    AckOfChannel ack = {.channel = static_cast<uint32_t>(i),
                        .ack = incoming_[i].receiver.Ack()};
    if (all.empty() || bytes + ack.bytes() > kMostAckBytes) {
      all.push_back({.kind = DatagramKind::kAck});
      bytes = 0;
    }
    bytes += ack.bytes();
    all.back().acks.push_back(std::move(ack));
  }
  return all;
}

uint64_t CutArrivals::repeated() const {
  uint64_t sum = 0;
  for (const Incoming& in : incoming_) sum += in.receiver.repeated();
  return sum;
}

}  // namespace snf
