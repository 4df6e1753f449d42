// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/recovery/recovery_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/packet/ip_prefix.h"
#include "base/text/stderr_line.h"
#include "platform/options/store_flag.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/nf_guard.h"
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
          {.summary = "compare three ways to recover a unit",
           .usage = "snf recovery FILE… [--FLAG=VALUE…]",
           .about =
               "Runs captures through one unit, assumes at random times (see "
               "--seed) that the unit has died, and builds a replacement in "
               "three ways: from an output logger (logger); from a copy of the "
               "unit taken every 50 ms and the inputs since (checkpoint, as "
               "FTMB); from a store that receives the result of each packet, "
               "and the inputs that are not in the store yet (datastore, as "
               "CHC). All steps are carried out; only the delay of messages is "
               "modelled. Each replacement is compared with the unit itself, "
               "which continues: every record, and every packet that is sent "
               "again."}) {
  options_.run.controller.max_flows = 1 << 18;
  AddFlags();
}

void RecoveryCommand::AddFlags() {
  RunOptions& run = options_.run;
  flags().Arguments("FILE", files_, 1);
  flags().Text("nf", nf_, "NF", "the network function, as of snf replay");
  flags().Custom(
      "inside", "PREFIX[,PREFIX…]",
      "addresses on the inside of an NF with two sides. Without this flag, the "
      "sender of a flow's first packet is inside",
      [&run](const std::string& text) {
        const auto inside = ParsePrefixes(text);
        if (inside.ok()) run.inside = *inside;
        return inside.status();
      },
      [&run] { return FormatPrefixes(run.inside); });
  flags().Heading("Deaths");
  flags().Count("deaths", options_.deaths, 1, kMostDeaths,
                "number of deaths of the unit");
  flags().Number("seed", options_.seed, "seed of the times of the deaths");
  flags().Count("timed", options_.timed, 1, kMostTimed,
                "runs without deaths, by which the cost of output loggers, "
                "checkpoints and a datastore is measured; the shortest run "
                "counts");
  flags().Heading("Delay of messages");
  flags().Duration("hop_delay", run.hop_delay, Nanos{0}, Seconds(10),
                   "delay of a message to another unit, logger or store");
  flags().Duration("state_delay", run.state_delay, Nanos{0}, Seconds(10),
                   "delay of records to another unit, in addition to the "
                   "transfer of their bytes");
  flags().BitRate("state_bandwidth", run.state_bandwidth_bps, 1'000,
                  1'000'000'000'000,
                  "rate at which the bytes of records are transferred");
  flags().Custom(
      "store", "'KEY=VALUE …'",
      "delay of requests to a store, as in "
      "'round_trips=12us,23us,32us,64us,180us operation=2us'",
      [&run](const std::string& text) {
        const auto store = ParseStore(text);
        if (store.ok()) run.store = *store;
        return store.status();
      },
      [&run] { return FormatStore(run.store); });
  flags().BitRate("unit_capacity", run.controller.unit_capacity_bps, 1'000,
                  1'000'000'000'000,
                  "rate of a unit: the time to run packets again is also "
                  "reported for a unit of this rate");
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
    PrintOnStderr("{}: {}\n", name(), warning);
  }
  if (capture.size() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: contains no packet that can be run", files_[0]));
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
