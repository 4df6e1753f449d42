// SPDX-License-Identifier: Apache-2.0
//
// Frames of several packets (GSO) and NFs that take them whole
// (NetworkFunction::takes_merged): a frame that is cut after the NF gives the
// same packets as packets that were cut before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/headers.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/packet_parser.h"
#include "base/packet/rewrite.h"
#include "platform/ports/frames/frame_offload.h"
#include "platform/run/run_events.h"
#include "platform/system_test/test_run.h"
#include "runtime/sdk/nf_registry.h"

namespace snf {
namespace {

constexpr uint8_t kFin = 0x01, kSyn = 0x02, kPsh = 0x08, kAck = 0x10;
const IpAddress kHost = IpAddress::FromIpv4(be32(0x0a00'0001));
const IpAddress kFar = IpAddress::FromIpv4(be32(0xc000'0209));

struct Sent {
  Frame frame;
  uint16_t segment_bytes = 0;
};

// The checksum is what another card would make of it: nothing yet.
Sent Tcp(bool to_host, uint8_t flags, size_t payload_bytes,
         uint16_t segment_bytes = 0) {
  Frame tcp = to_host ? snf::Tcp(80, 5'000, 0, payload_bytes)
                      : snf::Tcp(5'000, 80, 0, payload_bytes);
  tcp[13] = std::byte{flags};
  for (size_t i = 0; i < payload_bytes; ++i) {
    tcp[tcp.size() - payload_bytes + i] = static_cast<std::byte>(i % 251);
  }
  const Ipv4Fields ip = {.source = to_host ? kFar : kHost,
                         .destination = to_host ? kHost : kFar,
                         .protocol = 6,
                         .id = 60'000};
  return {Ethernet(0x0800, Ipv4(ip, tcp)), segment_bytes};
}

Sent Datagrams(size_t payload_bytes, uint16_t segment_bytes) {
  return {Ethernet(0x0800, Ipv4({.source = kHost, .destination = kFar},
                                Udp(6'000, 53, payload_bytes))),
          segment_bytes};
}

// Takes connections to kFar, whose server has another address.
const std::string kLb = "lb(virtual=192.0.2.9:80,servers=198.51.100.7:8080)";
const IpAddress kServer = IpAddress::FromIpv4(be32(0xc633'6407));

// The same frame, as if it came from the server of kLb.
Sent FromServer(Sent sent) {
  const std::span<std::byte> frame(sent.frame);
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  RewriteSource(frame, headers, kServer.ipv4(), be16(8080));
  return sent;
}

std::vector<Sent> Conversation() {
  return {Tcp(false, kSyn, 0),
          Tcp(true, kSyn | kAck, 0),
          Tcp(false, kPsh | kAck, 4'001, 1'000),
          Tcp(true, kPsh | kAck, 60'000, 1'448),
          Tcp(true, kAck, 1'448, 1'448),
          Tcp(false, kAck, 0),
          Datagrams(3'500, 700),
          Tcp(true, kFin | kPsh | kAck, 2'000, 1'448),
          Tcp(false, kFin | kAck, 0)};
}

// Cuts what is of several packets, as a wire would have carried it.
class Wire final : public RunObserver {
 public:
  void on_release(const ReleasedPacket& packet) override {
    ++frames_;
    Take(packet.bytes, packet.segment_bytes);
  }
  void Take(std::span<const std::byte> frame, uint16_t segment_bytes) {
    const auto take = [&](std::span<const std::byte> packet) {
      packets_.emplace_back(packet.begin(), packet.end());
    };
    if (segment_bytes == 0) {
      take(frame);
    } else {
      EXPECT_GT(CutFrame(frame, segment_bytes, take), 0u);
    }
  }
  const std::vector<Frame>& packets() const { return packets_; }
  size_t frames() const { return frames_; }

 private:
  std::vector<Frame> packets_;
  size_t frames_ = 0;
};

struct Outcome {
  std::vector<Frame> packets;
  size_t frames = 0;
  std::vector<std::vector<NfReport::Cell>> report;
};

Outcome OutcomeOf(const std::string& nf, const std::vector<Sent>& sent) {
  RunOptions options;
  options.inside = *ParsePrefixes("10.0.0.0/8");
  Wire wire;
  VirtualDriver driver(options, *FindPlacementPolicy("snf"), *NfSpec::Parse(nf),
                       {&wire});
  Instant now{1'700'000'000'000'000'000};
  for (const Sent& one : sent) {
    now = now + Milliseconds(10);
    driver.Offer({.time = now,
                  .bytes = one.frame,
                  .original_bytes = static_cast<uint32_t>(one.frame.size()),
                  .segment_bytes = one.segment_bytes});
  }
  const RunResult result = driver.Finish();
  EXPECT_TRUE(result.conserved());
  EXPECT_THAT(result.dropped, testing::Each(0u));
  Outcome outcome;
  outcome.packets = wire.packets();
  outcome.frames = wire.frames();
  for (const RunResult::OfNf& of : result.nf_reports) {
    for (const NfReport::Table& table : of.report.tables) {
      outcome.report.insert(outcome.report.end(), table.rows.begin(),
                            table.rows.end());
    }
  }
  return outcome;
}

TEST(MergedFrames, LeaveAsTheirPacketsWouldHave) {
  const std::vector<Sent> merged = Conversation();
  Wire before;
  for (const Sent& one : merged) before.Take(one.frame, one.segment_bytes);
  std::vector<Sent> cut;
  for (const Frame& packet : before.packets()) cut.push_back({packet});
  ASSERT_EQ(cut.size(), 5u + 42 + 1 + 5 + 2 + 4);
  for (const std::string nf :
       {"passthrough", "firewall", "monitor", "nat(ip=203.0.113.1)",
        "firewall | monitor | nat(ip=203.0.113.1)"}) {
    SCOPED_TRACE(nf);
    ASSERT_TRUE(NfSpec::Parse(nf)->create()->takes_merged());
    const Outcome whole = OutcomeOf(nf, merged);
    const Outcome pieces = OutcomeOf(nf, cut);
    EXPECT_EQ(whole.frames, merged.size());
    EXPECT_EQ(pieces.frames, cut.size());
    EXPECT_TRUE(whole.packets == pieces.packets);
    EXPECT_TRUE(whole.report == pieces.report);
  }
}

// A load balancer rewrites both ways.
TEST(MergedFrames, LeaveALoadBalancerAsTheirPacketsWouldHave) {
  const std::vector<Sent> merged = {
      Tcp(false, kSyn, 0),
      FromServer(Tcp(true, kSyn | kAck, 0)),
      Tcp(false, kPsh | kAck, 4'001, 1'000),
      FromServer(Tcp(true, kPsh | kAck, 60'000, 1'448)),
      FromServer(Tcp(true, kFin | kPsh | kAck, 2'000, 1'448)),
      Tcp(false, kFin | kAck, 0)};
  Wire before;
  for (const Sent& one : merged) before.Take(one.frame, one.segment_bytes);
  std::vector<Sent> cut;
  for (const Frame& packet : before.packets()) cut.push_back({packet});
  ASSERT_TRUE(NfSpec::Parse(kLb)->create()->takes_merged());
  const Outcome whole = OutcomeOf(kLb, merged);
  const Outcome pieces = OutcomeOf(kLb, cut);
  EXPECT_EQ(whole.frames, merged.size());
  EXPECT_EQ(pieces.frames, cut.size());
  EXPECT_TRUE(whole.packets == pieces.packets);
  ASSERT_EQ(whole.packets.size(), 1u + 1 + 5 + 42 + 2 + 1);
  // Addresses are rewritten in each.
  for (const Frame& packet : whole.packets) {
    const auto ip = Ipv4Header<const std::byte>::At(packet, 14);
    EXPECT_TRUE(ip.destination() == kServer.ipv4() ||
                ip.source() == kFar.ipv4());
  }
}

// The others are asked for nothing that they were not made for.
TEST(MergedFrames, AreTakenByTheseNfsAlone) {
  std::set<std::string> take;
  for (const NfRegistration* const nf : ListNfs()) {
    const auto spec = NfSpec::Parse(std::string(nf->name));
    if (!spec.ok() || !spec->check().ok()) continue;
    if (spec->create()->takes_merged()) take.insert(std::string(nf->name));
  }
  EXPECT_EQ(take, (std::set<std::string>{"fan_in", "firewall", "monitor", "nat",
                                         "passthrough"}));
  EXPECT_FALSE(NfSpec::Parse("nat(ip=203.0.113.1,nat64=64:ff9b::/96)")
                   ->create()
                   ->takes_merged());
  EXPECT_FALSE(NfSpec::Parse("lb(virtual=192.0.2.9:80,servers=198.51.100.7:80,"
                             "forward=ipip,outer=192.0.2.1)")
                   ->create()
                   ->takes_merged());
  EXPECT_FALSE(NfSpec::Parse("firewall | policer")->create()->takes_merged());
}

}  // namespace
}  // namespace snf
