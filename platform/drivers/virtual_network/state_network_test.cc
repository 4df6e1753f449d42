// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_network/state_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

RunOptions Delays() {
  RunOptions options;
  options.hop_delay = Microseconds(3);
  options.state_delay = Microseconds(20);
  options.state_bandwidth_bps = 10'000'000'000;
  return options;
}

std::vector<int64_t> Ns(std::span<const Nanos> delays) {
  std::vector<int64_t> ns;
  for (const Nanos delay : delays) ns.push_back(delay.ns);
  return ns;
}

TEST(StateNetwork, TakesAHopForAMessage) {
  StateNetwork network(Delays(), 1'250);
  EXPECT_THAT(Ns(network.Send()), ElementsAre(3'000));
}

TEST(StateNetwork, TakesTheTimeOfItsRecordForAState) {
  StateNetwork network(Delays(), 2'500);
  EXPECT_THAT(Ns(network.SendState(1'250)), ElementsAre(21'000));
  EXPECT_THAT(Ns(network.SendState(2'500)), ElementsAre(22'000));
  EXPECT_THAT(Ns(network.SendState(0)), ElementsAre(20'000));
  // A bit begun is a nanosecond begun.
  RunOptions slow = Delays();
  slow.state_bandwidth_bps = 3'000'000'000;
  EXPECT_THAT(Ns(StateNetwork(slow, 1).SendState(1)), ElementsAre(20'003));
}

TEST(StateNetwork, HandsAStateOverWithinAHostWhateverItsBytes) {
  RunOptions options = Delays();
  options.local_handover = Microseconds(7);
  EXPECT_THAT(Ns(StateNetwork(options, 1'250).HandOver()), ElementsAre(7'000));
  options.chaos.state_loss_65536 = 65'536;
  EXPECT_THAT(Ns(StateNetwork(options, 1'250).HandOver()), IsEmpty());
}

TEST(StateNetwork, KeepsTheOrderWithoutChaos) {
  RunOptions options = Delays();
  EXPECT_TRUE(StateNetwork(options, 8).in_order());
  for (int i = 0; i < 3; ++i) {
    options.chaos = {};
    if (i == 0) options.chaos.state_delay_max = Nanos{1};
    if (i == 1) options.chaos.state_loss_65536 = 1;
    if (i == 2) options.chaos.state_duplicate_65536 = 1;
    EXPECT_FALSE(StateNetwork(options, 8).in_order());
  }
}

TEST(StateNetwork, LosesAsManyAsItIsTold) {
  RunOptions options = Delays();
  options.chaos.state_loss_65536 = 65'536;
  StateNetwork all(options, 8);
  EXPECT_THAT(all.Send(), IsEmpty());
  EXPECT_THAT(all.SendState(8), IsEmpty());
  EXPECT_EQ(all.lost(), 2u);

  options.chaos.state_loss_65536 = 16'384;
  StateNetwork quarter(options, 8);
  uint64_t none = 0;
  for (int i = 0; i < 40'000; ++i) none += quarter.Send().empty() ? 1 : 0;
  EXPECT_EQ(none, quarter.lost());
  EXPECT_NEAR(static_cast<double>(none), 10'000, 500);
  EXPECT_EQ(quarter.duplicated(), 0u);
}

TEST(StateNetwork, DeliversTwiceAsOftenAsItIsTold) {
  RunOptions options = Delays();
  options.chaos.state_duplicate_65536 = 16'384;
  StateNetwork network(options, 8);
  uint64_t twice = 0;
  for (int i = 0; i < 40'000; ++i) {
    const size_t copies = network.SendState(8).size();
    ASSERT_TRUE(copies == 1 || copies == 2);
    twice += copies - 1;
  }
  EXPECT_EQ(twice, network.duplicated());
  EXPECT_NEAR(static_cast<double>(twice), 10'000, 500);
  EXPECT_EQ(network.lost(), 0u);
}

TEST(StateNetwork, DelaysEachCopyBetweenTheLimits) {
  RunOptions options = Delays();
  options.chaos.state_delay_min = Nanos{10};
  options.chaos.state_delay_max = Nanos{13};
  options.chaos.state_duplicate_65536 = 65'536;
  StateNetwork network(options, 1'250);
  std::set<int64_t> messages;
  std::set<int64_t> states;
  uint64_t apart = 0;
  for (int i = 0; i < 200; ++i) {
    for (const int64_t ns : Ns(network.Send())) messages.insert(ns);
    const std::vector<int64_t> both = Ns(network.SendState(1'250));
    states.insert(both.begin(), both.end());
    apart += both[0] != both[1] ? 1 : 0;
  }
  EXPECT_THAT(messages, ElementsAre(3'010, 3'011, 3'012, 3'013));
  EXPECT_THAT(states, ElementsAre(21'010, 21'011, 21'012, 21'013));
  EXPECT_GT(apart, 100u);
}

TEST(StateNetwork, DrawsTheSameFatesForTheSameSeed) {
  RunOptions options = Delays();
  options.chaos = {.state_delay_min = {},
                   .state_delay_max = Microseconds(9),
                   .state_loss_65536 = 20'000,
                   .state_duplicate_65536 = 20'000};
  const auto fates = [&](uint64_t seed) {
    options.controller.seed = seed;
    StateNetwork network(options, 8);
    std::vector<std::vector<int64_t>> all;
    for (int i = 0; i < 100; ++i) all.push_back(Ns(network.Send()));
    return all;
  };
  EXPECT_EQ(fates(1), fates(1));
  EXPECT_NE(fates(1), fates(2));
}

// The delay of a message does not depend on whether those before it were lost.
TEST(StateNetwork, LeavesTheOtherMessagesWhereTheyWere) {
  RunOptions options = Delays();
  options.chaos.state_delay_max = Microseconds(9);
  StateNetwork sound(options, 8);
  options.chaos.state_loss_65536 = 32'768;
  StateNetwork lossy(options, 8);
  for (int i = 0; i < 100; ++i) {
    const std::vector<int64_t> expected = Ns(sound.Send());
    const std::vector<int64_t> got = Ns(lossy.Send());
    if (!got.empty()) {
      EXPECT_EQ(got, expected);
    }
  }
  EXPECT_GT(lossy.lost(), 20u);
}

TEST(StateNetwork, KeepsACopyOfARecordUntilItIsFreed) {
  StateNetwork network(Delays(), 8);
  std::vector<std::byte> record(8, std::byte{1});
  const uint32_t first = network.Keep(record);
  std::fill(record.begin(), record.end(), std::byte{2});
  const uint32_t second = network.Keep(record);
  EXPECT_THAT(network.record(first), testing::Each(std::byte{1}));
  EXPECT_THAT(network.record(second), testing::Each(std::byte{2}));
  EXPECT_EQ(network.records_on_the_way(), 2u);

  network.Free(first);
  std::fill(record.begin(), record.end(), std::byte{3});
  EXPECT_EQ(network.Keep(record), first);  // in the same memory
  EXPECT_THAT(network.record(first), testing::Each(std::byte{3}));
  EXPECT_THAT(network.record(second), testing::Each(std::byte{2}));
  network.Free(first);
  network.Free(second);
  EXPECT_EQ(network.records_on_the_way(), 0u);
}

TEST(StateNetwork, KeepsRecordsOfAnyLengthThatThereIsRoomFor) {
  StateNetwork network(Delays(), 24);
  const std::vector<std::byte> record(24, std::byte{1});
  for (const size_t bytes : {24u, 8u, 0u, 16u}) {
    const uint32_t kept = network.Keep(std::span(record).first(bytes));
    EXPECT_EQ(network.record(kept).size(), bytes);
    network.Free(kept);
  }
}

TEST(StateNetwork, LosesRecordsBeyondItsRoom) {
  constexpr uint32_t kBytes = 1 << 20;
  StateNetwork network(Delays(), kBytes);
  const std::vector<std::byte> record(kBytes);
  const uint64_t fit = StateNetwork::kMaxRecordBytes / kBytes;
  for (uint64_t i = 0; i < fit; ++i) {
    ASSERT_NE(network.Keep(record), StateNetwork::kNoRecord);
  }
  EXPECT_EQ(network.Keep(record), StateNetwork::kNoRecord);
  EXPECT_EQ(network.lost(), 1u);
  network.Free(0);
  EXPECT_EQ(network.Keep(record), 0u);
}

TEST(StateNetwork, CarriesStatesOfAnNfThatKeepsNothing) {
  StateNetwork network(Delays(), 0);
  EXPECT_THAT(network.record(network.Keep({})), IsEmpty());
}

}  // namespace
}  // namespace snf
