// SPDX-License-Identifier: Apache-2.0
// Random messages that lie, about some flows, while other flows move between
// the same units as ever.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <iostream>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "runtime/core/test_inputs.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {
namespace {

constexpr uint64_t kHonestFlows = 6;  // 0 … 5
constexpr uint64_t kVictims = 3;      // 6 … 8: have packets, and are lied of
constexpr uint64_t kFlows = 20;       // the rest are in lies alone
constexpr uint16_t kUnits = 3;
constexpr uint32_t kHonestUnderWay = 4;  // packets
constexpr uint32_t kVictimPackets = 8;   // each may wait for ever
constexpr uint32_t kTimerPackets = 4;    // so may these

constexpr UnitOptions kOptions = {
    .max_flows = kHonestFlows + kVictims,
    .queue_packets = kHonestUnderWay + kVictimPackets + kTimerPackets,
    .packets_elsewhere = 2 * (kHonestUnderWay + kVictimPackets),
    .replicas = 2,
    .max_replicas = 5,
    .replica_lifetime = Seconds(2)};

struct Totals {
  uint64_t lies = 0;
  uint64_t taken = 0;  // states in lies that were believed
  uint64_t released = 0;
  uint64_t victims_ran = 0;
  uint64_t pulls = 0;
  uint64_t pushes = 0;
  std::array<uint64_t, kStateRefusals> refused{};
};

class Siege {
 public:
  Siege(uint64_t seed, Totals& totals)
      : rng_(seed),
        totals_(totals),
        pool_({.small = 64, .medium = 1, .large = 1}) {
    for (uint16_t id = 0; id < kUnits; ++id) {
      units_.emplace_back(UnitId{id}, kOptions, ScriptedNf::Schema());
    }
    nf_.packet = [this](Packet& packet, FlowState& flow) {
      uint64_t number = 0;
      std::memcpy(&number, packet.bytes().data(), sizeof number);
      if (value(flow.id()) < kHonestFlows) {
        EXPECT_EQ(flow.get(nf_.count), number) << "stale or foreign state";
        ++totals_.released;
      } else {
        ++totals_.victims_ran;
      }
      if (number % 7 == 0) flow.set_timer(Milliseconds(3));
      return Verdict::forward();
    };
    nf_.timer = [this](FlowState& flow) {
      if (rng_.Below(2) == 0) flow.set_timer(Milliseconds(2));
    };
  }

  void Run() {
    for (int step = 0; step < 3'000 && !Failed(); ++step) {
      if (rng_.Below(4) != 0) Lie();
      Step();
    }
    // The liars have gone; what was under way arrives, and more.
    for (int step = 0; step < 300 && !Failed(); ++step) Step();
    for (int step = 0; under_way_ > 0 && !Failed(); ++step) {
      ASSERT_LT(step, 200'000) << "an honest flow is stuck";
      Step(false);
    }
    for (const Unit& unit : units_) {
      const UnitCounters& counters = unit.counters();
      for (size_t i = 0; i < kStateRefusals; ++i) {
        totals_.refused[i] += counters.refused[i];
      }
      totals_.taken += counters.replicas_taken;
    }
  }

 private:
  struct Message {
    UnitId to;
    UnitCommand command;
    std::vector<std::byte> record;
  };
  struct Flow {
    uint64_t clock = 0;
    uint64_t packets = 0;  // of those clocks
    UnitId owner = kNoUnit;
  };

  static bool Failed() { return ::testing::Test::HasFailure(); }
  static bool IsHonest(FlowId flow) { return value(flow) < kHonestFlows; }
  Unit& AnyUnit() { return units_[rng_.Below(kUnits)]; }

  // What happens without liars.
  void Step(bool with_packets = true) {
    now_ =
        now_ + Nanos{rng_.Uniform(0, rng_.Below(8) == 0 ? 20'000'000 : 99'999)};
    if (with_packets && rng_.Below(3) == 0) {
      if (under_way_ < kHonestUnderWay) SendPacket(rng_.Below(kHonestFlows));
      if (victims_ < kVictimPackets && rng_.Below(20) == 0) {
        ++victims_;
        SendPacket(kHonestFlows + rng_.Below(kVictims));
      }
    }
    if (!messages_.empty()) {
      const Message message = messages_.front();
      messages_.pop_front();
      Give(message);
    }
    Unit& unit = AnyUnit();
    if (unit.busy()) {
      unit.finish(now_, {nf_, pool_}, out_);
      Execute(unit);
    } else {
      unit.begin(now_, out_);
      Execute(unit);
    }
    for (Unit& due : units_) {
      for (; due.next_wakeup() <= now_; Execute(due)) {
        due.on_timers(now_, out_);
      }
    }
  }

  void SendPacket(uint64_t id) {
    Flow& flow = flows_.at(id);
    const bool is_first = flow.clock == 0 || rng_.Below(2) == 0;
    const UnitId from = flow.owner;
    if (is_first) flow.owner = AnyUnit().id();
    PacketMeta meta = Within(id, ++flow.clock);
    if (flow.clock == 1) {
      meta = New(id);
    } else if (is_first) {
      meta = First(id, flow.clock, value(from));
    }
    Unit& unit = units_[value(flow.owner)];
    if (is_first) {
      unit.on_replicas({.flow = meta.flow,
                        .units = {AnyUnit().id(), AnyUnit().id()},
                        .count = 2});
    }
    ++flow.packets;
    const PacketHandle packet = pool_.Allocate(sizeof flow.packets);
    std::memcpy(pool_.room(packet).data(), &flow.packets, sizeof flow.packets);
    pool_.info(packet).length = sizeof flow.packets;
    unit.on_packet(packet, meta);
    under_way_ += IsHonest(meta.flow) ? 1 : 0;
  }

  void AnswerTimer(Unit& unit, const TimerDue& due) {
    const uint64_t id = value(due.flow);
    if (id >= kFlows || timer_packets_ == kTimerPackets) return;
    Flow& flow = flows_[id];
    if (flow.owner != unit.id() || flow.clock != value(due.applied)) return;
    ++timer_packets_;
    unit.on_packet(kNoPacket, TimerPacket(id, ++flow.clock, now_));
  }

  void Execute(Unit& unit) {
    using Kind = UnitCommand::Kind;
    for (const UnitCommand& command : out_.commands()) {
      switch (command.kind) {
        case Kind::kRelease:
        case Kind::kDrop:
          under_way_ -= IsHonest(command.meta.flow) ? 1 : 0;
          EXPECT_TRUE(command.kind == Kind::kRelease ||
                      !IsHonest(command.meta.flow));
          pool_.Free(command.packet);
          break;
        case Kind::kSendTimerDue:
          AnswerTimer(unit, command.timer_due);
          break;
        case Kind::kAdvance:
          if ((command.meta.flags & PacketMeta::kTimer) != 0) {
            --timer_packets_;
            break;
          }
          under_way_ -= IsHonest(command.meta.flow) ? 1 : 0;
          break;
        case Kind::kSendState: {
          const auto record = unit.bytes_of(command.state);
          messages_.push_back(
              {command.unit, command, {record.begin(), record.end()}});
          totals_.pushes += command.state.pushed ? 1 : 0;
          break;
        }
        case Kind::kSendPull:
          ++totals_.pulls;
          [[fallthrough]];
        case Kind::kSendTakeover:
        case Kind::kSendTakeoverAck:
          messages_.push_back({command.unit, command, {}});
          break;
        default:
          break;
      }
    }
    out_.clear();
  }

  void Give(const Message& message) {
    if (value(message.to) >= kUnits) return;  // to one that a liar named
    Unit& unit = units_[value(message.to)];
    const UnitCommand& command = message.command;
    switch (command.kind) {
      case UnitCommand::Kind::kSendState:
        unit.on_state(now_, command.state, message.record, out_);
        break;
      case UnitCommand::Kind::kSendPull:
        unit.on_pull(now_, command.pull, out_);
        break;
      case UnitCommand::Kind::kSendTakeover:
        unit.on_takeover(now_, command.takeover, out_);
        break;
      default:
        unit.on_takeover_ack(now_, command.takeover_ack, out_);
        break;
    }
    Execute(unit);
  }

  // A message about any flow but the honest ones.
  void Lie() {
    ++totals_.lies;
    const UnitId to = AnyUnit().id();
    const FlowId flow =
        rng_.Below(50) == 0
            ? kNoFlow
            : FlowId{kHonestFlows + rng_.Below(kFlows - kHonestFlows)};
    switch (rng_.Below(4)) {
      case 0:
        return Give({to,
                     UnitCommand::Send(to, Pull{flow, AnyClock(flow), AnyId()}),
                     {}});
      case 1:
        return Give(
            {to,
             UnitCommand::Send(to, Takeover{flow, AnyClock(flow), AnyId()}),
             {}});
      case 2:
        return Give(
            {to,
             UnitCommand::Send(to, TakeoverAck{flow, AnyClock(flow), AnyId()}),
             {}});
      default:
        return LieAboutState(to, flow);
    }
  }

  void LieAboutState(UnitId to, FlowId flow) {
    SentState sent = StateOf(value(flow), rng_.Below(9));
    sent.state.applied = AnyClock(flow);
    sent.state.pushed = rng_.Below(2) == 0;
    if (rng_.Below(4) == 0) sent.state.timer = AnyTime();
    if (rng_.Below(16) == 0) sent.state.schema = rng_.Next();
    if (rng_.Below(16) == 0) {
      sent.state.link = static_cast<LinkType>(rng_.Below(256));
    }
    if (rng_.Below(6) == 0) {
      // A base, the bits of changed and present slots, and a count.
      sent.state.delta = true;
      const std::array<uint64_t, 4> delta = {value(AnyClock(flow)), 1, 1,
                                             rng_.Below(9)};
      const auto bytes = std::as_bytes(std::span(delta));
      sent.record.assign(bytes.begin(), bytes.end());
    }
    if (rng_.Below(8) == 0) sent.record.resize(8 * rng_.Below(9));
    if (rng_.Below(8) != 0) {
      sent.state.bytes = static_cast<uint32_t>(sent.record.size());
    }
    for (uint64_t flips = rng_.Below(8); flips-- > 5 && !sent.record.empty();) {
      sent.record[rng_.Below(sent.record.size())] ^=
          static_cast<std::byte>(1 << rng_.Below(8));
    }
    Give({to, UnitCommand::Send(to, sent.state), sent.record});
  }

  Clock AnyClock(FlowId flow) {
    if (rng_.Below(16) == 0) return Clock{rng_.Next() << rng_.Below(64)};
    const uint64_t near = flow == kNoFlow ? 0 : flows_.at(value(flow)).clock;
    return Clock{near + rng_.Below(6) - std::min<uint64_t>(near, 3)};
  }
  UnitId AnyId() {
    if (rng_.Below(2) == 0) return UnitId(static_cast<uint16_t>(rng_.Next()));
    return rng_.Below(16) == 0 ? kNoUnit : AnyUnit().id();
  }
  Instant AnyTime() {
    if (rng_.Below(4) == 0) return {static_cast<int64_t>(rng_.Next())};
    return now_ + Nanos{rng_.Uniform(-5'000'000, 5'000'000)};
  }

  Rng rng_;
  Totals& totals_;
  BufferPool pool_;
  ScriptedNf nf_;
  std::vector<Unit> units_;
  std::array<Flow, kFlows> flows_;
  std::deque<Message> messages_;
  uint32_t under_way_ = 0;  // packets of honest flows
  uint32_t victims_ = 0;    // packets of victims so far
  uint32_t timer_packets_ = 0;
  Instant now_;
  UnitOut out_;
};

TEST(UnitSiege, DoesNotReachFlowsThatNobodyLiesAbout) {
  const TestSeeds seeds(200, 20'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    Siege(seed, totals).Run();
    if (HasFailure()) {
      std::cout << TestSeeds::Name(seed) << "\n";
      return;
    }
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": "
            << totals.lies << " lies (" << totals.taken << " states taken), "
            << totals.released << " packets released, " << totals.victims_ran
            << " of victims, " << totals.pulls << " pulls, " << totals.pushes
            << " pushes; refused:";
  for (size_t i = 0; i < kStateRefusals; ++i) {
    std::cout << " " << ToString(static_cast<StateRefusal>(i)) << " "
              << totals.refused[i];
    // kStopping: none of these units is to stop.
    if (static_cast<StateRefusal>(i) != StateRefusal::kStopping) {
      EXPECT_GT(totals.refused[i], seeds.count()) << i;
    }
  }
  std::cout << "\n";
  EXPECT_GT(totals.released, 400 * seeds.count());
  EXPECT_GT(totals.victims_ran, 4 * seeds.count());
  EXPECT_GT(totals.pulls, 100 * seeds.count());
  EXPECT_GT(totals.pushes, 100 * seeds.count());
}

}  // namespace
}  // namespace snf
