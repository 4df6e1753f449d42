// SPDX-License-Identifier: Apache-2.0
#include "platform/report/report_advice.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/packet/flow_key_text.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "fmt/format.h"
#include "platform/run/figures/report_figures.h"

namespace snf {
namespace {

constexpr size_t kProposals = 3;
// Units of this share of the busiest 100 ms show packing.
constexpr int64_t kUnitsWorthSeeing = 4;
// What the flags take.
constexpr int64_t kLeastCapacityBps = 1'000;
constexpr int64_t kMostCapacityBps = 1'000'000'000'000;
constexpr uint32_t kMostQueued = 1 << 20;
constexpr uint32_t kMostFlows = 1 << 28;
// Below this share of one unit, traffic is too slow to show packing.
constexpr double kSlow = 0.5;
// Below this share of the provisioned capacity, units are no bottleneck as a
// whole.
constexpr double kIdle = 0.5;
// From one in so many flowlets that moved on, pulls are worth mending.
constexpr uint64_t kManyPulls = 10;
// The private address space (RFC 1918 §3).
constexpr const char* kPrivatePrefixes =
    "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16";

// "25Mbps", with two significant digits.
std::string RateFlag(int64_t rate_bps) {
  int64_t scale = 1;
  while (rate_bps / scale >= 100) scale *= 10;
  std::string text = FormatBitRate(rate_bps / scale * scale, Precision::kExact);
  std::erase(text, ' ');
  return text.replace(text.find("bit/s"), 5, "bps");
}

// Four times as much, if it may be so much.
std::string Larger(uint32_t value, uint32_t most) {
  return std::to_string(std::min(uint64_t{value} * 4, uint64_t{most}));
}

bool IsSlow(const RunOptions& options, const RunResult& result) {
  const auto capacity =
      static_cast<double>(options.controller.unit_capacity_bps);
  return result.controller.flows > 0 && result.units_max <= 1 &&
         static_cast<double>(FiguresOf(options, result).peak_rate_bps) <
             capacity * kSlow;
}

std::string Traffic(const RunResult& result, const ReportFigures& figures) {
  const std::string packets = result.packets_in == 1
                                  ? "One packet"
                                  : FormatCount(result.packets_in) + " packets";
  if (figures.duration.ns <= 0) {
    return result.packets_in == 1 ? packets : packets + " at one instant";
  }
  if (figures.sparse()) {
    return fmt::format("{}, spread thinly over {},", packets,
                       FormatDuration(figures.duration));
  }
  return fmt::format("{} of traffic at {}", FormatDuration(figures.duration),
                     FormatBitRate(figures.mean_rate_bps));
}

// Returns words for the units that were provisioned, and their use.
std::string Provisioned(const RunOptions& options, const RunResult& result,
                        const RunInfo& info, const ReportFigures& figures) {
  const std::string capacity =
      info.is_unpaced ? "" : " of " + UnitCapacity(options.controller);
  const uint32_t most = result.units_max;
  if (most == 0) return UnitsAreMeasured(result) ? " reached no unit" : "";
  if (!UnitsAreMeasured(result)) {
    return fmt::format(" ran on at most {}{}", Plural(most, "unit"), capacity);
  }
  const std::string used =
      info.is_unpaced ? ""
                      : fmt::format(": {} of the provisioned capacity was used",
                                    Percent(figures.capacity_used));
  if (most == 1) return fmt::format(" ran on a single unit{}", capacity) + used;
  return fmt::format(" ran on {:.2f} units{} on average ({} at most)",
                     figures.units_mean, capacity, FormatCount(most)) +
         used;
}

// How freely flowlets moved, and what it cost them.
std::string Moves(const RunResult& result, const ReportFigures& figures) {
  const uint64_t moved = result.controller.flowlets_moved;
  if (figures.flowlets_movable == 0 || result.units_max <= 1) return "";
  const auto share = [](uint64_t part, uint64_t whole) {
    return Percent(static_cast<double>(part) / static_cast<double>(whole));
  };
  const uint64_t flowlets = result.controller.flowlets;
  std::string text =
      fmt::format(" {} of flowlets could move to another unit, {} did",
                  share(figures.flowlets_movable, flowlets),
                  moved == 0 ? "none" : share(moved, flowlets));
  if (moved == 0) return text + ".";
  const StateFigures& state = result.state;
  text += fmt::format(", and {} of these were not held for {}",
                      share(state.seamless, moved), HeldFor(result));
  if (state.worst.wait.ns <= 0) return text + ".";
  const std::string whose =
      state.worst.key == FlowKey{}
          ? ""
          : fmt::format(", of flow {},", ToString(state.worst.key));
  return text + fmt::format("; the longest hold{} was {}.", whose,
                            FormatDuration(state.worst.wait));
}

// Returns true if most packets were taken for ones from the outside to nobody.
bool IsInsideWrong(const RunOptions& options, const RunResult& result) {
  return result.aliases.has_sides && !options.inside.empty() &&
         result.dropped[static_cast<size_t>(DropReason::kNoAlias)] * 2 >
             result.packets_begun();
}

std::string Troubles(const RunOptions& options, const RunResult& result) {
  std::string text;
  const ControllerCounters& controller = result.controller;
  if (controller.overcommitted > 0) {
    text += fmt::format(
        " {} of {} flowlets went to a unit that had no room for them.",
        FormatCount(controller.overcommitted),
        FormatCount(controller.flowlets));
  }
  const uint64_t dropped = result.packets_dropped();
  if (dropped > 0) {
    const std::vector<DropCount> drops = DropCounts(result);
    const DropCount& most = *std::ranges::max_element(
        drops, {}, [](const DropCount& d) { return d.packets; });
    const double share = static_cast<double>(dropped) /
                         static_cast<double>(result.packets_begun());
    text += fmt::format(
        " {} {} dropped ({}), {}because {}.", FormatCount(dropped),
        dropped == 1 ? "packet was" : "packets were", Percent(share),
        most.packets == dropped ? "" : "mostly ", Explain(most, options));
  }
  return text;
}

// Where an NF has two sides or pools, what of these went wrong.
std::string NfTroubles(const RunOptions& options, const RunResult& result) {
  std::string text;
  if (IsInsideWrong(options, result)) {
    text += fmt::format(
        " Few packets or none came from the inside that --inside={} names, so "
        "{} aliases were given; it is to name the hosts behind the network "
        "function.",
        FormatPrefixes(options.inside),
        FormatCount(result.controller.aliases_granted));
  }
  const uint64_t refused = result.controller.pieces.requests_refused;
  if (refused > 0) {
    text += fmt::format(
        " A pool of the network function was exhausted: {} for pieces of it "
        "found none. Its options in --nf make pools larger; of nat that is ip, "
        "with more addresses.",
        Plural(refused, "request"));
  }
  return text;
}

// Collects proposals while there is room, each a variant of the run's command.
class ProposalList {
 public:
  explicit ProposalList(const RunInfo& info) : info_(info) {}

  // `flag` replaces one of the same name. Without `=`, value is a word of its
  // own.
  void Add(std::string purpose, const std::string& flag,
           const std::string& value, bool equals = true) {
    if (proposals_.size() == kProposals) return;
    std::vector<std::string> words = {info_.command};
    for (const std::string& file : info_.files) {
      const bool like_a_flag = file.size() > 1 && file.starts_with('-');
      words.push_back(ShellWord(like_a_flag ? "./" + file : file));
    }
    for (const RunInfo::Flag& given : info_.flags) {
      if (given.repeat && given.name != flag && !given.value.empty()) {
        words.push_back(ShellWord("--" + given.name + "=" + given.value));
      }
    }
    if (equals) {
      words.push_back(ShellWord("--" + flag + "=" + value));
    } else {
      words.push_back("--" + flag + " " + ShellWord(value));
    }
    proposals_.push_back({std::move(purpose), std::move(words)});
  }

  std::vector<Proposal> Take() { return std::move(proposals_); }

 private:
  const RunInfo& info_;
  std::vector<Proposal> proposals_;
};

// What would have prevented drops and overcommitment.
void AddRemedies(const RunOptions& options, const RunResult& result,
                 const RunInfo& info, ProposalList& list) {
  const ControllerOptions& limits = options.controller;
  const auto dropped = [&result](DropReason reason) {
    return result.dropped[static_cast<size_t>(reason)] > 0;
  };
  const bool queue_full = dropped(DropReason::kUnitQueueFull);
  if (IsInsideWrong(options, result)) {
    list.Add("name the inside, as here the private addresses", "inside",
             kPrivatePrefixes);
  }
  // Where much of what is there lies idle, single units are swamped, and more
  // of them are no help.
  const bool idle = UnitsAreMeasured(result) && !info.is_unpaced &&
                    FiguresOf(options, result).capacity_used < kIdle;
  const auto add_larger_units = [&] {
    if (!queue_full || limits.unit_capacity_bps > kMostCapacityBps / 4) return;
    list.Add("units that a burst does not swamp", "unit_capacity",
             RateFlag(limits.unit_capacity_bps * 4));
  };
  if (idle) add_larger_units();
  if (!idle && result.units_max == limits.max_units &&
      (result.controller.overcommitted > 0 || queue_full) &&
      limits.max_units < kMaxUnits) {
    list.Add("allow more units", "max_units",
             Larger(limits.max_units, kMaxUnits));
  }
  if (queue_full && limits.unit_queue_packets < kMostQueued) {
    list.Add("let packets wait instead of dropping them: latency grows",
             "unit_queue", Larger(limits.unit_queue_packets, kMostQueued));
  }
  // The start buffer is a part of the queue.
  const uint64_t start_buffer =
      std::min(uint64_t{limits.start_buffer_packets} * 4,
               uint64_t{limits.unit_queue_packets});
  if (dropped(DropReason::kStartBufferFull) &&
      start_buffer > limits.start_buffer_packets) {
    list.Add("hold more packets while a unit starts", "start_buffer",
             std::to_string(start_buffer));
  }
  if (dropped(DropReason::kHoldOverflow) &&
      options.hold_packets < limits.unit_queue_packets) {
    list.Add("let more packets wait for state", "hold_queue",
             Larger(options.hold_packets, limits.unit_queue_packets));
  }
  if (dropped(DropReason::kFlowTableFull) && limits.max_flows < kMostFlows) {
    list.Add("make room for more flows", "max_flows",
             Larger(limits.max_flows, kMostFlows));
  }
  if (!idle) add_larger_units();
}

// What would have brought more flowlets together with their state.
void AddForPulls(const RunOptions& options, const RunResult& result,
                 ProposalList& list) {
  const ControllerOptions& controller = options.controller;
  const uint64_t moved = result.controller.flowlets_moved;
  if (result.state.pulled == 0 || result.state.pulled * kManyPulls < moved) {
    return;
  }
  const uint32_t replicas = std::min(
      {controller.replicas * 3, kMaxReplicas, controller.max_units - 1});
  if (controller.replica_choice == ReplicaChoice::kLikely) {
    list.Add("more state pushed ahead: fewer flowlets are held",
             "replica_chance", "0.01");
  } else if (controller.replica_choice != ReplicaChoice::kNone &&
             replicas > controller.replicas) {
    list.Add("more replicas: fewer flowlets are held, more messages are sent",
             "replicas", std::to_string(replicas));
  }
  if (controller.alpha_1024 < 1024) {
    list.Add("keep flows where their state is, at the cost of packing", "alpha",
             controller.alpha_1024 < 768 ? "0.75" : "1");
  }
}

// The same input seen or run in another way.
void AddVariants(const RunOptions& options, const RunResult& result,
                 const RunInfo& info, ProposalList& list) {
  const bool from_stdin =
      std::ranges::find(info.files, "-") != info.files.end();
  const bool is_snf = info.policy == "snf";
  const bool is_real = result.real.threads > 0;
  if (is_snf) AddForPulls(options, result, list);
  if (is_real) list.Add("see how it goes while it runs", "watch", "true");
  if (!from_stdin && !is_real) {
    list.Add("the story of the busiest flow, decision by decision", "explain",
             "top", false);
  }
  if (!from_stdin && !is_real && result.units_max > 1) {
    list.Add(is_snf ? "the same with whole flows placed, side by side"
                    : "the same under policy snf, side by side",
             "compare", is_snf ? "vanilla_flow" : "snf", false);
  }
  if (!is_snf) return;
  if (options.controller.flowlet_timeout > Microseconds(100)) {
    list.Add("shorter flowlets: more chances to move, more decisions",
             "flowlet_timeout", "100us");
  } else {
    list.Add("longer flowlets: fewer decisions, less freedom to pack",
             "flowlet_timeout", "500us");
  }
}

}  // namespace

std::string Meaning(const RunOptions& options, const RunResult& result,
                    const RunInfo& info) {
  if (!RunIsSound(result)) {
    return "Nothing: figures of a run that broke its own rules cannot be "
           "trusted. See the problem at the top.";
  }
  if (result.packets_in == 0) return "There was no packet to replay.";
  if (result.packets_passed_through == result.packets_in) {
    return fmt::format(
        "{} a readable IP header, so there was no flow to place and nothing "
        "for a unit to do: {} passed through untouched.",
        result.packets_in == 1 ? "The only packet lacks"
                               : fmt::format("None of the {} packets has",
                                             FormatCount(result.packets_in)),
        result.packets_in == 1 ? "it" : "all");
  }
  const ReportFigures figures = FiguresOf(options, result);
  std::string text = Traffic(result, figures);
  text += Provisioned(options, result, info, figures);
  if (result.latency_ns.count() > 0) {
    text +=
        fmt::format(", and 99 of 100 packets left within {}",
                    FormatDuration(Nanos{result.latency_ns.Quantile(99'000)}));
  }
  return text + "." + Moves(result, figures) + Troubles(options, result) +
         NfTroubles(options, result);
}

std::string SlownessHint(const RunOptions& options, const RunResult& result,
                         const RunInfo& info) {
  if (info.is_unpaced || !IsSlow(options, result)) return "";
  const int64_t capacity_bps = options.controller.unit_capacity_bps;
  const int64_t peak_bps = FiguresOf(options, result).peak_rate_bps;
  return fmt::format(
      "This traffic is too slow to show packing: its busiest 100 ms asked for "
      "{}, {} of what one unit carries. Smaller units make it visible.",
      FormatBitRate(peak_bps),
      Percent(static_cast<double>(peak_bps) /
              static_cast<double>(capacity_bps)));
}

std::vector<Proposal> Proposals(const RunOptions& options,
                                const RunResult& result, const RunInfo& info) {
  const ControllerOptions& controller = options.controller;
  const ReportFigures figures = FiguresOf(options, result);
  ProposalList list(info);
  const auto add_outputs = [&list] {
    list.Add("all figures as JSON, for scripts", "json", "result.json", false);
    list.Add("the released packets as a capture", "out", "out.pcapng", false);
  };
  // Runs of several controllers have no stories to show.
  if (result.cluster.controllers > 0) {
    list.Add("series per 100 ms and quantiles as CSV, for plots", "csv",
             "figures", false);
    list.Add("what was used in each second", "usage", "usage.jsonl", false);
    add_outputs();
    return list.Take();
  }
  AddRemedies(options, result, info, list);
  const int64_t smaller_bps =
      std::max(kLeastCapacityBps, figures.peak_rate_bps / kUnitsWorthSeeing);
  if (result.controller.flows > 0 && result.units_max <= 1 &&
      smaller_bps < controller.unit_capacity_bps) {
    list.Add("units small enough that several are needed", "unit_capacity",
             RateFlag(smaller_bps));
  }
  if (result.controller.flows > 0) AddVariants(options, result, info, list);
  list.Add("series per 100 ms and quantiles as CSV, for plots", "csv",
           "figures", false);
  add_outputs();
  return list.Take();
}

}  // namespace snf
