// SPDX-License-Identifier: Apache-2.0
#include "runtime/shell/unit_shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/core/test_inputs.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Lines = std::vector<std::string>;

// Writes down by which way a command leaves.
class WrittenOutbox {
 public:
  explicit WrittenOutbox(Lines& lines) : lines_(lines) {}

  void SendPull(const UnitCommand& command) {
    Add("pull ", value(command.pull.flow), " from ", value(command.unit));
  }
  void SendState(const UnitCommand& command,
                 std::span<const std::byte> record) {
    Add("state ", value(command.state.flow), " to ", value(command.unit), ", ",
        record.size(), " bytes");
  }
  void SendToUnit(const UnitCommand& command) {
    Add("message to ", value(command.unit));
  }
  void SendAlias(const UnitCommand& /*command*/, const Alias& alias) {
    Add("alias of ", value(alias.flow));
  }
  void SendToController(const UnitCommand& /*command*/) {
    Add("to the controller");
  }
  void Wait() { Add("waits"); }
  void Stop() { Add("stops"); }

 private:
  template <typename... Parts>
  void Add(const Parts&... parts) {
    lines_.push_back(absl::StrCat(parts...));
  }

  Lines& lines_;
};

class UnitShellTest : public ::testing::Test {
 protected:
  void Enqueue(const PacketMeta& meta) {
    const PacketHandle packet = buffers_.Allocate(6);
    std::memcpy(buffers_.room(packet).data(), "packet", 6);
    buffers_.info(packet).length = 6;
    shell_.unit.on_packet(packet, meta);
  }
  // Serves all that can run.
  Lines Serve() {
    while (shell_.Begin(Now(), execute_)) {
      shell_.Finish(Now());
      execute_();
    }
    return std::exchange(lines_, {});
  }
  Lines Deliver(const ControllerCommand& order) {
    may_work_ = shell_.Deliver(Now(), order, execute_);
    shell_.GoOn(Now(), execute_);
    return std::exchange(lines_, {});
  }
  Lines Deliver(const UnitCommand& message,
                std::span<const std::byte> record = {}) {
    shell_.Deliver(Now(), message, record);
    shell_.GoOn(Now(), execute_);
    return std::exchange(lines_, {});
  }
  UnitCall Now() { return {Ms(1), buffers_, mark_, out_}; }

  BufferPool buffers_{
      BufferPool::Options{.small = 32, .medium = 1, .large = 1}};
  CallMark mark_;
  UnitOut out_;
  StateFigures figures_;
  UnitShell shell_{.unit = Unit(UnitId{2}, kSmallUnit, ScriptedNf::Schema()),
                   .nf = std::make_unique<ScriptedNf>()};
  bool may_work_ = false;
  Lines lines_;
  std::function<void()> execute_ = [this] {
    for (const UnitCommand& command : out_.commands()) {
      if (command.packet != kNoPacket) {
        lines_.push_back("packet");
        buffers_.Free(command.packet);
      } else {
        shell_.Send(command, figures_, WrittenOutbox(lines_));
      }
    }
    out_.clear();
  };
};

TEST_F(UnitShellTest, ServesAPacket) {
  Enqueue(New(7));
  EXPECT_THAT(Serve(), ElementsAre("packet"));
  EXPECT_EQ(shell_.unit.held_packets(), 0);
}

TEST_F(UnitShellTest, AnswersAPullAndCountsTheState) {
  Enqueue(New(7));
  Serve();
  const Pull pull = {
      .flow = FlowId{7}, .need = Clock{1}, .requester = UnitId{3}};
  EXPECT_THAT(Deliver(UnitCommand::Send(UnitId{2}, pull)),
              ElementsAre("state 7 to 3, 16 bytes"));
  EXPECT_EQ(figures_.answers, 1);
  EXPECT_EQ(figures_.pushes, 0);
  EXPECT_EQ(figures_.bytes, 16);
  EXPECT_EQ(figures_.pushed_bytes, 0);
}

TEST_F(UnitShellTest, PullsTakesTheStateAndTellsWhoHadIt) {
  Enqueue(First(7, 3, 5));
  EXPECT_THAT(Serve(), ElementsAre("pull 7 from 5"));
  EXPECT_EQ(figures_.pulls, 1);
  const SentState sent = StateOf(7, 2);
  EXPECT_THAT(Deliver(UnitCommand::Send(UnitId{2}, sent.state), sent.record),
              IsEmpty());
  EXPECT_THAT(Serve(), ElementsAre("packet", "message to 5"));
  const TakeoverAck ack = {
      .flow = FlowId{7}, .clock = Clock{3}, .sender = UnitId{5}};
  EXPECT_THAT(Deliver(UnitCommand::Send(UnitId{2}, ack)),
              ElementsAre("to the controller"));
}

TEST_F(UnitShellTest, CountsPushesApart) {
  CountSent(figures_, PushOf(7, 2).state);
  EXPECT_EQ(figures_.pushes, 1);
  EXPECT_EQ(figures_.answers, 0);
  EXPECT_EQ(figures_.pushed_bytes, 16);
  EXPECT_EQ(figures_.deltas, 0);
  State delta = PushOf(7, 3).state;
  delta.delta = true;
  CountSent(figures_, delta);
  EXPECT_EQ(figures_.pushes, 2);
  EXPECT_EQ(figures_.deltas, 1);
}

TEST_F(UnitShellTest, StopsOnceItsLastFlowIsForgotten) {
  Enqueue(New(7));
  Serve();
  Deliver(UnitCommand::Send(
      UnitId{2},
      Pull{.flow = FlowId{7}, .need = Clock{1}, .requester = UnitId{3}}));
  EXPECT_THAT(Deliver(ControllerCommand::OfUnit(
                  ControllerCommand::Kind::kStopUnit, UnitId{2}, false)),
              IsEmpty());
  EXPECT_TRUE(may_work_);
  EXPECT_TRUE(shell_.leaves);
  EXPECT_THAT(Deliver(ControllerCommand::Forget(
                  UnitId{2}, false, {.flow = FlowId{7}, .last = Clock{2}})),
              ElementsAre("message to 65535", "stops"));
}

TEST_F(UnitShellTest, ReplicasLeaveTheUnitNothingToDo) {
  ReplicaSet replicas = {.flow = FlowId{7}, .count = 1};
  replicas.units[0] = UnitId{4};
  EXPECT_THAT(Deliver(ControllerCommand::Replicas(UnitId{2}, replicas)),
              IsEmpty());
  EXPECT_FALSE(may_work_);
}

TEST_F(UnitShellTest, EndsAFlow) {
  Enqueue(New(7));
  Serve();
  EXPECT_EQ(shell_.unit.flows(), 1);
  Deliver(
      ControllerCommand::End(UnitId{2}, {.flow = FlowId{7}, .last = Clock{1}}));
  EXPECT_EQ(shell_.unit.flows(), 0);
}

TEST_F(UnitShellTest, ForsakesAllPacketsOfAFlow) {
  for (uint64_t clock = 2; clock < 14; ++clock) {
    Enqueue(clock == 2 ? First(7, 2, 5) : Within(7, clock));
  }
  EXPECT_THAT(Serve(), ElementsAre("pull 7 from 5"));
  const Lines lines =
      Deliver(ControllerCommand::Forsake(UnitId{2}, {.flow = FlowId{7}}));
  EXPECT_EQ(lines, Lines(12, "packet"));
  EXPECT_EQ(shell_.unit.flows(), 0);
  EXPECT_EQ(buffers_.in_use(), 0);
}

TEST_F(UnitShellTest, MarksEachCallOfTheNf) {
  static_cast<ScriptedNf&>(*shell_.nf).packet = [this](Packet&, FlowState&) {
    EXPECT_EQ(mark_.count() % 2, 1);
    EXPECT_EQ(mark_.call().unit, UnitId{2});
    EXPECT_EQ(mark_.call().meta->flow, FlowId{7});
    return Verdict::forward();
  };
  Enqueue(New(7));
  EXPECT_THAT(Serve(), ElementsAre("packet"));
  EXPECT_EQ(mark_.count(), 2);
}

}  // namespace
}  // namespace snf
