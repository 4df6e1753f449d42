// SPDX-License-Identifier: Apache-2.0
#include "platform/options/real_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/quantity.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/run/chaos_flag.h"
#include "platform/run/pace.h"
#include "resource_manager/core/warm_pool.h"

namespace snf {

RealFlags::RealFlags(RunFlagSet& set) : set_(set) {
  set_.flags.Heading("Real time");
  if (set_.has_captures) AddPace();
  AddThreads();
  AddIsolation();
  AddHosts();
  AddLooks();
}

void RealFlags::AddPace() {
  FlagSet& flags = set_.flags;
  flags.Choice("clock", set_.request.is_real_time,
               {{"virtual",
                 "the capture's: units, hops and starts take the times that "
                 "flags give"},
                {"real",
                 "the machine's: threads and rings take their own time, units "
                 "the time that flags give"}},
               "whose time it is:");
  Speed& speed = set_.request.real.speed;
  flags.Custom(
      "speed", "SPEED",
      "how fast packets come: 1x (at the capture's own gaps), 0.5x, 2Gbps, "
      "100kpps, or max",
      [&speed](const std::string& text) {
        const absl::StatusOr<Speed> parsed = ParseSpeed(text);
        if (parsed.ok()) speed = *parsed;
        return parsed.status();
      },
      [&speed] { return FormatSpeed(speed); });
  flags.Choice("overload", overload_,
               {{"auto", "wait at speed max, else drop"},
                {"wait", "it waits, and so do the packets behind it"},
                {"drop", "it is dropped, and counted"}},
               "what becomes of a packet for which there is no room:");
  flags.Switch("preload", set_.request.preload,
               "read all of the capture before it runs");
  flags.Count("loop", set_.request.loop, 1,
              std::numeric_limits<uint32_t>::max(),
              "times that the capture is replayed, as one long capture; it is "
              "preloaded");
}

void RealFlags::AddThreads() {
  RealOptions& real = set_.request.real;
  set_.flags.Custom(
      "threads", "auto|COUNT",
      fmt::format("threads, from 1 to {}, with the controller's; with "
                  "--loggers=on and at least three, one is of the loggers. "
                  "auto: as many as CPUs, or one thread for live traffic if "
                  "there are at most two",
                  RealOptions::kMaxThreads),
      [this](const std::string& text) { return ParseThreads(text); },
      [&real] {
        return real.threads == 0 ? "auto" : std::to_string(real.threads);
      });
  set_.flags.Switch("pin", real.pin,
                    "each thread keeps to a CPU of its own; several chains "
                    "share the first one, where packets come and go");
  set_.flags.Custom(
      "busy_poll", "auto|TIME",
      "how long a thread looks for work, and one of live traffic for frames, "
      "before it sleeps: longer spares a packet at low load the time of "
      "wake-ups, and takes a CPU for each thread. auto: about 50us between "
      "threads; frames wake a thread that sleeps, and with at most 3 CPUs "
      "processes of units and loggers sleep at once",
      [&real](const std::string& text) { return ParseBusyPoll(text, real); },
      [&real] {
        return real.busy_poll.has_value() ? FormatPlainDuration(*real.busy_poll)
                                          : "auto";
      });
}

absl::Status RealFlags::ParseBusyPoll(const std::string& text,
                                      RealOptions& real) {
  real.busy_poll.reset();
  if (text == "auto") return absl::OkStatus();
  const absl::StatusOr<Nanos> time = ParseDuration(text);
  if (!time.ok()) return time.status();
  if (*time < Nanos{0} || *time > Seconds(1)) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is neither auto nor from 0s to 1s", text));
  }
  real.busy_poll = *time;
  return absl::OkStatus();
}

absl::Status RealFlags::ParseThreads(const std::string& text) {
  uint32_t& threads = set_.request.real.threads;
  threads = 0;
  if (text == "auto") return absl::OkStatus();
  uint32_t parsed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc() || rest != end || parsed == 0 ||
      parsed > RealOptions::kMaxThreads) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is neither auto nor from 1 to {}", text,
                    RealOptions::kMaxThreads));
  }
  threads = parsed;
  return absl::OkStatus();
}

void RealFlags::AddIsolation() {
  set_.flags.Choice(
      "isolation", set_.request.real.isolation,
      {{"thread", "threads of one process"},
       {"process",
        "a process for each thread but the controller's, and with "
        "--loggers=on one for all output loggers; they share the memory in "
        "which packets are, and nothing else"},
       {"lxc",
        "such processes in containers, which see nothing of the machine; as "
        "root"}},
      "what units and loggers are:");
  set_.flags.Switch(
      "host_state", set_.request.real.host_state,
      "units show each other the states of flows in memory of the host, which "
      "each reads and only the state's own unit writes: a flow that moves "
      "finds its state there, and no copies are pushed. Each host has such "
      "memory");
  if (!set_.has_captures) {
    set_.flags.Switch(
        "trust_modules", set_.request.trust_modules,
        "with --isolation=lxc: load modules of NFs into the processes of snf "
        "itself as well, with all their rights. If not given, code of modules "
        "runs in containers only");
  }
  set_.flags.Count(
      "warm_pool", warm_pool_, 0, RealOptions::kMaxUnitProcesses,
      fmt::format("processes at least that are parked for the next units that "
                  "start (up to {} times as many while many start). "
                  "Processes of units then come and go, up to {}, one a unit. "
                  "With --threads, --pin, --keep or controllers that fail, "
                  "processes stay, and there is no pool",
                  WarmPool::kMostTimes, RealOptions::kMaxUnitProcesses));
}

void RealFlags::AddHosts() {
  HostPlaces& hosts = set_.request.real.hosts;
  set_.flags.Repeated(
      "host", "NAME=ADDRESS:PORT[,units=COUNT][,wire=geneve]",
      fmt::format("another host, on which snf host serve listens there, and "
                  "how many processes of units run on it, 1 if not said. With "
                  "wire=geneve data go by GENEVE over UDP, unencrypted. The "
                  "units with the highest numbers are on the last host; the "
                  "controller and the loggers are here. At most {}, with "
                  "--loggers=on and --isolation=process or lxc",
                  HostPlace::kMost),
      [&hosts](const std::string& text) { return hosts.Add(text); },
      [&hosts] { return hosts.text(); });
  set_.flags.Custom(
      "host_tls", "DIRECTORY",
      "encrypt the connections to other hosts: with ca.crt, client.crt and "
      "client.key of this directory, as snf cert --role=admin makes them; the "
      "hosts need snf host serve --tls",
      [&hosts](const std::string& text) { return hosts.SetTls(text); },
      [&hosts] { return hosts.tls(); });
}

void RealFlags::AddLooks() {
  set_.flags
      .Switch("watch", set_.request.watch,
              "show the run's figures while it runs: on a screen if stderr is "
              "a terminal, else in a line every 2 s")
      .is_output = true;
  set_.flags
      .Port("metrics_port", set_.request.metrics.port,
            "serve the run's figures to Prometheus, on "
            "http://127.0.0.1:PORT/metrics, and /healthz and /readyz, which "
            "answer 200 or 503; 0: nowhere")
      .is_output = true;
  set_.flags
      .Text("metrics_address", set_.request.metrics.address, "ADDRESS",
            "serve them on this address of the machine; 0.0.0.0 and :: are "
            "all. Who reaches it may read them")
      .is_output = true;
  set_.flags
      .Text("metrics_tls", set_.request.metrics_tls, "DIRECTORY",
            "serve them over HTTPS, with server.crt and server.key of this "
            "directory, as snf cert makes them")
      .is_output = true;
}

bool RealFlags::has_warm_pool() const {
  const RealOptions& real = set_.request.real;
  return real.isolation != Isolation::kThread && !real.pin &&
         !set_.given("threads") && !set_.request.run.faults.any_controller();
}

absl::Status RealFlags::Check() const {
  const RunRequest& request = set_.request;
  if (!request.is_real_time) return CheckVirtualTime();
  const RealOptions& real = request.real;
  absl::Status status = set_.Check(
      {{.flags = {"config", "compare", "explain", "decisions", "warm_up",
                  "chaos", "recovery", "hop_delay", "state_delay",
                  "state_bandwidth", "logger_delay", "units_per_host",
                  "local_handover"},
        .with = "clock",
        .when = set_.has_captures,
        .because = "only virtual time has that"},
       {.flags = {"unit_start_delay", "warm_start_delay"},
        .with = "unit_capacity",
        .when = real.unpaced,
        .because = "then units are ready at once"},
       {.flags = {"unit_packets"},
        .with = "unit_capacity",
        .when = real.unpaced,
        .because = "then units are as fast as they can be"},
       {.flags = {"isolation"},
        .with = "threads",
        .when = real.isolation != Isolation::kThread && real.threads == 1,
        .because = "processes need at least 2"},
       {.flags = {"trust_modules"},
        .with = "isolation",
        .when =
            request.trust_modules && real.isolation != Isolation::kContainer,
        .because = "modules are loaded into all processes"},
       {.flags = {"host_tls"},
        .with = "host",
        .when = real.hosts.empty() && !set_.given("etcd"),
        .because = "no units are on other hosts"},
       {.flags = {"host_tls"},
        .with = "host",
        .when = real.hosts.has_geneve() && !real.hosts.tls().empty(),
        .because = "wire=geneve encrypts nothing"},
       {.flags = {"host_state"},
        .with = "state",
        .when = real.host_state && request.run.state == StateMode::kExternal,
        .because = "a store has the states, not the host"},
       {.flags = {"host"},
        .with = "isolation",
        .when = real.isolation == Isolation::kThread,
        .because = "threads stay in one process"},
       {.flags = {"host"},
        .with = "loggers",
        .when = !request.run.loggers,
        .because = "without loggers, a lost host loses state"},
       {.flags = {"host"},
        .with = "pin",
        .when = real.pin,
        .because = "it pins to CPUs of this host"}});
  if (!status.ok()) return status;
  if (absl::Status s = CheckWarmPool(); !s.ok()) return s;
  // Reports give flags back at their defaults.
  const bool has_address =
      request.metrics.address != MetricsServer::Options().address;
  if (request.metrics.port == 0 &&
      (has_address || !request.metrics_tls.empty())) {
    return absl::InvalidArgumentError(
        fmt::format("--metrics_{} needs --metrics_port=PORT",
                    has_address ? "address" : "tls"));
  }
  return set_.Check({{.flags = {"watch"},
                      .with = "quiet",
                      .when = request.watch && request.quiet,
                      .because = "the figures are shown on stderr"}});
}

absl::Status RealFlags::CheckVirtualTime() const {
  return set_.Check(
      {{.flags = {"redis", "speed", "overload", "threads", "isolation",
                  "host_state", "warm_pool", "host", "host_tls", "pin",
                  "busy_poll", "preload", "loop", "watch", "metrics_port",
                  "metrics_address", "metrics_tls"},
        .with = "clock",
        .when = true,
        .because = "only real time has that"},
       {.flags = {"unit_capacity"},
        .with = "clock",
        .when = set_.request.real.unpaced,
        .because = "in virtual time a packet would take no time"}});
}

absl::Status RealFlags::CheckWarmPool() const {
  const RealOptions& real = set_.request.real;
  return set_.Check(
      {{.flags = {"unit_start_delay", "warm_start_delay"},
        .with = "isolation",
        .when = has_warm_pool(),
        .because = "processes start in their own time, unless --threads starts "
                   "them ahead"},
       {.flags = {"warm_pool"},
        .with = "isolation",
        .when = real.isolation == Isolation::kThread,
        .because = "the pool is of processes"},
       {.flags = {"warm_pool"},
        .with = "pin",
        .when = real.pin,
        .because = "processes that come and go have no CPU"},
       {.flags = {"warm_pool"},
        .with = "faults",
        .when = set_.request.run.faults.any_controller(),
        .because = "processes of units stay if controllers fail"},
       {.flags = {"warm_pool"},
        .with = "threads",
        .when = set_.given("threads"),
        .because = "as many processes as that stay"}});
}

void RealFlags::Settle() {
  RealOptions& real = set_.request.real;
  if (has_warm_pool()) {
    real.warm_pool =
        std::min(warm_pool_, set_.request.run.controller.max_units);
  }
  real.wait_for_room =
      overload_ == Overload::kWait ||
      (overload_ == Overload::kAuto && real.speed.kind == Speed::Kind::kMax);
}

}  // namespace snf
