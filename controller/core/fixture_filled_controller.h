// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FIXTURE_FILLED_CONTROLLER_H_
#define SNF_CONTROLLER_CORE_FIXTURE_FILLED_CONTROLLER_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "base/packet/flow_key.h"
#include "controller/core/controller.h"
#include "controller/core/placement.h"

namespace snf {

// A controller for benchmarks of memory, with as many IPv6 flows as it has room
// for, each with an open flowlet. A second round of packets, one second after
// the first, began new flowlets, which all moved and were taken over at once.
// With aliases each flow also has an alias and an idle timeout; 16 flows are a
// group.
class FilledController {
 public:
  FilledController(uint32_t flows, bool with_aliases)
      : controller_(OptionsFor(flows), policy_) {
    auto out = std::make_unique<ControllerOut>();
    Arrival arrival;
    arrival.key.form = FlowKeyForm::kIpv6;
    arrival.original_length = 60;
    for (uint32_t i = 0; i < 2 * flows; ++i) {
      const uint32_t flow = i < flows ? i : i - flows;
      std::memcpy(&arrival.key.source.bytes[12], &flow, sizeof flow);
      arrival.time = {(i < flows ? 1 : 2) * int64_t{1'000'000'000} +
                      int64_t{i} / 100};
      out->clear();
      controller_.on_packets(arrival.time, {&arrival, 1}, *out);
      const ControllerCommand& last = out->commands().back();
      if ((last.meta.flags & PacketMeta::kMoved) != 0) {
        controller_.on_takeover({last.meta.flow, last.meta.clock, last.unit});
      }
    }
    for (uint32_t i = 0; with_aliases && i < flows; ++i) {
      const FlowId flow = MakeFlowId(0, i, 0);
      std::memcpy(&arrival.key.source.bytes[12], &i, sizeof i);
      out->clear();
      controller_.on_alias({.key = arrival.key,
                            .flow = flow,
                            .clock = Clock{2},
                            .group = i / 16,
                            .unit = UnitId{}},
                           *out);
      controller_.on_flow_note(arrival.time,
                               {flow, Clock{2}, Seconds(4), false}, *out);
    }
    SNF_CHECK(controller_.aliases().size() == (with_aliases ? flows : 0));
    SNF_CHECK(controller_.counters().flowlets_moved == flows);
    SNF_CHECK(controller_.flows().size() == flows);
    SNF_CHECK(controller_.counters().enqueued == 2 * uint64_t{flows});
  }

 private:
  // Places each flowlet at the unit after that of the flow's flowlet before.
  class NextUnitPolicy final : public PlacementPolicy {
   public:
    std::string_view name() const override { return "next_unit"; }
    Placement Place(Instant now, const PlacementRequest& request,
                    UnitPool& units, ControllerOut& out) const override {
      const uint32_t last = request.owner == kNoUnit ? 0 : value(request.owner);
      const UnitId unit{static_cast<uint16_t>((last + 1) % units.max_units())};
      SNF_CHECK(units.Use(now, unit, out));
      return {.unit = unit};
    }
  };

  static ControllerOptions OptionsFor(uint32_t flows) {
    ControllerOptions options;
    options.max_flows = flows;
    options.warm_units = options.max_units;
    options.unit_queue_packets = 2 * flows;
    options.start_buffer_packets = 2 * flows;
    return options;
  }

  NextUnitPolicy policy_;
  Controller controller_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FIXTURE_FILLED_CONTROLLER_H_
