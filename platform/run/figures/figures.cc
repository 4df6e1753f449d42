// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/figures.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "base/counters.h"
#include "runtime/shell/state_figures.h"

namespace snf {
namespace {

constexpr AddUp kSum = AddUp::kSum;
constexpr AddUp kMax = AddUp::kMax;
constexpr AddUp kNot = AddUp::kNot;
constexpr std::monostate kComposed;
constexpr FigureMetric kNoMetric;
constexpr bool kIfAny = true;

constexpr Figure kFigures[] = {
#include "platform/run/figures/figures_table.inc"
};

struct Reader {
  const RunResult& result;
  const ReportFigures& derived;

  FigureValue operator()(std::monostate) const { return {}; }
  template <typename T, typename Part>
  FigureValue operator()(T Part::*member) const {
    const T& value = [&]() -> const T& {
      if constexpr (std::is_same_v<Part, ReportFigures>) {
        return derived.*member;
      } else {
        return PartIn<Part>(result).*member;
      }
    }();
    if constexpr (std::is_same_v<T, Histogram>) {
      const bool may_be_absent = std::is_same_v<Part, RealFigures> ||
                                 std::is_same_v<Part, UnitStartFigures>;
      const bool is_absent = may_be_absent && value.count() == 0;
      return is_absent ? nullptr : &value;
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      return uint64_t{value};
    } else {
      return value;
    }
  }
};

// Adds a figure of `one` to that of `sum`.
struct Adder {
  AddUp adds;
  RunResult& sum;
  const RunResult& one;

  void operator()(std::monostate) const {}
  template <typename T, typename Part>
  void operator()(T Part::*member) const {
    // Counters of these parts are added up as wholes, with those of no figure.
    if constexpr (!std::is_same_v<Part, ReportFigures> &&
                  !std::is_same_v<Part, ControllerCounters> &&
                  !std::is_same_v<Part, PieceCounters> &&
                  !std::is_same_v<Part, FailureCounters> &&
                  !std::is_same_v<Part, UnitCounters> &&
                  !std::is_base_of_v<Part, StateFigures>) {
      Add(PartIn<Part>(sum).*member, PartIn<Part>(one).*member);
    }
  }

  template <typename T>
  void Add(T& to, const T& more) const {
    if constexpr (std::is_same_v<T, Histogram>) {
      to.Merge(more);
    } else if (adds == AddUp::kSum) {
      to += more;
    } else if (adds == AddUp::kMax) {
      to = std::max(to, more);
    }
  }
};

struct TypeName {
  std::string_view composed;

  std::string_view operator()(std::monostate) const { return composed; }
  template <typename T, typename Part>
  std::string_view operator()(T Part::*) const {
    if (std::is_same_v<T, bool>) return "boolean";
    if (std::is_same_v<T, double>) return "number";
    if (std::is_same_v<T, Histogram>) return "object: p50 p90 p99 p999 max";
    return "integer";
  }
};

// Returns true if the figure depends on the time that units were up.
bool IsOfUnitTime(const FigurePlace& place) {
  return place == FigurePlace(&ReportFigures::units_mean) ||
         place == FigurePlace(&ReportFigures::capacity_used) ||
         place == FigurePlace(&ReportFigures::utilisation_p50) ||
         place == FigurePlace(&ReportFigures::utilisation_p99);
}

}  // namespace

std::string_view Name(AddUp adds) {
  switch (adds) {
    case AddUp::kSum:
      return "sum";
    case AddUp::kMax:
      return "max";
    case AddUp::kNot:
      return "not";
  }
  return "";
}

std::span<const Figure> Figures() { return kFigures; }

std::span<const PortCount> PortCounts() {
  static constexpr PortCount kCounts[] = {
      {"received", &PortFigures::received, "snf_port_received_packets_total",
       "Packets received by the port."},
      {"split", &PortFigures::split, "snf_port_split_frames_total",
       "Frames that came and were several packets in one."},
      {"merged", &PortFigures::merged, "snf_port_merged_frames_total",
       "Received frames of several packets that stayed whole."},
      {"refused", &PortFigures::refused, "snf_port_refused_frames_total",
       "Received frames that are not packets."},
      {"kernel_drops", &PortFigures::kernel_drops,
       "snf_port_kernel_dropped_frames_total",
       "Frames dropped because the kernel's queue was full."},
      {"sent", &PortFigures::sent, "snf_port_sent_packets_total",
       "Packets sent by the port."},
      {"cut", &PortFigures::cut, "snf_port_cut_packets_total",
       "Packets sent because frames of several were cut, one less each."},
      {"send_drops", &PortFigures::send_drops,
       "snf_port_send_dropped_packets_total",
       "Packets to send that the kernel refused."},
      {"too_long", &PortFigures::too_long, "snf_port_too_long_packets_total",
       "Of these, packets that are longer than the MTU."},
      {"foreign", &PortFigures::foreign, "snf_port_foreign_fragments_total",
       "Fragments dropped because they belong to other controllers."}};
  return kCounts;
}

void AddCounts(PortFigures& sum, const PortFigures& one) {
  for (const PortCount& count : PortCounts()) {
    sum.*count.count += one.*count.count;
  }
  if (sum.router.empty()) {
    sum.router = one.router;
    return;
  }
  // Ports of one kind have the same names.
  for (size_t i = 0; i < one.router.size(); ++i) {
    sum.router[i].count += one.router[i].count;
  }
}

void AddUpFigures(RunResult& sum, const RunResult& one) {
  AddCounters(sum.controller, one.controller);
  AddTo(sum.state, one.state);
  for (const Figure& figure : kFigures) {
    std::visit(Adder{figure.adds, sum, one}, figure.place);
  }
}

FigureValue ValueOf(const Figure& figure, const RunResult& result,
                    const ReportFigures& derived) {
  if (!UnitsAreMeasured(result) && IsOfUnitTime(figure.place)) {
    return static_cast<const Histogram*>(nullptr);
  }
  return std::visit(Reader{result, derived}, figure.place);
}

bool IsShown(const Figure& figure, const RunResult& result) {
  if (figure.key.starts_with("real.starts.")) {
    return result.real.starts.is_pooled;
  }
  if (figure.key.starts_with("real.")) return result.real.threads > 0;
  if (figure.key.starts_with("aliases.")) return result.aliases.has_sides;
  if (figure.key.starts_with("host_records.")) {
    return UsedHostRecords(result);
  }
  if (figure.key.starts_with("loggers.")) return result.loggers.entries > 0;
  if (figure.key.starts_with("recovery.")) return result.recovery.samples > 0;
  if (figure.key.starts_with("store.")) {
    return result.store.reads + result.store.writes > 0;
  }
  if (figure.key.starts_with("faults.")) {
    const FaultFigures& faults = result.faults;
    return faults.kills + faults.kills_without_unit + faults.logger_kills +
               faults.kills_without_logger + faults.logger_failures +
               result.controller.failures.failures +
               result.controller.failures.flows_given_up >
           0;
  }
  if (figure.key.starts_with("controller_faults.")) {
    const ControllerFaultFigures& faults = result.controller_faults;
    return faults.kills + faults.kills_in_vain > 0;
  }
  if (figure.key.starts_with("leases.")) return result.cluster.controllers > 0;
  if (figure.key.starts_with("pools.")) return result.aliases.pools > 0;
  return figure.is_in_report();
}

std::string_view TypeOf(const Figure& figure) {
  return std::visit(TypeName{figure.unit}, figure.place);
}

FigureCounts::FigureCounts(const RunResult& result) {
  static_assert(std::size(kFigures) <= kMaxFigures);
  const ReportFigures nothing_derived;
  for (size_t i = 0; i < std::size(kFigures); ++i) {
    const FigureValue value = ValueOf(kFigures[i], result, nothing_derived);
    if (const auto* count = std::get_if<uint64_t>(&value)) counts_[i] = *count;
  }
}

size_t FigureCounts::IndexOf(const FigurePlace& place) {
  const auto found = std::ranges::find(kFigures, place, &Figure::place);
  SNF_CHECK(found != std::end(kFigures));
  return static_cast<size_t>(found - std::begin(kFigures));
}

}  // namespace snf
