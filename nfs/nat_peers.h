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

// The packets seen of a TCP connection, as bits; 0 if none was seen. The states
// are those of RFC 6146 §3.5.2.2, to which RFC 7857 §2 refers, except that a
// connection may be met in its midst. Simultaneous open and half-close are no
// special cases.
//
//   the inside sends SYN                       kInside: transitory
//   the outside SYN, ACK                       + kOutside: established
//   the inside FIN                             + kInsideFin: still established
//   the outside FIN                            + kOutsideFin: transitory
//   either side RST                            + kReset: transitory
//   either side another packet                 - kReset, for it was forged
//   either side SYN, while transitory          begins anew
struct NatTcp {
  static constexpr uint8_t kInside = 1, kOutside = 2, kInsideFin = 4,
                           kOutsideFin = 8, kReset = 16;
  // Returns true if the state is established, false if it is transitory.
  static bool IsEstablished(uint8_t seen);
  // Returns the state after a packet with these flags.
  static uint8_t After(uint8_t seen, uint8_t tcp_flags, bool from_inside);
};

// An endpoint to which the inside has sent, and the connection with it.
struct NatPeer {
  be32 address;
  be16 port;        // 0 with ICMP
  uint8_t tcp = 0;  // NatTcp
  uint8_t zero = 0;
  uint32_t tick = 0;  // of the last outbound packet
};
static_assert(sizeof(NatPeer) == 12 &&
              std::has_unique_object_representations_v<NatPeer>);

// The peers of one mapping, in a blob of its flow, in no order. A peer that is
// forgotten is no longer admitted by the filter; nothing else suffers. Time
// counts in ticks of 2³⁰ ns, some 1.07 s: a peer stays up to two ticks too
// long, but its entry does not change with every packet. A view, valid during
// one call of the NF. Budget: ≤ 10 ns for up to 4 peers, 2 ns for each further
// one.
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

  // Returns an end of a packet as peers are stored: without the identifier of
  // ICMP, which is not the peer's.
  static NatEnd PeerOf(NatEnd end, IpProtocol protocol) {
    if (protocol == IpProtocol::kIcmp) end.port = be16(0);
    return end;
  }

  // The changes that a packet made.
  struct Change {
    bool established_changed = false;  // for this peer, or its tick changed
    bool forgot_established = false;   // an established peer made room
  };
  // The inside sends a packet; its destination becomes a peer. If there is no
  // room, the oldest peer that is not established leaves, or else the oldest. A
  // reset adds no peer: somebody outside may have provoked it.
  Change Sent(const NatView& packet);
  // The packet's source sends; if it is not a peer, it does not become one.
  // `refresh` keeps the peer as long as if the inside had sent.
  Change Received(const NatView& packet, bool refresh);

  bool HasEstablished(const Timeouts& timeouts) const;
  // Returns true if `peer`, as PeerOf gives it, is a live peer.
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
  // Returns the index of the peer, or size() for none.
  uint32_t Find(NatEnd peer) const;
  uint32_t ToReplace() const;
  // Returns the ticks since the peer's last packet, or 0 if time ran backwards.
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
