// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/simulate/lease_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "base/quantity.h"
#include "base/text/page.h"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<uint32_t, 7> kPercents = {0, 1, 25, 50, 75, 99, 100};

// Returns the smallest value that at least `percent` of the values do not
// exceed.
double Quantile(std::span<const double> sorted, uint32_t percent) {
  if (sorted.empty()) return 0;
  const size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[rank == 0 ? 0 : rank - 1];
}

Json QuantilesOf(std::span<const double> sorted) {
  Json json = {{"mean", sorted.empty()
                            ? 0
                            : std::reduce(sorted.begin(), sorted.end()) /
                                  static_cast<double>(sorted.size())}};
  for (const uint32_t percent : kPercents) {
    const std::string name = percent == 0     ? "min"
                             : percent == 100 ? "max"
                                              : fmt::format("p{}", percent);
    json[name] = Quantile(sorted, percent);
  }
  return json;
}

struct Sums {
  double offered_bps = 0;
  double leased_bps = 0;
  double short_bps = 0;
  std::vector<double> over_bps;
};

Sums SumsOf(const LeaseFigures& figures) {
  Sums sums;
  for (const LeaseFigures::OfController& each : figures.controllers) {
    sums.offered_bps += each.offered_bps;
    sums.leased_bps += each.leased_bps;
    sums.short_bps += each.short_bps;
    sums.over_bps.insert(sums.over_bps.end(), each.over_bps.begin(),
                         each.over_bps.end());
  }
  std::ranges::sort(sums.over_bps);
  return sums;
}

std::string Rate(double bps) {
  return (bps < 0 ? "-" : "") + FormatBitRate(std::llround(std::abs(bps)));
}

double EventsPerSecond(const LeaseReport& report) {
  return static_cast<double>(report.figures.events) * 1e9 /
         static_cast<double>(std::max(report.elapsed.ns, int64_t{1}));
}

}  // namespace

std::string JsonOf(const LeaseReport& report) {
  const LeaseFigures& figures = report.figures;
  const Sums sums = SumsOf(figures);
  Json controllers = Json::array();
  for (const LeaseFigures::OfController& each : figures.controllers) {
    controllers.push_back({{"offered_bps", each.offered_bps},
                           {"leased_bps", each.leased_bps},
                           {"short_bps", each.short_bps},
                           {"over_bps", QuantilesOf(each.over_bps)}});
  }
  Json flags = Json::object();
  for (const auto& [name, value] : report.flags) flags[name] = value;
  const auto capacity = static_cast<double>(report.options.unit_capacity_bps);
  const Json json = {
      {"flags", flags},
      {"elapsed_s", static_cast<double>(report.elapsed.ns) / 1e9},
      {"events", figures.events},
      {"flow_changes", figures.flow_changes},
      {"flows_refused", figures.flows_refused},
      {"offered_bps", sums.offered_bps},
      {"leased_bps", sums.leased_bps},
      {"short_bps", sums.short_bps},
      {"over_bps", QuantilesOf(sums.over_bps)},
      {"units_leased_bps", figures.leased_units * capacity},
      {"units_leased", figures.leased_units},
      {"units_up", figures.up_units},
      {"units_up_max", figures.most_up_units},
      {"unit_starts", figures.unit_starts},
      {"asks", figures.asks},
      {"grants", figures.grants},
      {"given_back", figures.given_back},
      {"revoked", figures.revoked},
      {"gone", figures.gone},
      {"messages_refused", figures.refused},
      {"overcommitted", figures.overcommitted},
      {"controllers", controllers}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string TextOf(const LeaseReport& report) {
  const LeaseFigures& figures = report.figures;
  const Sums sums = SumsOf(figures);
  const auto capacity = static_cast<double>(report.options.unit_capacity_bps);
  Page page({});
  page.Raw(fmt::format(
      "{} with {} for {}\n", Plural(figures.controllers.size(), "controller"),
      report.options.shared ? "shared units" : "units of their own",
      FormatDuration(report.options.duration)));
  page.Blank();
  page.Say("Load", Rate(sums.offered_bps));
  page.Say("Leased", fmt::format("{}, of {:.1f} units, {}; {:.1f} units up",
                                 Rate(sums.leased_bps), figures.leased_units,
                                 Rate(figures.leased_units * capacity),
                                 figures.up_units));
  page.Say(
      "Short",
      fmt::format("{} of the load was above the leases of its controller",
                  Percent(sums.short_bps / std::max(sums.offered_bps, 1.0))));
  page.Say("Over", fmt::format("leases of a controller above its load, over "
                               "epochs: median {}, p1 {}, p99 {}",
                               Rate(Quantile(sums.over_bps, 50)),
                               Rate(Quantile(sums.over_bps, 1)),
                               Rate(Quantile(sums.over_bps, 99))));
  page.Say(
      "Messages",
      fmt::format("{}, {}, {}, {}; {} refused", Plural(figures.asks, "ask"),
                  Plural(figures.grants, "grant"),
                  Plural(figures.given_back, "share") + " given back",
                  Plural(figures.unit_starts, "unit") + " started",
                  FormatCount(figures.refused)));
  page.Say(
      "Events",
      fmt::format("{}, {} a second", FormatCount(figures.events),
                  FormatCount(static_cast<uint64_t>(EventsPerSecond(report)))));
  return page.Take();
}

}  // namespace snf
