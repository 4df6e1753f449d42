// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_POOL_OPTIONS_H_
#define SNF_CONTROLLER_UNITS_POOL_OPTIONS_H_

#include <cstdint>

#include "base/time.h"

namespace snf {

// The measure of a unit's load when a flowlet is placed (proto/protocol.md
// 2.6).
enum class LoadSignal : uint8_t {
  kWait,     // the time that a packet would wait there, in parts of
             // latency_target
  kDemand,   // the larger of the drained rate and the open flowlets' demand,
             // plus the packets that still wait
  kDrained,  // the paper's bare rule: the drained rate alone
};

// The configuration of a controller's units, a part of the controller's
// (controller/core/options.h). Defaults are taken from SNF §9 if it has them.
struct UnitPoolOptions {
  LoadSignal load_signal = LoadSignal::kWait;
  // LoadSignal::kWait fills units until 1 % of the packets wait longer. 1 µs …
  // 10 s.
  Nanos latency_target = Microseconds(350);
  // The drained rate is the mean over `load_buckets` of `load_bucket` (SNF §8).
  Nanos load_bucket = Microseconds(500);
  uint32_t load_buckets = 200;

  uint32_t max_units = 64;  // 1 … kMaxUnits
  // Number of spare units, the last ones of max_units. They take over the flows
  // of failed units if no other unit is left, and are not used otherwise. Less
  // than max_units.
  uint32_t spare_units = 0;
  // Units on one host (host_map.h): 1 … HostMap::kMaxUnitsPerHost.
  uint32_t units_per_host = 1;
  int64_t unit_capacity_bps = 1'000'000'000;  // 1 kbit/s … 1 Tbit/s
  // The most packets that a unit processes in a second (packet_cost.h); 0: as
  // many as its capacity in bits carries.
  int64_t unit_packets_ps = 0;
  // The units are leased (Controller::on_lease): none is started or parked, and
  // warm_units, unit_idle_timeout and keep_warm are nothing to them.
  bool leased = false;
  uint32_t unit_queue_packets = 1024;  // slots of a unit's channel
  // Additional slots, only for packets re-routed after failures: all other
  // slots may be taken by packets that wait for these.
  uint32_t recovery_slots = 0;

  uint32_t start_buffer_packets = 256;  // slots usable until it is ready
  uint32_t warm_units = 1;              // units warm at the start
  // A start that takes longer has failed (proto/protocol.md F11); Nanos::max()
  // = none ever has.
  Nanos start_timeout = Nanos::max();
  Nanos unit_idle_timeout = Microseconds(500);  // active -> warm
  Nanos keep_warm = Seconds(30);                // warm -> stopped

  // Incarnation of the first unit start; later starts count up. A successor
  // continues above its predecessor's last incarnation.
  uint32_t first_incarnation = 1;
  // Number of this start of the controller, from 0. Its flow ids differ from
  // all flow ids of earlier starts.
  uint32_t epoch = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_POOL_OPTIONS_H_
