// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_ROUTER_COUNTS_H_
#define SNF_PLATFORM_PORTS_ROUTER_ROUTER_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace snf {

// Names the fate of a frame that came in and did not go to the chain, the fate
// of a packet of the chain, and the router's own acts. Each
// frame that came in, and each packet of the chain, counts once (README.md).
enum class RouterCount : uint8_t {
  // Frames that came in.
  kOtherMac,   // to another host's link address
  kOwnSource,  // from the link address of a port of this side
  kGroup,      // to a multicast or broadcast address
  kVlanTag,    // with a VLAN tag
  kOtherType,  // neither IP nor ARP
  kMalformed,  // an IP header that is cut, or has a wrong checksum or length
  kBadSource,  // from an address that no host has, or that is the port's own
  kBadDestination,  // to an address that no host has
  kLinkLocal,       // from or to an address that is of one link only
  kTtlExceeded,     // that have come too far
  kSameSide,        // for a network at this port
  kArpAnswered,
  kArpLearned,
  kArpIgnored,  // about other hosts
  kArpMalformed,
  kNdAnswered,
  kNdLearned,
  kNdIgnored,  // about other hosts; other messages of the link
  kNdMalformed,
  kAddressConflict,  // of a host that says it has an address of ours
  kEchoAnswered,
  kForRouter,  // to an address of the port's own, but no echo request
  kLimited,    // echo requests that came too fast
  // Packets of the chain.
  kRouted,
  kNoRoute,
  kNoNeighbour,    // the next hop does not answer
  kTooManyWait,    // others wait for the next hop
  kAskedTooOften,  // more next hops are unknown than may be asked for
  kTooBig,         // longer than the MTU, and not to be fragmented
  kOutGroup,       // to a group or a network's broadcast address
  kOutForRouter,   // to an address that the port has, or answers for
  kOutMalformed,   // no IP packet
  // The router's own acts.
  kErrors,            // ICMP errors sent
  kAnswersLimited,    // ICMP errors and echo replies that were too many
  kQuestions,         // ARP requests and neighbour solicitations
  kFragmented,        // packets that were cut into fragments
  kRoutesTaken,       // times that routes of the kernel replaced earlier ones
  kRoutesUnused,      // then: routes by the interface that are of no use
  kAdvertisements,    // router advertisements sent
  kRulesNotFollowed,  // changes of the kernel's rules that ports do not follow
  kNewsLimited,       // news of neighbours that another process was not told
};
inline constexpr auto kFirstOut = static_cast<size_t>(RouterCount::kRouted);
inline constexpr auto kFirstOwn = static_cast<size_t>(RouterCount::kErrors);
inline constexpr size_t kRouterCounts = 41;

// Returns "other_mac", "arp_answered" …
std::string_view Name(RouterCount count);

// Counts by RouterCount. A value.
class RouterCounters {
 public:
  uint64_t& operator[](RouterCount count) {
    return counts_[static_cast<size_t>(count)];
  }
  uint64_t operator[](RouterCount count) const {
    return counts_[static_cast<size_t>(count)];
  }
  uint64_t at(size_t i) const { return counts_[i]; }
  // Returns the frames that came in and did not go to the chain.
  uint64_t kept() const { return SumOf(0, kFirstOut); }
  // Returns the packets of the chain that were dropped or answered.
  uint64_t not_routed() const { return SumOf(kFirstOut + 1, kFirstOwn); }

 private:
  uint64_t SumOf(size_t from, size_t to) const {
    uint64_t sum = 0;
    for (size_t i = from; i < to; ++i) sum += counts_[i];
    return sum;
  }
  std::array<uint64_t, kRouterCounts> counts_{};
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTER_COUNTS_H_
