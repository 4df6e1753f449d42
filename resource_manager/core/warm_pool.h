// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_WARM_POOL_H_
#define SNF_RESOURCE_MANAGER_CORE_WARM_POOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/time.h"

namespace snf {

// Theory of operation. Decides which places of a host have a process, where
// each place runs some of the units: those of units in use, and a few more,
// which are parked, so that the next units start by a wake-up alone (Serpens
// §III, process pool). A process that no unit needs any more is parked again;
// of more parked ones than are wanted, the last ends.
//
//   none ──kStart──► coming ──on_ready──► parked ──Use──► used
//    ▲                 └───────Use, then on_ready───────► used
//    └──on_end── ending ◄──kEnd── parked ◄──────Rest─────┘
//
// As many are wanted as units started within the last second, but not fewer
// than Options::parked and not more than kMostTimes as many. One process is
// prepared at a time, so that a unit that finds none parked waits for one at
// the most.
//
// Units start lowest id first, so the lowest places without a process are
// prepared first.
//
// Worked example, four places, one parked: place 0 is parked. Use(0) finds it,
// and Next says to start place 1. When that is ready, Use(2) finds none: Next
// says to start place 2 and, once that is ready, since two units started within
// this second, place 3.
//
// A value; owner-thread only; knows no clock but the times that it is given,
// which must not run backwards.
class WarmPool {
 public:
  static constexpr Nanos kWindow = Seconds(1);
  static constexpr uint32_t kMostTimes = 4;

  enum class State : uint8_t { kNone, kComing, kParked, kUsed, kEnding };

  struct Options {
    uint32_t places = 1;
    uint32_t parked = 2;  // at least, while there are places; 0: none ever is
  };
  // The first Options::parked places are coming: their processes are started
  // without being asked for.
  explicit WarmPool(const Options& options);

  // A unit of the place starts. Returns true if its process is there.
  bool Use(Instant now, size_t place);
  // No unit of the place, which is used, needs its process any more.
  void Rest(size_t place);
  // The process that was coming is there. Returns true if it is used at once.
  bool on_ready(size_t place);
  // The process has ended, for whatever reason. One that was used is not
  // wanted any more.
  void on_end(size_t place);

  struct Action {
    enum class Kind : uint8_t { kStart, kEnd };
    Kind kind;
    size_t place;
    bool operator==(const Action&) const = default;
  };
  // From now on no process is prepared at the place, or again; a unit may start
  // there nevertheless.
  void Shut(size_t place, bool is_shut) { places_[place].is_shut = is_shut; }
  // Returns what is to be done next, which then counts as begun; none: nothing
  // until something else happens, or time passes.
  std::optional<Action> Next(Instant now);
  // From now on nothing is prepared, and nothing ends for want of use.
  void Close() { is_closed_ = true; }

  // Prepares a process at the place, which has none, whether one more is to be
  // parked or not.
  Action Prepare(size_t place);
  // Ends the process at the place, which is parked.
  Action End(size_t place);

  State state(size_t place) const { return places_[place].state; }
  // Returns true if a unit waits for the process.
  bool is_awaited(size_t place) const { return places_[place].is_wanted; }
  size_t count(State state) const;
  // How many are to be parked at this time.
  size_t target(Instant now);

 private:
  struct Place {
    State state = State::kNone;
    bool is_wanted = false;  // has no process yet that a unit could use
    bool is_shut = false;
  };

  const Options options_;
  std::vector<Place> places_;
  std::deque<Instant> starts_;  // of units, within the window
  bool is_closed_ = false;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_WARM_POOL_H_
