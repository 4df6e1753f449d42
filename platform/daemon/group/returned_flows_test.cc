// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/returned_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "controller/core/placement.h"
#include "platform/daemon/group/held_pieces.h"
#include "platform/system_test/test_run.h"

namespace snf {
namespace {

using testing::ElementsAre;

constexpr Instant kBegin{1'700'000'000'000'000'000};
constexpr size_t kSourcePort = 34;  // in an Ethernet frame without options

// A controller with a NAT, and what it releases.
class Natting final : public RunObserver {
 public:
  Natting() {
    RunOptions options = SmallTables();
    options.inside = *ParsePrefixes("10.0.0.0/8");
    const RealOptions real = {
        .speed = {.kind = Speed::Kind::kMax, .value = 0},
        .threads = 1,
        .buffers = {.small = 4'096, .medium = 16, .large = 4},
        .unpaced = true,
        .wait_for_room = true};
    auto driver = RealDriver::Start(
        options, real, *FindPlacementPolicy("snf"),
        *NfSpec::Parse("firewall | nat(ip=203.0.113.1)"), {this});
    EXPECT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    driver_->Begin(kBegin);
    driver_->set_on_state(
        [this](const State& state, std::span<const std::byte> record) {
          shown_.emplace();
          shown_->state = state;
          shown_->record.assign(record.begin(), record.end());
        });
  }
  ~Natting() override {
    const RunResult result = driver_->Finish();
    EXPECT_THAT(result.violation_messages, testing::IsEmpty());
    EXPECT_TRUE(result.conserved());
  }
  RealDriver& operator*() { return *driver_; }

  void on_release(const ReleasedPacket& packet) override {
    port_ = static_cast<uint32_t>(packet.bytes[kSourcePort]) << 8 |
            static_cast<uint32_t>(packet.bytes[kSourcePort + 1]);
  }
  // Returns the external port of the flow; 0: the packet was dropped.
  uint32_t PortOf(uint32_t flow) {
    const Frame frame = UdpFrame({.flow = flow, .sequence = ++sequence_});
    port_ = 0;
    driver_->Offer({.time = kBegin + Microseconds(sequence_),
                    .bytes = frame,
                    .original_bytes = static_cast<uint32_t>(frame.size())});
    Rest();
    return port_;
  }
  void Rest() {
    do {
      driver_->Poll();
    } while (!driver_->is_idle());
  }
  // Returns a copy of the flow in that slot.
  StandbyFlow Copy(uint32_t slot) {
    const Controller& c = driver_->controller();
    shown_.reset();
    EXPECT_TRUE(driver_->AskState(c.IdOfSlot(slot)));
    while (!shown_.has_value()) driver_->Poll();
    shown_->flow =
        *FlowHandOver::ReadAsOf(c, c.IdOfSlot(slot), shown_->state.applied);
    return *shown_;
  }

 private:
  std::unique_ptr<RealDriver> driver_;
  std::optional<StandbyFlow> shown_;
  uint32_t port_ = 0;
  uint32_t sequence_ = 0;
};

class ReturnedFlowsTest : public testing::Test {
 protected:
  uint64_t count(size_t i) const {
    std::vector<NamedCount> counts;
    returned_.AppendTo(counts);
    return counts[i].count;
  }
  uint64_t taken() const { return count(0); }
  uint64_t untaken() const { return count(1); }

  Natting heir_, home_;
  ReturnedFlows returned_{{}};
};

TEST_F(ReturnedFlowsTest, GoOnWithTheirPortsWhichNoOtherFlowGets) {
  const uint32_t port = heir_.PortOf(1);
  const uint32_t other_port = heir_.PortOf(2);
  EXPECT_NE(port, other_port);
  returned_.Put(2, 1, heir_.Copy(0));
  returned_.Put(2, 1, heir_.Copy(1));
  EXPECT_TRUE(returned_.is_busy());
  returned_.Turn(*home_);
  EXPECT_EQ(taken(), 0u) << "a newer state may come";
  returned_.OnWhole(2, 1);
  returned_.Turn(*home_);
  EXPECT_FALSE(returned_.is_busy());
  EXPECT_EQ(taken(), 2u);
  home_.Rest();
  std::vector<uint32_t> ports;
  for (uint32_t flow = 1; flow <= 60; ++flow) {
    ports.push_back(home_.PortOf(flow));
  }
  EXPECT_EQ(ports[0], port);
  EXPECT_EQ(ports[1], other_port);
  std::ranges::sort(ports);
  EXPECT_EQ(std::ranges::unique(ports).size(), 0u);
  EXPECT_NE(ports[0], 0u);
}

TEST_F(ReturnedFlowsTest, AFlowThatIsHereStaysAsItIs) {
  heir_.PortOf(1);
  home_.PortOf(1);
  returned_.Put(2, 1, heir_.Copy(0));
  returned_.OnWhole(2, 1);
  returned_.Turn(*home_);
  EXPECT_FALSE(returned_.is_busy());
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(untaken(), 1u);
}

TEST_F(ReturnedFlowsTest, AFlowWhosePortIsAtAUnitBeginsAnew) {
  const uint32_t port = heir_.PortOf(1);
  EXPECT_EQ(home_.PortOf(2), port);
  returned_.Put(2, 1, heir_.Copy(0));
  returned_.OnWhole(2, 1);
  returned_.Turn(*home_);
  EXPECT_EQ(untaken(), 1u);
  EXPECT_NE(home_.PortOf(1), port);
}

TEST_F(ReturnedFlowsTest, PiecesAreThoseThatTheEndWouldGiveBack) {
  const uint32_t port = heir_.PortOf(1);
  const StandbyFlow flow = heir_.Copy(0);
  const auto nf = (*heir_).nf().create();
  const std::vector<HeldPiece> pieces = PiecesOf(*nf, flow.record);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].piece, port);
  EXPECT_TRUE(AreFree((*home_).pieces(), pieces));
  EXPECT_FALSE(AreFree((*heir_).pieces(), pieces));
  TakeOut((*home_).pieces(), pieces);
  EXPECT_FALSE(AreFree((*home_).pieces(), pieces));
  EXPECT_EQ(PiecesOf(*nf, flow.record), pieces);
}

}  // namespace
}  // namespace snf
