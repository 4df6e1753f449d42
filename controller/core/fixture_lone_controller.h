// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FIXTURE_LONE_CONTROLLER_H_
#define SNF_CONTROLLER_CORE_FIXTURE_LONE_CONTROLLER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/packet_parser.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/core/placement.h"

namespace snf {

// A controller for benchmarks, with everything that its driver calls: packets
// of 60 bytes in Ethernet, one each 100 ns, timers, and a drain report for each
// unit of a burst. Flowlets end only when they are full. Owner-thread only.
class LoneController {
 public:
  static constexpr size_t kBatch = 32;
  static constexpr size_t kPacketBytes = 60;
  static constexpr Nanos kPacketGap{100};
  using Bytes = std::span<const std::byte>;

  explicit LoneController(size_t flows, uint32_t flowlet_bytes = 1'000'000'000,
                          uint32_t replicas = 3)
      : controller_(OptionsFor(flows, flowlet_bytes, replicas),
                    *FindPlacementPolicy("snf")),
        slots_(64) {}

  void Burst(std::span<const Bytes> frames) {
    size_t count = 0;
    for (const Bytes frame : frames) {
      now_ = now_ + kPacketGap;
      const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
      if (!packet.has_ip()) continue;
      // The arrival is filled in place: a copy of a struct that was just
      // written field by field would stall.
      Arrival& arrival = arrivals_[count++];
      arrival.key = FiveTuple(frame, packet, false);
      arrival.time = now_;
      arrival.original_length = kPacketBytes;
      arrival.packet = PacketHandle{0};
      controller_.Expect(std::span(arrivals_).first(count));
    }
    out_.clear();
    controller_.on_packets(now_, std::span(arrivals_).first(count), out_);
    Execute();
    if (controller_.next_wakeup() <= now_) {
      out_.clear();
      controller_.on_timers(now_, out_);
      Execute();
    }
  }

  const ControllerCounters& counters() const { return controller_.counters(); }
  uint32_t placeable_units() const {
    return controller_.units().placeable_units();
  }

 private:
  // A flow's packets are `flows` gaps apart on average. A flowlet timeout of 20
  // times that hardly ever passes, and the flow's timer fires once in 20
  // packets.
  static ControllerOptions OptionsFor(size_t flows, uint32_t flowlet_bytes,
                                      uint32_t replicas) {
    ControllerOptions options;
    options.replicas = replicas;
    options.flowlet_timeout =
        Nanos{20 * kPacketGap.ns * static_cast<int64_t>(flows)};
    options.flowlet_bytes = flowlet_bytes;
    options.max_flows = static_cast<uint32_t>(flows);
    options.warm_units = options.max_units;
    // The demands add up to the 4.8 Gbit/s that arrive.
    options.first_demand_bps = 4'800'000'000 / static_cast<int64_t>(flows);
    return options;
  }

  // Executes the commands; every packet leaves its unit at once.
  void Execute() {
    for (const ControllerCommand& command : out_.commands()) {
      if (command.kind == ControllerCommand::Kind::kStartUnit) {
        controller_.on_unit_ready(now_, command.unit);
      } else if (command.kind == ControllerCommand::Kind::kEnqueue) {
        const uint32_t unit = value(command.unit);
        if (slots_[unit]++ == 0) used_[used_count_++] = command.unit;
      }
    }
    for (; used_count_ > 0; --used_count_) {
      const UnitId unit = used_[used_count_ - 1];
      uint32_t& packets = slots_[value(unit)];
      controller_.on_drained(now_, {.unit = unit,
                                    .packets = packets,
                                    .bytes = packets * uint64_t{kPacketBytes}});
      packets = 0;
    }
  }

  Controller controller_;
  Instant now_{1'000'000'000};
  std::array<Arrival, kBatch> arrivals_;
  ControllerOut out_;
  std::vector<uint32_t> slots_;
  std::array<UnitId, kBatch> used_{};
  size_t used_count_ = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FIXTURE_LONE_CONTROLLER_H_
