// SPDX-License-Identifier: Apache-2.0
//
// NfTest of nf_test.h.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/packet/endpoint.h"
#include "base/packet/test_packets.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Supply = NfTest::Supply;

const std::string kQuery = "udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\"";
const std::string kAnswer = "udp 192.0.2.9:53 > 10.0.0.1:5000 \"answer\"";

// Does what the last letter of a payload says.
class Obeys final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    flow.put(packets_, flow.get(packets_) + 1);
    flow.put(last_, packet.bytes().last(1));
    switch (std::to_integer<char>(packet.bytes().back())) {
      case 'c':
        return Verdict::consume();
      case 'd':
        return Verdict::drop(1);
      case 'D':
        return Verdict::drop(2);
      case 'l':
        return Verdict::forward(1);
      case 'L':
        return Verdict::forward(2);
      case 'e':
        while (flow.emit(packet.bytes())) {
        }
        break;
      case 't':
        flow.set_timer(Milliseconds(10));
        break;
      case 'i':
        flow.set_idle_timeout(Milliseconds(5));
        break;
      case 'o':
        flow.end();
        break;
      case 'x':
        packet.bytes()[22] = std::byte{9};
        break;
      default:
        count(others_, 2);
    }
    return Verdict::forward();
  }
  void on_timer(FlowState& flow) override {
    flow.emit(std::as_bytes(std::span("timer", 5)));
  }
  void on_end(FlowState& flow) override { count(ended_, flow.get(packets_)); }
  bool has_timer() const override { return true; }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"first", "second"};
    return kReasons;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"plain", "odd"};
    return kLabels;
  }

  Slot<uint32_t> packets_ = declare<uint32_t>("packets");
  Blob last_ = declare_blob("last", 4);
  Counter others_ = declare_counter("others", "asked nothing");
  Counter ended_ = declare_counter("ended", "packets of flows that ended");
};
SNF_REGISTER_NF(Obeys, "kit_obeys", "does what payloads say");

// Lets two packets through a second, of all flows.
class Limits final : public NetworkFunction {
 public:
  Limits() {
    packets_.every(Seconds(1), [](uint64_t&, uint64_t) { return false; });
    alarms_.when([](const Alarm& all) { return all.packets >= 5; },
                 [](Alarm& all) { all.is_raised = 1; });
  }
  Verdict process_packet(Packet&, FlowState&) override {
    const bool is_over = packets_.get(0) >= 2;
    packets_.update(0, 1);
    alarms_.update(0, {1, 0});
    if (alarms_.get(0).is_raised != 0) return Verdict::drop(1);
    return is_over ? Verdict::drop(0) : Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"over", "alarm"};
    return kReasons;
  }

 private:
  struct Alarm {
    uint64_t packets;
    uint64_t is_raised;
  };
  SharedTable<uint64_t, uint64_t> packets_ =
      declare_shared<uint64_t, uint64_t>("packets", 4);
  SharedTable<uint64_t, Alarm> alarms_ =
      declare_shared<uint64_t, Alarm>("alarms", 4);
};
SNF_REGISTER_NF(Limits, "kit_limits", "limits packets a second");

TEST(NfTest, RunsTimersAndTriggersOfTables) {
  NfTest nf("kit_limits");
  nf.Send(kQuery);
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(kQuery).text, "drop over");
  nf.Pass(Seconds(2));
  // Its update ends the period, so the next packet finds none.
  EXPECT_EQ(nf.Send(kQuery).text, "drop over");
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(kQuery).text, "drop alarm");
}

TEST(NfTest, TellsWhatBecameOfAPacket) {
  NfTest nf("kit_obeys");
  const std::string flow = "udp 10.0.0.1:5000 > 192.0.2.9:53 ";
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(flow + "\"c\""), "consume");
  EXPECT_EQ(nf.Send(flow + "\"d\""), "drop second");
  EXPECT_EQ(nf.Send(flow + "\"l\""), "odd: " + flow + "\"l\"");
  EXPECT_EQ(nf.Send(flow + "\"x\"").text,
            flow + "ttl=9 \"x\" bad_ip_checksum=44742");
  EXPECT_EQ(nf.Send("frame x'ffffffffffff 020000000001 0806'"),
            "frame x'ffffffffffff 020000000001 0806'");
  EXPECT_EQ(nf.count("others"), 2u);
}

TEST(NfTest, KnowsATextThatSaysTheSameInOtherWords) {
  NfTest nf("passthrough");
  EXPECT_EQ(nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53 \"q\""),
            "UDP 10.0.0.1:5000 > 192.0.2.9:53 ttl=64 x'71'");
  EXPECT_FALSE(nf.Send(kQuery) == kAnswer);
  EXPECT_FALSE(nf.Send(kQuery) == "odd: " + kQuery);
  EXPECT_FALSE(nf.Send(kQuery) == "drop first");
  EXPECT_FALSE(nf.Send(kQuery) == "consume");
}

TEST(NfTest, TellsFlowsApartAndTheirStateByName) {
  NfTest nf("kit_obeys");
  nf.Send(kQuery);
  nf.Send(kAnswer);
  nf.Send("udp 10.0.0.2:5000 > 192.0.2.9:53 \"query\"");
  EXPECT_EQ(nf.flows(), 2u);
  EXPECT_EQ(nf.slot<uint32_t>("packets", kAnswer), 2u);
  EXPECT_THAT(*nf.SlotBytes("last", kAnswer), ElementsAre(std::byte{'r'}));
  EXPECT_EQ(nf.slot<uint32_t>("packets", "udp 10.0.0.3:1 > 10.0.0.4:2"),
            std::nullopt);
  nf.EndFlow(kQuery);
  EXPECT_EQ(nf.flows(), 1u);
  EXPECT_EQ(nf.count("ended"), 2u);
  EXPECT_EQ(nf.slot<uint32_t>("packets", kAnswer), std::nullopt);
  nf.EndFlows();
  EXPECT_EQ(nf.count("ended"), 3u);
}

TEST(NfTest, FiresTimersAndEndsIdleFlowsInOrderOfTime) {
  NfTest nf("kit_obeys");
  const std::string flow = "udp 10.0.0.1:5000 > 192.0.2.9:53 ";
  nf.Send(flow + "\"t\"");
  nf.Pass(Milliseconds(9));
  EXPECT_THAT(nf.TakeEmitted(), IsEmpty());
  nf.Pass(Milliseconds(1));
  EXPECT_THAT(nf.TakeEmitted(), ElementsAre("frame x'74696d6572'"));
  EXPECT_THAT(nf.TakeEmitted(), IsEmpty());
  nf.Pass(Seconds(299));
  EXPECT_EQ(nf.flows(), 1u);
  nf.Pass(Seconds(1));
  EXPECT_EQ(nf.flows(), 0u);
  // The flow is over before its timer is due.
  nf.Send(flow + "\"t\"");
  nf.Send(flow + "\"i\"");
  nf.Pass(Milliseconds(5));
  EXPECT_EQ(nf.flows(), 0u);
  nf.Pass(Milliseconds(5));
  EXPECT_THAT(nf.TakeEmitted(), IsEmpty());
  nf.Send(flow + "\"o\"");
  EXPECT_EQ(nf.flows(), 0u);
}

TEST(NfTest, TakesAsManyPacketsFromACallAsThePlatform) {
  NfTest nf("kit_obeys");
  const std::string packet = "udp 10.0.0.1:5000 > 192.0.2.9:53 \"e\"";
  nf.Send(packet);
  EXPECT_EQ(nf.TakeEmitted(),
            std::vector<std::string>(FlowState::kMaxEmits, packet));
}

TEST(NfTest, TranslatesBothWays) {
  NfTest nf("nat:ip=198.51.100.1,ports=2000-2001");
  EXPECT_EQ(nf.Send(kQuery), "udp 198.51.100.1:2000 > 192.0.2.9:53 \"query\"");
  EXPECT_EQ(nf.alias(kQuery), "udp 198.51.100.1:2000");
  // As the outside sends it, and as a capture of the inside has it.
  EXPECT_EQ(nf.Send("udp 192.0.2.9:53 > 198.51.100.1:2000 \"answer\""),
            kAnswer);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
  EXPECT_EQ(nf.flows(), 1u);
  EXPECT_EQ(nf.Send("udp 192.0.2.9:53 > 198.51.100.1:2001"), "drop no_mapping");
  nf.EndFlow(kQuery);
  EXPECT_EQ(nf.alias(kQuery), "");
  EXPECT_EQ(nf.Send(kAnswer), "drop not_translated");
}

// Takes a piece and an alias for each flow, which is told by its port; what it
// does wrong is its option.
class Takes final : public NetworkFunction {
 public:
  explicit Takes(NfOptions& options)
      : wrong_(options.Choice("wrong", 0, kWrongs, "what it does wrong")) {}

 private:
  static constexpr std::string_view kWrongs[] = {
      "nothing", "changes", "keeps", "drops", "labels", "may_wait"};
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    if (kWrongs[wrong_] == "drops") return Verdict::drop(0);
    if (kWrongs[wrong_] == "labels") return Verdict::forward(1);
    if (flow.has(piece_)) return Verdict::forward();
    if (kWrongs[wrong_] == "changes") packet.bytes()[22] = std::byte{1};
    const auto piece = flow.take(pool_, {.first = 1, .last = 4});
    if (!piece.has_value()) return Verdict::wait(pool_);
    flow.put(piece_, *piece);
    flow.set_alias(EndpointKey(V4(198, 51, 100, 1), be16(7), IpProtocol::kUdp,
                               FlowKeyForm::kIpv4Endpoint));
    return Verdict::forward();
  }
  void on_end(FlowState& flow) override {
    if (kWrongs[wrong_] != "keeps" && flow.has(piece_)) {
      flow.give_back(pool_, flow.get(piece_));
    }
  }
  void on_alias_refused(FlowState& flow, AliasResult) override {
    count(refused_);
    on_end(flow);
    flow.erase(piece_);
  }
  bool may_wait(const FlowState&) const override {
    return kWrongs[wrong_] != "may_wait";
  }
  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }

  size_t wrong_;
  PoolId pool_ = declare_pool("pieces", 1, 4);
  Slot<uint32_t> piece_ = declare<uint32_t>("piece");
  Counter refused_ = declare_counter("refused", "aliases");
};
SNF_REGISTER_NF(Takes, "kit_takes", "takes pieces and aliases");

TEST(NfTest, RefusesAnAliasThatAnotherFlowHas) {
  NfTest nf("kit_takes");
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send("udp 10.0.0.2:5000 > 192.0.2.9:53"),
            "drop mapping_conflict");
  EXPECT_EQ(nf.count("refused"), 1u);
  EXPECT_EQ(nf.pieces_in_use("pieces"), 1u);
  EXPECT_EQ(nf.alias("udp 10.0.0.2:5000 > 192.0.2.9:53"), "");
  nf.EndFlow(kQuery);
  nf.RefuseNextAlias(AliasResult::kGroupFull);
  EXPECT_EQ(nf.Send("udp 10.0.0.2:5000 > 192.0.2.9:53"), "drop mapping_limit");
  EXPECT_EQ(nf.Send("udp 10.0.0.2:5000 > 192.0.2.9:53"),
            "udp 10.0.0.2:5000 > 192.0.2.9:53");
}

TEST(NfTest, HasPiecesHereComingOrNowhere) {
  NfTest nf("kit_takes");
  nf.set_supply("pieces", Supply::kExhausted);
  EXPECT_EQ(nf.Send(kQuery), "drop no_pieces");
  nf.set_supply("pieces", Supply::kComing);
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.pieces_in_use("pieces"), 1u);
  nf.EndFlows();
  EXPECT_EQ(nf.pieces_in_use("pieces"), 0u);
}

TEST(NfTest, HasItsInsideWhereItIsTold) {
  NfTest nf("nat:ip=198.51.100.1", "192.0.2.0/24");
  EXPECT_EQ(nf.Send(kQuery), "drop not_translated");
  EXPECT_EQ(nf.Send(kAnswer),
            "udp 198.51.100.1:1025 > 10.0.0.1:5000 \"answer\"");
  EXPECT_NONFATAL_FAILURE(NfTest("nat", "192.0.2.0/33"), "192.0.2.0/33");
}

TEST(NfTest, FailsATestWhoseNfDoesWhatItMustNot) {
  const auto send = [](const std::string& wrong) {
    NfTest nf("kit_takes:wrong=" + wrong);
    nf.set_supply("pieces", Supply::kComing);
    nf.Send(kQuery);
    nf.EndFlows();
  };
  send("nothing");
  EXPECT_NONFATAL_FAILURE(send("changes"), "wait, but the packet was changed");
  EXPECT_NONFATAL_FAILURE(send("keeps"), "keeps piece 1 of pool pieces");
  EXPECT_NONFATAL_FAILURE(send("drops"), "drop(0), but drop_reasons() has 0");
  EXPECT_NONFATAL_FAILURE(send("labels"), "forward(1), but labels() has 0");
  EXPECT_NONFATAL_FAILURE(send("may_wait"), "but may_wait() is false");
}

TEST(NfTest, FailsATestThatMisspellsAName) {
  EXPECT_NONFATAL_FAILURE(NfTest("passthru"), "\"passthru\" is no NF");
  EXPECT_NONFATAL_FAILURE(NfTest("policer:speed=1Mbps"), "speed");
  NfTest nf("kit_takes");
  EXPECT_NONFATAL_FAILURE(nf.Send("upd 10.0.0.1:1 > 10.0.0.2:2"), "\"upd\"");
  EXPECT_NONFATAL_FAILURE(nf.count("refusals"),
                          "no counter \"refusals\"; there is: refused");
  EXPECT_NONFATAL_FAILURE(nf.slot<uint32_t>("port", kQuery),
                          "no slot \"port\"; there is: piece");
  EXPECT_NONFATAL_FAILURE(nf.pieces_in_use("ports"), "no pool \"ports\"");
  EXPECT_NONFATAL_FAILURE(nf.EndFlow(kQuery), "no flow has");
  nf.Send(kQuery);
  EXPECT_NONFATAL_FAILURE(nf.slot<uint64_t>("piece", kQuery), "of slot piece");
  EXPECT_NONFATAL_FAILURE(
      {
        const bool unused = nf.Send(kQuery) == "upd";
        static_cast<void>(unused);
      },
      "want for example");
}

TEST(NfTest, RunsAModule) {
  NfTest nf(SNF_TEST_MODULE ":how=drop");
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.slot<uint32_t>("packets", kQuery), 1u);
  NfTest chain("passthrough | " SNF_TEST_MODULE "(how=nothing)");
  EXPECT_EQ(chain.Send(kQuery), kQuery);
  EXPECT_NONFATAL_FAILURE(NfTest("./nonesuch.so"),
                          "./nonesuch.so: No such file or directory");
}

TEST(NfTest, RunsAChain) {
  NfTest nf("policer(rate=1kbps,burst=64B) | nat(ip=198.51.100.1)");
  EXPECT_EQ(nf.Send(kQuery), "udp 198.51.100.1:5000 > 192.0.2.9:53 \"query\"");
  EXPECT_EQ(nf.Send(kQuery), "drop policer.over_rate");
  EXPECT_EQ(nf.count("policer.over"), 1u);
}

// Changes the packet's size, as the last letter of its payload says.
class Resizes final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    flow.put(packets_, flow.get(packets_) + 1);
    if (!packet.headers().has_ip()) return Verdict::forward();
    PacketResize outcome = PacketResize::kDone;
    switch (std::to_integer<char>(
        packet.bytes()[packet.headers().end_offset - 1])) {
      case 'a':
        outcome = packet.append(std::as_bytes(std::span("bcd", 3)), 1'500);
        break;
      case 'm':  // more than a packet may grow
        outcome = packet.append(Frame(kMaxPacketGrowth + 1), 1'500);
        break;
      case 't':
        outcome = packet.trim(2);
        break;
      case 'p':
        outcome = packet.prepend(Ipv4({.protocol = 4}, {}), 1'500);
        break;
      case 'b':  // there and back
        outcome = packet.prepend(Ipv4({.protocol = 4}, {}), 1'500);
        if (outcome == PacketResize::kDone) outcome = packet.decapsulate(20);
        break;
      default:
        break;
    }
    if (outcome == PacketResize::kDone) return Verdict::forward();
    count(refused_);
    return Verdict::drop(static_cast<uint8_t>(outcome));
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {
        "done", "no_room", "too_long", "not_whole", "too_short", "link"};
    return kReasons;
  }
  Slot<uint32_t> packets_ = declare<uint32_t>("packets");
  Counter refused_ = declare_counter("refused", "changes of size");
};
SNF_REGISTER_NF(Resizes, "kit_resizes", "changes the size of packets");

const std::string kFlow = "udp 10.0.0.1:5000 > 192.0.2.9:53 ";

TEST(NfTest, LetsPacketsGrowAndShrink) {
  NfTest nf("kit_resizes");
  EXPECT_EQ(nf.Send(kFlow + "\"xa\""), kFlow + "\"xabcd\"");
  EXPECT_EQ(nf.Send(kFlow + "\"wxyzt\""), kFlow + "\"wxy\"");
  EXPECT_EQ(nf.Send(kFlow + "\"xb\""), kFlow + "\"xb\"");
  const NfResult grown = nf.Send(kFlow + "\"p\"");
  EXPECT_EQ(grown.packet.bytes.size(), 14u + 20 + 28 + 1);
  EXPECT_EQ(grown.packet.original_length, grown.packet.bytes.size());
  EXPECT_EQ(nf.Send(kFlow + "\"m\""), "drop no_room");
  EXPECT_EQ(nf.Send(kFlow + "\"a\" more"), "drop not_whole");
  EXPECT_EQ(nf.count("refused"), 2u);
}

TEST(NfTest, ShowsTheNextNfOfAChainThePacketAsItIsNow) {
  NfTest nf("kit_resizes | kit_resizes");
  EXPECT_EQ(nf.Send(kFlow + "\"wxyztt\""), kFlow + "\"wxyz\"");
  EXPECT_EQ(nf.Send(kFlow + "\"vwxtyt\""), kFlow + "\"vw\"");
}

// The second NF waits for a piece, so the first one runs twice.
TEST(NfTest, GivesAPacketThatWaitsItsSizeBack) {
  NfTest nf("kit_resizes | kit_takes");
  nf.set_supply("kit_takes.pieces", Supply::kComing);
  EXPECT_EQ(nf.Send(kFlow + "\"xa\""), kFlow + "\"xabcd\"");
}

TEST(NfTest, RunsAnNfThatChangesSizesEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 60; ++i) {
    packets.push_back("udp 10.0.0.1:" + std::to_string(5'000 + i % 3) +
                      " > 192.0.2.9:53 \"123456" + "atpbmx"[i % 6] + "\"");
  }
  EXPECT_TRUE(RunEverywhere("kit_resizes", Packets(packets)));
}

}  // namespace
}  // namespace snf
