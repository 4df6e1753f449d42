// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FIGURES_FIGURES_H_
#define SNF_PLATFORM_RUN_FIGURES_FIGURES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/histogram.h"
#include "controller/core/controller_counters.h"
#include "platform/run/figures/report_figures.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. A figure of the report is one line of a table. The JSON
// report, its schema, figures.csv, the metrics and the live view are made by
// going through that table, so a counter that is counted somewhere is shown
// everywhere by adding its line:
//
//   {"pulls_forgotten", "pulls", kSum, &UnitCounters::pulls_forgotten,
//    "Pulls of units that do not ask again.",
//    {"snf_pulls_forgotten_total"}, {"Pulls   forgotten"}},
//
// Text for people is written by hand from the same members (report.cc).

// Says how the figure of several units, controllers or runs comes of theirs.
enum class AddUp : uint8_t { kSum, kMax, kNot };
std::string_view Name(AddUp adds);

// The place where a figure is found. Without one, it has no number: it is text,
// or an object whose keys depend on the run.
using FigurePlace = std::variant<
    std::monostate, uint64_t RunResult::*, uint32_t RunResult::*,
    uint64_t ControllerCounters::*, uint64_t PieceCounters::*,
    uint64_t ClassifierCounters::*, uint64_t StateCounters::*,
    uint64_t UnitCounters::*, uint64_t AliasFigures::*,
    uint32_t AliasFigures::*, uint64_t UnitLogFigures::*,
    uint64_t LoggerFigures::*, uint64_t StoreCounters::*,
    Histogram StoreFigures::*, uint64_t ClusterFigures::*,
    uint64_t FaultFigures::*, Histogram FaultFigures::*,
    uint64_t SuccessionCounters::*, uint64_t ControllerFaultFigures::*,
    Histogram ControllerFaultFigures::*, uint64_t RecoveryFigures::*,
    uint64_t FailureCounters::*, uint64_t RealFigures::*,
    uint32_t RealFigures::*, bool ReportFigures::*, uint64_t ReportFigures::*,
    int64_t ReportFigures::*, double ReportFigures::*, Histogram RunResult::*,
    Histogram StateFigures::*, Histogram RealFigures::*,
    uint64_t UnitStartFigures::*, Histogram UnitStartFigures::*,
    uint64_t NfLogFigures::*>;

// Says how a figure is shown while a run goes on. Figures that are gathered at
// the end have neither a metric nor a row.
struct FigureMetric {
  std::string_view name = "";   // "": it is none
  std::string_view label = "";  // "": it has none
  std::string_view label_value = "";
  std::string_view help = "";  // of a metric with labels
};
struct FigureRow {
  std::string_view label = "";  // "": the live view has no row of it
  bool if_any = false;          // it is left out while it is 0
};

struct Figure {
  // Its key in the JSON report; "a.b" is the key b of the object a. Keys that
  // begin with '(' are not in the report.
  std::string_view key;
  std::string_view unit;  // without a place: its type
  AddUp adds;
  FigurePlace place;
  std::string_view help;
  FigureMetric metric = {};
  FigureRow row = {};

  bool is_in_report() const { return !key.starts_with('('); }
};

// Returns all figures, in the order of the JSON report.
std::span<const Figure> Figures();

// Returns the part of a result that a figure's place is in.
template <typename Part>
const Part& PartIn(const RunResult& result) {
  if constexpr (std::is_same_v<Part, RunResult>) {
    return result;
  } else if constexpr (std::is_same_v<Part, ControllerCounters>) {
    return result.controller;
  } else if constexpr (std::is_same_v<Part, PieceCounters>) {
    return result.controller.pieces;
  } else if constexpr (std::is_same_v<Part, FailureCounters>) {
    return result.controller.failures;
  } else if constexpr (std::is_same_v<Part, ClassifierCounters>) {
    return result.classifier;
  } else if constexpr (std::is_same_v<Part, UnitCounters>) {
    return result.state.units;
  } else if constexpr (std::is_base_of_v<Part, StateFigures>) {
    return result.state;
  } else if constexpr (std::is_same_v<Part, AliasFigures>) {
    return result.aliases;
  } else if constexpr (std::is_base_of_v<Part, LoggerFigures>) {
    return result.loggers;
  } else if constexpr (std::is_base_of_v<Part, StoreFigures>) {
    return result.store;
  } else if constexpr (std::is_same_v<Part, RecoveryFigures>) {
    return result.recovery;
  } else if constexpr (std::is_same_v<Part, FaultFigures>) {
    return result.faults;
  } else if constexpr (std::is_base_of_v<Part, ControllerFaultFigures>) {
    return result.controller_faults;
  } else if constexpr (std::is_same_v<Part, ClusterFigures>) {
    return result.cluster;
  } else if constexpr (std::is_same_v<Part, RealFigures>) {
    return result.real;
  } else if constexpr (std::is_same_v<Part, NfLogFigures>) {
    return result.nf_log;
  } else {
    static_assert(std::is_same_v<Part, UnitStartFigures>);
    return result.real.starts;
  }
}
template <typename Part>
Part& PartIn(RunResult& result) {
  return const_cast<Part&>(PartIn<Part>(std::as_const(result)));
}

// Adds each figure of `one` to the same figure of `sum`, as the figure says
// (AddUp), and merges histograms. Counters of the controller and of units that
// are no figures are added as well. Figures without a place, ReportFigures and
// numbers that do not add up stay as they are.
void AddUpFigures(RunResult& sum, const RunResult& one);

// A count of a port of live traffic (PortFigures). The JSON report, the control
// service, the metrics and sums of ports are made by going through
// PortCounts().
struct PortCount {
  // Its key in the JSON report, and its field in proto/control.proto.
  std::string_view key;
  uint64_t PortFigures::*count;
  std::string_view metric;
  std::string_view help;
};
std::span<const PortCount> PortCounts();
// Adds the counts of `one` to those of `sum`.
void AddCounts(PortFigures& sum, const PortFigures& one);

// Holds the value of a figure: a number, or a histogram of the result. A null
// pointer stands for a figure that the run could not have, or did not measure.
using FigureValue = std::variant<std::monostate, bool, uint64_t, int64_t,
                                 double, const Histogram*>;
FigureValue ValueOf(const Figure& figure, const RunResult& result,
                    const ReportFigures& derived);
// Returns false if runs such as this one do not have the figure: "pools.pools"
// is not shown for an NF without pools.
bool IsShown(const Figure& figure, const RunResult& result);

// The type of a figure in JSON: "integer", "number", "boolean"; or, where keys
// depend on the run, a sentence about it.
std::string_view TypeOf(const Figure& figure);

// A copy of all figures that are counts, as they stand at one time.
class FigureCounts {
 public:
  FigureCounts() = default;
  explicit FigureCounts(const RunResult& result);

  // O(figures). The place must be that of a count in the table.
  uint64_t operator[](const FigurePlace& place) const {
    return counts_[IndexOf(place)];
  }
  uint64_t& operator[](const FigurePlace& place) {
    return counts_[IndexOf(place)];
  }
  uint64_t of(const Figure& figure) const {
    return counts_[static_cast<size_t>(&figure - Figures().data())];
  }

 private:
  static constexpr size_t kMaxFigures = 256;
  static size_t IndexOf(const FigurePlace& place);

  std::array<uint64_t, kMaxFigures> counts_{};  // by figure
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FIGURES_FIGURES_H_
