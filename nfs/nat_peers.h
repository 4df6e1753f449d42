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

// Records what was seen of a TCP connection, as bits; 0 is nothing. It follows
// RFC 6146 §3.5.2.2, to which RFC 7857 §2 refers, except that a connection may
// be met in its midst. Simultaneous open and half-close are no special cases.
//
//   the inside sends SYN              adds kInside: transitory
//   the outside sends SYN, ACK        adds kOutside: established
//   the inside sends FIN              adds kInsideFin: still established
//   the outside sends FIN             adds kOutsideFin: transitory
//   either side sends RST             adds kReset: transitory
//   then either sends anything else   removes kReset: the RST was forged
//   either sends SYN when transitory  begins anew
struct NatTcp {
  static constexpr uint8_t kInside = 1, kOutside = 2, kInsideFin = 4,
                           kOutsideFin = 8, kReset = 16;
  static bool IsEstablished(uint8_t seen);
  static uint8_t After(uint8_t seen, uint8_t tcp_flags, bool from_inside);
};

// Names somebody whom the inside has sent to, and records the connection.
struct NatPeer {
  be32 address;
  be16 port;        // 0 for ICMP
  uint8_t tcp = 0;  // NatTcp
  uint8_t zero = 0;
  uint32_t tick = 0;  // of the last outbound packet
};
static_assert(sizeof(NatPeer) == 12 &&
              std::has_unique_object_representations_v<NatPeer>);

// Accesses the peers of one mapping, which lie in a blob of its flow in no
// order. A peer that was forgotten harms nobody but itself: the filter does not
// admit it. Time counts in ticks of 2³⁰ ns, about 1.07 s, so an entry does not
// change with every packet, and a peer may stay up to two ticks too long.
// A view: it must not outlive the flow's state.
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

  // Returns an end of a packet as it is remembered: without port for ICMP,
  // since an identifier does not belong to a peer.
  static NatEnd PeerOf(NatEnd end, IpProtocol protocol) {
    if (protocol == IpProtocol::kIcmp) end.port = be16(0);
    return end;
  }

  // Tells what a packet changed.
  struct Change {
    bool established_changed = false;  // for this peer, or it goes on
    bool forgot_established = false;   // of the peer that made room for it
  };
  // The inside sends to the packet's destination, which is remembered. If there
  // is no room, the oldest peer that is not established is forgotten, or else
  // the oldest. A reset to an unknown peer is not remembered: somebody from
  // outside may have provoked it.
  Change Sent(const NatView& packet);
  // The packet's source sends. If it is not remembered, nothing changes. With
  // `refresh` it is kept as if the inside had sent.
  Change Received(const NatView& packet, bool refresh);

  bool HasEstablished(const Timeouts& timeouts) const;
  // `peer` is as PeerOf returns it.
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
  // Returns the index of the peer, or size() if it is not there.
  uint32_t Find(NatEnd peer) const;
  uint32_t ToReplace() const;
  // Returns 0 for a peer of the future, since time does not go backwards.
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
