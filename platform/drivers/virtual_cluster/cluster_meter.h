// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_METER_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_METER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "controller/core/options.h"
#include "platform/run/provisioning.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"

namespace snf {

// Measures demanded against provisioned bandwidth of controllers that share
// units (platform/run/provisioning.h). A unit counts once, from when it is
// ready until it stops, with the packets that it drained for all controllers.
//
// Owner-thread only.
class ClusterMeter {
 public:
  // A unit of one of several managers.
  using Unit = std::pair<uint32_t, UnitLife>;

  // At most `most_units` are up at one time.
  ClusterMeter(ControllerOptions options, uint32_t most_units);
  ~ClusterMeter();

  // Returns an observer of one controller's run. `unit_of` translates the
  // controller's numbers of units.
  RunObserver& Watch(absl::AnyInvocable<Unit(UnitId)> unit_of);

  void on_start(Instant first_packet) {
    provisioning_.on_start(first_packet);
    last_ = first_packet;
  }
  void on_unit_up(Instant now, const Unit& unit);
  void on_unit_down(Instant now, const Unit& unit);
  // Sets the figures of units and epochs, at the end of the run. Units that are
  // still up count until the last packet.
  void Finish(RunResult& result);

 private:
  class Watcher;
  struct ByNumber {
    bool operator()(const Unit& a, const Unit& b) const {
      return Name(a) < Name(b);
    }
    static std::pair<uint64_t, uint64_t> Name(const Unit& unit) {
      return {uint64_t{unit.first} << 32 | value(unit.second.unit),
              unit.second.incarnation};
    }
  };

  Provisioning provisioning_;
  Instant last_;  // of packets and units that came or left
  std::map<Unit, UnitId, ByNumber> up_;
  std::set<UnitId> unused_;  // numbers
  std::vector<std::unique_ptr<Watcher>> watchers_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_METER_H_
