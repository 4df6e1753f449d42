// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_HOST_ASSIGNMENT_H_
#define SNF_PLATFORM_HOSTS_HOST_ASSIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "platform/hosts/host_place.h"

namespace snf {

// Theory of operation. Says on which host the process of each place runs, as
// hosts join and leave; a place has one process at a time, of some units. The
// first places are the own host's, and so are the last ones, of spare units.
// Each place in between is wanted on a host that has joined; hosts are filled
// in the order of their names. A place keeps its host until the host leaves.
//
//   host joins  ─► places are wanted there    ─► open
//   host leaves ─► wanted elsewhere, or nowhere: closed; the process runs on
//   End         ─► the next Start is on the wanted host, or else the own one
//
// Units of a closed place are to get no more flowlets. A process that is on
// another host than the wanted one is misplaced, and is to end once its units
// are idle. A place without a wanted host may start on the own host, for what
// its last process has left undone.
//
// A host on which a process failed is silent: its places are closed until a
// process starts there, which is tried by one place after kFirstPause, and then
// after pauses that double up to kLongestPause.
//
// Worked example: places 0 to 4, of which 0 and 4 are the own host's. b joins
// with two processes: 1 and 2 are on b, 3 is closed. c joins: 3 is on c. b
// leaves: 1 and 2 are closed. c has room for two more: 1 and 2 are wanted on c,
// and open there once their processes on b have ended.
//
// A value; owner-thread only. Times must not run backwards.
class HostAssignment {
 public:
  static constexpr Nanos kFirstPause = Seconds(1);
  static constexpr Nanos kLongestPause = Seconds(8);

  struct Options {
    size_t own = 1;     // first places, on the own host
    size_t placed = 0;  // places from here on are on the own host, too
    size_t places = 0;
  };
  explicit HostAssignment(const Options& options);

  // Sets the hosts that have joined, in the order in which they are filled.
  void Set(std::vector<HostPlace> hosts);

  // Sets them, and the host of each place, which is wanted there from now on.
  void Assign(std::vector<HostPlace> hosts, const HostSource::Places& places);

  // The place's process starts: returns its host; none: the own host.
  std::optional<HostPlace> Start(Instant now, size_t place);
  // The process serves.
  void on_ready(size_t place);
  // The process has ended, or was not started.
  void on_end(Instant now, size_t place, bool has_failed);

  bool is_open(size_t place) const;
  bool is_misplaced(size_t place) const;
  // Returns a place without a process by which a silent host is to be tried
  // now; none: there is no such place.
  std::optional<size_t> NextTry(Instant now) const;

  // Returns where the process of the place runs, or else is wanted; null: on
  // the own host, or nowhere.
  const HostPlace* HostOf(size_t place) const;
  const std::vector<HostPlace>& hosts() const { return hosts_; }
  // Returns true if a process has failed there, and none has started since.
  bool is_silent(const HostPlace& host) const {
    return silent_.contains(host.address.data());
  }

 private:
  struct Place {
    std::optional<HostPlace> wanted{};
    std::optional<HostPlace> on{};  // of the process; none: the own host
    bool has_process = false;
  };
  struct Silence {
    Instant next_try;
    Nanos pause;
    bool is_tried = false;  // a process is on its way
  };

  bool is_own(size_t place) const {
    return place < options_.own || place >= options_.placed;
  }
  bool is_joined(const HostPlace& host) const;
  void ForgetSilent();

  const Options options_;
  std::vector<Place> places_;
  std::vector<HostPlace> hosts_;
  std::map<std::string, Silence> silent_;  // by address
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_HOST_ASSIGNMENT_H_
