// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/channel_datagram.h"

#include <algorithm>
#include <optional>

#include "base/byte_order.h"
#include "base/check.h"

namespace snf {
namespace {

using be64 = BigEndian<uint64_t>;

constexpr GeneveOptionName kKeyName = {kSnfOptionClass, 0x81};
constexpr GeneveOptionName kPieceName = {kSnfOptionClass, 0x82};
constexpr GeneveOptionName kAckName = {kSnfOptionClass, 0x83};
constexpr GeneveOptionName kProbeName = {kSnfOptionClass, 0x84};
constexpr std::array kNames = {kKeyName, kPieceName, kAckName, kProbeName};

constexpr size_t kKeyBytes = 8;
constexpr size_t kPieceBytes = 20;
constexpr size_t kAckBytes = 20;
constexpr size_t kRangeBytes = 16;
constexpr size_t kProbeBytes = 8;
static_assert(kAckBytes + ChannelAck::kMostRanges * kRangeBytes <=
              kMaxGeneveOptionData);
constexpr size_t kMostOptions = 1 + kMostAckBytes / (4 + kAckBytes);
// Numbers and offsets stay below, so that sums do not overflow.
constexpr uint64_t kMostNumber = uint64_t{1} << 62;

uint64_t Load64(const std::byte* from) { return LoadAs<be64>(from).host(); }
void Store64(std::byte* to, uint64_t value) {
  const be64 stored(value);
  std::memcpy(to, &stored, sizeof(stored));
}

bool TakePiece(std::span<const std::byte> data, ChannelDatagram& datagram) {
  if (data.size() != kPieceBytes) return false;
  datagram.kind = DatagramKind::kPiece;
  datagram.channel = LoadBe32(data.data()).host();
  datagram.number = Load64(&data[4]);
  datagram.offset = Load64(&data[12]);
  return datagram.number < kMostNumber && datagram.offset < kMostNumber;
}

bool TakeAck(std::span<const std::byte> data, ChannelDatagram& datagram) {
  if (data.size() < kAckBytes || (data.size() - kAckBytes) % kRangeBytes != 0) {
    return false;
  }
  datagram.kind = DatagramKind::kAck;
  datagram.channel = LoadBe32(data.data()).host();
  datagram.acks.push_back({.channel = datagram.channel});
  ChannelAck& ack = datagram.acks.back().ack;
  ack.received = Load64(&data[4]);
  ack.consumed = Load64(&data[12]);
  for (data = data.subspan(kAckBytes); !data.empty();
       data = data.subspan(kRangeBytes)) {
    ack.ranges.push_back(
        {.first = Load64(data.data()), .last = Load64(&data[8])});
  }
  return true;
}

bool TakeProbe(std::span<const std::byte> data, ChannelDatagram& datagram) {
  if (data.size() != kProbeBytes) return false;
  const uint32_t is_answer = LoadBe32(&data[4]).host();
  datagram.kind =
      is_answer != 0 ? DatagramKind::kProbeAnswer : DatagramKind::kProbe;
  datagram.channel = 0;
  datagram.probed = LoadBe32(data.data()).host();
  return is_answer <= 1;
}

}  // namespace

std::string_view Name(DatagramRefusal refusal) {
  static constexpr std::array<std::string_view, kDatagramRefusals> kTexts = {
      "none", "header", "network", "key", "options", "channel", "window"};
  return kTexts.at(static_cast<size_t>(refusal));
}

DatagramRefusal ParseDatagram(std::span<const std::byte> payload,
                              const ChannelKey& key, uint32_t channels,
                              ChannelDatagram& datagram) {
  GeneveHeader header;
  if (ParseGeneve(payload, kNames, header) != GeneveFault::kNone ||
      header.protocol != kMirrorBytes) {
    return DatagramRefusal::kHeader;
  }
  if (header.network != key.network) return DatagramRefusal::kNetwork;
  GeneveOptions options(header.options);
  const auto first = options.Next();
  if (!first.has_value() || first->name != kKeyName ||
      first->data.size() != kKeyBytes ||
      Load64(first->data.data()) != key.key) {
    return DatagramRefusal::kKey;
  }
  datagram.acks.clear();
  auto option = options.Next();
  if (!option.has_value()) return DatagramRefusal::kOptions;
  const auto take = [&datagram](const GeneveOption& taken) {
    if (taken.name == kAckName) return TakeAck(taken.data, datagram);
    if (taken.name == kPieceName) return TakePiece(taken.data, datagram);
    return taken.name == kProbeName && TakeProbe(taken.data, datagram);
  };
  uint32_t channel = 0;  // the greatest
  for (const bool is_ack = option->name == kAckName; option.has_value();) {
    if (!take(*option)) return DatagramRefusal::kOptions;
    channel = std::max(channel, datagram.channel);
    option = options.Next();
    // Only acks may be several.
    if (option.has_value() && (!is_ack || option->name != kAckName)) {
      return DatagramRefusal::kOptions;
    }
  }
  if (header.is_control != (datagram.kind != DatagramKind::kPiece)) {
    return DatagramRefusal::kOptions;
  }
  datagram.bytes = payload.subspan(header.bytes());
  return channel < channels ? DatagramRefusal::kNone
                            : DatagramRefusal::kChannel;
}

void BuildHeader(const ChannelDatagram& datagram, const ChannelKey& key,
                 DatagramHeader& header) {
  std::array<std::byte, kMaxGeneveOptionsBytes> data;
  std::array<GeneveOption, kMostOptions> options;
  size_t count = 0;
  size_t used = 0;
  const auto add = [&](const GeneveOptionName& name, size_t bytes) {
    SNF_CHECK(count < options.size());
    options[count++] = {.name = name,
                        .data = std::span(data).subspan(used, bytes)};
    used += bytes;
  };
  Store64(data.data(), key.key);
  add(kKeyName, kKeyBytes);
  switch (datagram.kind) {
    case DatagramKind::kPiece:
      Store(&data[used], be32(datagram.channel));
      Store64(&data[used + 4], datagram.number);
      Store64(&data[used + 12], datagram.offset);
      add(kPieceName, kPieceBytes);
      break;
    case DatagramKind::kAck:
      for (const AckOfChannel& of : datagram.acks) {
        const size_t bytes = kAckBytes + of.ack.ranges.size() * kRangeBytes;
        SNF_CHECK(used + bytes <= data.size());
        std::byte* to = &data[used];
        Store(to, be32(of.channel));
        Store64(to + 4, of.ack.received);
        Store64(to + 12, of.ack.consumed);
        to += kAckBytes;
        for (const NumberRange& range : of.ack.ranges) {
          Store64(to, range.first);
          Store64(to + 8, range.last);
          to += kRangeBytes;
        }
        add(kAckName, bytes);
      }
      break;
    case DatagramKind::kProbe:
    case DatagramKind::kProbeAnswer:
      Store(&data[used], be32(datagram.probed));
      Store(&data[used + 4],
            be32(datagram.kind == DatagramKind::kProbeAnswer ? 1 : 0));
      add(kProbeName, kProbeBytes);
      break;
  }
  const BuiltGeneve built =
      BuildGeneve({.is_control = datagram.kind != DatagramKind::kPiece,
                   .protocol = kMirrorBytes,
                   .network = key.network},
                  std::span(options).first(count), header.bytes);
  SNF_CHECK(built.fault == GeneveFault::kNone);
  header.size = built.bytes;
}

}  // namespace snf
