// SPDX-License-Identifier: Apache-2.0
//
// RunEverywhere passes NFs that are the same everywhere, and no other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sdk/nf_test.h"

// A test of snf_add_nf_test has these from nf_module.cmake.
extern "C" {
extern const char snf_program[];
const char snf_program[] = "/bin/snf";
extern const char snf_tested_module[];
const char snf_tested_module[] = "/lib/kit_in_member.so";
}

namespace snf {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

// Numbers a flow's packets in the last byte of each, as it should be done, and
// drops the tenth.
class InSlot final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const uint8_t number = static_cast<uint8_t>(flow.get(packets_) + 1);
    flow.put(packets_, number);
    packet.bytes().back() = std::byte{number};
    count(numbered_);
    return number == 10 ? Verdict::drop(0) : Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"tenth"};
    return kReasons;
  }
  Slot<uint8_t> packets_ = declare<uint8_t>("packets");
  Counter numbered_ = declare_counter("numbered", "packets");
};
SNF_REGISTER_NF(InSlot, "kit_in_slot", "numbers packets");

// The same of all packets that the object sees.
class InMember final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState&) override {
    packet.bytes().back() = std::byte{++packets_};
    return Verdict::forward();
  }
  uint8_t packets_ = 0;
};
SNF_REGISTER_NF(InMember, "kit_in_member", "numbers packets in a member");

// … that the program sees.
class InStatic final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState&) override {
    static uint8_t packets = 0;
    packet.bytes().back() = std::byte{++packets};
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(InStatic, "kit_in_static", "numbers packets in a static");

// Drops at every other unit.
class ByUnit final : public NetworkFunction {
 public:
  ByUnit() : drops_(++made % 2 == 0) {}

 private:
  Verdict process_packet(Packet&, FlowState&) override {
    return drops_ ? Verdict::drop(0) : Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"even"};
    return kReasons;
  }
  static inline int made = 0;
  bool drops_;
};
SNF_REGISTER_NF(ByUnit, "kit_by_unit", "drops at every other unit");

// Counts the flows that each unit saw, not all there are.
class CountsAtUnit final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState&) override {
    if (!std::exchange(seen_, true)) count(units_);
    return Verdict::forward();
  }
  bool seen_ = false;
  Counter units_ = declare_counter("units", "units that had packets");
};
SNF_REGISTER_NF(CountsAtUnit, "kit_counts_at_unit", "counts units");

// Finds the longest packet and, where it is wrong, the most that a unit had.
class Longest final : public NetworkFunction {
 public:
  explicit Longest(NfOptions& options)
      : wrong_(options.Flag("wrong", false, "keeps it where it must not")) {}

 private:
  struct Length {
    uint64_t bytes;
  };
  Verdict process_packet(Packet& packet, FlowState&) override {
    longest_.update(0, {packet.bytes().size()});
    if (wrong_) longest_.update(1, {packets_++});
    return Verdict::forward();
  }
  NfReport report() const override {
    return {.tables = {{.title = "Longest",
                        .columns = {"bytes"},
                        .rows = {{longest_.get(0).bytes},
                                 {longest_.get(1).bytes}}}},
            .files = {}};
  }
  bool wrong_;
  uint64_t packets_ = 0;
  SharedTable<uint64_t, Length> longest_ = declare_shared<uint64_t, Length>(
      "longest", 8, [](Length& value, const Length& more) {
        value.bytes = std::max(value.bytes, more.bytes);
      });
};
SNF_REGISTER_NF(Longest, "kit_longest", "finds the longest packet");

// Emits a copy of the packet, and in it how many this object has seen.
class EmitsMember final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    Frame copy(packet.bytes().begin(), packet.bytes().end());
    copy.back() = std::byte{++packets_};
    flow.emit(copy);
    return Verdict::consume();
  }
  uint8_t packets_ = 0;
};
SNF_REGISTER_NF(EmitsMember, "kit_emits_member", "emits copies");

// Logs how many packets this object has seen.
class LogsMember final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.log(seen_, std::string_view(++packets_ % 2 == 0 ? "even" : "odd."));
    return Verdict::forward();
  }
  uint8_t packets_ = 0;
  LogId seen_ = declare_log("seen", "packets of this object");
};
SNF_REGISTER_NF(LogsMember, "kit_logs_member", "logs packets");

// Lets the first `limit` flows pass, counted in a table of all units, and drops
// packets of other flows. If `wrong`, each unit counts alone.
class LimitsFlows final : public NetworkFunction {
 public:
  explicit LimitsFlows(NfOptions& options)
      : limit_(options.Integer("limit", 10, 1, 1'000, "flows")),
        wrong_(options.Flag("wrong", false, "counts in a member")) {}

 private:
  Verdict process_packet(Packet&, FlowState& flow) override {
    if (flow.has(passes_)) return Verdict::forward();
    const bool passes =
        wrong_ ? own_++ < limit_ : flows_.add_if_below(0, limit_);
    if (!passes) return Verdict::drop(0);
    flow.put(passes_, uint8_t{1});
    count(begun_);
    return Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"too_many", "other"};
    return kReasons;
  }
  const int64_t limit_;
  const bool wrong_;
  int64_t own_ = 0;
  Slot<uint8_t> passes_ = declare<uint8_t>("passes");
  SharedTable<uint64_t, int64_t> flows_ =
      declare_shared<uint64_t, int64_t>("flows", 8);
  Counter begun_ = declare_counter("begun", "flows that passed");
};
SNF_REGISTER_NF(LimitsFlows, "kit_limits_flows", "limits flows");

std::vector<TestPacket> SomePackets(int flows, int packets) {
  std::vector<std::string> texts;
  for (int i = 0; i < packets; ++i) {
    for (int flow = 1; flow <= flows; ++flow) {
      texts.push_back("+" + std::to_string(i * 37 % 1'000) + "us udp 10.0.0." +
                      std::to_string(flow) + ":5000 > 192.0.2.9:53 \"query\"");
    }
  }
  return Packets(texts);
}

std::string WhatFails(const std::string& nf,
                      const EverywhereOptions& options = {}) {
  const testing::AssertionResult result =
      RunEverywhere(nf, SomePackets(3, 20), options);
  return result ? "" : result.message();
}

TEST(RunEverywhere, PassesAnNfThatKeepsItsStateInSlots) {
  EXPECT_TRUE(RunEverywhere("kit_in_slot", SomePackets(3, 20)));
  EXPECT_TRUE(RunEverywhere("chronicle", SomePackets(3, 20)));
  EXPECT_TRUE(RunEverywhere("passthrough", SomePackets(3, 20)));
}

TEST(RunEverywhere, PassesPacketsThatComeAtOnce) {
  std::vector<TestPacket> packets = SomePackets(3, 500);
  for (TestPacket& packet : packets) packet.gap = {};
  EXPECT_TRUE(RunEverywhere("chronicle", packets));
}

TEST(RunEverywhere, PassesAnNfThatTakesPieces) {
  EXPECT_TRUE(RunEverywhere("nat:ip=198.51.100.1", SomePackets(3, 20)));
}

TEST(RunEverywhere, FailsWhatIsKeptInAMember) {
  const std::string message = WhatFails("kit_in_member");
  EXPECT_THAT(message, HasSubstr("packet 2 of flow udp 10.0.0.1:5000 > "
                                 "192.0.2.9:53 became\n  udp 10.0.0.1:5000 > "
                                 "192.0.2.9:53 x'7175657202' "));
  EXPECT_THAT(message, HasSubstr("\nbut on one unit\n  udp 10.0.0.1:5000 > "
                                 "192.0.2.9:53 x'7175657204' "));
  EXPECT_THAT(message, HasSubstr("\nthe checker found: "));
}

std::string CaptureIn(const std::string& message) {
  const size_t begin = message.find(" replay /") + 8;
  return message.substr(begin, message.find(' ', begin) - begin);
}

TEST(RunEverywhere, NamesTheModuleAndACaptureOfEachFailure) {
  const std::string first = WhatFails("kit_in_member");
  EXPECT_THAT(first, ContainsRegex(
                         "to see it: /bin/snf replay /.*/everywhere_.*.pcapng "
                         "--nf='/lib/kit_in_member.so' --policy=rotate"));
  const std::string second = WhatFails("passthrough | kit_in_member");
  EXPECT_THAT(second,
              HasSubstr("--nf='passthrough | /lib/kit_in_member.so' --policy"));
  EXPECT_NE(CaptureIn(first), CaptureIn(second));
  EXPECT_EQ(PacketsOf(CaptureIn(first)).size(), 60u);
  EXPECT_EQ(PacketsOf(CaptureIn(second)).size(), 60u);
}

TEST(RunEverywhere, FailsWhatIsKeptInAStatic) {
  EXPECT_THAT(WhatFails("kit_in_static"), HasSubstr("packet 1 of flow"));
}

TEST(RunEverywhere, FailsAVerdictThatDependsOnTheUnit) {
  EXPECT_THAT(WhatFails("kit_by_unit"), HasSubstr("drop even"));
}

TEST(RunEverywhere, FailsWhatIsEmittedFromAMember) {
  EXPECT_THAT(WhatFails("kit_emits_member"), HasSubstr("emitted in udp 10.0."));
}

TEST(RunEverywhere, FailsALogThatVaries) {
  EXPECT_THAT(WhatFails("kit_logs_member"),
              AllOf(HasSubstr("the checker found: "),
                    HasSubstr("of the records that it logged byte")));
}

TEST(RunEverywhere, FailsACounterThatVariesUnlessToldSo) {
  EXPECT_THAT(WhatFails("kit_counts_at_unit"),
              HasSubstr("counter units is 2, but on one unit 1"));
  EXPECT_EQ(WhatFails("kit_counts_at_unit", {.counters_that_vary = {"units"}}),
            "");
}

TEST(RunEverywhere, FailsAReportThatVaries) {
  EXPECT_EQ(WhatFails("kit_longest"), "");
  EXPECT_THAT(WhatFails("kit_longest:wrong=true"),
              HasSubstr("it reports another table \"Longest\""));
}

// 40 flows at a time, of which the first 10 pass.
std::string WhatFailsOfFlows(const std::string& nf,
                             const EverywhereOptions& options) {
  const testing::AssertionResult result =
      RunEverywhere(nf, SomePackets(40, 4), options);
  return result ? "" : result.message();
}

TEST(RunEverywhere, LetsDropsVaryWithinTheirBounds) {
  EXPECT_THAT(WhatFailsOfFlows("kit_limits_flows", {}),
              HasSubstr("\nbut on one unit\n  drop too_many"));
  EverywhereOptions options = {
      .counters_that_vary = {"begun"},
      .drops_that_vary = {{.reason = "too_many", .fewer = 40}}};
  EXPECT_EQ(WhatFailsOfFlows("kit_limits_flows", options), "");
  // Each further flow that passes has four drops less.
  options.units = {2};
  options.drops_that_vary[0].fewer = 3;
  EXPECT_THAT(WhatFailsOfFlows("kit_limits_flows", options),
              ContainsRegex("on 2 units, each packet on the next one, [0-9]+ "
                            "packets became \"drop too_many\", but on one unit "
                            "120: at most 3 less and 0 more are allowed"));
  options.drops_that_vary[0] = {.reason = "too_many", .fewer = 40};
  options.counters_that_vary = {};
  EXPECT_THAT(WhatFailsOfFlows("kit_limits_flows", options),
              HasSubstr("counter begun is "));
}

TEST(RunEverywhere, FailsOtherVerdictsThanTheNamedOnes) {
  const EverywhereOptions other = {
      .counters_that_vary = {"begun"},
      .drops_that_vary = {{.reason = "other", .fewer = 1'000, .more = 1'000}}};
  EXPECT_THAT(WhatFailsOfFlows("kit_limits_flows", other),
              HasSubstr("drop too_many"));
  EXPECT_THAT(WhatFailsOfFlows("kit_limits_flows",
                               {.drops_that_vary = {{.reason = "too_mnay"}}}),
              HasSubstr("the NF has no reason \"too_mnay\" to drop a packet"));
  // The limit of each unit alone is as many times too high.
  EXPECT_THAT(WhatFailsOfFlows(
                  "kit_limits_flows:wrong=true",
                  {.counters_that_vary = {"begun"},
                   .drops_that_vary = {{.reason = "too_many", .fewer = 10}}}),
              HasSubstr("at most "));
}

TEST(RunEverywhere, SendsNoMoreAfterADropInAClosedLoop) {
  // Ten flows pass, and 30 have one drop each.
  EverywhereOptions options = {.units = {1},
                               .drops_that_vary = {{.reason = "too_many"}},
                               .closed_loop = true};
  options.units = {2};
  EXPECT_THAT(WhatFailsOfFlows("kit_limits_flows", options),
              HasSubstr(", but on one unit 30: at most 0 less"));
  EXPECT_EQ(WhatFails("kit_in_slot", {.closed_loop = true}), "");
}

TEST(RunEverywhere, FailsIfNothingMoves) {
  const auto fails = [](const std::vector<TestPacket>& packets) {
    return std::string(RunEverywhere("kit_in_member", packets).message());
  };
  EXPECT_THAT(fails({}), HasSubstr("no packet ran on another unit"));
  EXPECT_THAT(fails(Packets({"udp 10.0.0.1:1 > 10.0.0.2:2 \"a\""})),
              HasSubstr("no packet ran on another unit"));
}

TEST(RunEverywhere, FailsAnNfThatIsNot) {
  EXPECT_THAT(WhatFails("kit_in_slut"), HasSubstr("\"kit_in_slut\""));
  EXPECT_THAT(WhatFails("nat:ip=here"), HasSubstr("ip"));
}

TEST(PacketsOf, ReadsACaptureOrAFlowOfIt) {
  const std::string file = "traces/small.pcap.zst";
  EXPECT_EQ(PacketsOf(file).size(), 45'153u);
  const std::string ends = " 192.0.2.16:40477 XX 198.51.100.10:5207";
  const auto count = [&](std::string arrow) {
    std::string flow = "tcp" + ends;
    return PacketsOf(file, flow.replace(flow.find("XX"), 2, arrow)).size();
  };
  EXPECT_EQ(count("<>"), 5'287u);
  EXPECT_GT(count(">"), 0u);
  EXPECT_LT(count(">"), 5'287u);
}

// The capture is of the inside of a NAT that knew aliases sooner than 32 units
// do.
TEST(RunEverywhere, StandsACaptureOfTheInside) {
  EXPECT_TRUE(RunEverywhere("nat:ip=203.0.113.1",
                            PacketsOf("traces/small.pcap.zst"),
                            {.units = {32}, .inside = "192.0.2.0/24"}));
}

TEST(RunEverywhere, StandsACapture) {
  EXPECT_TRUE(RunEverywhere("kit_in_slot", PacketsOf("traces/small.pcap.zst"),
                            {.units = {5}}));
}

}  // namespace
}  // namespace snf
