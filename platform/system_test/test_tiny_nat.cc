// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_tiny_nat.h"

#include <gtest/gtest.h>

#include "base/packet/endpoint.h"
#include "base/packet/rewrite.h"

namespace snf {
namespace {

// Translates every inside endpoint to a port of one address, and numbers the
// packets of a flow.
class Tiny final : public NetworkFunction {
 public:
  explicit Tiny(NfOptions& options)
      : pool_(declare_pool("ports",
                           static_cast<uint32_t>(options.Integer(
                               "first", 1024, 1, 65'535, "first port")),
                           static_cast<uint32_t>(options.Integer(
                               "last", 65'535, 1, 65'535, "last port")))),
        limit_(static_cast<uint32_t>(
            options.Integer("limit", 0, 0, 1000, "aliases"))),
        one_alias_(options.Flag("one_alias", false, "all flows want one")),
        forwards_inbound_(
            options.Flag("forwards_inbound", false, "as it came")) {}

  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::span<std::byte> bytes = packet.bytes();
    const bool is_outbound = packet.side() == Side::kInside;
    EXPECT_TRUE(is_outbound || packet.side() == Side::kOutside);
    if (is_outbound && !flow.has(port_)) {
      const auto port =
          flow.take(pool_, {.first = 0, .last = 65'535, .preferred = 0});
      if (!port.has_value()) return Verdict::wait(pool_);
      flow.put(port_, static_cast<uint16_t>(*port));
      flow.put(inside_, {LoadBe32(&bytes[26]), LoadBe16(&bytes[34])});
    }
    if (is_outbound && !flow.has(announced_)) {
      const uint16_t port = one_alias_ ? uint16_t{7} : flow.get(port_);
      flow.set_alias(EndpointKey(kExternal, be16(port), IpProtocol::kUdp,
                                 FlowKeyForm::kIpv4Endpoint),
                     1, limit_);
      flow.put(announced_, uint8_t{1});
    }
    flow.put(packets_, flow.get(packets_) + 1);
    if (bytes.size() > kNumberAt) {
      bytes[kNumberAt] = static_cast<std::byte>(flow.get(packets_));
    }
    if (is_outbound) {
      RewriteSource(bytes, packet.headers(), kExternal.ipv4(),
                    be16(flow.get(port_)));
    } else if (!forwards_inbound_) {
      // The far side knows no other address.
      EXPECT_EQ(LoadBe32(&bytes[30]), kExternal.ipv4());
      const End inside = flow.get(inside_);
      RewriteDestination(bytes, packet.headers(), inside.address, inside.port);
    }
    if (bytes.back() == static_cast<std::byte>(kEnd)) {
      flow.erase(announced_);
      flow.end();
    } else if (bytes.back() == static_cast<std::byte>(kBrief)) {
      flow.set_idle_timeout(Milliseconds(3));
    }
    return Verdict::forward();
  }
  void on_alias_refused(FlowState& flow, AliasResult) override {
    flow.give_back(pool_, flow.get(port_));
    flow.erase(port_);
    flow.erase(announced_);
  }
  void on_end(FlowState& flow) override {
    if (flow.has(port_)) flow.give_back(pool_, flow.get(port_));
  }

 private:
  struct End {
    be32 address;
    be16 port;
    uint16_t reserved = 0;
  };
  PoolId pool_;
  uint32_t limit_;
  bool one_alias_;
  bool forwards_inbound_;
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  Slot<uint16_t> port_ = declare<uint16_t>("port");
  Slot<End> inside_ = declare<End>("inside");
  Slot<uint8_t> announced_ = declare<uint8_t>("announced");
};
SNF_REGISTER_NF(Tiny, "test_tiny_nat", "translates to one address");

}  // namespace

const NfRegistration& TinyNat() { return registration_of_Tiny; }

TinyNatOptions TinyNatTables(const std::string& nf_options) {
  return {SmallTables(), NfSpec(TinyNat(), *NfOptions::Parse(nf_options))};
}

Outcome ReplayTiny(const TinyNatOptions& options,
                   const std::vector<OfferedFrame>& packets,
                   std::string_view policy) {
  Outcome outcome = RunFrames(options, options.nf, packets, policy);
  ExpectSound(outcome);
  const PieceCounters& pieces = outcome.run.controller.pieces;
  EXPECT_EQ(pieces.pieces_out, 0u);
  EXPECT_EQ(pieces.pieces_faulty, 0u);
  EXPECT_EQ(pieces.messages_faulty, 0u);
  EXPECT_EQ(outcome.run.state.units.pieces_refused, 0u);
  return outcome;
}

bool ExpectSameWithLoggers(TinyNatOptions options, Nanos delay,
                           const std::vector<OfferedFrame>& packets,
                           std::string_view policy, const Outcome& plain) {
  options.loggers = true;
  options.logger_delay = delay;
  const Outcome logged = ReplayTiny(options, packets, policy);
  if (plain.run.packets_dropped() + logged.run.packets_dropped() > 0 ||
      plain.run.controller.flows != logged.run.controller.flows) {
    return false;
  }
  EXPECT_EQ(plain.run.digest_up_to_renaming, logged.run.digest_up_to_renaming);
  EXPECT_EQ(plain.run.packets_released, logged.run.packets_released);
  return true;
}

}  // namespace snf
