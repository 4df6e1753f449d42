// SPDX-License-Identifier: Apache-2.0
#include "platform/options/unit_flags.h"

#include <algorithm>
#include <cstdint>

#include "controller/units/host_map.h"

namespace snf {
namespace {

constexpr int64_t kMaxCapacityBps = 1'000'000'000'000;

}  // namespace

UnitFlags::UnitFlags(RunFlagSet& set) : set_(set) {
  set_.flags.Heading("Compute units (a stated model)");
  AddCapacity();
  AddQueues();
  AddStarts();
  if (!set_.has_captures) return;
  AddHosts();
  set_.flags.Duration("hop_delay", set_.request.run.hop_delay, Nanos{0},
                      Seconds(10),
                      "time from controller to unit, from unit to unit (with "
                      "state: state_delay), and from unit to the way out");
}

void UnitFlags::AddCapacity() {
  FlagSet& flags = set_.flags;
  ControllerOptions& c = set_.request.run.controller;
  flags.BitRateOrNone("unit_capacity", c.unit_capacity_bps,
                      set_.request.real.unpaced, 1'000, kMaxCapacityBps,
                      "capacity of one unit; none, with --clock=real: each "
                      "unit is as fast as it can be");
  flags.PacketRate("unit_packets", c.unit_packets_ps, 1, 1'000'000'000,
                   "capacity of one unit in packets: each takes at least "
                   "1 / RATE. A shorter one counts as long as that in load, "
                   "demand and flowlet_bytes",
                   "as many as unit_capacity carries");
}

void UnitFlags::AddQueues() {
  FlagSet& flags = set_.flags;
  ControllerOptions& c = set_.request.run.controller;
  flags.Count("max_units", c.max_units, 1, kMaxUnits, "most units").may_change =
      true;
  flags.Count("warm_units", c.warm_units, 0, kMaxUnits,
              "units warm at the start");
  flags.Count("unit_queue", c.unit_queue_packets, 1, 1u << 20,
              "packets that may wait at a unit; further ones are dropped");
  flags.Count("start_buffer", c.start_buffer_packets, 1, 1u << 20,
              "packets that may wait at a unit that is still starting, as a "
              "part of unit_queue; further ones are dropped");
  flags
      .Duration("unit_idle_timeout", c.unit_idle_timeout, Microseconds(1),
                Seconds(86'400),
                "a unit without packets for so long is parked, warm")
      .may_change = true;
  flags
      .Duration("keep_warm", c.keep_warm, Nanos{0}, Seconds(86'400),
                "a warm unit stops after so long")
      .may_change = true;
}

void UnitFlags::AddStarts() {
  FlagSet& flags = set_.flags;
  RunOptions& run = set_.request.run;
  flags.Duration("unit_start_delay", run.unit_start_delay, Nanos{0},
                 Seconds(600),
                 "from a cold start to the first packet (not with "
                 "--unit_capacity=none)");
  flags.Duration("warm_start_delay", run.warm_start_delay, Nanos{0},
                 Seconds(600),
                 "from a warm start to the first packet (likewise)");
  flags
      .DurationOrInfinity("start_timeout", run.controller.start_timeout,
                          Microseconds(1),
                          "a start that takes longer has failed. It is "
                          "counted, no new packet waits for the unit, and "
                          "other units are started after a while")
      .may_change = true;
  flags.DurationOrInfinity(
      "nf_patience", run.nf_patience, Milliseconds(1),
      "if a call of the network function takes longer, by the machine's "
      "clock, the run ends with exit code 70, and unwritten output is lost. "
      "Time spent in a debugger does not count");
}

void UnitFlags::AddHosts() {
  FlagSet& flags = set_.flags;
  RunOptions& run = set_.request.run;
  flags.Count("units_per_host", run.controller.units_per_host, 1,
              HostMap::kMaxUnitsPerHost,
              "units on one host, in the order of their numbers: with 4, units "
              "0 to 3 are on host 0, 4 to 7 on host 1. Their loggers are on "
              "the next host. Within a host, state is handed over without a "
              "network, and a flow moves there first");
  flags.Duration("local_handover", run.local_handover, Nanos{0}, Seconds(10),
                 "time that a state takes between units of one host, whatever "
                 "its bytes. The default is what \"snf bench --rows=12\" "
                 "measures (0.2 to 0.5us), and rings between them");
}

absl::Status UnitFlags::CheckHosts() const {
  const RunRequest& request = set_.request;
  const uint32_t per_host = request.run.controller.units_per_host;
  // Flags at their defaults change nothing.
  const bool hands_over =
      request.run.local_handover != RunOptions().local_handover;
  const bool has_hosts = per_host > 1 || hands_over;
  return set_.Check(
      {{.flags = {"units_per_host"},
        .with = "max_units",
        .when = per_host > request.run.controller.max_units,
        .because = "there are fewer units than that"},
       {.flags = {"units_per_host", "local_handover"},
        .with = "controllers",
        .when = has_hosts && request.cluster.controllers > 1,
        .because = "several controllers have units on hosts of their own"},
       {.flags = {"units_per_host", "local_handover"},
        .with = "state",
        .when = has_hosts && request.run.state == StateMode::kExternal,
        .because = "a store has the state, not a host"},
       {.flags = {"local_handover"},
        .with = "units_per_host",
        .when = per_host == 1 && hands_over,
        .because = "no host has another unit"}});
}

absl::Status UnitFlags::Check() const {
  if (set_.has_captures) {
    if (absl::Status s = CheckHosts(); !s.ok()) return s;
  }
  const RunOptions& run = set_.request.run;
  const ControllerOptions& c = run.controller;
  const bool is_paced = !set_.request.real.unpaced;
  return set_.Check(
      {{.flags = {"warm_units"},
        .with = "max_units",
        .when = c.warm_units > c.max_units,
        .because = "there are fewer units than that"},
       {.flags = {"start_buffer"},
        .with = "unit_queue",
        .when = c.start_buffer_packets > c.unit_queue_packets,
        .because = "the start buffer is a part of the queue"},
       {.flags = {"start_timeout"},
        .with = "unit_start_delay",
        .when = is_paced && run.unit_start_delay >= c.start_timeout,
        .because = "every start would fail"},
       {.flags = {"start_timeout"},
        .with = "warm_start_delay",
        .when = is_paced && run.warm_start_delay >= c.start_timeout,
        .because = "every start would fail"}});
}

void UnitFlags::Settle() {
  RunOptions& run = set_.request.run;
  ControllerOptions& c = run.controller;
  if (set_.request.real.unpaced) c.unit_capacity_bps = kMaxCapacityBps;
  // A buffer for every place in the queues, up to 2 GiB of them; pages that no
  // packet touches cost nothing.
  constexpr uint64_t kMaxBuffers = 1 << 20;
  run.buffers.small = static_cast<uint32_t>(
      std::clamp<uint64_t>(uint64_t{c.max_units} * c.unit_queue_packets,
                           run.buffers.small, kMaxBuffers));
  // Defaults give way to given values.
  if (!set_.given("start_timeout")) {
    const Nanos longest = std::max(run.unit_start_delay, run.warm_start_delay);
    c.start_timeout = std::max(c.start_timeout, Nanos{2 * longest.ns});
  }
  c.warm_units = std::min(c.warm_units, c.max_units);
  c.start_buffer_packets =
      std::min(c.start_buffer_packets, c.unit_queue_packets);
}

}  // namespace snf
