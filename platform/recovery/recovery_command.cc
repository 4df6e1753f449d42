// SPDX-License-Identifier: Apache-2.0
#include "platform/recovery/recovery_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/packet/ip_prefix.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/nf_guard.h"
#include "platform/replay/store_flag.h"
#include "traces/byte_sink.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr uint32_t kMostDeaths = 100'000;
constexpr uint32_t kMostTimed = 1'000;

uint64_t MemoryForCapture() {
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
}

}  // namespace

RecoveryCommand::RecoveryCommand()
    : FlagCommand(
          {.summary = "let a unit die, and recover it in three ways",
           .usage = "snf recovery FILE… [--FLAG=VALUE…]",
           .about =
               "Runs captures through one unit, thinks it dead at times that "
               "are drawn from a seed, and makes another in its place: from an "
               "output logger; from a copy of the unit, taken every 50 ms, and "
               "its inputs since (checkpoint, as FTMB); from a store that gets "
               "what each packet did, and the inputs that it has not "
               "(datastore, as CHC). All is done, not modelled, but for the "
               "time that messages take. Each that is made is compared with "
               "the unit, which goes on: record for record, and what it lets "
               "out again."}) {
  options_.run.controller.max_flows = 1 << 18;
  AddFlags();
}

void RecoveryCommand::AddFlags() {
  RunOptions& run = options_.run;
  flags().Arguments("FILE", files_, 1);
  flags().Text("nf", nf_, "NF", "the network function, as of snf replay");
  flags().Custom(
      "inside", "PREFIX[,PREFIX…]",
      "addresses that an NF with two sides has on its inside; without it, "
      "whoever sends first is inside",
      [&run](const std::string& text) {
        const auto inside = ParsePrefixes(text);
        if (inside.ok()) run.inside = *inside;
        return inside.status();
      },
      [&run] { return FormatPrefixes(run.inside); });
  flags().Heading("Deaths");
  flags().Count("deaths", options_.deaths, 1, kMostDeaths,
                "times at which the unit is thought dead");
  flags().Number("seed", options_.seed, "the same seed draws the same times");
  flags().Count("timed", options_.timed, 1, kMostTimed,
                "runs without deaths that each way is timed in; the least "
                "counts");
  flags().Heading("What messages take");
  flags().Duration("hop_delay", run.hop_delay, Nanos{0}, Seconds(10),
                   "a message to another unit, logger or store");
  flags().Duration("state_delay", run.state_delay, Nanos{0}, Seconds(10),
                   "records to another unit, besides their bytes");
  flags().BitRate("state_bandwidth", run.state_bandwidth_bps, 1'000,
                  1'000'000'000'000, "rate of records' bytes");
  flags().Custom(
      "store", "'KEY=VALUE …'",
      "what a store takes, as in 'round_trips=12us,23us,32us,64us,180us "
      "operation=2us'",
      [&run](const std::string& text) {
        const auto store = ParseStore(text);
        if (store.ok()) run.store = *store;
        return store.status();
      },
      [&run] { return FormatStore(run.store); });
  flags().BitRate("unit_capacity", run.controller.unit_capacity_bps, 1'000,
                  1'000'000'000'000,
                  "the pace of a unit: beside the time that packets take to "
                  "be run again, tells that at this pace");
  flags().Heading("Reports");
  flags().Text("json", json_, "FILE",
               "write the figures as JSON to FILE (- is stdout, instead of "
               "text)");
}

absl::Status RecoveryCommand::Load(LoadedCapture& capture) const {
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  CapturedPacket packet;
  while (true) {
    const ReadResult result = (*reader)->Next(packet);
    if (result == ReadResult::kError) return (*reader)->status();
    if (result != ReadResult::kPacket) break;
    if (absl::Status s = capture.Add(packet); !s.ok()) return s;
  }
  for (const std::string& warning : (*reader)->warnings()) {
    fmt::print(stderr, "{}: {}\n", name(), warning);
  }
  if (capture.size() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: there is no packet to run", files_[0]));
}

absl::Status RecoveryCommand::Run() {
  EndCleanlyWhenInterrupted(name());
  const auto nf = NfSpec::Parse(nf_);
  if (!nf.ok()) return nf.status();
  if (absl::Status s = nf->check(); !s.ok()) return s;
  LoadedCapture capture(MemoryForCapture());
  if (absl::Status s = Load(capture); !s.ok()) return s;
  GuardNfCalls(name());
  const DrillResult result = RunDrills(*nf, capture, options_);
  if (!json_.empty()) {
    const absl::Status status =
        WriteFile(json_, JsonOf(result, flags().values()));
    if (!status.ok() || json_ == "-") return status;
  }
  return WriteFile("-", TextOf(result, options_));
}

}  // namespace snf
