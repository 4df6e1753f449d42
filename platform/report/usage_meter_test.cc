// SPDX-License-Identifier: Apache-2.0
#include "platform/report/usage_meter.h"

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr FlowId kFlow = MakeFlowId(0, 1, 1);
constexpr UnitId kFirst{0};
constexpr UnitId kSecond{1};
constexpr Instant kStart{7'000};

struct Metered {
  Metered() { meter.on_start(kStart); }
  // Serves a packet that takes a microsecond, until `end_us`.
  void Serve(UnitId unit, uint64_t clock, int64_t end_us, uint8_t flags = 0) {
    PacketMeta meta;
    meta.flow = kFlow;
    meta.clock = Clock{clock};
    meta.original_length = flags == 0 ? 100 : 0;
    meta.flags = flags;
    meter.on_service_begin(kStart + Microseconds(end_us - 1), unit, meta, {});
    meter.on_service_end(kStart + Microseconds(end_us), unit, meta);
  }
  std::string Lines() { return *meter.JsonLines("nat"); }

  UsageMeter meter{2, 1'000};  // bytes of a record
};

TEST(UsageMeter, CountsWorkInTheEpochInWhichItEnds) {
  Metered run;
  run.Serve(kFirst, 1, 999'999);
  run.Serve(kFirst, 2, 1'000'000);
  run.Serve(kSecond, 3, 2'000'001, PacketMeta::kNull);
  EXPECT_EQ(run.Lines(),
            "{\"chain\":\"nat\",\"epoch\":0,\"packets\":1,\"bytes\":100,"
            "\"processing_ns\":1000,\"state_byte_seconds\":0}\n"
            "{\"chain\":\"nat\",\"epoch\":1,\"packets\":1,\"bytes\":100,"
            "\"processing_ns\":1000,\"state_byte_seconds\":0}\n"
            "{\"chain\":\"nat\",\"epoch\":2,\"packets\":0,\"bytes\":0,"
            "\"processing_ns\":1000,\"state_byte_seconds\":1000}\n");
}

TEST(UsageMeter, CountsAPacketThatIsServedAgainOnceButAllTheTimeThatItTook) {
  Metered run;
  run.Serve(kFirst, 1, 10);
  run.Serve(kFirst, 1, 20);
  run.Serve(kFirst, 2, 30);
  const auto& rows = run.meter.ledger().rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.begin()->second.packets, 2u);
  EXPECT_EQ(rows.begin()->second.bytes, 200u);
  EXPECT_EQ(rows.begin()->second.processing_ns, 3'000u);
}

TEST(UsageMeter, CountsStateOnceWhileItMovesAndUntilTheFlowEnds) {
  Metered run;
  run.Serve(kFirst, 1, 100);
  run.Serve(kSecond, 2, 500'100);
  EXPECT_EQ(run.meter.live_flows(), 1u);
  // The order to end comes before the last packet has run.
  run.meter.on_end_flow(kStart + Microseconds(600'000), kSecond,
                        {kFlow, Clock{3}});
  EXPECT_EQ(run.meter.live_flows(), 1u);
  run.Serve(kSecond, 3, 700'100);
  EXPECT_EQ(run.meter.live_flows(), 0u);
  run.meter.on_end(kStart + Seconds(9));
  const auto& rows = run.meter.ledger().rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.begin()->second.state_byte_seconds, 700u);
}

TEST(UsageMeter, CarriesWhatIsBelowAByteSecondToTheNextEpoch) {
  Metered run;
  run.Serve(kFirst, 1, 1);
  uint64_t sum = 0;
  for (int64_t i = 1; i <= 1'000; ++i) {
    run.Serve(kFirst, static_cast<uint64_t>(i) + 1, 1 + 1'500 * i);
  }
  for (const auto& [key, used] : run.meter.ledger().rows()) {
    sum += used.state_byte_seconds;
  }
  EXPECT_EQ(sum, 1'500u);
}

TEST(UsageMeter, RefusesToTellALossyFigure) {
  Metered run;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    run.Serve(kFirst, static_cast<uint64_t>(epoch) + 1, epoch * 1'000'000 + 1);
  }
  EXPECT_TRUE(run.meter.JsonLines("nat").ok());
  UsageMeter narrow(1, 8, 2);
  narrow.on_start(kStart);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    PacketMeta meta;
    meta.clock = Clock{static_cast<uint64_t>(epoch) + 1};
    narrow.on_service_begin(kStart + Seconds(epoch), kFirst, meta, {});
    narrow.on_service_end(kStart + Seconds(epoch), kFirst, meta);
  }
  const auto lines = narrow.JsonLines("nat");
  ASSERT_FALSE(lines.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(lines.status()));
}

}  // namespace
}  // namespace snf
