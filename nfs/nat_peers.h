// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_PEERS_H_
#define SNF_NFS_NAT_PEERS_H_

#include <cstdint>
#include <type_traits>

#include "base/byte_order.h"
#include "base/time.h"
#include "nfs/nat_packet.h"
#include "runtime/sdk/state.h"

namespace snf {

// What was seen of a TCP connection: bits, of which 0 is nothing. As RFC 6146
// §3.5.2.2, to which RFC 7857 §2 refers, but that a connection may be met in
// its midst. Simultaneous open and half-close are no special cases.
//
//   the inside sends SYN                       kInside: transitory
//   the outside SYN, ACK                       + kOutside: established
//   the inside FIN                             + kInsideFin: established yet
//   the outside FIN                            + kOutsideFin: transitory
//   anybody RST                                + kReset: transitory, until
//   anybody anything else                      - kReset, for it was forged
//   anybody SYN, where it was transitory       begins anew
struct NatTcp {
  static constexpr uint8_t kInside = 1, kOutside = 2, kInsideFin = 4,
                           kOutsideFin = 8, kReset = 16;
  static bool IsEstablished(uint8_t seen);
  static uint8_t After(uint8_t seen, uint8_t tcp_flags, bool from_inside);
};

// One whom the inside has sent to, and the connection with it.
struct NatPeer {
  be32 address;
  be16 port;        // 0 of ICMP
  uint8_t tcp = 0;  // NatTcp
  uint8_t zero = 0;
  uint32_t tick = 0;  // of the last outbound packet
};
static_assert(sizeof(NatPeer) == 12 &&
              std::has_unique_object_representations_v<NatPeer>);

// The peers of one mapping, in a blob of its flow, in no order. What is not
// there is forgotten without harm but to itself: the filter does not admit it.
// Time counts in ticks of 2³⁰ ns, some 1.07 s: a peer stays up to two ticks too
// long, and its entry does not change with every packet. A view.
// Budget: ≤ 10 ns for up to 4 peers, 2 ns for each further one.
class NatPeers {
 public:
  NatPeers(FlowState& flow, Blob blob, Instant now)
      : flow_(flow), blob_(blob), now_(TickOf(now)) {}

  static uint32_t TickOf(Instant t) {
    return static_cast<uint32_t>(static_cast<uint64_t>(t.ns) >> 30);
  }

  struct Timeouts {
    Nanos established;
    Nanos other;
  };

  // An end of a packet as it is remembered: an identifier is no peer's.
  static NatEnd PeerOf(NatEnd end, IpProtocol protocol) {
    if (protocol == IpProtocol::kIcmp) end.port = be16(0);
    return end;
  }

  // What a packet changed.
  struct Change {
    bool established_changed = false;  // of this peer, or it goes on
    bool forgot_established = false;   // the peer that left for this one
  };
  // The inside sends to the packet's destination, which is remembered now;
  // where there is no room, the oldest that is not established leaves, or else
  // the oldest. A reset only follows: somebody from outside may have wanted it.
  Change Sent(const NatView& packet);
  // The packet's source sends; one that is not remembered stays so. `refresh`:
  // as if the inside had sent.
  Change Received(const NatView& packet, bool refresh);

  bool HasEstablished(const Timeouts& timeouts) const;
  // `peer` as PeerOf gives it.
  bool Has(NatEnd peer, const Timeouts& timeouts) const;
  bool HasAddress(be32 address, const Timeouts& timeouts) const;

 private:
  uint32_t size() const {
    return static_cast<uint32_t>(flow_.get(blob_).size() / sizeof(NatPeer));
  }
  NatPeer At(uint32_t index) const {
    return LoadAs<NatPeer>(&flow_.get(blob_)[index * sizeof(NatPeer)]);
  }
  void Put(uint32_t index, const NatPeer& peer);
  // The index of the peer; size() for none.
  uint32_t Find(NatEnd peer) const;
  uint32_t ToReplace() const;
  // Time does not go backwards.
  uint32_t Age(const NatPeer& peer) const {
    const uint32_t age = now_ - peer.tick;
    return age >> 31 != 0 ? 0 : age;
  }
  bool IsLive(const NatPeer& peer, const Timeouts& timeouts) const;
  Change Update(uint32_t index, NatPeer peer, uint8_t tcp, bool refresh);

  FlowState& flow_;
  Blob blob_;
  uint32_t now_;
};

}  // namespace snf

#endif  // SNF_NFS_NAT_PEERS_H_
