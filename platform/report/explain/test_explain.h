// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_EXPLAIN_TEST_EXPLAIN_H_
#define SNF_PLATFORM_REPORT_EXPLAIN_TEST_EXPLAIN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/packet/ip_address.h"
#include "base/packet/protocol_numbers.h"
#include "base/packet/test_packets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/report/explain/explain.h"

// Small runs of which one flow's story is told.
namespace snf {

// Flow n is 10.0.0.1:n > 192.0.2.9:53.
inline FlowKey KeyOf(uint16_t n) {
  FlowKey key;
  key.source = IpAddress::FromIpv4(be32(0x0a00'0001));
  key.destination = IpAddress::FromIpv4(be32(0xc000'0209));
  key.source_port = be16(n);
  key.destination_port = be16(53);
  key.protocol = IpProtocol::kUdp;
  key.form = FlowKeyForm::kIpv4;
  Canonicalize(key);
  return key;
}

// A frame of flow n, of so many bytes.
inline Frame FrameOf(uint16_t n, size_t length) {
  return Ethernet(0x0800, Ipv4({}, Udp(n, 53, length - 42)));
}

// Packets of 60 captured bytes, however long they were on the wire.
struct Replay {
  explicit Replay(const RunOptions& options, uint16_t followed = 1,
                  std::string_view nf = "passthrough",
                  std::string_view policy = "snf")
      : explainer(KeyOf(followed), options, *FindPlacementPolicy(policy)),
        driver(options, *FindPlacementPolicy(policy), *FindNf(nf),
               {&explainer}) {}

  void At(int64_t us, uint16_t flow, uint32_t bytes, size_t captured = 60) {
    const Frame frame = FrameOf(flow, captured);
    CapturedPacket packet;
    packet.time = {Microseconds(us).ns};
    packet.bytes = frame;
    packet.original_bytes = bytes;
    driver.Offer(packet);
  }
  std::string Story() {
    result = driver.Finish();
    EXPECT_TRUE(result.conserved());
    EXPECT_THAT(result.violation_messages, ::testing::IsEmpty());
    return explainer.Story();
  }

  Explainer explainer;
  VirtualDriver driver;
  RunResult result;
};

// Units of 10 Mbit/s: 1000 bytes take 800 µs. No need to wait for a start.
// Flowlets are placed by demand, which a story shows best.
inline RunOptions SlowUnits() {
  RunOptions options;
  options.controller.load_signal = LoadSignal::kDemand;
  options.controller.alpha_1024 = 256;
  options.controller.replica_choice = ReplicaChoice::kWeighted;
  options.controller.unit_idle_timeout = Milliseconds(100);
  options.controller.unit_capacity_bps = 10'000'000;
  options.controller.max_units = 2;
  options.controller.warm_units = 2;
  options.warm_start_delay = {};
  return options;
}

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_EXPLAIN_TEST_EXPLAIN_H_
