// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_TEST_BY_FLOW_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_TEST_BY_FLOW_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "base/packet/test_packets.h"
#include "platform/run/released_packet.h"
#include "platform/run/run_events.h"
#include "platform/system_test/test_run.h"

namespace snf {

// Keeps what a run releases of each flow of UdpFrame, and which flows have lost
// a packet.
class ByFlow final : public RunObserver {
 public:
  void on_release(const ReleasedPacket& packet) override {
    Frame& all = released_[FlowOf(packet.bytes)];
    all.insert(all.end(), packet.bytes.begin(), packet.bytes.end());
    // From 203.0.113.1, where a translator puts flows.
    if (packet.bytes[kSource] != std::byte{203}) return;
    const uint32_t port = static_cast<uint32_t>(packet.bytes[kPort]) << 8 |
                          static_cast<uint32_t>(packet.bytes[kPort + 1]);
    flows_of_port_[port].insert(FlowOf(packet.bytes));
  }
  void on_drop(const ReleasedPacket& packet,
               std::string_view /*reason*/) override {
    lost_.insert(FlowOf(packet.bytes));
  }

  // Adds what another one has kept of the same run, of other flows.
  void Add(const ByFlow& other) {
    released_.insert(other.released_.begin(), other.released_.end());
    lost_.insert(other.lost_.begin(), other.lost_.end());
    for (const auto& [port, flows] : other.flows_of_port_) {
      flows_of_port_[port].insert(flows.begin(), flows.end());
    }
  }

  // Returns how many flows have lost nothing; those that differ are failures.
  size_t CompareWith(const ByFlow& whole) const {
    size_t compared = 0;
    for (const auto& [flow, bytes] : whole.released_) {
      if (lost_.contains(flow)) continue;
      const auto found = released_.find(flow);
      EXPECT_TRUE(found != released_.end() && found->second == bytes)
          << "flow " << flow;
      ++compared;
    }
    return compared;
  }
  // Where no flow ends, a port is one flow's.
  void ExpectOneFlowForEachPort() const {
    for (const auto& [port, flows] : flows_of_port_) {
      EXPECT_EQ(flows.size(), 1u) << "port " << port;
    }
  }
  size_t ports() const { return flows_of_port_.size(); }

 private:
  static constexpr size_t kSource = 26;  // in an Ethernet frame without options
  static constexpr size_t kPort = 34;

  std::map<uint32_t, Frame> released_;
  std::set<uint32_t> lost_;
  std::map<uint32_t, std::set<uint32_t>> flows_of_port_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_TEST_BY_FLOW_H_
