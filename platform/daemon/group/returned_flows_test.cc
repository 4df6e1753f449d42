// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/returned_flows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "platform/daemon/group/held_pieces.h"
#include "platform/daemon/group/test_natting.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000'000};

class ReturnedFlowsTest : public testing::Test {
 protected:
  void Put(const StandbyFlow& flow, uint64_t round = 1) {
    returned_.Put(2, round, kNow, flow);
  }
  void TakeAll(uint64_t round = 1) {
    returned_.OnWhole(2, round);
    for (int i = 0; i < 100 && !returned_.is_done(); ++i) {
      returned_.Turn(*home_);
      home_->Poll();
    }
    EXPECT_TRUE(returned_.is_done());
    home_.Rest();
  }
  uint64_t count(size_t i) const {
    std::vector<NamedCount> counts;
    returned_.AppendTo(counts);
    return counts[i].count;
  }
  uint64_t taken() const { return count(0); }
  uint64_t had() const { return count(1); }
  uint64_t untaken() const { return count(2); }

  Natting heir_, home_;
  ReturnedFlows returned_{{}};
};

TEST_F(ReturnedFlowsTest, GoOnWithTheirPortsWhichNoOtherFlowGets) {
  const uint32_t port = heir_.PortOf(1);
  const uint32_t other_port = heir_.PortOf(2);
  EXPECT_NE(port, other_port);
  Put(heir_.Copy(0));
  Put(heir_.Copy(1));
  EXPECT_FALSE(returned_.is_done());
  returned_.Turn(*home_);
  EXPECT_FALSE(returned_.is_done()) << "more may come";
  TakeAll();
  EXPECT_EQ(taken(), 2u);
  std::vector<uint32_t> ports;
  for (uint32_t flow = 1; flow <= 60; ++flow) {
    ports.push_back(home_.PortOf(flow));
  }
  EXPECT_EQ(ports[0], port);
  EXPECT_EQ(ports[1], other_port);
  std::ranges::sort(ports);
  EXPECT_EQ(std::ranges::unique(ports).size(), 0u);
  EXPECT_NE(ports[0], 0u);
  EXPECT_EQ(untaken() + had(), 0u);
}

TEST_F(ReturnedFlowsTest, AnEndedFlowsPortIsFree) {
  const uint32_t port = heir_.PortOf(1);
  Put(heir_.Copy(0));
  TakeAll();
  EXPECT_TRUE(home_->DeleteFlow(home_->controller().IdOfSlot(0)));
  home_.Rest();
  // Only the port of the flow that came back is at a unit.
  EXPECT_EQ(home_.PortOf(2), port);
}

TEST_F(ReturnedFlowsTest, AConnectionThatBrokeCountsForNothing) {
  heir_.PortOf(1);
  heir_.PortOf(2);
  Put(heir_.Copy(0));
  Put(heir_.Copy(1));
  Put(heir_.Copy(1), 2);
  TakeAll(2);
  EXPECT_EQ(taken(), 1u);
  Put(heir_.Copy(0), 3);
  Put(heir_.Copy(1), 3);
  TakeAll(3);
  EXPECT_EQ(taken(), 2u);
  EXPECT_EQ(had(), 1u);
  EXPECT_EQ(untaken(), 0u);
}

TEST_F(ReturnedFlowsTest, WhatHasComeIsTakenIfTheRestIsLate) {
  const uint32_t port = heir_.PortOf(1);
  Put(heir_.Copy(0));
  returned_.EndWaiting();
  for (int i = 0; i < 10; ++i) returned_.Turn(*home_);
  EXPECT_TRUE(returned_.is_done());
  EXPECT_EQ(home_.PortOf(1), port);
  returned_.Refuse();
  EXPECT_EQ(untaken(), 1u);
}

TEST_F(ReturnedFlowsTest, AFlowThatIsHereStaysAsItIs) {
  heir_.PortOf(1);
  home_.PortOf(1);
  Put(heir_.Copy(0));
  TakeAll();
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(had(), 1u);
  EXPECT_EQ(untaken(), 0u);
}

TEST_F(ReturnedFlowsTest, AFlowWhosePortIsAtAUnitBeginsAnew) {
  const uint32_t port = heir_.PortOf(1);
  EXPECT_EQ(home_.PortOf(2), port);
  Put(heir_.Copy(0));
  TakeAll();
  EXPECT_EQ(untaken(), 1u);
  EXPECT_NE(home_.PortOf(1), port);
}

TEST_F(ReturnedFlowsTest, AnotherNfsStateIsRefused) {
  heir_.PortOf(1);
  StandbyFlow flow = heir_.Copy(0);
  flow.state.schema ^= 1;
  Put(flow);
  TakeAll();
  EXPECT_EQ(untaken(), 1u);
}

TEST_F(ReturnedFlowsTest, PiecesAreThoseThatTheEndWouldGiveBack) {
  const uint32_t port = heir_.PortOf(1);
  const StandbyFlow flow = heir_.Copy(0);
  const auto nf = heir_->nf().create();
  const std::vector<HeldPiece> pieces = PiecesOf(*nf, flow.record);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].piece, port);
  EXPECT_FALSE(PieceTaking(heir_->pieces()).Take(pieces)) << "at a unit";
  PieceTaking taking(home_->pieces());
  const std::vector<HeldPiece> twice = {pieces[0], pieces[0]};
  EXPECT_FALSE(taking.Take(twice));
  EXPECT_FALSE(taking.Take(std::vector{HeldPiece{.pool = 9, .piece = 1}}));
  EXPECT_FALSE(taking.Take(std::vector{HeldPiece{.piece = 1u << 30}}));
  EXPECT_TRUE(taking.Take(pieces));
  EXPECT_FALSE(taking.Take(pieces));
  taking.Finish();
  EXPECT_FALSE(PieceTaking(home_->pieces()).Take(pieces));
  PieceTaking::PutBack(home_->pieces(), pieces);
  EXPECT_TRUE(PieceTaking(home_->pieces()).Take(pieces));
  EXPECT_EQ(PiecesOf(*nf, flow.record), pieces);
}

}  // namespace
}  // namespace snf
