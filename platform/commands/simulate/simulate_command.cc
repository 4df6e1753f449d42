// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/simulate/simulate_command.h"

#include <fmt/format.h>

#include <utility>

#include "base/messages/controller_counts.h"
#include "platform/commands/simulate/lease_report.h"
#include "platform/commands/simulate/lease_simulation.h"
#include "runtime/ring/real_clock.h"
#include "traces/byte_sink.h"

namespace snf {
namespace {

constexpr uint32_t kMostUnits = 1'000'000;
constexpr int64_t kGbps = 1'000'000'000;
constexpr int64_t kMostBps = 1'000'000 * kGbps;
constexpr int64_t kMostCapacity = 1'000 * kGbps;
constexpr Nanos kLongest = Seconds(1'000);
constexpr int64_t kMostEpochs = 10'000'000;  // of all controllers

}  // namespace

SimulateCommand::SimulateCommand()
    : FlagCommand(
          {.summary = "simulate controllers that lease units",
           .usage = "snf simulate [--FLAG=VALUE…]",
           .about = "Simulates controllers that lease capacity from a resource "
                    "manager: each controller asks for more in each epoch, and "
                    "whenever its load comes near its leases, and gives back "
                    "unneeded capacity. The manager and the lease logic of the "
                    "controllers are the production code; the load is a sum of "
                    "flows, each with a rate, without packets. Reports how "
                    "much capacity was provisioned above the load."}) {
  options_.manager.max_units = 1'000;
  options_.manager.max_starts = 64;
  traffic_.rate_bps = 93 * kGbps + kGbps / 2;
  AddFlags();
}

void SimulateCommand::AddDistribution(const std::string& name,
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

void SimulateCommand::AddFlags() {
  ManagerOptions& manager = options_.manager;
  flags().Heading("Controllers");
  flags().Count("controllers", options_.controllers, 1, kControllerIds,
                "number of controllers");
  flags().Choice(
      "leases", units_,
      {{"shared", "controllers share units, in steps of 1/1024"},
       {"independent",
        "each controller has its own manager, and leases whole units"}},
      "how units are leased");
  flags().Duration("epoch", options_.epoch, Milliseconds(1), kLongest,
                   "time after which each controller adjusts its leases");
  flags().Fraction("headroom", options_.headroom, LeaseOptions::kOne,
                   "capacity asked for above the load, as a share of the load; "
                   "a controller asks again when half of it is used up");
  flags().Heading("Units");
  flags().BitRate("unit_capacity", options_.unit_capacity_bps, 1'000,
                  kMostCapacity, "the capacity of a unit");
  flags().Count("max_units", manager.max_units, 1, kMostUnits,
                "most units of a manager");
  flags().Count("max_starts", manager.max_starts, 1, kMostUnits,
                "most units that a manager starts at the same time");
  flags().Duration("unit_start_delay", options_.unit_start_delay, Nanos{0},
                   Seconds(10), "time that a unit takes to start");
  flags().Duration("drain_delay", options_.drain_delay, Nanos{0}, Seconds(10),
                   "time that a unit takes to serve its remaining packets when "
                   "a lease ends");
  flags().Duration("keep_warm", manager.keep_warm, Nanos{0}, kLongest,
                   "time after which an unleased unit is stopped");
  flags().Heading("Messages");
  flags().Duration("message_delay", options_.message_delay, Nanos{0},
                   Seconds(1), "delay of a message");
  flags().Duration("term", manager.term, Milliseconds(10), kLongest,
                   "time after which a lease ends unless renewed");
  flags().Duration("revoke_grace", manager.revoke_grace, Milliseconds(1),
                   kLongest, "time that a controller has to move flows away");
  flags().Heading("Traffic");
  flags().BitRate("rate", traffic_.rate_bps, 1'000, kMostBps,
                  "average load of all controllers together");
  AddDistribution("flow_rate", Distribution::Unit::kBitRate,
                  "pareto(2Mbps, 1.1, 500Mbps)", traffic_.flow_rate,
                  "constant rate of a flow");
  AddDistribution("flow_duration", Distribution::Unit::kTime,
                  "pareto(20ms, 1.2, 10s)", traffic_.flow_duration,
                  "lifetime of a flow");
  flags().Duration("warm_up", options_.warm_up, Nanos{0}, kLongest,
                   "time before the measurement begins");
  flags().Duration("duration", options_.duration, Milliseconds(1), kLongest,
                   "duration of the measurement");
  flags().Number("seed", traffic_.seed, "seed of the random flows");
  flags().Heading("Reports");
  flags().Text("json", json_, "FILE",
               "write the figures as JSON to FILE (- is stdout, instead of "
               "text)");
  flags().Switch("quiet", quiet_, "no report");
}

absl::Status SimulateCommand::Run() {
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
    return absl::InvalidArgumentError(
        fmt::format("{} is shorter than two epochs and four messages: leases "
                    "would end before they are renewed",
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
