// SPDX-License-Identifier: Apache-2.0
//
// Row 11: the time to start a unit.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/histogram.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/commands/bench/fixture_awake_cpus.h"
#include "platform/commands/bench/fixture_deployed_nfs.h"
#include "platform/commands/bench/fixture_launched_unit.h"
#include "platform/commands/bench/fixture_parked_process.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;
template <typename Starter>
using Shared = std::shared_ptr<absl::StatusOr<std::unique_ptr<Starter>>>;

// Operations of a repetition for each start that is measured: of fast and of
// slow starts. A few starts are added.
constexpr uint64_t kOften = 2'000;
constexpr uint64_t kSeldom = 50'000;

// Selects whether idle CPUs may halt.
enum class Idle : uint8_t { kSpins, kHalts };

// The median of some starts.
template <typename Starter, typename StartOne>
BenchSuite::Make Starts(const Shared<Starter>& processes, const StartOne& start,
                        uint64_t seldom, Idle idle = Idle::kSpins) {
  return [processes, start, seldom, idle]() -> absl::StatusOr<BenchCase> {
    if (!processes->ok()) return processes->status();
    auto status = std::make_shared<absl::Status>();
    return BenchCase{
        .sample =
            [processes, start, status, seldom, idle](uint64_t operations) {
              std::optional<AwakeCpus> awake;
              if (idle == Idle::kSpins) awake.emplace();
              Histogram times;
              const uint64_t starts = operations / seldom + 3;
              for (uint64_t i = 0; i < starts && status->ok(); ++i) {
                const Nanos took = start(***processes);
                if (took == Nanos::max()) {
                  *status = absl::InternalError("a unit did not start");
                } else {
                  times.Record(std::max<int64_t>(took.ns, 1));
                }
              }
              return static_cast<double>(times.Quantile(50'000));
            },
        .check = [status] { return *status; }};
  };
}

// Returns how long it takes until this program has begun, said its version and
// ended.
Nanos Exec() {
  std::string program = "/proc/self/exe";
  std::string flag = "--version";
  char* const arguments[] = {program.data(), flag.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  const Instant begin = RealClock::Monotonic();
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environ);
  int status = 1;
  if (error == 0) waitpid(pid, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
  return status == 0 ? RealClock::Monotonic() - begin : Nanos::max();
}

BenchRow StartRow(const std::string& what) {
  return {.number = 11,
          .what = "unit start: " + what,
          .of = BenchRow::Of::kInverseRatio,
          .must = {{.limit = 5, .is_least = true}},
          .aim = {{.limit = 5, .is_least = true}},
          .aim_ours = 30'000};
}

// One of many NFs of a tenant, held against the same fork.
void AddDeployedRow(const BenchRow::Side& fork, BenchSuite& suite,
                    std::vector<BenchRow>& rows) {
  constexpr uint32_t kNfs = 500;
  const auto nfs =
      std::make_shared<absl::StatusOr<std::unique_ptr<DeployedNfs>>>(
          DeployedNfs::Start(kNfs));
  const auto side = [&](const std::string& what, const auto& start) {
    return BenchRow::Side{
        what, suite.Add("deployed " + what, Starts(nfs, start, kOften))};
  };
  BenchRow row = StartRow("one of 500 deployed NFs against fork");
  row.ours = side("one of 500", [](DeployedNfs& of) { return of.StartNext(); });
  row.base = fork;
  row.beside = {{"memory of each",
                 suite.Add("deployed memory",
                           [nfs]() -> absl::StatusOr<BenchCase> {
                             if (!nfs->ok()) return nfs->status();
                             return BenchCase{.sample = [nfs](uint64_t) {
                               return (**nfs)->BytesOfEach();
                             }};
                           }),
                 "B"}};
  row.notes = {
      "Firewalls of 20 rules, prepared in one process; a parked copy of the "
      "process makes a unit for one of them, which runs two packets. Memory is "
      "that of both processes, shared pages counted by their share; the aim is "
      "at most 500,000 B. Serpens: 210 MB for 500 NFs."};
  rows.push_back(std::move(row));
}

// The processes of units that runs have.
void AddLaunchedRow(Isolation isolation, const std::string& what,
                    BenchSuite& suite, std::vector<BenchRow>& rows) {
  const auto units =
      std::make_shared<absl::StatusOr<std::unique_ptr<LaunchedUnit>>>(
          LaunchedUnit::Start(isolation));
  const auto side = [&](const std::string& name, const auto& start,
                        uint64_t seldom, Idle idle = Idle::kSpins) {
    return BenchRow::Side{
        name, suite.Add("start " + name, Starts(units, start, seldom, idle))};
  };
  const auto wake = [](LaunchedUnit& of) { return of.Wake(); };
  BenchRow row = StartRow("parked " + what + " against a new one");
  row.ours = side("parked " + what, wake, kOften);
  row.base = side(
      "new " + what, [](LaunchedUnit& of) { return of.Make(); }, kSeldom);
  row.beside = {
      side("parked " + what + ", CPUs may halt", wake, kOften, Idle::kHalts)};
  if (isolation == Isolation::kProcess) {
    row.beside.push_back(side(
        "program around process", [](LaunchedUnit&) { return Exec(); },
        kSeldom));
  }
  row.notes = {
      "By the wall clock, medians, from the request for the unit until its "
      "first packet through a NAT is back at the sender, which does not sleep. "
      "Serpens: 34 µs; by loading 138 µs, by fork 16 ms, by exec 160 ms.",
      "Idle CPUs spin here, as with idle=poll: the host may take milliseconds "
      "to run a halted CPU of a virtual machine again."};
  rows.push_back(std::move(row));
}

}  // namespace

void AddStartRows(int number, BenchSuite& suite, std::vector<BenchRow>& rows) {
  SNF_CHECK(number == 11);
  const auto processes =
      std::make_shared<absl::StatusOr<std::unique_ptr<ParkedProcess>>>(
          ParkedProcess::Start());
  const auto side = [&](const std::string& what, const auto& start) {
    return BenchRow::Side{
        what, suite.Add("start " + what, Starts(processes, start, kOften))};
  };
  BenchRow row = StartRow("parked process against fork");
  row.ours = side("parked", [](ParkedProcess& of) { return of.Wake(false); });
  row.base = side("forked", [](ParkedProcess& of) { return of.Fork(); });
  row.beside = {
      side("spinning", [](ParkedProcess& of) { return of.Wake(true); })};
  row.notes = {
      "By the wall clock, medians, until the unit's first packet has gone "
      "through a NAT. The forked process has loaded nothing else."};
  rows.push_back(row);
  AddDeployedRow(*row.base, suite, rows);
  AddLaunchedRow(Isolation::kProcess, "process", suite, rows);
  AddLaunchedRow(Isolation::kContainer, "container", suite, rows);
}

}  // namespace snf
