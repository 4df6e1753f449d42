// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_NAT_PEER_EMULATOR_H_
#define SNF_PLATFORM_RUN_NAT_PEER_EMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/byte_order.h"
#include "base/packet/endpoint.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/packet_info.h"

namespace snf {

// Theory of operation. A capture holds both directions of a connection as one
// side saw them: the answers go to the inside address, though with a NAT in
// between the far side would have sent them to the external one. So replay
// plays the far side (proto/decisions.md 21): a packet to an inside endpoint is
// rewritten (base/packet/rewrite.h) to the external endpoint that the NF
// announced for it, checksums and quoted packets of ICMP errors included,
// before the controller sees it.
//
// Packets that never went out translated have no answers: those in the capture
// are dropped, at a NAT of IPv4 alone all of IPv6.
//
// The inside is what --inside says; without it, the end that sent the first
// packet between two ends neither of which was known as inside, unless it sent
// it to an external end. Between two inside ends a packet comes from the
// inside; where --inside names both, it never came to the NAT, and is dropped.
//
// Example: 10.0.0.1:5000 → 192.0.2.9:53 makes 10.0.0.1:5000 inside. The NF
// announces 198.51.100.1:1024 for it. The capture's 192.0.2.9:53 →
// 10.0.0.1:5000 becomes 192.0.2.9:53 → 198.51.100.1:1024.
//
// Without --inside, it remembers the last kMostKnown endpoints that were inside
// and have nothing announced; older ones have to send first once more.
//
// Owner-thread only. Memory: some 200 bytes for each inside endpoint for which
// something is announced, and 120 for each other one that it remembers.
class NatPeerEmulator {
 public:
  struct AddressHash {
    size_t operator()(const IpAddress& address) const {
      const uint64_t both = LoadAs<uint64_t>(&address.bytes[0]) ^
                            LoadAs<uint64_t>(&address.bytes[8]);
      const uint64_t spread = both * 0x9e37'79b9'7f4a'7c15;
      return spread ^ spread >> 32;
    }
  };
  static constexpr size_t kMostKnown = 1 << 21;

  explicit NatPeerEmulator(std::vector<IpPrefix> inside,
                           size_t most_known = kMostKnown);

  struct Placed {
    Side side = Side::kUnknown;
    FlowKey key;     // endpoint: of the inside end, or the alias it comes to
    FlowKey inside;  // the inside end, whichever way the packet goes
    // The packet is from the outside, and nothing is announced for its inside
    // end; or --inside names both its ends.
    bool untranslated = false;
    // The packet is from the outside, and its destination is to become `key`.
    // If not, it goes there already.
    bool rewrite = false;
    // The packet is from the outside, and the NF tells its inside end, which is
    // its key too.
    bool told = false;

    bool by_alias() const { return side == Side::kOutside && !told; }
  };
  // Returns from where a packet between these ends comes, and its key for the
  // controller.
  Placed Place(const Endpoints& ends);

  // The NF's word on a flow: packets to `inside` go to `external` from now on,
  // and nowhere else. One that was another's is so no more.
  void on_alias(const FlowKey& inside, const FlowKey& external);
  // Forgets what was announced for `inside`.
  void on_flow_over(const FlowKey& inside);
  // The inside end for which this external one is announced, or null. A packet
  // that leaves for such a one the network would bring back (hairpinning,
  // RFC 4787 §6). Valid until the next call that is not const.
  const FlowKey* InsideOf(const FlowKey& external) const {
    const auto announced = announced_.find(external);
    return announced == announced_.end() ? nullptr : &announced->second;
  }
  // Stops remembering endpoints without an announcement. Call it if packets
  // name their sides.
  void RememberNone();
  // Returns how many inside endpoints it knows.
  size_t known() const { return known_.size(); }
  // Returns true if any is announced at this address. There are few such
  // addresses, so for nearly all others a look at one word is enough.
  bool HasExternal(const IpAddress& address) const {
    const size_t hash = AddressHash()(address);
    return (external_bits_ >> (hash % 64) & 1) != 0 &&
           external_.contains(address);
  }

 private:
  // An inside end, and what is announced for it, without a destination, which
  // ends have none of: a packet from the outside looks at one cache line.
  struct alignas(64) Known {
    FlowKey inside;
    IpAddress address{};
    uint64_t rest = 0;  // the last word of the key; 0: nothing is announced

    bool is_announced() const { return rest != 0; }
    FlowKey external() const;
    void Announce(const FlowKey& external);
    void Forget() { rest = 0; }
  };
  static_assert(sizeof(Known) == 64);
  struct KnownHash : FlowKeyHash {
    using is_transparent = void;
    using FlowKeyHash::operator();
    size_t operator()(const Known& known) const {
      return FlowKeyHash::operator()(known.inside);
    }
  };
  struct KnownEqual {
    using is_transparent = void;
    static const FlowKey& KeyOf(const FlowKey& key) { return key; }
    static const FlowKey& KeyOf(const Known& known) { return known.inside; }
    bool operator()(const auto& a, const auto& b) const {
      return KeyOf(a) == KeyOf(b);
    }
  };
  bool IsInside(const FlowKey& endpoint) const;
  void Remember(const FlowKey& inside);
  void ForgetOldest();
  Known* Find(const FlowKey& inside);

  std::vector<IpPrefix> inside_;
  // The last endpoints that began, or ended, with nothing announced for them,
  // some of them twice.
  std::deque<FlowKey> remembered_;
  size_t most_known_;
  // Looked up, never iterated. Inside ends; external ends, and for which inside
  // one they are.
  absl::flat_hash_set<Known, KnownHash, KnownEqual> known_;
  absl::flat_hash_map<FlowKey, FlowKey, FlowKeyHash> announced_;
  absl::flat_hash_map<IpAddress, uint32_t, AddressHash> external_;  // how many
  // Has the bit, by hash modulo 64, of each address in external_. Bits of
  // erased addresses may be left.
  uint64_t external_bits_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_NAT_PEER_EMULATOR_H_
