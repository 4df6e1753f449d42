// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/returning_port.h"

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
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

}  // namespace
}  // namespace snf
