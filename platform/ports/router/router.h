// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_ROUTER_H_
#define SNF_PLATFORM_PORTS_ROUTER_ROUTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "base/answers/answers.h"
#include "base/packet/ip_address.h"
#include "base/packet/link_headers.h"
#include "base/time.h"
#include "platform/ports/router/neighbour_messages.h"
#include "platform/ports/router/neighbour_table.h"
#include "platform/ports/router/rate_limit.h"
#include "platform/ports/router/router_advertisement.h"
#include "platform/ports/router/router_config.h"
#include "platform/ports/router/router_counts.h"
#include "platform/ports/router/routes.h"

namespace snf {

// A neighbour and its link address, as a message says them.
struct NeighbourClaim {
  IpAddress address;
  MacAddress mac;
  bool is_answer;
};

// Receives the frames that a router sends. Each is valid during the call.
class RouterWire {
 public:
  virtual ~RouterWire() = default;
  // A packet of the chain, or a fragment, to its next hop.
  virtual void SendRouted(std::span<const std::byte> frame) = 0;
  // The same of a frame of several packets of the chain.
  virtual void SendRoutedMerged(std::span<const std::byte> frame,
                                uint16_t segment_bytes) = 0;
  // A frame of the router's own making.
  virtual void SendOwn(std::span<const std::byte> frame) = 0;
  // An answer to a packet that the chain sent: it goes into the chain, as if it
  // had come in by the port, so that a NAT translates it back. Returns false if
  // too many wait already.
  virtual bool ReturnToChain(std::span<const std::byte> frame) = 0;
  // Returns true if this process answers the question about a link address. Of
  // several that have the same addresses, one does.
  virtual bool IsToAnswer(std::span<const std::byte> /*frame*/) const {
    return true;
  }
};

// Theory of operation. One port's part of a router (RFC 1812, RFC 4861 §7): a
// frame that comes in is for the chain, or is answered or dropped here; a
// packet that leaves the chain gets its next hop. No socket and no clock.
//
//   wire ─► Take ─┬─ ARP, discovery, echo: answered ─► SendOwn
//                 ├─ TTL over, no packet for a router: ─► SendOwn: ICMP error
//                 └─ TTL less one ─► chain ─► Send of the other port
//
//   Send ─┬─ next hop known ─► SendRouted
//         ├─ not known: waits, asked for ─► SendOwn
//         └─ no route, too long, no answer ─► ReturnToChain: ICMP error
//
// The TTL is checked and decremented before the chain: so a packet that ends
// here makes no state there, and the error goes straight to its sender, from
// the port where it came in. What is wrong with the way out is known behind
// the chain only. The packet then may have other addresses; so its error goes
// into the chain at the way out, as one from a host there would.
//
//   Worked example: 10.1.0.9 sends 1,500 bytes with DF to 198.51.100.7 through
//   a NAT of 192.0.2.5 to a port with an MTU of 1,400. The port says
//   "fragmentation needed, 1400" from its own 192.0.2.2 to 192.0.2.5; the NAT
//   makes it one to 10.1.0.9; the inside port sends it there.
//
// Several processes may have the same addresses at one interface: controllers
// that share the interface, and a successor beside its predecessor. Each gets
// the frames that say link addresses. A single process answers a question
// (IsToAnswer), and a single process advertises the router (LeaveAdvertising).
// The successor reads no frames at first: the predecessor gives it known
// neighbours and frames that say link addresses (Overhear).
//
// Answers are limited: kErrorsPerSecond ICMP errors, kEchoesPerSecond echo
// replies, and kQuestionsPerSecond requests for neighbours. Each frame and each
// packet is counted once (RouterCount).
//
// Owner-thread only. Only SetLearnedRoutes allocates after construction.
class Router {
 public:
  static constexpr int64_t kErrorsPerSecond = 1'000, kErrorBurst = 100;
  static constexpr int64_t kEchoesPerSecond = 1'000, kEchoBurst = 1'000;
  static constexpr int64_t kQuestionsPerSecond = 1'000, kQuestionBurst = 256;
  // A storm of ARP would fill the channel to another process, which asks for
  // neighbours of whom it was not told.
  static constexpr int64_t kNewsPerSecond = 2'000;

  // The wire must outlive the router. `mac` is the interface's, which the
  // config may overrule.
  Router(const RouterConfig& config, const MacAddress& mac, RouterWire& wire);

  void set_mtu(uint32_t mtu) { mtu_ = mtu; }  // of IP; 0: no limit
  // Replaces the learned routes and rules. Allocates memory.
  void SetLearnedRoutes(std::span<const LearnedRoute> routes,
                        std::span<const RoutingRule> rules = {});
  // Counts routes that could not be used.
  void CountUnusedRoutes(uint64_t routes) {
    counts_[RouterCount::kRoutesUnused] += routes;
  }
  // Counts a change of the kernel's rules that the port did not follow.
  void CountRulesNotFollowed() { Count(RouterCount::kRulesNotFollowed); }

  // Says to all neighbours which addresses the port has.
  void Announce();
  // Takes a frame that came in. Returns the frame for the chain, valid until
  // the next call of Take, whatever leaves meanwhile; or nothing. Budget:
  // ≤ 100 ns for a packet of 100 bytes.
  std::span<const std::byte> Take(Instant now,
                                  std::span<const std::byte> frame);
  // Returns the news of neighbours in the last frame that Take got, for
  // Overhear of another process: up to kNewsPerSecond. kNewsLimited has others.
  NeighbourNews TakeNews(Instant now);
  // Gives a frame for each known neighbour, as the neighbour would say it, and
  // how long ago it was confirmed: for Overhear of another process.
  void TellKnown(
      Instant now,
      absl::FunctionRef<void(std::span<const std::byte> frame, Nanos age)> take)
      const;
  // Learns from a frame that another process has got or made, and does nothing
  // else.
  void Overhear(Instant came, std::span<const std::byte> frame,
                NeighbourNews news);
  // Returns how well the port's routes fit the destination of a packet of the
  // chain: the length of the prefix, of 128 bits; nothing if there is no route.
  std::optional<uint8_t> RouteLength(std::span<const std::byte> frame) const;
  // Sends a packet of the chain. Budget: ≤ 100 ns for a packet of 100 bytes.
  void Send(Instant now, std::span<const std::byte> frame);
  // Sends a frame of several packets (ParsedPacket::segment_bytes) as one.
  // Returns false, and does nothing, unless its next hop is known and each of
  // its packets fits the MTU: then Send is for each.
  bool SendMerged(Instant now, std::span<const std::byte> frame,
                  uint16_t segment_bytes);
  // Asks again for neighbours, and advertises the router if the config says so;
  // call it some times a second.
  void Tick(Instant now);
  // Tells hosts that this router ends, if it has advertised itself.
  void TakeLeave();
  // Another process with the same addresses advertises the router from now on,
  // as it may already do; or it has until now, and this one is to go on.
  void LeaveAdvertising() { advertises_ = false; }
  void TakeOverAdvertising(Instant now);
  // Returns true while packets wait for neighbours.
  bool has_waiting() const { return neighbours_.asked() > 0; }
  // Gives up the packets that wait for neighbours, without an error.
  void GiveUp();

  const RouterCounters& counts() const { return counts_; }
  // Returns the packets that were given to Send, or SendMerged has sent.
  uint64_t given() const { return given_; }

 private:
  using Bytes = std::span<const std::byte>;
  struct IpFacts {
    bool is_ipv4;
    bool is_fragment;
    bool dont_fragment;
    uint8_t ttl;
    IpProtocol protocol;
    size_t header_bytes;
    size_t bytes;
    IpAddress source;
    IpAddress destination;
  };
  static constexpr size_t kLinkBytes = EthernetHeader<std::byte>::kBytes;
  static constexpr size_t kMostBytes = kLinkBytes + 40 + 65'535;

  static std::optional<IpFacts> Read(Bytes frame);
  Bytes TakeIp(Instant now, Bytes frame, bool is_to_group);
  std::optional<RouterCount> Refuse(const IpFacts& ip) const;
  Bytes Pass(Bytes frame, const IpFacts& ip);
  void TakeForRouter(Instant now, Bytes frame, const IpFacts& ip);
  void TakeArp(Instant now, Bytes frame);
  void TakeDiscovery(Instant now, Bytes frame);
  void TakeRouterQuestion(Instant now, Bytes frame);
  void Advertise(bool ends);
  // Returns true if the router knows the neighbour that says so.
  bool Learn(Instant now, const NeighbourClaim& claim);
  // Returns true if the question is for this router, and is answered.
  bool Answer(const NeighbourMessage& message, Bytes frame);
  // Writes the answer to an echo request; nothing if the frame is none.
  Bytes EchoReply(Bytes frame, const IpFacts& ip);
  void Resolve(Instant now, const IpAddress& hop, Bytes frame);
  void Ask(const IpAddress& hop, const std::optional<MacAddress>& at);
  // Returns a copy of the frame with the port's address and this one.
  std::span<std::byte> Addressed(Bytes frame, const MacAddress& to);
  void Transmit(Bytes frame, const MacAddress& to);
  // Gives the chain an answer, with a link header as of a frame that came in.
  void Return(Bytes frame);
  void SendError(Instant now, Bytes frame, bool is_behind, RouterCount why);
  IcmpError ErrorAbout(Bytes frame, const IpAddress& from,
                       RouterCount why) const;
  void Count(RouterCount count) { ++counts_[count]; }
  bool IsOwn(const IpAddress& address) const;
  bool IsProxied(const IpAddress& address) const;
  // Returns true for the link address of this or another port of this side.
  bool IsOwnMac(Bytes mac) const;
  // Returns true for an address, or the network, of another port of this side.
  bool IsOwnBeside(const IpAddress& address) const;
  bool IsBeside(const IpAddress& address) const;
  // Returns the own address that a host at `to` is to see; nothing if the port
  // has none of that version of IP.
  std::optional<IpAddress> OwnAddressFor(const IpAddress& to) const;

  const RouterConfig config_;
  const MacAddress mac_;
  RouterWire& wire_;
  Routes routes_;
  NeighbourTable neighbours_;
  uint32_t mtu_ = 0;
  AdvertisementTimes advertisements_;
  bool advertises_;  // the config says so, and no other process does
  bool has_advertised_ = false;  // this process or its predecessor
  NeighbourNews news_ = NeighbourNews::kNone;
  RateLimit errors_{kErrorsPerSecond, kErrorBurst};
  RateLimit echoes_{kEchoesPerSecond, kEchoBurst};
  RateLimit questions_{kQuestionsPerSecond, kQuestionBurst};
  RateLimit news_limit_{kNewsPerSecond, kNewsPerSecond};
  RouterCounters counts_;
  uint64_t given_ = 0;
  // For a frame that is changed. The chain still reads a frame that came in
  // (Take) while it sends others.
  std::unique_ptr<std::byte[]> in_room_;
  std::unique_ptr<std::byte[]> out_room_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTER_H_
