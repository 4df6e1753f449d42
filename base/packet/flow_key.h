// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_FLOW_KEY_H_
#define SNF_BASE_PACKET_FLOW_KEY_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/byte_order.h"
#include "base/keyed_hash.h"
#include "base/packet/ip_address.h"
#include "base/packet/packet_parser.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// The fields that packets of one flow have in common.
enum class FlowKeyKind : uint8_t {
  // Key of both directions of a connection: the two ends (address, port) in
  // canonical order, the smaller first. ICMP queries have their identifier in
  // both ports. An ICMP error belongs to the connection whose packet it quotes.
  // Fragments belong to the connection of their first fragment.
  kConnection,
  // One direction: addresses, protocol and ports as the packet has them; ports
  // are 0 for ICMP and for fragments other than the first.
  k5Tuple,
  // Key of all packets that two hosts exchange under one protocol: kConnection
  // without ports, hence with the smaller address first, and with no need to
  // remember fragments.
  k3Tuple,
};

// The version of IP, and what the key names: a connection, one end of
// connections, or a fragmented packet whose first fragment was not seen. Keys
// of different forms are never equal.
enum class FlowKeyForm : uint8_t {
  kNone = 0,
  kIpv4 = 4,
  kIpv6 = 6,
  kIpv4Fragment = 0x14,
  kIpv6Fragment = 0x16,
  kIpv4Endpoint = 0x24,  // endpoint.h
  kIpv6Endpoint = 0x26,
};

// The name of a flow: 40 bytes, all defined and the same on every machine.
//
// Addresses are IpAddress, so IPv4 is mapped; `form` keeps an IPv6 packet
// between mapped addresses apart from an IPv4 one. A fragment's form holds the
// fragment id where the ports else are: source_port the upper and
// destination_port the lower 16 bits; `form` keeps it apart from every flow.
// Its addresses are as in the packet, for ids count per direction. `vlan` is
// the outermost tag's id where the classifier is asked to tell VLANs apart,
// else 0.
//
// Example: the packets 10.0.0.1:5000 → 192.0.2.9:53 and back have two 5-tuples
// and one connection key, {10.0.0.1, 192.0.2.9, 5000, 53, vlan 0, UDP, kIpv4}.
struct alignas(8) FlowKey {
  IpAddress source;
  IpAddress destination;
  be16 source_port;
  be16 destination_port;
  be16 vlan;
  IpProtocol protocol{};
  FlowKeyForm form = FlowKeyForm::kNone;

  friend bool operator==(const FlowKey& a, const FlowKey& b) {
    return (DifferenceAt(0, a, b) | DifferenceAt(8, a, b) |
            DifferenceAt(16, a, b) | DifferenceAt(24, a, b) |
            DifferenceAt(32, a, b)) == 0;
  }
  // Orders keys by their bytes, for reports; the order is the same on every
  // machine.
  friend std::strong_ordering operator<=>(const FlowKey& a, const FlowKey& b) {
    return std::memcmp(&a, &b, sizeof a) <=> 0;
  }

 private:
  // Keys are compared in the words in which they are written, so that no load
  // waits for two stores.
  static uint64_t DifferenceAt(size_t offset, const FlowKey& a,
                               const FlowKey& b) {
    return LoadAs<uint64_t>(reinterpret_cast<const std::byte*>(&a) + offset) ^
           LoadAs<uint64_t>(reinterpret_cast<const std::byte*>(&b) + offset);
  }
};
static_assert(sizeof(FlowKey) == 40 && std::is_trivially_copyable_v<FlowKey> &&
              std::has_unique_object_representations_v<FlowKey>);

// Hashes keys for tables that hold what strangers send (keyed_hash.h). A value.
// Budget: ≤ 5 ns.
class FlowKeyHash {
 public:
  // Takes a seed that the process has drawn, for maps that are never iterated.
  FlowKeyHash();
  explicit FlowKeyHash(uint64_t seed) : hash_(seed) {}

  uint64_t operator()(const FlowKey& key) const;

 private:
  KeyedHash hash_;
};

// Returns a hash of the key's bytes. It is the same on every machine and will
// never change: results depend on it. Anyone can find keys with equal hashes,
// so it may choose among equals (units, addresses, files), and index no table.
uint64_t Hash(const FlowKey& key);

// Returns the key of the opposite direction.
FlowKey Reversed(const FlowKey& key);

// Fills in the keys of a connection's two ends. Each has the end's address and
// port in its source, no destination, the form `form`, and everything else of
// the connection.
void SplitEnds(const FlowKey& connection, FlowKeyForm form, FlowKey& source,
               FlowKey& destination);

// Puts the smaller end (address, then port) first. Returns true if the ends
// were swapped.
bool Canonicalize(FlowKey& key);

// Fill in the key of a packet that has an IP header, as FlowKeyKind defines it
// but without regard to other packets: the classifier handles fragments and
// ICMP errors (classifier.h). `with_vlan` fills in the VLAN. Ports are read if
// their four bytes are there, even where the rest of the header was cut off;
// else they are 0. The two that put the smaller end first return true if they
// swapped the ends.
void FiveTuple(std::span<const std::byte> frame, const ParsedPacket& packet,
               bool with_vlan, FlowKey& key);
bool ConnectionKey(std::span<const std::byte> frame, const ParsedPacket& packet,
                   bool with_vlan, FlowKey& key);
bool HostPairKey(std::span<const std::byte> frame, const ParsedPacket& packet,
                 bool with_vlan, FlowKey& key);
// Fills in the key that ConnectionKey gives for an IPv4 packet with these ends
// and without a VLAN. Returns true if the ends were swapped.
struct Ipv4End {
  be32 address;
  be16 port;
};
bool Ipv4ConnectionKey(Ipv4End source, Ipv4End destination, IpProtocol protocol,
                       FlowKey& key);

inline FlowKey FiveTuple(std::span<const std::byte> frame,
                         const ParsedPacket& packet, bool with_vlan) {
  FlowKey key;
  FiveTuple(frame, packet, with_vlan, key);
  return key;
}

// Returns the key that the fragments of one packet share, in a fragment's form:
// addresses and id, with IPv4 also the protocol (RFC 791 §3.2). In IPv6 the
// protocol is 0, for only the first fragment is sure to name it (RFC 8200
// §4.5).
FlowKey FragmentKey(std::span<const std::byte> frame,
                    const ParsedPacket& packet, bool with_vlan);

}  // namespace snf

#endif  // SNF_BASE_PACKET_FLOW_KEY_H_
