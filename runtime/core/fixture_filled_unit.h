// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_FIXTURE_FILLED_UNIT_H_
#define SNF_RUNTIME_CORE_FIXTURE_FILLED_UNIT_H_

#include <cstdint>

#include "base/check.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {

// FilledUnit is for benchmarks of memory: its unit has as many flows as it may
// keep, each with replicas named and a timer armed, and without state.
class FilledUnit {
 public:
  explicit FilledUnit(uint32_t flows)
      : unit_(UnitId{0},
              {.max_flows = flows, .queue_packets = 64, .packets_elsewhere = 0},
              nf_.schema()) {
    BufferPool pool({.small = 1, .medium = 0, .large = 0});
    const PacketHandle packet = pool.Allocate(60);
    pool.info(packet).length = 60;
    UnitOut out;
    for (uint32_t flow = 0; flow < flows; ++flow) {
      PacketMeta meta;
      meta.flow = MakeFlowId(0, flow, 1);
      meta.clock = Clock{1};
      unit_.on_replicas({.flow = meta.flow,
                         .units = {UnitId{1}, UnitId{2}, UnitId{3}},
                         .count = 3});
      unit_.on_packet(packet, meta);
      out.clear();
      SNF_CHECK(unit_.begin(Instant{}, out));
      unit_.finish(Instant{}, {nf_, pool}, out);
    }
    SNF_CHECK(unit_.flows() == flows);
  }

 private:
  class Alarm final : public NetworkFunction {
    Verdict process_packet(Packet&, FlowState& flow) override {
      flow.set_timer(Seconds(1));
      return Verdict::forward();
    }
    bool has_timer() const override { return true; }
  };
  Alarm nf_;
  Unit unit_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_FIXTURE_FILLED_UNIT_H_
