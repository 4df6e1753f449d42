// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/packet_captures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Knows the keys of flows.
class Flows final : public NfCallNames {
 public:
  FlowKey FlowOf(FlowId flow) const override {
    const auto found = keys.find(flow);
    return found == keys.end() ? FlowKey{} : found->second;
  }
  uint64_t NumberOf(PacketHandle /*packet*/) const override { return 0; }

  std::map<FlowId, FlowKey> keys;
};

class PacketCapturesTest : public ::testing::Test {
 protected:
  void Pass(const std::vector<std::byte>& frame, const std::string& reason = "",
            FlowId flow = kNoFlow) {
    if (!captures_.is_active()) return;
    captures_.on_packet(
        {.time = {5},
         .bytes = frame,
         .original_length = static_cast<uint32_t>(frame.size()),
         .route = {.unit = UnitId{3}, .flow = flow, .latency = {7}}},
        reason, flows_);
  }
  uint32_t Begin(const std::string& filter, uint32_t snap_bytes = 0,
                 bool drops_alone = false) {
    const auto begun = captures_.Begin(filter, snap_bytes, drops_alone);
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun.value_or(0);
  }
  PacketCaptures::Batch Take(uint32_t capture) {
    auto batch = captures_.Take(capture);
    EXPECT_TRUE(batch.ok()) << batch.status();
    return batch.ok() ? *std::move(batch) : PacketCaptures::Batch();
  }
  std::vector<std::string> CommentsOf(const PacketCaptures::Batch& batch) {
    std::vector<std::string> comments;
    for (const auto& packet : batch.packets) comments.push_back(packet.comment);
    return comments;
  }

  const std::vector<std::byte> tcp_ =
      Ethernet(0x0800, Ipv4({.protocol = 6}, Tcp(5000, 443)));
  const std::vector<std::byte> udp_ = Ethernet(0x0800, Ipv4({}, Udp(5000, 53)));
  Flows flows_;
  Instant now_{1'000'000'000'000};
  PacketCaptures captures_{[this] { return now_; }};
};

TEST_F(PacketCapturesTest, GiveEachClientWhatItsFilterSelects) {
  Pass(tcp_);  // before any capture
  EXPECT_FALSE(captures_.is_active());
  const uint32_t all = Begin("");
  const uint32_t web = Begin("tcp port 443");
  const uint32_t drops = Begin("", 20, /*drops_alone=*/true);
  Pass(tcp_);
  Pass(udp_, "unit_queue_full");
  EXPECT_THAT(CommentsOf(Take(all)),
              ElementsAre("unit=3 latency_ns=7",
                          "dropped=unit_queue_full unit=3 latency_ns=7"));
  const auto of_web = Take(web);
  ASSERT_EQ(of_web.packets.size(), 1u);
  EXPECT_EQ(of_web.packets[0].time, Instant{5});
  EXPECT_EQ(of_web.packets[0].bytes.size(), tcp_.size());
  EXPECT_FALSE(of_web.packets[0].is_dropped);
  const auto of_drops = Take(drops);
  ASSERT_EQ(of_drops.packets.size(), 1u);
  EXPECT_TRUE(of_drops.packets[0].is_dropped);
  EXPECT_EQ(of_drops.packets[0].bytes.size(), 20u);
  EXPECT_EQ(of_drops.packets[0].original_bytes, udp_.size());
  // Each packet is given once.
  EXPECT_THAT(Take(all).packets, IsEmpty());
  EXPECT_EQ(Take(all).selected, 2u);
  for (const uint32_t capture : {all, web, drops}) captures_.End(capture);
  EXPECT_FALSE(captures_.is_active());
}

TEST_F(PacketCapturesTest, FindPacketsOfAFlowThatANatHasTranslated) {
  const FlowId flow{9};
  flows_.keys[flow] = {.source = V4(10, 77, 0, 5),
                       .destination = V4(192, 0, 2, 9),
                       .source_port = be16(1),
                       .destination_port = be16(2),
                       .vlan = {},
                       .protocol = IpProtocol::kUdp,
                       .form = FlowKeyForm::kIpv4};
  const uint32_t capture = Begin("host 10.77.0.5");
  Pass(udp_, "", FlowId{8});
  Pass(udp_);
  EXPECT_THAT(Take(capture).packets, IsEmpty());
  Pass(udp_, "", flow);
  EXPECT_EQ(Take(capture).packets.size(), 1u);
}

TEST_F(PacketCapturesTest, LoseWhatALateClientHasNoRoomForAndSaySo) {
  const uint32_t capture = Begin("");
  const size_t room =
      PacketCaptures::kRoomBytes / (tcp_.size() + PacketCaptures::kPacketCost);
  for (size_t i = 0; i < room + 5; ++i) Pass(tcp_);
  const auto batch = Take(capture);
  EXPECT_EQ(batch.packets.size(), room);
  EXPECT_EQ(batch.selected, room + 5);
  EXPECT_EQ(batch.lost, 5u);
  Pass(tcp_);
  EXPECT_EQ(Take(capture).packets.size(), 1u);
}

TEST_F(PacketCapturesTest, EndWithoutAClient) {
  const uint32_t gone = Begin("");
  const uint32_t there = Begin("udp");
  now_ = now_ + Nanos{PacketCaptures::kForgotten.ns - 1};
  EXPECT_THAT(Take(there).packets, IsEmpty());
  now_ = now_ + Nanos{1};
  EXPECT_THAT(Take(there).packets, IsEmpty());
  EXPECT_EQ(captures_.Take(gone).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(captures_.is_active());
  now_ = now_ + PacketCaptures::kForgotten;
  EXPECT_EQ(captures_.Take(there).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(captures_.is_active());
  // A packet for which there is no room finds that the client is gone.
  Begin("");
  now_ = now_ + PacketCaptures::kForgotten;
  Pass(tcp_);
  EXPECT_TRUE(captures_.is_active());
  for (size_t i = 0; i < PacketCaptures::kRoomBytes / 128; ++i) Pass(tcp_);
  EXPECT_FALSE(captures_.is_active());
}

TEST_F(PacketCapturesTest, AreFewAtATime) {
  for (size_t i = 0; i < PacketCaptures::kMost; ++i) Begin("");
  EXPECT_EQ(captures_.Begin("", 0, false).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(captures_.Begin("banana", 0, false).status().code(),
            absl::StatusCode::kInvalidArgument);
  now_ = now_ + PacketCaptures::kForgotten;  // their clients are gone
  EXPECT_TRUE(captures_.Begin("", 0, false).ok());
}

}  // namespace
}  // namespace snf
