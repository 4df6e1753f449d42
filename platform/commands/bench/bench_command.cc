// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/bench_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/text/stderr_line.h"
#include "base/version.h"
#include "platform/commands/bench/bench_compare.h"
#include "platform/commands/bench/bench_machine.h"
#include "platform/commands/bench/bench_report.h"
#include "platform/commands/bench/bench_suite.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/exit_code.h"
#include "traces/byte_sink.h"

namespace snf {
namespace {

constexpr uint32_t kFewestRepetitions = 5;

// Little work, where only the form of the output matters.
constexpr BenchSizes kQuickSizes = {.few_flows = 100,
                                    .flows = 200,
                                    .many_flows = 1'000,
                                    .memory_flows = 20'000,
                                    .many_units = 100,
                                    .latency_packets = 200,
                                    .operations = 2'000};

void Say(const std::string& text) {
  if (isatty(STDERR_FILENO) != 0) PrintOnStderr("\r\033[K{}", text);
}

}  // namespace

BenchCommand::BenchCommand()
    : FlagCommand(
          {.summary = "measure the performance budgets on this machine",
           .usage = "snf bench [--FLAG=VALUE…]",
           .about =
               "Measures the cost of SNF on this machine, each figure next to "
               "a baseline: parse + lookup, a firewall, a monitor and a NAT "
               "with one table each, assignment by hash, Redis. Both sides are "
               "measured in turns, so their ratio is stable even on a busy "
               "machine. Row 18 replays a capture; all other packets are "
               "generated and have 60 bytes. Takes a few minutes at most, and "
               "some 2 GB of memory."}),
      rows_(kBenchRows + 1, true) {
  AddFlags();
}

void BenchCommand::AddFlags() {
  flags().Custom(
      "rows", "N,N…",
      fmt::format("budgets to measure, 1 to {}, or all", kBenchRows),
      [this](const std::string& text) { return SetRows(text); },
      [this] { return rows_text_; });
  flags().Count(
      "repetitions", repetitions_, 1, 1'000,
      fmt::format(
          "repetitions of every measurement; at least {}, except with --quick",
          kFewestRepetitions));
  flags().Count("packets", packets_, 1'000, 100'000'000,
                "packets, or other operations, in one repetition of most rows");
  flags().Text("capture", capture_, "FILE",
               "the capture of row 18, which is not measured without it, and "
               "of row 15 with --rules");
  flags().Text("rules", rules_, "FILE[+FILE…]",
               "rules of Snort for row 15, on the capture: 500 patterns, 3,000 "
               "and all");
  flags().Switch("quick", quick_,
                 "use few packets and flows, and two repetitions unless "
                 "--repetitions is given: a quick check that everything runs");
  flags().Text("json", json_, "FILE",
               "write the figures as JSON, with every sample, to FILE (- is "
               "stdout, instead of text)");
  flags().Text("compare", compare_, "FILE",
               "tell which rows changed beyond noise since an earlier run, "
               "whose figures --json wrote to FILE");
}

absl::Status BenchCommand::SetRows(const std::string& text) {
  rows_text_ = text;
  rows_.assign(kBenchRows + 1, text == "all");
  if (text == "all") return absl::OkStatus();
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    int number = 0;
    const char* const end = part.data() + part.size();
    const auto parsed = std::from_chars(part.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end || number < 1 ||
        number > kBenchRows) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is not a number from 1 to {}, in \"{}\"", part,
                      kBenchRows, text));
    }
    rows_[static_cast<size_t>(number)] = true;
  }
  return absl::OkStatus();
}

absl::Status BenchCommand::Run() {
  EndCleanlyWhenInterrupted(name());
  if (quick_ && !flags().given("repetitions")) repetitions_ = 2;
  if (!quick_ && repetitions_ < kFewestRepetitions) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: want at least {}, or --quick (see {} --help)",
        flags().Printed("repetitions"), kFewestRepetitions, name()));
  }
  std::optional<EarlierBench> before;
  if (!compare_.empty()) {
    absl::StatusOr<EarlierBench> read = ReadEarlierBench(compare_);
    if (!read.ok()) return read.status();
    before = *std::move(read);
  }
  BenchSizes sizes = quick_ ? kQuickSizes : BenchSizes{};
  if (!quick_ || flags().given("packets")) sizes.operations = packets_;
  sizes.capture = capture_;
  sizes.rules = rules_;
  BenchRun run = {.machine = ReadMachineFacts(),
                  .load_before = LoadAverage(),
                  .repetitions = repetitions_,
                  .operations = sizes.operations,
                  .is_quick = quick_,
                  .version = kVersion};
  BenchSuite suite;
  Say("making what is measured");
  run.rows = MakeBenchRows(rows_, sizes, suite);
  suite.Run(repetitions_, sizes.operations, [this](uint32_t repetition) {
    Say(fmt::format("repetition {} of {}", repetition + 1, repetitions_));
  });
  run.load_after = LoadAverage();
  const absl::Status checked = suite.Check();
  Say("");
  if (!checked.ok()) {
    PrintOnStderr("{}: {}\n", name(), std::string(checked.message()));
    set_exit_code(kExitCheckFailed);
  }
  if (!json_.empty()) {
    absl::Status status = WriteFile(json_, BenchJson(run, suite));
    if (!status.ok() || json_ == "-") return status;
  }
  return WriteFile("-", BenchText(run, suite) +
                            (before ? CompareText(*before, run, suite) : ""));
}

}  // namespace snf
