// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_HOSTS_HOSTED_UNITS_H_
#define SNF_PLATFORM_DRIVERS_HOSTS_HOSTED_UNITS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "controller/live/controller_loop.h"
#include "platform/hosts/host_assignment.h"
#include "platform/hosts/host_place.h"
#include "platform/run/figures/live_figures.h"
#include "resource_manager/core/warm_pool.h"

namespace snf {

// Places the processes of units on hosts that join and leave
// (RealOptions::host_source), as a HostAssignment says: units of a closed place
// are drained, so a host that leaves loses no packet, and undrained once the
// place is open.
//
// Owner-thread only.
class HostedUnits {
 public:
  // The source and the loop must outlive the object. Units of a place have the
  // numbers place, place + Options::places and so on.
  HostedUnits(const HostSource& source, const HostAssignment::Options& places,
              ControllerLoop& loop);

  // The process of the place starts: returns the argument of its start
  // (UnitProcessSetup::places_change).
  std::vector<std::byte> Start(size_t place);
  void on_ready(size_t place) { assignment_.on_ready(place); }
  // The process has ended, or was not started.
  void on_end(size_t place, bool has_failed) {
    assignment_.on_end(loop_.now(), place, has_failed);
  }
  // Returns true if the place is open: its process runs on the right host, or
  // may start.
  bool MayLease(size_t place);
  // Returns true if its process runs elsewhere than on the right host.
  bool IsMisplaced(size_t place);
  // Takes in which hosts there are, and drains and undrains units. Shuts places
  // of the pool, ends misplaced processes, and tries silent hosts; passes to
  // `act` what the pool is to do.
  void Look(WarmPool& pool,
            const std::function<void(const WarmPool::Action&)>& act);

  // As the same calls of RealDriver: an operator's wish.
  bool Drain(UnitId unit);
  void Undrain(UnitId unit);

  // Returns the name of the host where the unit runs, or is to run; "": the own
  // host, or none.
  std::string_view HostOf(UnitId unit) const;
  void AddTo(LiveFigures& figures) const;

 private:
  // Says who wants a unit drained.
  struct Bars {
    bool by_operator = false;
    bool by_host = false;
  };

  void TakeIn();
  void Bar();

  const HostSource& source_;
  ControllerLoop& loop_;
  HostAssignment assignment_;
  const size_t places_;
  std::optional<uint64_t> version_{};  // of the source, as taken in
  std::vector<Bars> bars_;             // by unit
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_HOSTS_HOSTED_UNITS_H_
