// SPDX-License-Identifier: Apache-2.0
#include "runtime/wire/state_relay.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/ring/test_region.h"
#include "runtime/wire/link_payload.h"

namespace snf {
namespace {

constexpr uint32_t kUnits = 6;
constexpr uint32_t kRecordBytes = 64;

// A relay between three loops of units, each with two units.
class Relay : public testing::Test {
 protected:
  static constexpr size_t kLoops = 3;

  Relay() {
    std::vector<StateRelay::Loop> loops;
    for (size_t i = 0; i < kLoops; ++i) {
      Rings headers{};
      const LinkRing out = Ring(headers.out);
      const LinkRing in = Ring(headers.in);
      rings_.push_back(headers);
      says_.emplace_back(out.producer, 64);
      hears_.emplace_back(in.consumer, kRecordBytes);
      loops.push_back({.from = LinkIn(out.consumer, kRecordBytes),
                       .to = LinkOut(in.producer, 64)});
    }
    relay_.emplace(std::move(loops), kUnits, kRecordBytes, faults_);
  }

  void Say(size_t loop, const UnitCommand& word,
           std::span<const std::byte> record = {}) {
    says_[loop].Send(word, record);
    EXPECT_TRUE(says_[loop].Flush());
  }
  static UnitCommand Pull(uint16_t of, uint16_t requester, uint64_t flow) {
    return UnitCommand::Send(
        UnitId{of},
        snf::Pull{.flow = FlowId{flow}, .requester = UnitId{requester}});
  }
  // Returns the flows that a loop of units hears of.
  std::vector<uint64_t> Hear(size_t loop) {
    std::vector<uint64_t> flows;
    hears_[loop].Receive();
    hears_[loop].Handle(
        PayloadBetweenUnits,
        [&](const Cell& cell, std::span<const std::byte> record) {
          const auto& word = cell.As<UnitCommand>();
          flows.push_back(value(word.kind == UnitCommand::Kind::kSendState
                                    ? word.state.flow
                                    : word.pull.flow));
          records_.emplace_back(record.begin(), record.end());
        });
    return flows;
  }

  static constexpr uint32_t kCells = 256;
  struct alignas(128) RingMemory {
    std::array<std::byte, CellRing::BytesFor(kCells)> bytes;
  };
  // The headers of the rings from a loop and to it.
  struct Rings {
    RingHeader* out;
    RingHeader* in;
  };
  LinkRing Ring(RingHeader*& header) {
    const std::span<std::byte> memory = region_.New<RingMemory>()->bytes;
    EXPECT_TRUE(CellRing::Format(memory, kCells).ok());
    header = reinterpret_cast<RingHeader*>(memory.data());
    return {*CellRing::Producer::Attach(memory, nullptr),
            *CellRing::Consumer::Attach(memory)};
  }

  TestRegion region_;
  WireFaults faults_;
  std::vector<Rings> rings_;  // by loop
  std::vector<LinkOut> says_;
  std::vector<LinkIn> hears_;
  std::vector<std::vector<std::byte>> records_;
  std::optional<StateRelay> relay_;
};

using Flows = std::vector<uint64_t>;

// A process that has said what cannot be is heard no more; the next one is.
TEST_F(Relay, HearsTheNextProcessOfALoop) {
  faults_.BlameLoops(kLoops);
  Say(1, Pull(1, 0, 5));  // for a unit of another loop
  Say(1, Pull(2, 1, 6));
  relay_->Turn();
  EXPECT_TRUE(faults_.has_blame());
  EXPECT_EQ(faults_.TakeBlame(0), std::nullopt);
  EXPECT_NE(faults_.TakeBlame(1), std::nullopt);
  EXPECT_FALSE(faults_.has_blame());
  EXPECT_EQ(faults_.count(), 0u);
  Say(1, Pull(2, 1, 7));
  relay_->Turn();
  EXPECT_EQ(Hear(2), Flows());
  relay_->EndLoop(1);
  Say(1, Pull(2, 1, 8));
  relay_->Turn();
  EXPECT_EQ(Hear(2), Flows({8}));
  EXPECT_FALSE(faults_.has_blame());
}

// The loop that has died wrote positions that cannot be; nobody has looked yet.
TEST_F(Relay, PutsTheRingsOfALoopThatEndedRight) {
  Say(1, Pull(2, 1, 5));
  relay_->Turn();
  EXPECT_EQ(Hear(2), Flows({5}));
  rings_[1].out->pushed = 1'000'000;
  rings_[1].in->released = 1'000'000;
  rings_[1].out->magic = rings_[1].in->capacity = 7;
  relay_->EndLoop(1);
  EXPECT_EQ(rings_[1].out->pushed, 1u);
  EXPECT_EQ(rings_[1].out->released, 1u);
  EXPECT_EQ(rings_[1].in->released, 0u);
  EXPECT_EQ(rings_[1].out->magic, rings_[0].out->magic);
  EXPECT_EQ(rings_[1].in->capacity, rings_[0].in->capacity);
  Say(1, Pull(2, 1, 6));
  Say(2, Pull(1, 2, 7));
  relay_->Turn();
  EXPECT_EQ(Hear(2), Flows({6}));
  EXPECT_EQ(Hear(1), Flows({7}));
  EXPECT_EQ(faults_.count(), 0u);
}

TEST_F(Relay, CarriesNoPullOfAUnitThatHasNoBusinessWithTheFlow) {
  relay_->set_may_pull([](const snf::Pull& pull) {
    return pull.requester == UnitId{1} && pull.flow == FlowId{5};
  });
  Say(1, Pull(2, 1, 5));
  Say(1, Pull(2, 4, 5));
  Say(1, Pull(2, 1, 6));
  std::array<std::byte, 48> record{};
  Say(1, UnitCommand::Send(UnitId{2}, State{.flow = FlowId{6}, .bytes = 48}),
      record);
  relay_->Turn();
  EXPECT_EQ(Hear(2), Flows({5, 6})) << "an answer is no Pull";
  EXPECT_EQ(relay_->refused(), 2u);
  EXPECT_EQ(relay_->lost(), 0u);
  EXPECT_EQ(faults_.count(), 0u);
}

TEST_F(Relay, BringsWordsAndRecordsToTheLoopOfTheirUnitInOrder) {
  std::array<std::byte, 48> record;
  record.fill(std::byte{7});
  Say(0, Pull(1, 3, 5));
  Say(0, UnitCommand::Send(UnitId{4}, State{.flow = FlowId{6}, .bytes = 48}),
      record);
  Say(2, Pull(1, 5, 7));
  EXPECT_TRUE(relay_->has_items());
  EXPECT_TRUE(relay_->Turn());
  EXPECT_FALSE(relay_->Turn());
  EXPECT_FALSE(relay_->has_items());
  EXPECT_EQ(Hear(0), Flows());
  EXPECT_EQ(Hear(1), (Flows{5, 6, 7}));
  EXPECT_EQ(Hear(2), Flows());
  EXPECT_EQ(records_[1], std::vector(record.begin(), record.end()));
  EXPECT_EQ(relay_->handled(), relay_->sent());
}

TEST_F(Relay, TakesNoWordInTheNameOfAnotherLoopAndGoesOnForTheOthers) {
  Say(0, Pull(1, 2, 5));  // unit 2 is of loop 2
  Say(0, Pull(1, 3, 6));
  Say(2, Pull(1, 5, 7));
  relay_->Turn();
  EXPECT_EQ(Hear(1), Flows{7});
  EXPECT_EQ(faults_.count(), 1u);
  EXPECT_EQ(faults_.first()->loop, 0u);
  EXPECT_EQ(faults_.first()->field, "requester");
  Say(0, Pull(1, 3, 8));
  Say(2, Pull(1, 5, 9));
  relay_->Turn();
  EXPECT_EQ(Hear(1), Flows{9});
  EXPECT_EQ(faults_.count(), 1u);
}

TEST_F(Relay, LosesWhatALoopThatStandsStillHasNoRoomFor) {
  constexpr uint64_t kMany = 1'000;  // more than its ring holds
  for (uint64_t flow = 0; flow < kMany; ++flow) {
    Say(0, Pull(1, 3, flow));
    Say(0, Pull(2, 3, flow));
    relay_->Turn();
    EXPECT_EQ(Hear(2), Flows{flow}) << "another stands still";
  }
  const Flows heard = Hear(1);
  EXPECT_GT(heard.size(), 0u);
  EXPECT_GT(relay_->lost(), 0u);
  size_t all = heard.size();
  for (Flows more = Hear(1); !more.empty(); more = Hear(1)) all += more.size();
  EXPECT_EQ(all + relay_->lost(), kMany);
}

}  // namespace
}  // namespace snf
