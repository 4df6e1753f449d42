// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/packet/endpoint.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_headers.h"
#include "nfs/dhcp_message.h"
#include "nfs/dhcp_options.h"
#include "nfs/dhcp_reply.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

enum DhcpDrop : uint8_t {
  kMalformed,     // for the port of servers, and no client's message
  kNoAddress,     // all addresses of the range are leased
  kOtherNetwork,  // from a relay in another network
};
constexpr std::array<std::string_view, 3> kDropNames = {
    "malformed", "no_address", "other_network"};

// The address that a client has, or was offered.
struct Lease {
  be32 address;
  uint16_t piece = 0;  // of the pool, plus 1; 0 of a reserved address
  uint8_t is_bound = 0;
  uint8_t zero = 0;

  explicit operator bool() const { return address != be32(0); }
};
static_assert(sizeof(Lease) == 8);

// Theory of operation. A server of DHCP (RFC 2131) on the way between hosts and
// their router. Messages for it go no further; answers go back to where the
// messages came from. All other packets pass.
//
// A flow is a client, by its hardware address. Its lease is the flow's state.
// The addresses are pieces of a pool, so no address is leased twice, whichever
// unit serves a client; the flow ends when the lease has run out, and gives the
// piece back. nfs/dhcp.md says what of the RFC is served.
//
// Example: a new client discovers. The NF takes an address that hashing its
// hardware address suggests, so that the client likely gets it again later,
// offers it, and keeps it for 60 s. The client requests it, and has it for an
// hour from its last request on.
class Dhcp final : public NetworkFunction {
 public:
  explicit Dhcp(NfOptions& options) : options_(options) {}

  FlowScope flow_scope() const override { return FlowScope::kOwnKey; }

  // The client's key has the EUI-64 of its hardware address (RFC 4291 app. A).
  OwnFlow flow_key(const KeyedPacket& packet) const override {
    const auto hardware =
        DhcpHardwareOf(DhcpPayloadOf(packet.bytes, packet.headers));
    if (!hardware.has_value()) return {.key = packet.connection};
    IpAddress client;
    client.bytes[0] = std::byte{0xfe};
    client.bytes[1] = std::byte{0x80};
    std::copy_n(hardware->begin(), 3, &client.bytes[8]);
    client.bytes[8] ^= std::byte{2};
    client.bytes[11] = std::byte{0xff};
    client.bytes[12] = std::byte{0xfe};
    std::copy_n(hardware->begin() + 3, 3, &client.bytes[13]);
    FlowKey key = EndpointKey(client, be16(kDhcpClientPort), IpProtocol::kUdp,
                              FlowKeyForm::kIpv6Endpoint);
    key.vlan = packet.connection.vlan;
    return {.key = key};
  }

  std::span<const std::string_view> drop_reasons() const override {
    return kDropNames;
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::span<const std::byte> payload =
        DhcpPayloadOf(packet.bytes(), packet.headers());
    if (payload.empty() || !IsForServer(packet)) return Verdict::forward();
    const std::optional<DhcpMessage> message = ReadDhcp(payload);
    if (!message.has_value()) return Verdict::drop(kMalformed);
    if (message->relay != be32(0) && !options_.IsInNetwork(message->relay)) {
      return Verdict::drop(kOtherNetwork);
    }
    if (message->server != be32(0) && message->server != options_.server) {
      return LeaveToOther(*message, flow);
    }
    switch (message->type) {
      case DhcpType::kDiscover:
        return Offer(packet, *message, flow);
      case DhcpType::kRequest:
        return Grant(packet, *message, flow);
      case DhcpType::kDecline:
        return Decline(*message, flow);
      case DhcpType::kRelease:
        return Release(*message, flow);
      case DhcpType::kInform:
        Answer(packet, *message, DhcpType::kAck, be32(0), flow);
        return Verdict::consume();
      default:
        return Verdict::drop(kMalformed);
    }
  }

  bool may_wait(const FlowState& flow) const override {
    return !flow.get(lease_);
  }

  void on_end(FlowState& flow) override {
    GiveBack(flow.get(lease_).piece, flow);
    GiveBack(flow.get(declined_), flow);
  }

 private:
  bool IsForServer(const Packet& packet) const {
    const auto ip = Ipv4Header<const std::byte>::At(packet.bytes(),
                                                    packet.headers().l3_offset);
    return ip.destination() == be32(0xffff'ffff) ||
           ip.destination() == options_.server;
  }

  // The client chose another server, so an offer is over (RFC 2131 §3.1).
  Verdict LeaveToOther(const DhcpMessage& message, FlowState& flow) {
    const Lease lease = flow.get(lease_);
    if (message.type == DhcpType::kRequest && lease && lease.is_bound == 0) {
      Forget(flow);
    }
    return Verdict::forward();
  }

  Verdict Offer(const Packet& packet, const DhcpMessage& message,
                FlowState& flow) {
    Lease lease = flow.get(lease_);
    if (!lease) {
      const auto reserved = options_.ReservedFor(message.hardware);
      if (reserved.has_value()) {
        lease.address = *reserved;
      } else {
        const auto piece = flow.take(pool_, {.first = 0,
                                             .last = options_.addresses() - 1,
                                             .preferred = WishOf(message)});
        if (!piece.has_value()) {
          return flow.is_exhausted(pool_) ? Verdict::drop(kNoAddress)
                                          : Verdict::wait(pool_);
        }
        lease = LeaseOf(*piece);
      }
      flow.put(lease_, lease);
      flow.set_idle_timeout(options_.offer);
    }
    Answer(packet, message, DhcpType::kOffer, lease.address, flow);
    return Verdict::consume();
  }

  // Returns the number of the address that is wanted, or that hashing suggests.
  uint32_t WishOf(const DhcpMessage& message) const {
    if (options_.IsInRange(message.requested)) {
      return message.requested.host() - options_.first.host();
    }
    uint64_t hash = 0;
    for (const std::byte byte : message.hardware) {
      hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100'0000'01b3;
    }
    return static_cast<uint32_t>((hash >> 16) % options_.addresses());
  }

  Lease LeaseOf(uint32_t piece) const {
    return {.address = be32(options_.first.host() + piece),
            .piece = static_cast<uint16_t>(piece + 1)};
  }

  Verdict Grant(const Packet& packet, const DhcpMessage& message,
                FlowState& flow) {
    const be32 wanted =
        message.requested != be32(0) ? message.requested : message.client;
    if (wanted == be32(0)) return Verdict::drop(kMalformed);
    Lease lease = flow.get(lease_);
    if (!lease) lease = TakeExactly(wanted, message, flow);
    if (lease.address != wanted) {
      count(refused_);
      Answer(packet, message, DhcpType::kNak, be32(0), flow);
      return Verdict::consume();
    }
    if (lease.is_bound == 0) count(leased_);
    lease.is_bound = 1;
    flow.put(lease_, lease);
    flow.set_idle_timeout(options_.lease);
    Answer(packet, message, DhcpType::kAck, wanted, flow);
    return Verdict::consume();
  }

  // A client that still has an address asks for it (RFC 2131 §4.3.2), and the
  // server may have been restarted since. If the address is at another unit, it
  // is refused, so that the client discovers.
  Lease TakeExactly(be32 wanted, const DhcpMessage& message,
                    FlowState& flow) const {
    const auto reserved = options_.ReservedFor(message.hardware);
    if (reserved.has_value()) return {.address = *reserved};
    if (!options_.IsInRange(wanted)) return {};
    const uint32_t piece = wanted.host() - options_.first.host();
    const auto taken =
        flow.take(pool_, {.first = piece, .last = piece, .preferred = piece});
    return taken.has_value() ? LeaseOf(piece) : Lease{};
  }

  // The client found its address in use (RFC 2131 §4.3.3). No client gets the
  // address for some time, which begins with this client's last message.
  Verdict Decline(const DhcpMessage& message, FlowState& flow) {
    const Lease lease = flow.get(lease_);
    if (lease && message.requested == lease.address) {
      count(declined_addresses_);
      GiveBack(flow.get(declined_), flow);
      flow.erase(declined_);
      if (lease.piece != 0) flow.put(declined_, lease.piece);
      flow.erase(lease_);
      flow.set_idle_timeout(options_.decline);
    }
    return Verdict::consume();
  }

  Verdict Release(const DhcpMessage& message, FlowState& flow) {
    const Lease lease = flow.get(lease_);
    if (lease && message.client == lease.address) Forget(flow);
    return Verdict::consume();
  }

  void Forget(FlowState& flow) const {
    GiveBack(flow.get(lease_).piece, flow);
    flow.erase(lease_);
  }
  void GiveBack(uint16_t piece, FlowState& flow) const {
    if (piece != 0) flow.give_back(pool_, piece - 1u);
  }

  void Answer(const Packet& packet, const DhcpMessage& message, DhcpType type,
              be32 yours, FlowState& flow) {
    const DhcpReply reply(packet, message, options_, type, yours);
    if (!flow.emit(reply.frame())) count(not_answered_);
  }

  DhcpOptions options_;
  PoolId pool_ = declare_pool("addresses", 0, options_.addresses() - 1);
  Slot<Lease> lease_ = declare<Lease>("lease");
  // An address that the client found in use: its piece, plus 1.
  Slot<uint16_t> declined_ = declare<uint16_t>("declined");
  Counter leased_ = declare_counter("leased", "leases that began");
  Counter refused_ =
      declare_counter("refused", "requests for an address of somebody else");
  Counter declined_addresses_ =
      declare_counter("declined", "addresses that a client found in use");
  Counter not_answered_ = declare_counter(
      "not_answered", "messages whose answer had no buffer or link header");
};
SNF_REGISTER_NF(Dhcp, "dhcp", "DHCP server: leases addresses to hosts");

}  // namespace
}  // namespace snf
