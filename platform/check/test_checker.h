// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CHECK_TEST_CHECKER_H_
#define SNF_PLATFORM_CHECK_TEST_CHECKER_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/check/checker.h"

namespace snf {

inline constexpr FlowId kFlow = MakeFlowId(0, 7, 3);
inline constexpr FlowId kOther = MakeFlowId(0, 8, 0);
inline constexpr FlowId kNextInSlot = MakeFlowId(0, 7, 4);
inline constexpr UnitId kA{1};
inline constexpr UnitId kB{2};

// Tells a checker a story, a nanosecond a line. What becomes of a packet does
// at the unit that it was given to, unless another is named.
class CheckerTest : public testing::Test {
 protected:
  void Give(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    given_[{flow, clock}] = unit;
    checker_.on_enqueue(Now(), unit, Meta(flow, clock));
  }
  // A clock without payload, from the controller.
  void GiveNull(uint64_t clock) {
    given_[{kFlow, clock}] = kB;
    checker_.on_enqueue(Now(), kB, Meta(kFlow, clock, PacketMeta::kNull));
  }
  void EndFlowAt(uint64_t clock, FlowId flow = kFlow) {
    checker_.on_end_flow(Now(), kA, {flow, Clock{clock}});
  }
  void DropPayload(uint64_t clock) {
    checker_.on_payload_dropped(Now(), given_[{kFlow, clock}],
                                Meta(kFlow, clock));
  }
  void Begin(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    checker_.on_service_begin(Now(), unit, Meta(flow, clock), Nanos{});
  }
  void End(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    checker_.on_service_end(Now(), unit, Meta(flow, clock));
  }
  void Process(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    Begin(unit, clock, flow);
    End(unit, clock, flow);
  }
  // The same of a clock without payload.
  void Skip(UnitId unit, uint64_t clock,
            uint8_t flags = PacketMeta::kTombstone) {
    checker_.on_service_begin(Now(), unit, Meta(kFlow, clock, flags), Nanos{});
    checker_.on_service_end(Now(), unit, Meta(kFlow, clock, flags));
  }
  void Advance(uint64_t clock) {
    checker_.on_advanced(Now(), given_[{kFlow, clock}], Meta(kFlow, clock));
  }
  void Log(UnitId unit, uint64_t clock) {
    checker_.on_logged(Now(), unit, Meta(kFlow, clock));
  }
  void Release(uint64_t clock, FlowId flow = kFlow) {
    ReleaseAt(given_[{flow, clock}], clock, flow);
  }
  void ReleaseAt(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    const PacketRoute route = {
        .unit = unit, .flow = flow, .clock = Clock{clock}, .latency = {}};
    checker_.on_release({.time = Now(), .bytes = {}, .route = route});
  }
  void Take(uint64_t clock, FlowId flow = kFlow) {
    TakeAt(given_[{flow, clock}], clock, flow);
  }
  void TakeAt(UnitId unit, uint64_t clock, FlowId flow = kFlow) {
    checker_.on_taken(Now(), unit, Meta(flow, clock));
  }
  void Finish() { checker_.on_end(Now()); }

  static PacketMeta Meta(FlowId flow, uint64_t clock, uint8_t flags = 0) {
    PacketMeta meta;
    meta.flags = flags;
    meta.flow = flow;
    meta.clock = Clock{clock};
    return meta;
  }
  Instant Now() { return Instant{++now_}; }

  // One violation, of kFlow unless another is named, with these words.
  void ExpectOne(const std::string& words,
                 const std::string& flow = "flow slot 7 generation 3") {
    EXPECT_EQ(checker_.violations(), 1u);
    EXPECT_THAT(checker_.messages(),
                testing::ElementsAre(testing::AllOf(
                    testing::HasSubstr(flow), testing::HasSubstr(words))));
  }

  Checker checker_;
  int64_t now_ = 0;

 private:
  std::map<std::pair<FlowId, uint64_t>, UnitId> given_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CHECK_TEST_CHECKER_H_
