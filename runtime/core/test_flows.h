// SPDX-License-Identifier: Apache-2.0
// Here are the flows of a random schedule as its test knows them, and the NF
// that compares what a unit shows it with that.
#ifndef SNF_RUNTIME_CORE_TEST_FLOWS_H_
#define SNF_RUNTIME_CORE_TEST_FLOWS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string_view>

#include "gtest/gtest.h"
#include "runtime/core/test_network.h"
#include "runtime/core/unit_limits.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Totals count what happened in all schedules.
struct Totals : NetworkTotals {
  uint64_t nulls = 0;      // counts tombstones too
  uint64_t overflows = 0;  // counts packets that became tombstones
  uint64_t seamless = 0;   // counts moves that found their state there
  uint64_t pulls = 0;      // leaves repetitions out
  uint64_t chains = 0;     // counts Pulls to a unit that waited for a State
  uint64_t pushes = 0;
  uint64_t deltas = 0;        // counts pushes of changes
  uint64_t without_base = 0;  // counts changes without a base
  uint64_t lost = 0;          // counts messages between units
  uint64_t repeated = 0;      // counts Pulls and Takeovers
  uint64_t evicted = 0;
  uint64_t read = 0;   // counts states that units of a host showed
  uint64_t named = 0;  // counts answers without bytes
  std::array<uint64_t, kHostMisses> missed{};
  uint64_t stale = 0;  // counts states refused because they were old
  uint32_t held_max = 0;
  uint64_t emitted = 0;
  uint64_t timers = 0;
  uint64_t timers_moved = 0;  // counts those that ran where they were not set
};

// A packet asks this of the NF; it is the packet's bytes.
enum class Action : uint8_t {
  kForward,
  kDrop,
  kConsume,
  kEmit,
  kSetTimer,
  kCancelTimer,
  kCount
};
struct Wish {
  Action action;
  uint64_t clock;
  int64_t timer_ns;
};

struct TestFlow {
  FlowId id{};
  uint64_t clock = 0;  // is that of its newest packet
  uint64_t processed = 0;
  uint64_t digest = 0;             // is made of the packets and timers so far
  std::array<uint64_t, 8> past{};  // has the digest after some of them
  UnitId owner = kNoUnit;
  UnitId serving = kNoUnit;
  Instant timer = Instant::max();
  UnitId timer_set_at = kNoUnit;
  bool is_over = false;   // the controller said so
  bool end_seen = false;  // its owner has heard

  // Takes the step of a packet or timer.
  uint64_t After(uint64_t step) const {
    return (digest ^ step) * 0x9e37'79b9'7f4a'7c15 + 1;
  }
};
using TestFlows = std::map<FlowId, TestFlow>;

// The NF keeps a digest of all that it was shown of a flow, and expects that
// packets and timers come in order, each once, to the state that the one before
// left. A blob has earlier digests, and a packet changes a part of it.
class CheckingNf final : public NetworkFunction {
 public:
  // Takes the schedule's `now`, which changes with it.
  CheckingNf(UnitId unit, const Instant& now, TestFlows& flows, Totals& totals)
      : unit_(unit), now_(now), flows_(flows), totals_(totals) {}

  Verdict process_packet(Packet& packet, FlowState& state) override {
    TestFlow& flow = flows_.at(state.id());
    Wish wish;
    std::memcpy(&wish, packet.bytes().data(), sizeof wish);
    EXPECT_EQ(wish.clock, flow.processed + 1) << "out of order or again";
    EXPECT_EQ(flow.serving, unit_);
    ExpectTimer(flow, state.timer());
    Advance(flow, state, wish.clock);
    switch (wish.action) {
      case Action::kDrop:
        return Verdict::drop(0);
      case Action::kConsume:
        return Verdict::consume();
      case Action::kEmit:
        EXPECT_TRUE(state.emit(packet.bytes()));
        break;
      case Action::kSetTimer:
        state.set_timer(Nanos{wish.timer_ns});
        flow.timer_set_at = unit_;
        break;
      case Action::kCancelTimer:
        state.cancel_timer();
        break;
      default:
        break;
    }
    flow.timer = state.timer();
    return Verdict::forward();
  }

  bool has_timer() const override { return true; }
  void on_timer(FlowState& state) override {
    TestFlow& flow = flows_.at(state.id());
    EXPECT_NE(flow.timer, Instant::max()) << "ran, but was not set";
    state.set_timer(Nanos{0});
    ExpectTimer(flow, state.timer());
    state.cancel_timer();
    flow.timer = Instant::max();
    Advance(flow, state, 0);
    ++totals_.timers;
    totals_.timers_moved += flow.timer_set_at != unit_ ? 1 : 0;
  }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"asked_to"};
    return kReasons;
  }

 private:
  // A timer that came late by a State may be past for less long than it was.
  void ExpectTimer(const TestFlow& flow, Instant timer) {
    if (timer == flow.timer) return;
    const Instant earliest = now_ + Nanos{-kMaxTimerLag.ns};
    EXPECT_TRUE(flow.timer < timer && timer <= earliest)
        << "the timer was lost on the way";
  }

  void Advance(TestFlow& flow, FlowState& state, uint64_t step) {
    EXPECT_EQ(state.get(digest_), flow.digest) << "stale state";
    const auto past = std::as_bytes(std::span(flow.past));
    const auto kept = state.get(past_);
    EXPECT_TRUE(kept.empty() || std::ranges::equal(kept, past));
    if (kept.empty()) state.put(past_, past);
    flow.digest = flow.After(step);
    state.put(digest_, flow.digest);
    const auto at = static_cast<uint32_t>(flow.digest % flow.past.size());
    flow.past[at] = flow.digest;
    state.patch(past_, at * sizeof flow.digest,
                past.subspan(at * sizeof flow.digest, sizeof flow.digest));
  }

  UnitId unit_;
  const Instant& now_;
  TestFlows& flows_;
  Totals& totals_;
  Blob past_ = declare_blob("past", sizeof(TestFlow::past));
  Slot<uint64_t> digest_ = declare<uint64_t>("digest");
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_FLOWS_H_
