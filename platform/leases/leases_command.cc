// SPDX-License-Identifier: Apache-2.0
#include "platform/leases/leases_command.h"

#include <fmt/format.h>

#include <utility>

#include "platform/leases/lease_report.h"
#include "platform/leases/lease_simulation.h"
#include "platform/process/real_clock.h"
#include "traces/byte_sink.h"

namespace snf {
namespace {

constexpr uint32_t kMostControllers = 256;
constexpr uint32_t kMostUnits = 1'000'000;
constexpr int64_t kGbps = 1'000'000'000;
constexpr int64_t kMostBps = 1'000'000 * kGbps;
constexpr int64_t kMostCapacity = 1'000 * kGbps;
constexpr Nanos kLongest = Seconds(1'000);
constexpr int64_t kMostEpochs = 10'000'000;  // of all controllers

}  // namespace

LeasesCommand::LeasesCommand()
    : FlagCommand(
          {.summary = "simulate controllers that lease units",
           .usage = "snf simulate [--FLAG=VALUE…]",
           .about =
               "Simulates controllers that ask a resource manager for the "
               "capacity that their loads need, each epoch and whenever a load "
               "nears what is leased, and give back what they do not need. The "
               "manager, and what keeps a controller's leases, are the real "
               "ones; "
               "loads are made of flows that have a rate each, without "
               "packets. "
               "Tells what was provisioned above the load."}) {
  options_.manager.max_units = 1'000;
  options_.manager.max_starts = 64;
  traffic_.rate_bps = 93 * kGbps + kGbps / 2;
  AddFlags();
}

void LeasesCommand::AddDistribution(const std::string& name,
                                    Distribution::Unit unit,
                                    const std::string& preset,
                                    Distribution& value,
                                    const std::string& help) {
  value = *Distribution::Parse(preset, unit);
  flags().Custom(
      name, "DIST", help,
      [unit, &value](const std::string& given) {
        auto parsed = Distribution::Parse(given, unit);
        if (parsed.ok()) value = *std::move(parsed);
        return parsed.status();
      },
      [&value] { return value.text(); });
}

void LeasesCommand::AddFlags() {
  ManagerOptions& manager = options_.manager;
  flags().Heading("Controllers");
  flags().Count("controllers", options_.controllers, 1, kMostControllers,
                "how many there are");
  flags().Choice("leases", units_,
                 {{"shared", "controllers share units, by 1/1024"},
                  {"independent",
                   "each has a manager and units of its own, which it takes "
                   "whole"}},
                 "what is leased");
  flags().Duration("epoch", options_.epoch, Milliseconds(1), kLongest,
                   "each controller asks anew after an epoch");
  flags().Fraction("headroom", options_.headroom, LeaseOptions::kOne,
                   "what is asked for above the load, as a share of it; when "
                   "half of it is used up, a controller asks again");
  flags().Heading("Units");
  flags().BitRate("unit_capacity", options_.unit_capacity_bps, 1'000,
                  kMostCapacity, "the capacity of a unit");
  flags().Count("max_units", manager.max_units, 1, kMostUnits,
                "units of a manager");
  flags().Count("max_starts", manager.max_starts, 1, kMostUnits,
                "units that a manager starts at the same time");
  flags().Duration("unit_start_delay", options_.unit_start_delay, Nanos{0},
                   Seconds(10), "time that a unit takes to start");
  flags().Duration("drain_delay", options_.drain_delay, Nanos{0}, Seconds(10),
                   "time that a unit takes to serve the rest of a lease");
  flags().Duration("keep_warm", manager.keep_warm, Nanos{0}, kLongest,
                   "a unit of which nobody has a part is stopped then");
  flags().Heading("Messages");
  flags().Duration("message_delay", options_.message_delay, Nanos{0},
                   Seconds(1), "time that a message takes");
  flags().Duration("term", manager.term, Milliseconds(10), kLongest,
                   "a lease that is not renewed ends then");
  flags().Duration("revoke_grace", manager.revoke_grace, Milliseconds(1),
                   kLongest, "time that a controller has to move flows away");
  flags().Heading("Traffic");
  flags().BitRate("rate", traffic_.rate_bps, 1'000, kMostBps,
                  "of all controllers together, on average");
  AddDistribution("flow_rate", Distribution::Unit::kBitRate,
                  "pareto(2Mbps, 1.1, 500Mbps)", traffic_.flow_rate,
                  "rate of a flow, all along its life");
  AddDistribution("flow_duration", Distribution::Unit::kTime,
                  "pareto(20ms, 1.2, 10s)", traffic_.flow_duration,
                  "how long a flow lasts");
  flags().Duration("warm_up", options_.warm_up, Nanos{0}, kLongest,
                   "goes by before anything is measured");
  flags().Duration("duration", options_.duration, Milliseconds(1), kLongest,
                   "how long is measured");
  flags().Number("seed", traffic_.seed, "the same seed gives the same flows");
  flags().Heading("Reports");
  flags().Text("json", json_, "FILE",
               "write the figures as JSON to FILE (- is stdout, instead of "
               "text)");
  flags().Switch("quiet", quiet_, "no report");
}

absl::Status LeasesCommand::Run() {
  options_.shared = units_ == 0;
  traffic_.controllers = options_.controllers;
  const int64_t epochs = options_.duration.ns / options_.epoch.ns + 1;
  if (epochs * options_.controllers > kMostEpochs) {
    return absl::InvalidArgumentError(fmt::format(
        "{} of {} are {} epochs for each of {} controllers, above {} in all",
        flags().Printed("duration"), flags().Printed("epoch"), epochs,
        options_.controllers, kMostEpochs));
  }
  // Leases are renewed at the end of the first epoch after half a term.
  if (options_.manager.term.ns / 2 <
      options_.epoch.ns + 2 * options_.message_delay.ns) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is less than two epochs and four messages: leases would end",
        flags().Printed("term")));
  }
  // No start fails here: the answer comes two messages after it.
  options_.manager.start_timeout =
      Nanos{options_.unit_start_delay.ns + 4 * options_.message_delay.ns +
            Seconds(1).ns};
  absl::StatusOr<FlowTraffic> traffic = FlowTraffic::Create(traffic_);
  if (!traffic.ok()) return traffic.status();
  const Instant begin = RealClock::Monotonic();
  LeaseSimulation simulation(options_, *std::move(traffic));
  LeaseReport report = {.options = options_,
                        .figures = simulation.Run(),
                        .flags = flags().values(),
                        .elapsed = {}};
  report.elapsed = RealClock::Monotonic() - begin;
  if (!json_.empty()) {
    const absl::Status status = WriteFile(json_, JsonOf(report));
    if (!status.ok() || json_ == "-") return status;
  }
  return quiet_ ? absl::OkStatus() : WriteFile("-", TextOf(report));
}

}  // namespace snf
