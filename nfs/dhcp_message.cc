// SPDX-License-Identifier: Apache-2.0
#include "nfs/dhcp_message.h"

#include <algorithm>

#include "base/packet/l4_headers.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const Byte>;

// RFC 2131 §2.
constexpr size_t kClientAt = 12, kRelayAt = 24, kHardwareAt = 28,
                 kCookieAt = 236, kOptionsAt = 240;
constexpr uint32_t kCookie = 0x6382'5363;

uint8_t At(Bytes bytes, size_t offset) {
  return std::to_integer<uint8_t>(bytes[offset]);
}

bool IsRequest(Bytes payload) {
  constexpr uint8_t kBootRequest = 1, kEthernet = 1;
  return payload.size() >= kOptionsAt && At(payload, 0) == kBootRequest &&
         At(payload, 1) == kEthernet && At(payload, 2) == 6 &&
         LoadBe32(&payload[kCookieAt]).host() == kCookie;
}

MacAddress48 HardwareOf(Bytes payload) {
  MacAddress48 hardware;
  std::copy_n(&payload[kHardwareAt], hardware.size(), hardware.begin());
  return hardware;
}

// Takes an option into the message. Returns false if its length is wrong.
bool Take(uint8_t code, Bytes option, DhcpMessage& message) {
  constexpr uint8_t kRequested = 50, kType = 53, kServer = 54, kRelay = 82;
  constexpr size_t kHeader = 2;
  const Bytes value = option.subspan(kHeader);
  switch (code) {
    case kRequested:
    case kServer:
      if (value.size() != 4) return false;
      (code == kServer ? message.server : message.requested) =
          LoadBe32(value.data());
      return true;
    case kType:
      if (value.size() != 1) return false;
      message.type = DhcpType{At(value, 0)};
      return true;
    case kRelay:
      message.relay_information = option;
      return true;
    default:
      return true;
  }
}

}  // namespace

Bytes DhcpPayloadOf(Bytes frame, const ParsedPacket& headers) {
  if (headers.l3 != L3::kIpv4 || headers.l4_protocol != IpProtocol::kUdp ||
      headers.fragment != Fragment::kNone) {
    return {};
  }
  const auto udp = UdpHeader<const Byte>::At(frame, headers.l4_offset);
  if (!udp || udp.destination_port() != be16(kDhcpServerPort)) return {};
  return frame.subspan(headers.payload_offset, headers.payload_bytes());
}

std::optional<MacAddress48> DhcpHardwareOf(Bytes payload) {
  if (!IsRequest(payload)) return std::nullopt;
  return HardwareOf(payload);
}

std::optional<DhcpMessage> ReadDhcp(Bytes payload) {
  if (!IsRequest(payload)) return std::nullopt;
  DhcpMessage message;
  message.transaction = LoadBe32(&payload[4]).host();
  message.flags = LoadBe16(&payload[10]).host();
  message.client = LoadBe32(&payload[kClientAt]);
  message.relay = LoadBe32(&payload[kRelayAt]);
  message.hardware = HardwareOf(payload);
  constexpr uint8_t kPad = 0, kEnd = 255;
  Bytes options = payload.subspan(kOptionsAt);
  while (!options.empty() && At(options, 0) != kEnd) {
    const uint8_t code = At(options, 0);
    if (code == kPad) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2 || options.size() < 2u + At(options, 1)) {
      return std::nullopt;
    }
    const size_t bytes = 2u + At(options, 1);
    if (!Take(code, options.first(bytes), message)) return std::nullopt;
    options = options.subspan(bytes);
  }
  if (message.type == DhcpType{}) return std::nullopt;
  return message;
}

}  // namespace snf
