// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/chain.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/sdk/test_chain.h"

namespace snf {
namespace {

using ::testing::ElementsAre;

constexpr Side kInside = Side::kInside;
constexpr Side kOutside = Side::kOutside;

// A chain with its flow. If it has two sides, the flow is an endpoint.
struct TestChain {
  explicit TestChain(std::string_view text, uint32_t pieces = 0)
      : nf(MakeChain(text)), flow(*nf) {
    world.AddPools(*nf, pieces);
  }
  ChainFlow::Outcome Send(const std::string& bytes, int64_t ms = 0) {
    return flow.Send(*nf, world,
                     {.bytes = bytes, .now = Instant{} + Milliseconds(ms)});
  }
  ChainFlow::Outcome Send(Side side, uint8_t far_end, const std::string& bytes,
                          int64_t ms = 0) {
    return flow.Send(*nf, world,
                     {.side = side,
                      .far_end = far_end,
                      .bytes = bytes,
                      .now = Instant{} + Milliseconds(ms)});
  }
  // Returns the way that a packet took, and its verdict.
  std::string Way(const std::string& bytes) {
    const ChainFlow::Outcome outcome = Send(bytes);
    return outcome.bytes.substr(0, outcome.bytes.find_first_of(". ")) + " " +
           outcome.verdict;
  }
  uint64_t Count(std::string_view part) const {
    for (const NetworkFunction::Part& one : nf->parts()) {
      if (one.name == part) return one.nf->counts()[0];
    }
    ADD_FAILURE() << part;
    return 0;
  }
  int64_t timer_ms() const { return flow.timer.ns / 1'000'000; }

  std::unique_ptr<NetworkFunction> nf;
  ChainWorld world;
  ChainFlow flow;
};

// --- The way through --------------------------------------------------------

TEST(Chain, TakesAPacketThroughItsNfsInOrder) {
  TestChain chain("step(id=a) | step(id=b) | step(id=c)");
  EXPECT_EQ(chain.Way("....."), "abc forward");
  EXPECT_EQ(chain.Count("step"), 1u);
  EXPECT_EQ(chain.Count("step#3"), 1u);
}

TEST(Chain, EndsWhereAnNfDropsOrConsumes) {
  TestChain chain("step(id=a) | step(id=b) | step(id=c)");
  EXPECT_EQ(chain.Way("..... a:drop"), "a drop: step.denied");
  EXPECT_EQ(chain.Way("..... b:other"), "ab drop: step#2.other");
  EXPECT_EQ(chain.Way("..... c:drop"), "abc drop: step#3.denied");
  EXPECT_EQ(chain.Way("..... b:consume"), "ab consume");
  EXPECT_THAT(chain.nf->drop_reasons(),
              ElementsAre("step.denied", "step.other", "step#2.denied",
                          "step#2.other", "step#3.denied", "step#3.other"));
}

TEST(Chain, GoesTheWayOfTheLabelAndTogetherAgain) {
  TestChain chain(
      "step(id=f) | {suspicious: step(id=i), clean: step(id=m)} | step(id=p)");
  EXPECT_EQ(chain.Way("....."), "fmp forward");
  EXPECT_EQ(chain.Way("..... f:suspicious"), "fip forward");
  EXPECT_EQ(chain.Way("..... f:odd"), "fp forward");
  EXPECT_EQ(chain.Way("..... f:suspicious i:drop"), "fi drop: step#2.denied");
}

TEST(Chain, GoesTheWayOfTheStarWithAnyOtherLabel) {
  TestChain chain("step(id=f) | {odd:, *: step(id=o) | step(id=p)} | step");
  EXPECT_EQ(chain.Way("....."), "fopx forward");
  EXPECT_EQ(chain.Way("..... f:suspicious"), "fopx forward");
  EXPECT_EQ(chain.Way("..... f:odd"), "fx forward");
}

TEST(Chain, HasBranchesInBranchesAndAtItsEnd) {
  TestChain chain(
      "step(id=a) | {odd: step(id=b) | {odd: step(id=c), suspicious: "
      "step(id=d) | {odd: step(id=e)}} | step(id=g), clean: step(id=h)}");
  EXPECT_EQ(chain.Way("......"), "ah forward");
  EXPECT_EQ(chain.Way("...... a:suspicious"), "a forward");
  EXPECT_EQ(chain.Way("...... a:odd"), "abg forward");
  EXPECT_EQ(chain.Way("...... a:odd b:odd"), "abcg forward");
  EXPECT_EQ(chain.Way("...... a:odd b:suspicious"), "abdg forward");
  EXPECT_EQ(chain.Way("...... a:odd b:suspicious d:odd"), "abdeg forward");
}

TEST(Chain, TakesEachPacketItsOwnWay) {
  const auto nf = MakeChain(
      "step(id=f) | {suspicious: step(id=i), clean: step(id=m)} | step(id=p)");
  ChainWorld world;
  std::vector<ChainFlow> flows(4, ChainFlow(*nf));
  const std::vector<ChainPacket> packets = {{.bytes = ".... f:suspicious"},
                                            {.bytes = ".... m:emit p:emit"},
                                            {.bytes = ".... f:emit m:drop"},
                                            {.bytes = ".... f:suspicious"}};
  std::vector<ChainFlow::Outcome> outcomes;
  for (size_t i = 0; i < flows.size(); ++i) {
    outcomes.push_back(flows[i].Send(*nf, world, packets[i]));
  }
  EXPECT_EQ(outcomes[0].bytes, "fip. f:suspicious");
  EXPECT_EQ(outcomes[1].bytes, "fmp. m:emit p:emit");
  EXPECT_EQ(outcomes[2].bytes, "fm.. f:emit m:drop");
  EXPECT_EQ(outcomes[3].bytes, "fip. f:suspicious");
  EXPECT_EQ(outcomes[1].verdict, "forward");
  EXPECT_EQ(outcomes[2].verdict, "drop: step#3.denied");
  EXPECT_THAT(outcomes[1].said.frames, ElementsAre("m1", "p1"));
  EXPECT_THAT(outcomes[2].said.frames, ElementsAre("f1"));
  EXPECT_EQ(flows[3].Number("step#2.packets"), 1u);
  EXPECT_EQ(flows[3].Number("step#3.packets"), 0u);
}

// --- State ------------------------------------------------------------------

TEST(Chain, KeepsTheStateOfItsNfsInOneRecord) {
  TestChain chain("step(id=a) | {odd: step(id=b)} | step(id=c)");
  chain.Send(".... a:note c:note");
  chain.Send(".... a:odd b:note a:note");
  EXPECT_EQ(chain.flow.Number("step.packets"), 2u);
  EXPECT_EQ(chain.flow.Number("step#2.packets"), 1u);
  EXPECT_EQ(chain.flow.Number("step#3.packets"), 2u);
  EXPECT_EQ(chain.flow.ValueOf("step.log"), "aa");
  EXPECT_EQ(chain.flow.ValueOf("step#2.log"), "b");
  EXPECT_EQ(chain.flow.ValueOf("step#3.log"), "c");
  chain.Send(".... b:odd a:forget");
  EXPECT_EQ(chain.flow.ValueOf("step.log"), std::nullopt);
}

TEST(Chain, HasASchemaOfItsOwn) {
  const auto hash = [](std::string_view text) {
    return MakeChain(text)->schema().hash();
  };
  EXPECT_EQ(hash("step | step"), hash("step|step"));
  EXPECT_NE(hash("step | step(id=b)"), hash("step | step"));
  EXPECT_NE(hash("step | step(state=false)"), hash("step(state=false) | step"));
  EXPECT_NE(hash("step | step"), hash("step | step | step(state=false)"));
  EXPECT_NE(hash("step(sided=true) | step"),
            hash("[connections=7] step(sided=true) | step"));
}

TEST(Chain, EndsTheFlowForEveryNf) {
  TestChain chain("step(id=a) | {odd: step(id=b)} | step(id=c, pool=5)", 5);
  EXPECT_EQ(chain.Send(".... c:take b:end a:end").said.is_over, true);
  EXPECT_EQ(chain.world.pools[0].size(), 4u);
  const ChainWorld::Said said = chain.flow.on_end(*chain.nf, chain.world, {});
  EXPECT_THAT(said.frames, ElementsAre("aend", "bend", "cend"));
  EXPECT_EQ(chain.world.pools[0].size(), 5u);
}

TEST(Chain, TellsItsNfsThatTheAliasWasRefused) {
  TestChain chain("step(id=a) | step(id=n, sided=true) | step(id=b)");
  EXPECT_EQ(chain.Send(kInside, 1, ".... n:alias6 b:alias7").said.alias_group,
            6u);
  EXPECT_THAT(chain.flow.on_alias_refused(*chain.nf, chain.world, {}).frames,
              ElementsAre("nrefused"));
}

TEST(Chain, HasThePoolsOfItsNfs) {
  TestChain chain("step(id=a, pool=3) | step | step(id=b, pool=4)", 3);
  ASSERT_EQ(chain.nf->pools().size(), 2u);
  EXPECT_EQ(chain.nf->pools()[0].name, "step.pieces");
  EXPECT_EQ(chain.nf->pools()[1].name, "step#3.pieces");
  EXPECT_EQ(chain.nf->pools()[1].last, 13u);
  chain.Send(".... a:take b:take");
  chain.Send(".... a:give");
  EXPECT_EQ(chain.world.pools[0].size(), 3u);
  EXPECT_EQ(chain.world.pools[1].size(), 2u);
  EXPECT_EQ(chain.flow.Number("step#3.piece"), 10u);
}

// --- Two sides --------------------------------------------------------------

TEST(Chain, GoesBackwardsFromTheOutsideButForTheOrderOfEachSide) {
  TestChain chain(
      "step(id=a) | {odd: step(id=b)} | step(id=c) | step(id=n, sided=true) | "
      "step(id=d) | {odd: step(id=e)} | step(id=f)");
  EXPECT_EQ(chain.nf->flow_scope(), FlowScope::kInsideEndpoint);
  const auto way = [&](Side side, const std::string& bytes) {
    return chain.Send(side, 1, bytes).bytes.substr(0, 7);
  };
  EXPECT_EQ(way(kInside, "....... "), "acndf..");
  EXPECT_EQ(way(Side::kUnknown, "....... "), "acndf..");
  EXPECT_EQ(way(kOutside, "....... "), "dfnac..");
  EXPECT_EQ(way(kInside, "....... a:odd d:odd"), "abcndef");
  EXPECT_EQ(way(kOutside, "....... a:odd d:odd"), "defnabc");
  EXPECT_EQ(way(kOutside, "....... n:drop"), "dfn....");
  EXPECT_EQ(way(kInside, "....... d:consume"), "acnd...");
}

TEST(Chain, MayHaveTheNfWithTwoSidesAtAnEnd) {
  TestChain first("step(id=n, sided=true) | step(id=a)");
  EXPECT_EQ(first.Send(kInside, 1, "...").bytes, "na.");
  EXPECT_EQ(first.Send(kOutside, 1, "...").bytes, "an.");
  TestChain last("step(id=a) | step(id=b) | step(id=n, sided=true)");
  EXPECT_EQ(last.Send(kInside, 1, "....").bytes, "abn.");
  EXPECT_EQ(last.Send(kOutside, 1, "....").bytes, "nab.");
}

TEST(Chain, KeepsStateOfConnectionsBesideTheEndpoints) {
  TestChain chain("step(id=a) | step(id=n, sided=true) | step(id=b)");
  const auto packets = [&](Side side, uint8_t far_end) {
    return chain.Send(side, far_end, "... a:emit n:emit b:emit").said.frames;
  };
  EXPECT_THAT(packets(kInside, 1), ElementsAre("a1", "n1", "b1"));
  EXPECT_THAT(packets(kInside, 2), ElementsAre("a1", "n2", "b1"));
  EXPECT_THAT(packets(kOutside, 1), ElementsAre("b2", "n3", "a2"));
  EXPECT_THAT(packets(kInside, 3), ElementsAre("a1", "n4", "b1"));
  EXPECT_THAT(packets(kInside, 2), ElementsAre("a2", "n5", "b2"));
  EXPECT_EQ(chain.flow.Number("step#2.packets"), 5u);
}

TEST(Chain, ForgetsTheConnectionNotUsedForLongest) {
  TestChain chain("[connections=2] step(id=a, pool=9) | step(id=n, sided=true)",
                  9);
  const auto packets = [&](uint8_t far_end) {
    return chain.Send(kInside, far_end, "... a:take a:emit").said.frames;
  };
  EXPECT_THAT(packets(1), ElementsAre("a1"));
  EXPECT_THAT(packets(2), ElementsAre("a1"));
  EXPECT_THAT(packets(1), ElementsAre("a2"));
  EXPECT_EQ(chain.Count("chain"), 0u);
  EXPECT_EQ(chain.world.pools[0].size(), 7u);
  EXPECT_THAT(packets(3), ElementsAre("aend", "a1"));
  EXPECT_EQ(chain.world.pools[0].size(), 7u);
  EXPECT_EQ(chain.Count("chain"), 1u);
  EXPECT_THAT(packets(1), ElementsAre("a3"));
  EXPECT_THAT(packets(2), ElementsAre("aend", "a1"));
  EXPECT_THAT(chain.flow.on_end(*chain.nf, chain.world, {}).frames,
              ElementsAre("aend", "aend", "nend"));
  EXPECT_EQ(chain.world.pools[0].size(), 9u);
}

TEST(Chain, KnowsAConnectionOnlyOnceAnNfOfConnectionsSawIt) {
  TestChain chain("step(id=n, sided=true) | step(id=a)");
  chain.Send(kInside, 1, "... n:drop");
  EXPECT_EQ(chain.flow.ValueOf("connections"), std::nullopt);
  chain.Send(kOutside, 1, "... n:drop");
  EXPECT_NE(chain.flow.ValueOf("connections"), std::nullopt);
}

TEST(Chain, EndsAConnectionAndNotTheEndpoint) {
  TestChain chain("step(id=a) | step(id=n, sided=true) | step(id=b)");
  chain.Send(kInside, 1, "...");
  chain.Send(kInside, 2, "...");
  const auto ended = chain.Send(kInside, 1, "... a:end b:idle5").said;
  EXPECT_FALSE(ended.is_over);
  EXPECT_EQ(ended.idle_timeout, std::nullopt);
  EXPECT_THAT(ended.frames, ElementsAre("aend", "bend"));
  EXPECT_THAT(chain.Send(kInside, 1, "... a:emit").said.frames,
              ElementsAre("a1"));
  EXPECT_THAT(chain.Send(kInside, 2, "... b:emit").said.frames,
              ElementsAre("b2"));
  const auto endpoint = chain.Send(kInside, 1, "... n:end n:idle5").said;
  EXPECT_TRUE(endpoint.is_over);
  EXPECT_EQ(endpoint.idle_timeout, Milliseconds(5));
}

TEST(Chain, NeedsNoTableWhereOthersKeepNothing) {
  TestChain chain("step(id=a, state=false) | step(id=n, sided=true)");
  EXPECT_EQ(chain.nf->schema().slots(), 3u);
  EXPECT_EQ(chain.nf->parts().size(), 2u);
  EXPECT_EQ(chain.Send(kInside, 1, "... a:idle3").bytes, "an. a:idle3");
  EXPECT_EQ(chain.Send(kInside, 1, "... a:idle3").said.idle_timeout,
            std::nullopt);
}

// --- Waiting ----------------------------------------------------------------

TEST(Chain, HasDoneNothingToAPacketThatWaits) {
  TestChain chain("step(id=a, timer=true) | step(id=b, pool=9)");
  const std::string packet =
      ".... a:note a:emit a:timer5 a:idle7 a:end a:alias3 b:take";
  // ChainFlow::Send expects that nothing has changed.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(chain.Send(packet).verdict, "wait: 0");
    EXPECT_EQ(chain.Count("step"), 0u);
  }
  chain.world.pools[0] = {10};
  const ChainFlow::Outcome outcome = chain.Send(packet);
  EXPECT_EQ(outcome.verdict, "forward");
  EXPECT_EQ(outcome.bytes.substr(0, 4), "ab..");
  EXPECT_THAT(outcome.said.frames, ElementsAre("a1"));
  EXPECT_EQ(outcome.said.idle_timeout, Milliseconds(7));
  EXPECT_EQ(outcome.said.alias_group, 3u);
  EXPECT_TRUE(outcome.said.is_over);
  EXPECT_EQ(chain.timer_ms(), 5);
  EXPECT_EQ(chain.Count("step"), 1u);
  EXPECT_EQ(chain.flow.Number("step.packets"), 1u);
  EXPECT_EQ(chain.flow.ValueOf("step.log"), "a");
}

TEST(Chain, GivesBackThePiecesOfAPacketThatWaits) {
  TestChain chain("step(id=a, pool=9) | step(id=b, pool=9)");
  chain.world.pools[0] = {10, 11};
  EXPECT_EQ(chain.Send(".... a:take b:take").verdict, "wait: 1");
  EXPECT_EQ(chain.Send(".... a:take").verdict, "forward");
  EXPECT_EQ(chain.Send(".... a:give b:take").verdict, "wait: 1");
  EXPECT_EQ(chain.flow.Number("step.piece"), 10u);
  chain.world.exhausted = 1;
  const ChainFlow::Outcome outcome = chain.Send(".... a:give b:take");
  EXPECT_EQ(outcome.verdict, "forward");
  EXPECT_THAT(outcome.said.frames, ElementsAre("bnone"));
  EXPECT_EQ(chain.world.pools[0].size(), 2u);
}

TEST(Chain, KeepsTheConnectionThatAPacketWhichWaitsWouldHaveReplaced) {
  TestChain chain(
      "[connections=1] step(id=a) | step(id=n, sided=true) | "
      "step(id=b, pool=9)");
  EXPECT_EQ(chain.Send(kInside, 1, "....").verdict, "forward");
  EXPECT_EQ(chain.Send(kInside, 2, ".... b:take").verdict, "wait: 0");
  EXPECT_EQ(chain.Count("chain"), 0u);
  EXPECT_THAT(chain.Send(kInside, 1, ".... a:emit").said.frames,
              ElementsAre("a2"));
}

class Liar final : public NetworkFunction {
  PoolId pool_ = declare_pool("none", 1, 1);
  bool may_wait(const FlowState&) const override { return false; }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::wait(pool_);
  }
};
SNF_REGISTER_NF(Liar, "liar", "waits though it may not");

TEST(Chain, AbortsWhereAnNfWaitsThoughItMayNot) {
  TestChain first("liar | step");
  EXPECT_EQ(first.Send("....").verdict, "wait: 0");  // nothing was before it
  TestChain chain("step | liar");
  EXPECT_DEATH(chain.Send("...."), "check failed");
}

// --- Timers -----------------------------------------------------------------

TEST(Chain, LeavesTheFlowsTimerToTheOnlyNfThatHasOne) {
  TestChain chain("step(id=a) | step(id=b, timer=true)");
  EXPECT_EQ(chain.nf->schema().slots(), 6u);
  EXPECT_TRUE(chain.nf->has_timer());
  chain.Send(".... b:timer5", 1);
  EXPECT_EQ(chain.timer_ms(), 6);
  chain.Send(".... a:drop", 2);
  EXPECT_EQ(chain.timer_ms(), 6);
  EXPECT_THAT(chain.flow.on_timer(*chain.nf, chain.world).frames,
              ElementsAre("btimer"));
  EXPECT_EQ(chain.flow.timer, Instant::max());
  chain.Send(".... b:again5", 7);
  chain.flow.on_timer(*chain.nf, chain.world);
  EXPECT_EQ(chain.timer_ms(), 17);
  chain.Send(".... b:cancel", 13);
  EXPECT_EQ(chain.flow.timer, Instant::max());
}

TEST(Chain, GivesEachNfATimerOfItsOwn) {
  TestChain chain("step(id=a, timer=true) | step(id=b, timer=true)");
  const auto run = [&] {
    return chain.flow.on_timer(*chain.nf, chain.world).frames;
  };
  chain.Send(".... a:timer8 b:timer5", 1);
  EXPECT_EQ(chain.timer_ms(), 6);
  chain.Send(".... a:drop", 2);
  EXPECT_EQ(chain.timer_ms(), 6);
  EXPECT_THAT(run(), ElementsAre("btimer"));
  EXPECT_EQ(chain.timer_ms(), 9);
  chain.Send(".... b:timer2", 7);
  EXPECT_THAT(run(), ElementsAre("atimer", "btimer"));
  EXPECT_EQ(chain.flow.timer, Instant::max());
  EXPECT_EQ(chain.flow.ValueOf("step timer"), std::nullopt);
  chain.Send(".... a:again3 b:timer4", 10);
  EXPECT_THAT(run(), ElementsAre("atimer"));
  EXPECT_EQ(chain.timer_ms(), 14);
  chain.Send(".... b:cancel", 13);
  EXPECT_EQ(chain.timer_ms(), 16);
}

TEST(Chain, HasTimersOfConnections) {
  TestChain chain(
      "[connections=3] step(id=a, timer=true) | step(id=n, sided=true)");
  const auto run = [&] {
    return chain.flow.on_timer(*chain.nf, chain.world).frames;
  };
  chain.Send(kInside, 1, "... a:timer8", 1);
  chain.Send(kInside, 2, "... a:timer5", 1);
  chain.Send(kInside, 3, "...", 1);
  EXPECT_EQ(chain.timer_ms(), 6);
  EXPECT_THAT(run(), ElementsAre("atimer"));
  EXPECT_EQ(chain.timer_ms(), 9);
  EXPECT_THAT(chain.Send(kInside, 2, "... a:emit", 7).said.frames,
              ElementsAre("a102"));
  EXPECT_THAT(chain.Send(kInside, 4, "...", 8).said.frames,
              ElementsAre("aend"));
  EXPECT_EQ(chain.flow.timer, Instant::max());
}

TEST(Chain, EndsConnectionsByTheirTimers) {
  TestChain chain("step(id=a, timer=true) | step(id=n, sided=true)");
  for (uint8_t far_end = 1; far_end <= 3; ++far_end) {
    chain.Send(kInside, far_end, far_end == 2 ? "... a:timer5" : "... a:bye5");
  }
  const auto said = chain.flow.on_timer(*chain.nf, chain.world);
  EXPECT_THAT(said.frames,
              ElementsAre("atimer", "aend", "atimer", "atimer", "aend"));
  EXPECT_FALSE(said.is_over);
  EXPECT_THAT(chain.Send(kInside, 2, "... a:emit").said.frames,
              ElementsAre("a102"));
}

class Secretly final : public NetworkFunction {
  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.set_timer(Seconds(1));
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Secretly, "secretly", "sets a timer though it has none");

TEST(Chain, AbortsOnATimerOfAnNfThatHasNone) {
  TestChain chain("step | secretly");
  EXPECT_DEATH(chain.Send("...."), "check failed");
  TestChain connection("step(sided=true) | secretly");
  EXPECT_DEATH(connection.Send(kInside, 1, "...."), "check failed");
}

// --- Records from elsewhere -------------------------------------------------

TEST(Chain, TakesAnyWellFormedRecordOfConnections) {
  TestChain chain(
      "[connections=2] step(id=a, timer=true) | step(id=n, sided=true)");
  chain.Send(kInside, 1, "... a:timer5", 1);
  chain.Send(kInside, 2, "... a:timer5", 1);
  std::vector<std::byte>& record = chain.flow.record;
  const uint32_t entry = chain.nf->schema().grain(3);
  const uint32_t begin = chain.nf->schema().offset(3) + 8;
  // The record has the same key twice, with the greatest `used`, and timers of
  // long ago.
  std::copy_n(&record[begin], 24, &record[begin + entry]);
  for (const uint32_t key : {begin, begin + entry}) {
    std::fill_n(&record[key + 24], 8, std::byte{0xff});
    std::fill_n(&record[key + entry - 8], 8, std::byte{0x80});
  }
  ASSERT_TRUE(chain.nf->schema().IsWellFormed(record));
  chain.Send(kInside, 2, "... a:cancel", 1);
  EXPECT_GE(chain.flow.timer, Instant{} + Seconds(-20));
  chain.flow.on_timer(*chain.nf, chain.world);
  chain.Send(kInside, 1, "...", 1);
  chain.Send(kInside, 3, "...", 1);
}

}  // namespace
}  // namespace snf
