// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf.h"

#include <memory>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::ElementsAre;

// The example of nf.h, word for word.
class DropOdd final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState&) override {
    return packet.bytes().size() % 2 ? Verdict::drop(0) : Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"odd_length"};
    return kReasons;
  }
};
SNF_REGISTER_NF(DropOdd, "drop_odd", "drops frames of odd length");

class Sink final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::consume();
  }
};
SNF_REGISTER_NF(Sink, "sink", "keeps every packet");

class Alarm final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.set_timer(Seconds(1));
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Alarm, "alarm", "sets a timer");

class NoServices final : public FlowServices {
 public:
  bool Emit(std::span<const std::byte>) override { return false; }
};

Verdict Process(NetworkFunction& nf, const PacketInfo& info,
                std::vector<std::byte> bytes) {
  NoServices services;
  FlowState flow(FlowId{1}, Instant{}, Instant::max(), services);
  Packet packet(info, bytes);
  return nf.process_packet(packet, flow);
}

TEST(Registry, ListsNetworkFunctionsByName) {
  std::vector<std::string_view> names;
  for (const NfRegistration* nf : ListNfs()) names.push_back(nf->name);
  EXPECT_THAT(names, ElementsAre("alarm", "drop_odd", "sink"));
}

TEST(Registry, FindsByTheWholeNameOnly) {
  ASSERT_NE(FindNf("sink"), nullptr);
  EXPECT_EQ(FindNf("sink")->summary, "keeps every packet");
  EXPECT_EQ(FindNf("sin"), nullptr);
  EXPECT_EQ(FindNf("Sink"), nullptr);
  EXPECT_EQ(FindNf(""), nullptr);
}

TEST(Registry, CreatesANewObjectEachTime) {
  const NfRegistration* drop_odd = FindNf("drop_odd");
  ASSERT_NE(drop_odd, nullptr);
  const std::unique_ptr<NetworkFunction> one = drop_odd->create();
  const std::unique_ptr<NetworkFunction> other = drop_odd->create();
  EXPECT_NE(one, other);
  EXPECT_THAT(one->drop_reasons(), ElementsAre("odd_length"));
  EXPECT_EQ(Process(*one, {}, std::vector<std::byte>(3)).kind(),
            Verdict::Kind::kDrop);
  EXPECT_EQ(Process(*one, {}, std::vector<std::byte>(4)).kind(),
            Verdict::Kind::kForward);
}

TEST(Registry, AbortsOnASecondFunctionOfOneName) {
  EXPECT_DEATH(NfRegistration("sink", "another", nullptr), "check failed");
}

TEST(NetworkFunction, HasNoDropReasonsAndIgnoresTimersByDefault) {
  const std::unique_ptr<NetworkFunction> sink = FindNf("sink")->create();
  EXPECT_TRUE(sink->drop_reasons().empty());
  NoServices services;
  FlowState flow(FlowId{1}, Instant{}, Instant::max(), services);
  sink->on_timer(flow);
  EXPECT_EQ(flow.timer(), Instant::max());
}

TEST(Verdict, CarriesItsReason) {
  EXPECT_EQ(Verdict::forward().kind(), Verdict::Kind::kForward);
  EXPECT_EQ(Verdict::drop(31).kind(), Verdict::Kind::kDrop);
  EXPECT_EQ(Verdict::drop(31).reason(), 31);
  EXPECT_EQ(Verdict::consume().kind(), Verdict::Kind::kConsume);
}

TEST(Packet, ShowsWhatWasCapturedAndRewritesInPlace) {
  PacketInfo info;
  info.arrival = Instant{5};
  info.length = 2;
  info.original_length = 1'500;
  info.link = LinkType::kRawIp;
  info.headers.l4_offset = 20;
  std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}};
  Packet packet(info, bytes);
  EXPECT_EQ(packet.arrival(), Instant{5});
  EXPECT_EQ(packet.original_length(), 1'500u);
  EXPECT_EQ(packet.link(), LinkType::kRawIp);
  EXPECT_EQ(packet.headers().l4_offset, 20);
  packet.bytes()[1] = std::byte{9};
  EXPECT_THAT(bytes, ElementsAre(std::byte{1}, std::byte{9}));
}

TEST(FlowState, CountsATimerFromNow) {
  NoServices services;
  FlowState flow(FlowId{3}, Instant{100}, Instant{150}, services);
  EXPECT_EQ(flow.id(), FlowId{3});
  EXPECT_EQ(flow.timer(), Instant{150});
  flow.set_timer(Nanos{20});
  EXPECT_EQ(flow.timer(), Instant{120});
  flow.cancel_timer();
  EXPECT_EQ(flow.timer(), Instant::max());
  flow.set_timer(Nanos::max());
  EXPECT_EQ(flow.timer(), Instant::max());
}

}  // namespace
}  // namespace snf
