// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/channel_datagram.h"

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
  datagram.ack = {.received = Load64(&data[4]), .consumed = Load64(&data[12])};
  for (data = data.subspan(kAckBytes); !data.empty();
       data = data.subspan(kRangeBytes)) {
    datagram.ack.ranges.push_back(
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
  const auto option = options.Next();
  if (!option.has_value() || options.Next().has_value()) {
    return DatagramRefusal::kOptions;
  }
  const bool is_good =
      option->name == kPieceName ? TakePiece(option->data, datagram)
      : option->name == kAckName
          ? TakeAck(option->data, datagram)
          : option->name == kProbeName && TakeProbe(option->data, datagram);
  if (!is_good ||
      header.is_control != (datagram.kind != DatagramKind::kPiece)) {
    return DatagramRefusal::kOptions;
  }
  datagram.bytes = payload.subspan(header.bytes());
  return datagram.channel < channels ? DatagramRefusal::kNone
                                     : DatagramRefusal::kChannel;
}

void BuildHeader(const ChannelDatagram& datagram, const ChannelKey& key,
                 DatagramHeader& header) {
  std::array<std::byte, kKeyBytes> own;
  Store64(own.data(), key.key);
  std::array<std::byte, kMaxGeneveOptionData> data;
  GeneveOption option;
  Store(data.data(), be32(datagram.channel));
  size_t size = 0;
  switch (datagram.kind) {
    case DatagramKind::kPiece:
      option.name = kPieceName;
      Store64(&data[4], datagram.number);
      Store64(&data[12], datagram.offset);
      size = kPieceBytes;
      break;
    case DatagramKind::kAck:
      option.name = kAckName;
      Store64(&data[4], datagram.ack.received);
      Store64(&data[12], datagram.ack.consumed);
      size = kAckBytes;
      SNF_CHECK(datagram.ack.ranges.size() <= ChannelAck::kMostRanges);
      for (const NumberRange& range : datagram.ack.ranges) {
        Store64(&data[size], range.first);
        Store64(&data[size + 8], range.last);
        size += kRangeBytes;
      }
      break;
    case DatagramKind::kProbe:
    case DatagramKind::kProbeAnswer:
      option.name = kProbeName;
      Store(data.data(), be32(datagram.probed));
      Store(&data[4],
            be32(datagram.kind == DatagramKind::kProbeAnswer ? 1 : 0));
      size = kProbeBytes;
      break;
  }
  option.data = std::span(data).first(size);
  const std::array options = {GeneveOption{.name = kKeyName, .data = own},
                              option};
  const BuiltGeneve built =
      BuildGeneve({.is_control = datagram.kind != DatagramKind::kPiece,
                   .protocol = kMirrorBytes,
                   .network = key.network},
                  options, header.bytes);
  SNF_CHECK(built.fault == GeneveFault::kNone);
  header.size = built.bytes;
}

}  // namespace snf
