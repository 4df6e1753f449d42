// SPDX-License-Identifier: Apache-2.0
#include "platform/options/output_flags.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/ipfix/ipfix_collector.h"
#include "base/ipfix/ipfix_log.h"
#include "platform/process/command_files.h"
#include "platform/report/explain/decision_log.h"
#include "runtime/sdk/nf.h"
#include "traces/split_writer.h"

namespace snf {

OutputFlags::OutputFlags(RunFlagSet& set) : set_(set) {
  AddCaptures();
  AddReports();
}

void OutputFlags::AddCaptures() {
  FlagSet& flags = set_.flags;
  flags
      .Text("out", set_.request.out, "FILE",
            "write released packets, at the time of their release, to FILE "
            "(.pcap or .pcapng, also with .gz or .zst; - is stdout)")
      .is_output = true;
  flags
      .Switch("annotate", set_.request.annotate,
              "write a comment for each packet of --out, which then has to be "
              "pcapng: its unit, flowlet, clock and latency")
      .is_output = true;
  flags
      .Text("drops", set_.request.drops, "FILE",
            "write dropped packets to FILE (.pcapng, also with .gz or .zst), "
            "each with the reason as its comment")
      .is_output = true;
  flags.Switch("force", force_, "replace captures that exist");
}

void OutputFlags::AddReports() {
  FlagSet& flags = set_.flags;
  flags
      .Text("json", set_.request.json, "FILE",
            "write the report as JSON to FILE (- is stdout, instead of text)")
      .is_output = true;
  flags
      .Question("json_schema", set_.request.json_schema,
                "only print the meaning of the keys of --json")
      .is_of_command = true;
  flags
      .Text("csv", set_.request.csv, "DIR",
            "write time series per 100 ms, in virtual time also of single "
            "units per 10 ms, latency quantiles and all figures to DIR")
      .is_output = true;
  flags
      .Text("nf_logs", set_.request.nf_logs, "DIR",
            "write the log records of NFs, such as ids.alerts, to "
            "DIR/NF.LOG.log as they leave with their packets; live traffic "
            "appends, and SIGUSR1 to a daemon opens the files again")
      .is_output = true;
  flags
      .Text("ipfix", set_.request.ipfix, "FILE|udp://HOST[:PORT]",
            "write log records of NFs that have them in that form, such as "
            "nat.bindings, as IPFIX to FILE or to a collector, as they leave "
            "with their packets; live traffic appends, and SIGUSR1 to a "
            "daemon opens the file again")
      .is_output = true;
  flags.Switch("quiet", set_.request.quiet, "no progress on stderr").is_output =
      true;
}

absl::Status OutputFlags::Check() const {
  if (absl::Status s = CheckNames(); !s.ok()) return s;
  const RunRequest& request = set_.request;
  return set_.Check({{.flags = {"json"},
                      .with = "out",
                      .when = request.json == "-" && request.out == "-",
                      .because = "only one of them can be stdout"}});
}

absl::Status OutputFlags::CheckIpfix() const {
  const std::string& to = set_.request.ipfix;
  if (to.empty()) return absl::OkStatus();
  if (to == "-") {
    return absl::InvalidArgumentError(
        "--ipfix=-: messages are binary, and wants a file or a collector");
  }
  if (IpfixCollector::IsMeantBy(to)) {
    const auto collector = IpfixCollector::Parse(to);
    if (!collector.has_value() || !collector->is_udp) {
      return absl::InvalidArgumentError(
          fmt::format("--ipfix={}: wants a file, or a collector over UDP, such "
                      "as udp://192.0.2.9:4739",
                      to));
    }
  }
  for (const Config::Chain& chain : set_.request.config.chains) {
    const std::unique_ptr<NetworkFunction> nf = chain.nf.create();
    for (const NfLog& log : LogsOf(*nf)) {
      const auto* const ipfix = dynamic_cast<const IpfixLog*>(log.nf);
      if (ipfix != nullptr && ipfix->has_ipfix()) return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      fmt::format("--ipfix={}: no network function has a log in that form; nat "
                  "with log_bindings=true has, and a module may have with "
                  "--trust_modules",
                  to));
}

absl::Status OutputFlags::CheckNames() const {
  const RunRequest& request = set_.request;
  const bool is_file = !IpfixCollector::IsMeantBy(request.ipfix);
  const std::array<WrittenFile, 6> written = {
      {{"--out", request.out},
       {"--drops", request.drops},
       {"--json", request.json},
       {"--decisions", request.decisions},
       {"--usage", request.usage},
       {"--ipfix", is_file ? request.ipfix : ""}}};
  if (absl::Status s = CheckCaptureName(written[0]); !s.ok()) return s;
  // Only pcapng can hold comments.
  if (request.annotate && request.out != "-" && !NamesPcapng(request.out)) {
    return absl::InvalidArgumentError(
        "--annotate: wants --out=FILE.pcapng (or with .gz or .zst behind, or "
        "-): other formats hold no comments");
  }
  if (!request.drops.empty() && !NamesPcapng(request.drops)) {
    return absl::InvalidArgumentError(fmt::format(
        "--drops={}: its name has to end in .pcapng, or in that and .gz or "
        ".zst: other formats hold no comments",
        request.drops));
  }
  if (!request.decisions.empty() && !DecisionLog::Names(request.decisions)) {
    return absl::InvalidArgumentError(
        fmt::format("--decisions={}: its name has to end in .csv or .jsonl, or "
                    "in one of these and .gz or .zst",
                    request.decisions));
  }
  if (request.usage == "-" && (request.json == "-" || request.out == "-")) {
    return absl::InvalidArgumentError(
        "--usage=-: --json or --out is stdout already");
  }
  std::vector<std::string> read = request.files;
  read.push_back(request.config_file);
  if (absl::Status s = CheckFiles(read, written); !s.ok()) return s;
  for (const std::string& name : {request.out, request.drops}) {
    absl::Status s = SplitWriter::CheckAbsent(name, force_);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace snf
