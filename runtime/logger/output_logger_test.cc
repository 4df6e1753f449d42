// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/output_logger.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/test_allocations.h"
#include "gtest/gtest.h"
#include "runtime/logger/test_logger_world.h"

namespace snf {
namespace {

using Kind = LoggerCommand::Kind;
using Result = OutputLogger::Result;

class Logger : public ::testing::Test {
 protected:
  Result Send(const Bytes& bytes) {
    out_.clear();
    return logger_.on_entry(bytes, out_);
  }
  std::vector<Kind> Kinds() const {
    std::vector<Kind> kinds;
    for (const LoggerCommand& c : out_.commands()) kinds.push_back(c.kind);
    return kinds;
  }
  template <typename Change>
  Bytes Changed(Bytes bytes, Change change) {
    auto entry = LoadAs<LogEntry>(bytes.data());
    change(entry);
    std::memcpy(bytes.data(), &entry, sizeof entry);
    return bytes;
  }

  LoggedUnit unit_;
  OutputLogger logger_{LoggedUnit::kIncarnation,
                       {.max_flows = 2, .window = 4, .max_tells = 1},
                       unit_.nf.schema(),
                       unit_.nf.pools()};
  LoggerOut out_;
};

TEST_F(Logger, IsThatOfTheExample) {
  const Bytes one = unit_.Advance(1, 5);
  const Bytes two = unit_.Advance(2, 6);
  const Bytes three = unit_.Advance(1, 7);
  EXPECT_EQ(Send(one), Result::kTaken);
  EXPECT_EQ(Kinds(), (std::vector{Kind::kRelease, Kind::kReleased}));
  EXPECT_EQ(Send(three), Result::kWaits);
  ASSERT_EQ(Kinds(), std::vector{Kind::kAskAgain});
  EXPECT_EQ(out_.commands()[0].ask.first, 2u);
  EXPECT_EQ(out_.commands()[0].ask.last, 2u);
  EXPECT_EQ(Send(two), Result::kTaken);
  EXPECT_EQ(Kinds(), (std::vector{Kind::kRelease, Kind::kReleased,
                                  Kind::kRelease, Kind::kReleased}));
  EXPECT_EQ(logger_.applied(FlowId{1}), Clock{2});
  EXPECT_EQ(Send(two), Result::kDuplicate);
  EXPECT_TRUE(out_.empty());
}

TEST_F(Logger, AsksForAWholeOneWhereTheBaseIsWrong) {
  unit_.Advance(1, 5);
  const Bytes partial =
      Changed(unit_.Advance(1, 6), [](LogEntry& e) { e.number = 1; });
  EXPECT_EQ(Send(partial), Result::kAsked);
  ASSERT_EQ(Kinds(), std::vector{Kind::kAskWhole});
  EXPECT_EQ(logger_.flows(), 0u);
  EXPECT_EQ(logger_.taken(), 0u);
}

TEST_F(Logger, RefusesWhatCannotBe) {
  EXPECT_EQ(Send(unit_.Advance(1, 5)), Result::kTaken);
  const Bytes next = unit_.Advance(1, 6);
  EXPECT_EQ(Send(Changed(next, [](LogEntry& e) { ++e.incarnation; })),
            Result::kRefused);
  EXPECT_EQ(logger_.refused(), 1u);
  EXPECT_EQ(Send(Changed(next, [](LogEntry& e) { e.number = 99; })),
            Result::kTooFar);
  // The record is longer than that of the schema, or the flow another's.
  EXPECT_EQ(Send(Changed(next, [](LogEntry& e) { e.delta_bytes = 900; })),
            Result::kImpossible);
  const Bytes stolen =
      Changed(next, [](LogEntry& e) { e.meta.flow = FlowId{2}; });
  EXPECT_EQ(Send(stolen), Result::kAsked);
  EXPECT_EQ(Send(next), Result::kTaken);
  // A clock that is released is not released again, whatever its number.
  EXPECT_EQ(Send(Changed(next, [](LogEntry& e) { e.number = 3; })),
            Result::kImpossible);
  EXPECT_EQ(Send(next), Result::kImpossible) << "the channel has ended";
}

TEST_F(Logger, RefusesPiecesThatAreNotThere) {
  const Bytes take = unit_.Advance(1, 5, true, {{.piece = 7}});
  EXPECT_EQ(Send(take), Result::kImpossible);
  EXPECT_EQ(logger_.flows(), 0u);
}

TEST_F(Logger, AsksOnAHeartbeat) {
  logger_.on_heartbeat(99, out_);
  ASSERT_EQ(Kinds(), std::vector{Kind::kAskAgain});
  EXPECT_EQ(out_.commands()[0].ask.last, 4u);
}

TEST_F(Logger, AsksForEachHoleOnceAndAgainOnAHeartbeat) {
  const auto asked = [&] {
    std::vector<std::pair<uint64_t, uint64_t>> asks;
    for (const LoggerCommand& c : out_.commands()) {
      if (c.kind == Kind::kAskAgain) asks.emplace_back(c.ask.first, c.ask.last);
    }
    return asks;
  };
  using Asks = std::vector<std::pair<uint64_t, uint64_t>>;
  for (int i = 0; i < 5; ++i) unit_.Advance(1, 5);
  Send(unit_.entries[2]);
  EXPECT_EQ(asked(), (Asks{{1, 1}}));
  Send(unit_.entries[4]);
  EXPECT_EQ(asked(), (Asks{{3, 3}}));
  Send(unit_.entries[4]);
  EXPECT_EQ(asked(), Asks{});
  out_.clear();
  logger_.on_heartbeat(5, out_);
  EXPECT_EQ(asked(), (Asks{{1, 1}, {3, 3}})) << "5 is beyond the window";
  EXPECT_EQ(Send(unit_.entries[1]), Result::kTaken);
  EXPECT_EQ(asked(), Asks{});
  out_.clear();
  logger_.on_heartbeat(5, out_);
  EXPECT_EQ(asked(), (Asks{{3, 3}, {5, 5}}));
}

TEST_F(Logger, TakesAnEntryInPlaceOfOneThatWaitsForRoom) {
  Send(unit_.Grant(0, 7));
  Send(unit_.Return(0, 1));
  const Bytes waits = unit_.Return(0, 2);
  EXPECT_EQ(Send(waits), Result::kWaits);
  const Bytes told = Changed(waits, [](LogEntry& entry) {
    entry.kind = LogEntry::Kind::kTold;
    entry.argument = 2;
    entry.block = {};
  });
  EXPECT_EQ(Send(told), Result::kTaken);
  // One after the other comes to the place of the one that waited.
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(Send(unit_.Advance(1, 5)), Result::kTaken);
  }
}

TEST_F(Logger, SaysThatAnEntryBehindAHoleCannotBe) {
  unit_.Advance(1, 5);
  unit_.Advance(1, 6, true, {{.piece = 7}});
  EXPECT_EQ(Send(unit_.entries[2]), Result::kWaits);
  EXPECT_EQ(Send(unit_.entries[1]), Result::kImpossible);
  EXPECT_EQ(Kinds(), (std::vector{Kind::kRelease, Kind::kReleased}));
  EXPECT_TRUE(logger_.is_broken());
}

TEST_F(Logger, KeepsWhatItTellsUntilAcknowledged) {
  Send(unit_.Grant(0, 7));
  EXPECT_EQ(Send(unit_.Return(0, 1)), Result::kTaken);
  EXPECT_EQ(Send(unit_.Return(0, 2)), Result::kWaits);
  EXPECT_EQ(logger_.tells(), 1u);
  EXPECT_FALSE(logger_.has_more());
  logger_.on_told(2);
  ASSERT_TRUE(logger_.has_more());
  logger_.Resume(out_);
  EXPECT_EQ(logger_.taken(), 3u);
  EXPECT_EQ(logger_.pieces(0).size(), 1u);
}

TEST_F(Logger, ServesPullsOnceSealed) {
  Send(unit_.Advance(1, 5));
  out_.clear();
  logger_.on_pull({FlowId{1}, Clock{1}, UnitId{9}}, out_);
  EXPECT_TRUE(out_.empty());
  logger_.Seal();
  while (logger_.has_more()) logger_.Resume(out_);
  EXPECT_EQ(Kinds(), (std::vector{Kind::kApplied, Kind::kSealed}));
  out_.clear();
  logger_.on_pull({FlowId{1}, Clock{2}, UnitId{9}}, out_);
  EXPECT_TRUE(out_.empty());
  logger_.on_pull({FlowId{1}, Clock{1}, UnitId{9}}, out_);
  ASSERT_EQ(Kinds(), std::vector{Kind::kSendState});
  EXPECT_EQ(out_.commands()[0].state.applied, Clock{1});
  out_.clear();
  logger_.on_takeover({FlowId{1}, Clock{1}, UnitId{9}}, out_);
  EXPECT_EQ(logger_.flows(), 1u);
  logger_.on_takeover({FlowId{1}, Clock{2}, UnitId{9}}, out_);
  EXPECT_EQ(logger_.flows(), 0u);
}

TEST_F(Logger, SaysWhichGrantsItKnowsOfOnceSealed) {
  Send(unit_.Grant(0, 0b11));
  Send(unit_.Grant(1, 0b1));
  unit_.Grant(1, 0b10);  // never comes
  out_.clear();
  logger_.Seal();
  while (logger_.has_more()) logger_.Resume(out_);
  EXPECT_EQ(Kinds(),
            (std::vector{Kind::kFreePieces, Kind::kFreePieces, Kind::kSealed}));
  EXPECT_EQ(out_.commands().back().sealed.grant, 2u);
}

// The second finds no room among what is kept for the controller, and is taken
// once the first is told.
TEST_F(Logger, TakesWhatWaitsForRoomOnceSealed) {
  Send(unit_.Grant(0, 0b111));
  Send(unit_.Return(0, 0b1));
  ASSERT_EQ(Send(unit_.Return(0, 0b10)), Result::kWaits);
  out_.clear();
  logger_.Seal();
  while (logger_.has_more()) logger_.Resume(out_);
  ASSERT_EQ(Kinds(), (std::vector{Kind::kTell, Kind::kTell, Kind::kFreePieces,
                                  Kind::kSealed}));
  EXPECT_EQ(out_.commands()[0].tell.pieces.mask, 0b1u);
  EXPECT_EQ(out_.commands()[1].tell.pieces.mask, 0b10u);
  EXPECT_EQ(out_.commands()[2].pieces.mask, 0b100u);
  EXPECT_EQ(out_.commands()[3].sealed.lost, 0u);
}

// A new process has numbers of its own, and what the old one sent is refused.
TEST_F(Logger, TakesOnlyEntriesOfThePresentIncarnation) {
  Send(unit_.Advance(1, 5));
  const Bytes stale = unit_.Advance(1, 6);
  logger_.Seal();
  while (logger_.has_more()) logger_.Resume(out_);
  EXPECT_EQ(logger_.on_entry(stale, out_), Result::kRefused);
  logger_.Begin(LoggedUnit::kIncarnation + 1);
  const Bytes of_new = Changed(unit_.entries[1], [](LogEntry& e) {
    e.incarnation = LoggedUnit::kIncarnation + 1;
    e.meta.flow = FlowId{2};
  });
  EXPECT_EQ(logger_.on_entry(of_new, out_), Result::kTaken);
  out_.clear();
  EXPECT_EQ(logger_.on_entry(stale, out_), Result::kRefused);
  EXPECT_TRUE(out_.empty());
  EXPECT_EQ(logger_.taken(), 1u);
  EXPECT_EQ(logger_.applied(FlowId{1}), Clock{1});
}

TEST_F(Logger, TakesOverFromItsUnit) {
  unit_.Grant(0, 3);
  unit_.Advance(1, 5);
  const Bytes second = unit_.Advance(1, 6, false, {{.piece = 1}});
  const Bytes third = unit_.Advance(1, 7);
  OutputLogger next(LoggedUnit::kIncarnation, {.max_flows = 2},
                    unit_.nf.schema(), unit_.nf.pools(), true);
  EXPECT_EQ(next.on_entry(second, out_), Result::kRefused);
  // The unit has made 4 entries, of which 2 are released.
  EXPECT_TRUE(next.Restore(
      Changed(unit_.Instead(4, true), [](LogEntry& e) { e.base = Clock{1}; })));
  EXPECT_TRUE(next.Restore(
      Changed(unit_.entries[1], [](LogEntry& e) { e.block.mask = 1; })));
  next.EndRestore(2, 4);
  EXPECT_EQ(next.on_entry(second, out_), Result::kTaken);
  EXPECT_EQ(next.on_entry(third, out_), Result::kTaken);
  EXPECT_EQ(next.applied(FlowId{1}), Clock{3});
  EXPECT_EQ(next.pieces(0).size(), 1u);
  EXPECT_EQ(Kinds(), (std::vector{Kind::kRelease, Kind::kReleased,
                                  Kind::kRelease, Kind::kReleased}));
}

TEST(RandomLogger, HasWhatItsUnitHas) {
  uint64_t lost = 0;
  for (uint64_t seed = 1'000; seed < 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LoggerWorld world(seed);
    ASSERT_EQ(world.Run(), "");
    lost += world.lost();
  }
  EXPECT_GT(lost, 1'000u);
}

TEST(LoggerAllocation, IsNoneAfterConstructionAndSmallPerFlow) {
  LoggedUnit unit;
  for (uint64_t flow = 1; flow <= 60'000; ++flow) unit.Advance(flow, flow);
  LoggerOut out;
  const size_t bytes_before = BytesInUse();
  OutputLogger logger(LoggedUnit::kIncarnation,
                      {.max_flows = 60'000, .window = 1, .max_tells = 1},
                      unit.nf.schema(), unit.nf.pools());
  const size_t fixed = 16'384;
  if (bytes_before > 0) {
    EXPECT_LE(BytesInUse() - bytes_before,
              60'000u * (64 + unit.nf.schema().record_bytes()) + fixed);
  }
  const uint64_t before = Allocations();
  for (size_t i = 1; i < unit.entries.size(); ++i) {
    ASSERT_EQ(logger.on_entry(unit.entries[i], out), Result::kTaken);
    out.clear();
  }
  EXPECT_EQ(Allocations(), before);
  EXPECT_EQ(logger.flows(), 60'000u);
}

}  // namespace
}  // namespace snf
