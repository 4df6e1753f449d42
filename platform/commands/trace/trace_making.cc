// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_making.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>

#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "platform/process/command_files.h"
#include "platform/process/console.h"
#include "traces/byte_sink.h"
#include "traces/capture_writer.h"
#include "traces/split_writer.h"

namespace snf {
namespace {

constexpr uint64_t kPacketsPerProgress = 8'192;
constexpr int64_t kMostBitsPerSecond = 10'000'000'000'000;
constexpr Nanos kLongest = Seconds(1'000'000);

}  // namespace

void TraceMaking::AddFlags(FlagSet& flags) {
  flags.Heading("What is made");
  flags.BitRate("rate", rate_bps, 1, kMostBitsPerSecond,
                "rate of the capture, by the packets' whole lengths as "
                "captures count them");
  flags.Duration("duration", duration, Nanos{1}, kLongest, "how long");
  flags.Number("seed", seed,
               "seed of the random draws; the same seed gives the same bytes");
  flags.Text("out", out, "FILE",
             "file to write: .pcap or .pcapng, also .gz or .zst; it gets its "
             "name only once it is complete (- is stdout)");
  flags.Switch("force", force, "replace FILE if it exists");
  flags.Heading("Reports");
  flags.Text("json", json, "FILE",
             "write the figures as JSON to FILE (- is stdout, instead of "
             "text)");
  flags.Switch("quiet", quiet, "print no progress and no report");
}

absl::Status TraceMaking::CheckOut(const std::vector<std::string>& read) const {
  if (out.empty()) {
    return absl::InvalidArgumentError(
        "--out is missing: name the file to write");
  }
  if (out == "-" && json == "-") {
    return absl::InvalidArgumentError("--out and --json cannot both be stdout");
  }
  const std::array<WrittenFile, 2> written = {
      {{"--out", out}, {"--json", json}}};
  absl::Status status = CheckCaptureName(written[0]);
  if (status.ok()) status = CheckFiles(read, written);
  return status.ok() ? SplitWriter::CheckAbsent(out, force) : status;
}

absl::Status TraceMaking::ReadSources(const std::vector<std::string>& files,
                                      SourceCaptures& sources) {
  uint64_t packets = 0;
  std::vector<absl::Status> unsupported;
  for (const std::string& path : files) {
    std::unique_ptr<Progress> progress;
    const absl::Status status =
        sources.Add(path, [&](const CaptureReader& reader) {
          if (progress == nullptr) {
            progress = ShowProgress("reading " + Printable(path),
                                    reader.total_bytes(), quiet);
          }
          progress->Update(reader.packets_read(), reader.bytes_read());
        });
    progress = nullptr;  // its line is over
    if (absl::IsUnimplemented(status)) {
      unsupported.push_back(status);
      left_out.push_back(path);
      continue;
    }
    if (!status.ok()) return status;
    for (const std::string& warning : sources.files().back().warnings) {
      PrintOnStderr("snf trace: {}\n", Printable(warning));
    }
    packets += sources.files().back().packets_without;
  }
  if (sources.files().empty()) return unsupported.front();
  for (const absl::Status& why : unsupported) {
    PrintOnStderr("snf trace: {}: the capture is left out\n",
                  Printable(std::string(why.message())));
  }
  if (sources.conversations().size() > 0) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: no conversation of IPv4 or IPv6 among {}",
                  FileList(files), Plural(packets, "packet")));
}

absl::Status TraceMaking::Write(const Next& next, uint64_t expected_bytes,
                                uint32_t snap_bytes) const {
  auto opened = CaptureWriter::Open(out, {.snap_bytes = snap_bytes});
  if (!opened.ok()) return opened.status();
  CaptureWriter& writer = **opened;
  const auto progress =
      ShowProgress("writing " + Printable(out), expected_bytes, quiet);
  CapturedPacket packet;
  uint64_t bytes = 0;
  while (next(packet)) {
    if (!writer.Write(packet)) return writer.status();
    bytes += packet.original_bytes;
    if (writer.packets_written() % kPacketsPerProgress == 0) {
      progress->Update(writer.packets_written(), bytes);
    }
  }
  return writer.Close();
}

absl::Status TraceMaking::Tell(const std::string& as_json,
                               const std::string& text) const {
  if (!json.empty()) {
    const absl::Status status = WriteFile(json, as_json);
    if (!status.ok() || json == "-") return status;
  }
  if (quiet || out == "-") return absl::OkStatus();
  return WriteFile("-", text);
}

}  // namespace snf
