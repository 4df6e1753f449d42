// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_CHANNEL_DATAGRAM_H_
#define SNF_PLATFORM_HOSTS_CHANNEL_DATAGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/tunnels/geneve.h"
#include "platform/hosts/channel_receiver.h"
#include "platform/hosts/channel_sender.h"

namespace snf {

// Theory of operation. Datagrams between two hosts are GENEVE packets (RFC
// 8926) with options of kSnfOptionClass, in network order:
//
//   0x81 key      8 bytes: what both ends agreed on over TCP
//   0x82 piece   20 bytes: channel (4), number (8), offset (8); the piece of
//                the channel's stream follows the header
//   0x83 ack     20 bytes and 16 for each range: channel (4), received (8),
//                consumed (8); first and last number of each range (8 each)
//   0x84 probe    8 bytes: bytes of the datagram, with all headers (4); 0 for a
//                question, 1 for the answer (4); zeros follow a question
//
// All are critical. The key comes first, then a piece, a probe, or one ack or
// more. Packets with an ack or a probe are control packets (O bit), and all
// have the protocol kMirrorBytes.
//
// Worked example: a piece has 44 bytes before it, and 72 with UDP and
// IPv4. A path of 1,500 bytes carries 1,428 bytes of the stream a packet.
inline constexpr uint16_t kSnfOptionClass = 0xff53;

// The membership of a datagram.
struct ChannelKey {
  uint32_t network = 0;  // 24 bits: the virtual network of this process
  uint32_t reserved = 0;
  uint64_t key = 0;
  friend bool operator==(const ChannelKey&, const ChannelKey&) = default;
};

enum class DatagramKind : uint8_t { kPiece, kAck, kProbe, kProbeAnswer };

struct AckOfChannel {
  uint32_t channel = 0;
  ChannelAck ack{};

  // Counts the bytes of its option.
  size_t bytes() const { return 24 + 16 * ack.ranges.size(); }
};
// The most bytes of the acks of one datagram.
inline constexpr size_t kMostAckBytes = kMaxGeneveOptionsBytes - 12;

// A datagram. Spans lie in the parsed bytes.
struct ChannelDatagram {
  DatagramKind kind{};
  uint32_t channel = 0;
  uint64_t number = 0;
  uint64_t offset = 0;
  std::span<const std::byte> bytes{};
  std::vector<AckOfChannel> acks{};
  uint32_t probed = 0;
};

// The reason for which a datagram is refused.
enum class DatagramRefusal : uint8_t {
  kNone,
  kHeader,   // no GENEVE header, or of another protocol
  kNetwork,  // of another virtual network
  kKey,      // without the key, or with another one
  kOptions,  // options that cannot be
  kChannel,  // there is no such channel
  kWindow,   // a piece beyond the window, or an ack of nothing sent
};
inline constexpr size_t kDatagramRefusals = 7;
// Returns "none", "header" …
std::string_view Name(DatagramRefusal refusal);

// Parses the payload of a UDP datagram. Unless the result is kNone, `datagram`
// holds anything. Bytes are not trusted.
DatagramRefusal ParseDatagram(std::span<const std::byte> payload,
                              const ChannelKey& key, uint32_t channels,
                              ChannelDatagram& datagram);

// The header of a datagram, which its bytes follow.
struct DatagramHeader {
  static constexpr size_t kPiece = 8 + 12 + 24;

  std::array<std::byte, kMaxGeneveBytes> bytes;
  size_t size = 0;
  std::span<const std::byte> span() const {
    return std::span(bytes).first(size);
  }
};
void BuildHeader(const ChannelDatagram& datagram, const ChannelKey& key,
                 DatagramHeader& header);

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_CHANNEL_DATAGRAM_H_
