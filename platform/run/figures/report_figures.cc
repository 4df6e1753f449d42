// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/report_figures.h"

#include <algorithm>
#include <cmath>

#include "base/messages/messages.h"
#include "base/packet/packet_parser.h"
#include "base/quantity.h"
#include "fmt/format.h"
#include "platform/run/provisioning.h"

namespace snf {
namespace {

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

int64_t RateOf(uint64_t bytes, Nanos time) {
  const double bps =
      Ratio(static_cast<double>(bytes) * 8, static_cast<double>(time.ns) / 1e9);
  // Many bytes in a nanosecond are no rate that anybody could mean.
  return std::llround(std::min(bps, 1e18));
}

}  // namespace

ReportFigures FiguresOf(const RunOptions& options, const RunResult& result) {
  constexpr Nanos kEpoch{Provisioning::kEpochNs};
  ReportFigures figures;
  const ForgottenEpochs& before = result.forgotten;
  uint64_t offered_bytes = before.offered_bytes;
  uint64_t most_bytes = before.most_offered_bytes;
  double drained_bits = static_cast<double>(before.drained_bytes) * 8;
  figures.epochs_forgotten = before.epochs;
  figures.busy.ns = static_cast<int64_t>(before.with_offered) * kEpoch.ns;
  for (const EpochSample& sample : result.epochs) {
    if (sample.offered_bytes > 0) figures.busy.ns += kEpoch.ns;
    offered_bytes += sample.offered_bytes;
    most_bytes = std::max(most_bytes, sample.offered_bytes);
    drained_bits += static_cast<double>(sample.drained_bytes) * 8;
  }
  figures.duration = result.last_packet - result.first_packet;
  figures.mean_rate_bps = RateOf(result.bytes_in, figures.duration);
  figures.busy_rate_bps = RateOf(offered_bytes, figures.busy);
  figures.peak_rate_bps = RateOf(most_bytes, kEpoch);
  figures.mean_packet_bytes = Ratio(static_cast<double>(result.bytes_in),
                                    static_cast<double>(result.packets_in));
  figures.flowlets_per_flow =
      Ratio(static_cast<double>(result.controller.flowlets),
            static_cast<double>(result.controller.flows));
  figures.capacity_used =
      Ratio(drained_bits,
            static_cast<double>(result.unit_ns_with_traffic) / 1e9 *
                static_cast<double>(options.controller.unit_capacity_bps));
  figures.replication_bps =
      RateOf(result.state.pushed_bytes + result.state.pushes * sizeof(State),
             figures.busy);
  const ControllerCounters& controller = result.controller;
  figures.flowlets_movable =
      controller.flowlets - std::min(controller.flowlets, controller.flows);
  figures.flowlets_by_new_flow = controller.flowlets -
                                 controller.flowlets_by_gap -
                                 controller.flowlets_by_bytes;
  figures.aliases_refused_unknown = controller.aliases_refused_unknown +
                                    controller.aliases_refused_stale +
                                    controller.aliases_refused_future;
  figures.duration_s = static_cast<double>(figures.duration.ns) / 1e9;
  figures.wall_s = static_cast<double>(result.real.wall.ns) / 1e9;
  figures.units_mean = static_cast<double>(result.units_mean_1000) / 1000;
  const Histogram& utilisation = result.utilisation_1000;
  figures.utilisation_p50 =
      static_cast<double>(utilisation.Quantile(50'000)) / 1000;
  figures.utilisation_p99 =
      static_cast<double>(utilisation.Quantile(99'000)) / 1000;
  figures.conserved = result.conserved();
  figures.sound = figures.conserved && result.violations == 0;
  return figures;
}

bool UnitsAreMeasured(const RunResult& result) {
  return result.unit_ns_with_traffic > 0 ||
         (result.units_max == 0 && result.latency_ns.count() == 0);
}

bool UsedHostRecords(const RunResult& result) {
  const UnitCounters& units = result.state.units;
  return units.records_shown + units.records_read > 0 ||
         std::ranges::any_of(units.records_missed,
                             [](uint64_t missed) { return missed > 0; });
}

bool KeepsNoState(const RunResult& result) {
  const StateFigures& state = result.state;
  return state.pushes + state.answers > 0 && !UsedHostRecords(result) &&
         state.bytes + state.bytes_within_host == 0;
}

std::string_view HeldFor(const RunResult& result) {
  return KeepsNoState(result) ? "their turn" : "state";
}

std::string UnitCapacity(const ControllerOptions& options) {
  std::string text = FormatBitRate(options.unit_capacity_bps);
  if (options.unit_packets_ps > 0) {
    text += " and " + FormatPacketRate(options.unit_packets_ps);
  }
  return text;
}

std::vector<DropCount> DropCounts(const RunResult& result) {
  std::vector<DropCount> drops;
  for (size_t i = 0; i < kDropReasons; ++i) {
    drops.push_back({.by_nf = false,
                     .index = i,
                     .name = std::string(ToString(static_cast<DropReason>(i))),
                     .packets = result.dropped[i]});
  }
  for (size_t i = 0; i < result.nf_dropped.size(); ++i) {
    const std::string name = i < result.nf_drop_names.size()
                                 ? result.nf_drop_names[i]
                                 : std::to_string(i);
    drops.push_back({.by_nf = true,
                     .index = i,
                     .name = "nf:" + name,
                     .packets = result.nf_dropped[i]});
  }
  return drops;
}

std::string Explain(const DropCount& drop, const RunOptions& options) {
  if (drop.by_nf) return "the network function decided so";
  const ControllerOptions& limits = options.controller;
  switch (static_cast<DropReason>(drop.index)) {
    case DropReason::kUnitQueueFull:
      return fmt::format("the unit's queue of {} packets was full",
                         FormatCount(limits.unit_queue_packets));
    case DropReason::kStartBufferFull:
      return fmt::format(
          "the unit was still starting, its buffer of {} packets full",
          FormatCount(limits.start_buffer_packets));
    case DropReason::kFlowTableFull:
      return fmt::format("the flow table of {} flows was full",
                         FormatCount(limits.max_flows));
    case DropReason::kBufferPoolEmpty:
      return "all packet buffers were in use";
    case DropReason::kPacketTooLarge:
      return fmt::format("no buffer is larger than {} bytes",
                         FormatCount(BufferPool::kMaxPacketBytes));
    case DropReason::kDuplicateClock:
      return "a unit had seen the same logical clock before";
    case DropReason::kHoldOverflow:
      return fmt::format("{} packets were already waiting for state at a unit",
                         FormatCount(options.hold_packets));
    case DropReason::kNoAlias:
      return "no inside host has a mapping for where it came to";
    case DropReason::kAliasConflict:
      return "another flow had the mapping that its own was to have";
    case DropReason::kAliasLimit:
      return "its host had as many mappings as it may";
    case DropReason::kNoPieces:
      return "the network function's pool was empty";
    case DropReason::kFragmentEarly:
      return "it was a later fragment of a packet whose first was not seen";
    case DropReason::kNotTranslated:
      return "it answers what had not been translated, or stays on the inside";
    case DropReason::kPacketCorrupt:
      return "what shared memory said of where its headers are could not be";
    case DropReason::kUnitFailed:
      return options.faults.any()
                 ? "their unit had failed"
                 : "the run ended early, because of what a unit had sent";
    case DropReason::kStoreSilent:
      return fmt::format(
          "its flow's state was in a store that was silent for {}",
          FormatDuration(options.store.patience));
    case DropReason::kControllerFailed:
      return "the controller failed that had them in its buffers";
    case DropReason::kNfFailed:
      return "the NF failed on them, or on others of their flow";
    case DropReason::kTypeUnknown:
      return "no IP packet was found behind a type that is not known";
    case DropReason::kLinkUnreadable:
      return fmt::format(
          "the link header was cut, or had more than {} VLAN tags or {} labels",
          kMaxVlanTags, kMaxMplsLabels);
    case DropReason::kIpUnreadable:
      return "the IP header was cut, or contradicted itself";
    case DropReason::kTooManyExtensions:
      return fmt::format("IPv6 had more than {} extension headers",
                         kMaxIpv6Extensions);
    case DropReason::kExtensionNotRead:
      return "another header stood behind mobility, HIP or shim6";
    case DropReason::kNoUpperHeader:
      return "its ports were not in it, or not all in its first fragment";
    case DropReason::kFragmentOverlap:
      return "it overwrote what its first fragment showed";
    case DropReason::kCount:
      break;
  }
  return "";
}

std::string NameOf(const RunResult::NfCounter& counter) {
  return counter.nf.empty() ? counter.name : counter.nf + "." + counter.name;
}

}  // namespace snf
