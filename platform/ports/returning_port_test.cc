// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/returning_port.h"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

PortSpec SpecOfNothing() {
  PortSpec spec;
  spec.side = Side::kInside;
  spec.interface = "no-such-card";
  return spec;
}

// A port whose frames wait for Settle, and whose figures are copies, like
// ports around another one.
class WaitingPort final : public PacketPort {
 public:
  WaitingPort() : PacketPort(SpecOfNothing()) {}
  void Lose() { Fail(ENETDOWN); }
  void set_news(std::string news) { news_ = std::move(news); }

  bool Receive(Take /*take*/) override { return false; }
  void StopReceiving() override {}
  void Send(std::span<const std::byte> /*frame*/) override { ++waiting_; }
  void Flush() override {}
  void Settle() override { dropped_ += std::exchange(waiting_, 0); }
  void UpdateFigures() override { figures_.send_drops = dropped_; }
  int descriptor() const override { return -1; }
  std::vector<PortReason> reasons() const override {
    return {{"waited", figures_.send_drops}};
  }
  std::string TakeNews() override { return std::exchange(news_, ""); }
  absl::StatusOr<PacketReceiver> HandOn() override { return PacketReceiver(); }
  std::optional<uint64_t> LetGo() override {
    has_let_go = true;
    return 42;
  }
  void TellSuccessor() override { tells_successor = true; }

  bool has_let_go = false;
  bool tells_successor = false;

 private:
  uint64_t waiting_ = 0;
  uint64_t dropped_ = 0;
  std::string news_;
};

TEST(ReturningPort, CountsWhatWaitsInAPortThatIsLost) {
  auto waiting = std::make_unique<WaitingPort>();
  WaitingPort* const below = waiting.get();
  ReturningPort port(SpecOfNothing(), std::move(waiting), nullptr);
  port.Send({});
  port.Send({});
  below->Lose();
  port.UpdateFigures();
  EXPECT_FALSE(port.is_there());
  EXPECT_EQ(port.figures().send_drops, 2u);
  ASSERT_EQ(port.reasons().size(), 1u);
  EXPECT_EQ(port.reasons()[0].count, 2u);
  port.Send({});
  port.UpdateFigures();
  EXPECT_EQ(port.figures().send_drops, 3u);
}

TEST(ReturningPort, TellsNewsOfThePortOnce) {
  auto below = std::make_unique<WaitingPort>();
  WaitingPort& told = *below;
  std::vector<std::string> lines;
  ReturningPort port(
      SpecOfNothing(), std::move(below),
      [&lines](std::string_view line) { lines.emplace_back(line); });
  told.set_news("port inside: follows the kernel's rules again");
  port.UpdateFigures();
  port.UpdateFigures();
  EXPECT_EQ(lines, std::vector<std::string>{
                       "port inside: follows the kernel's rules again"});
}

// Points to the port that a ReturningPort opened last.
WaitingPort* opened = nullptr;

absl::StatusOr<std::unique_ptr<PacketPort>> OpenAnother(
    const PortSpec& /*spec*/) {
  auto another = std::make_unique<WaitingPort>();
  opened = another.get();
  return std::unique_ptr<PacketPort>(std::move(another));
}

// Loses its interface, which returns.
class FlappingPort : public testing::Test {
 protected:
  FlappingPort() {
    auto first = std::make_unique<WaitingPort>();
    first_ = first.get();
    port_.emplace(SpecOfNothing(), std::move(first), nullptr, &OpenAnother);
  }
  void AwaitReturn() {
    first_->Lose();
    while (!port_->is_there() || opened == nullptr) {
      port_->UpdateFigures();
      std::this_thread::yield();
    }
  }
  ~FlappingPort() override { opened = nullptr; }

  WaitingPort* first_;
  std::optional<ReturningPort> port_;
};

TEST_F(FlappingPort, GoesOnToTellItsSuccessorOfNeighbours) {
  ASSERT_TRUE(port_->HandOn().ok());
  AwaitReturn();
  EXPECT_TRUE(opened->tells_successor);
  // The successor has the ring of the first port.
  EXPECT_EQ(port_->LetGo(), std::nullopt);
  EXPECT_TRUE(opened->has_let_go);
}

TEST_F(FlappingPort, TellsNobodyWithoutASuccessor) {
  AwaitReturn();
  EXPECT_FALSE(opened->tells_successor);
  // A later successor takes over the port that has returned.
  ASSERT_TRUE(port_->HandOn().ok());
  EXPECT_EQ(port_->LetGo(), 42u);
}

TEST_F(FlappingPort, IsLetGoWhileItsInterfaceIsLost) {
  ASSERT_TRUE(port_->HandOn().ok());
  first_->Lose();
  port_->UpdateFigures();
  EXPECT_FALSE(port_->is_there());
  EXPECT_EQ(port_->LetGo(), std::nullopt);
}

}  // namespace
}  // namespace snf
