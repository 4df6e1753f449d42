// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "controller/core/controller.h"
#include "controller/core/placement.h"
#include "controller/live/loop_reports.h"
#include "controller/rebuild/succession.h"
#include "runtime/core/test_inputs.h"
#include "runtime/ring/test_region.h"
#include "runtime/wire/decoder.h"

namespace snf {
namespace {

constexpr uint32_t kMaxUnits = 4;
constexpr uint32_t kMaxFlows = 16;
constexpr Instant kNow{1'000'000};
constexpr std::array<BufferPool::Options, 2> kShares = {
    {{.small = 4, .medium = 2, .large = 1},
     {.small = 2, .medium = 1, .large = 0}}};

FlowKey Key(uint8_t port) {
  FlowKey key{};
  key.form = FlowKeyForm::kIpv4;
  key.source.bytes[15] = std::byte{port};
  return key;
}

// Makes a controller of reports. A test may report any values; the decoder
// checks them first.
class HostileReports {
 public:
  HostileReports() {
    region_.MakePool(kShares);
    pool_.emplace(region_.Attach(0));
    tables_.emplace(ScriptedNf(), kMaxUnits, TableOptions{});
    words_.emplace(UnitsOfLoop(0, 1, kMaxUnits),
                   WordsToController::Limits{
                       .max_flows = kMaxFlows,
                       .nf_reasons = 2,
                       .pools = 1,
                       .sender = WordsToController::Sender::kUnitsWithLoggers},
                   *pool_, *tables_, faults_);
    succession_.Fail(Controller(Options(0), policy_));
    succession_.Gather();
    reports_.Restart();
  }

  void Say(UnitCommand word) {
    if ((*words_)(std::bit_cast<Cell>(word)) == LinkIn::kNoMessage) return;
    reports_.on_word(0, false, word, {});
    ++taken_;
  }
  // Makes the controller, and sends packets of new flows through it.
  void Make() {
    for (const bool of_logger : {false, true}) {
      reports_.on_word(0, of_logger, UnitCommand::Reported(UnitId{0}, 1), {});
    }
    reports_.Begin({});
    succession_.Begin(controller_, kNow);
    for (int i = 0; i < 2'000'000; ++i) {
      out_.clear();
      if (succession_.Mend(controller_, kNow, out_)) break;
      if (out_.commands().empty()) return;  // waits for slots
    }
    succession_.Finish();
    for (uint8_t i = 0; i < 2 * kMaxFlows; ++i) {
      out_.clear();
      const Arrival arrival = {.key = Key(i), .time = kNow, .packet = {}};
      controller_.on_packets(kNow, {&arrival, 1}, out_);
    }
  }
  const SuccessionCounters& counters() const {
    return succession_.rebuild().counters();
  }
  uint64_t taken() const { return taken_; }
  const Controller& controller() const { return controller_; }

 private:
  static ControllerOptions Options(uint32_t epoch) {
    ControllerOptions options;
    options.max_flows = kMaxFlows;
    options.max_units = kMaxUnits;
    options.recovery_slots = 4;
    options.awaits_ends = options.names_flows = true;
    options.forgets_copies = true;
    options.epoch = epoch;
    return options;
  }

  TestRegion region_;
  std::optional<BufferPool> pool_;
  std::optional<TableHomes> tables_;
  WireFaults faults_;
  std::optional<WordsToController> words_;
  const PlacementPolicy& policy_ = *FindPlacementPolicy("snf");
  SuccessionCounters counters_;
  mutable Succession succession_{kMaxUnits, kMaxFlows, LoopReports::Sources(1),
                                 counters_};
  LoopReports reports_{Options(1), 1, succession_};
  Controller controller_{Options(1), policy_};
  ControllerOut out_;
  uint64_t taken_ = 0;
};

UnitCommand FlowWord(uint32_t slot, uint64_t clock, UnitId unit,
                     FlowReport::Kind kind) {
  return UnitCommand::Of(FlowReport{.flow = MakeFlowId(0, slot, 4),
                                    .clock = Clock{clock},
                                    .unit = unit,
                                    .kind = kind});
}

UnitCommand PacketWord(uint32_t slot, uint64_t clock, UnitId unit) {
  PacketMeta meta;
  meta.flow = MakeFlowId(0, slot, 4);
  meta.clock = Clock{clock};
  meta.source_kind = StateSource::kUnit;
  meta.flags = PacketMeta::kFirstOfFlowlet;
  UnitCommand word = UnitCommand::Of(
      UnitCommand::Kind::kReportPacket,
      PacketReport{.meta = meta, .unit = unit, .packet = kNoPacket});
  word.unit = unit;
  return word;
}

// The flow is at two units, so the controller makes a history.
TEST(HostileReports, OfClockZeroMakeNoHistory) {
  HostileReports made;
  made.Say(FlowWord(2, 0, UnitId{1}, FlowReport::Kind::kRan));
  made.Say(FlowWord(2, 5, UnitId{0}, FlowReport::Kind::kRan));
  made.Make();
  EXPECT_EQ(made.taken(), 2u);
  EXPECT_EQ(made.counters().flows, 1u);
}

// The clock after 2^64 - 1 is 0.
TEST(HostileReports, OfClocksThatNoFlowReachesAreRefused) {
  HostileReports made;
  made.Say(FlowWord(2, ~uint64_t{0}, UnitId{1}, FlowReport::Kind::kRan));
  made.Say(
      FlowWord(2, value(kMaxReportedClock), UnitId{1}, FlowReport::Kind::kRan));
  made.Say(PacketWord(3, ~uint64_t{0}, UnitId{1}));
  made.Say(FlowWord(2, 5, UnitId{0}, FlowReport::Kind::kRan));
  made.Make();
  EXPECT_EQ(made.taken(), 2u);
  EXPECT_EQ(made.counters().reports_refused, 1u);
  EXPECT_EQ(made.controller().flows().cold(2).owner, UnitId{0});
  EXPECT_EQ(made.controller().counters().failures.flows_given_up, 0u);
}

// Each gap alone is within the limit; the limit has room for two of the eight.
TEST(HostileReports, GetTombstonesWithinOneLimitForAllFlows) {
  constexpr uint64_t kHalf = Rebuild::kMaxMissing / 2;
  HostileReports made;
  for (uint32_t slot = 0; slot < 8; ++slot) {
    made.Say(FlowWord(slot, 5, UnitId{0}, FlowReport::Kind::kRan));
    made.Say(PacketWord(slot, 6 + kHalf, UnitId{1}));
  }
  made.Make();
  EXPECT_EQ(made.controller().counters().failures.flows_given_up, 6u);
  EXPECT_EQ(made.counters().flows, 8u);
}

uint64_t AnyClock(Rng& rng) {
  constexpr std::array<uint64_t, 8> kBases = {0,
                                              1,
                                              100,
                                              Rebuild::kMaxMissing,
                                              uint64_t{1} << 32,
                                              value(kMaxRestoredClock),
                                              value(kMaxReportedClock),
                                              ~uint64_t{0}};
  return kBases[rng.Below(kBases.size())] +
         static_cast<uint64_t>(rng.Uniform(-3, 3));
}

TEST(HostileReports, NeitherAbortNorGrow) {
  const TestSeeds seeds(100, 10'000);
  uint64_t taken = 0;
  uint64_t given_up = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    HostileReports made;
    const uint64_t words = 1 + rng.Below(60);
    for (uint64_t i = 0; i < words; ++i) {
      const UnitId unit{static_cast<uint16_t>(rng.Below(kMaxUnits + 1))};
      const auto slot = static_cast<uint32_t>(rng.Below(5));
      if (rng.Chance(30'000)) {
        made.Say(PacketWord(slot, AnyClock(rng), unit));
      } else if (rng.Chance(50'000)) {
        made.Say(
            FlowWord(slot, AnyClock(rng), unit,
                     FlowReport::Kind{static_cast<uint8_t>(rng.Below(7))}));
      } else {
        UnitCommand word = UnitCommand::Of(UnitReport{
            .unit = unit,
            .state = UnitReport::State{static_cast<uint8_t>(rng.Below(5))},
            .incarnation = static_cast<uint32_t>(rng.Next())});
        made.Say(word);
      }
    }
    made.Make();
    EXPECT_LE(made.counters().tombstones, Rebuild::kMaxMissing);
    taken += made.taken();
    given_up += made.controller().counters().failures.flows_given_up;
  }
  EXPECT_GT(taken, 0u);
  if (!seeds.is_part) {
    EXPECT_GT(given_up, 0u);
  }
}

}  // namespace
}  // namespace snf
