// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FIGURES_LIVE_FIGURES_H_
#define SNF_PLATFORM_RUN_FIGURES_LIVE_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/outage.h"
#include "base/time.h"
#include "platform/run/figures/figures.h"
#include "platform/run/figures/report_figures.h"
#include "platform/run/pace.h"
#include "platform/run/run.h"

namespace snf {

// Tells how a run in real time stands. Counts and sums are since its beginning,
// as in RunResult, so that two of these tell what was between them.
struct LiveFigures {
  Nanos elapsed;  // since the first packet
  Speed speed;    // asked for
  // The share of the capture that is taken, 0 … 1000; absent if unknown.
  std::optional<uint32_t> done_1000{};

  // Counts of the table of figures: packets, flows, starts of units.
  FigureCounts counts{};
  std::vector<DropCount> drops{};  // all reasons, as DropCounts

  // All that were ever started, by id.
  struct Unit {
    UnitId id = kNoUnit;
    bool is_up = false;
    uint64_t packets = 0;  // that left it
    uint64_t bytes = 0;
    std::string host{};  // where it runs; "": the controller's
  };
  std::vector<Unit> units{};
  // The hosts of units beside the controller's.
  struct Host {
    std::string name;
    std::string address;
    // "joined"; "silent": a process failed there, and none has started since;
    // "left": it has units that are drained.
    std::string state;
    uint32_t units = 0;  // that it can run
  };
  std::vector<Host> hosts{};
  std::optional<int64_t> unit_capacity_bps{};  // absent: as fast as they can be

  // The quantiles of a histogram; `now` is since the figures before these.
  struct Times {
    struct {
      Nanos p50;
      Nanos p99;
    } now, all;
    Nanos max;
    uint64_t count = 0;
    uint64_t sum_ns = 0;
  };
  Times latency{};  // arrival to release
  PortsFigures live{};
  // The chains that have packets, the newest as the last. Counts are of all
  // that there were, units and times of the newest; with rules, `latency` is of
  // all chains, and `units` is empty.
  struct Chain {
    uint32_t number = 0;
    std::string nf;
    uint64_t flows = 0;  // now
    uint64_t packets_in = 0;
    bool is_down = false;  // it has failed, and restarts
    // The following are of several chains with rules; the last two are of the
    // newest generation of each.
    std::string name{};
    std::vector<Unit> units{};
    Times latency{};
  };
  std::vector<Chain> chains{};
  // The states of objects that the NFs of the newest chain watch.
  struct NfObject {
    std::string nf;
    std::string object;
    std::string state;
    std::optional<Nanos> age{};  // absent: longer than known
    std::string why{};
  };
  std::vector<NfObject> nf_objects{};
  // The group of controllers that this one is a member of.
  struct Group {
    struct Member {
      uint32_t number = 0;
      std::string name;
      std::string address;      // for frames from other members; "": none
      uint32_t hosts_1000 = 0;  // its share of all hosts, in thousandths
    };
    std::string name;
    // "active"; "joining": in the table, and the others have not all taken it
    // yet; "waiting": active, but not vouched for, so it takes no packets;
    // "out": others have its hosts.
    std::string state;
    uint64_t epoch = 0;
    uint32_t controllers = 0;       // that live or not
    std::vector<Member> members{};  // that live
    std::vector<NamedCount> counts{};
    // Why the states of its flows go to no other member; "": they go to one, or
    // no other member lives.
    std::string states_away{};
  };
  std::optional<Group> group{};
  // Services that the process asks, and can do without; absent: it asks none.
  std::optional<Outage::State> etcd{};
  std::optional<Outage::State> manager{};  // of resources
  Times late{};  // how late packets were taken; count 0 without a schedule

  uint64_t packets_dropped() const {
    uint64_t sum = 0;
    for (const DropCount& drop : drops) sum += drop.packets;
    return sum;
  }
  // Taken, made or come again, but not at an end yet.
  uint64_t packets_under_way() const {
    return counts[&RunResult::packets_in] +
           counts[&RunResult::packets_inherited] +
           counts[&RunResult::packets_generated] +
           counts[&AliasFigures::packets_hairpinned] -
           counts[&RunResult::packets_released] -
           counts[&RunResult::packets_passed_through] -
           counts[&RunResult::packets_consumed] - packets_dropped();
  }
  uint32_t units_up() const {
    uint32_t up = UnitsUp(units);
    for (const Chain& chain : chains) up += UnitsUp(chain.units);
    return up;
  }
  static uint32_t UnitsUp(const std::vector<Unit>& units) {
    uint32_t up = 0;
    for (const Unit& unit : units) up += unit.is_up ? 1 : 0;
    return up;
  }
};

// Makes Times of a histogram that grows.
class LiveTimes {
 public:
  // Returns times whose `now` counts from the last call. O(buckets), some
  // 100 µs.
  LiveFigures::Times Take(const Histogram& grown);

 private:
  Histogram before_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FIGURES_LIVE_FIGURES_H_
