// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/quantity.h"
#include "base/text/terminal.h"
#include "base/text/wording.h"
#include "platform/commands/trace/trace_info_plot.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/command_files.h"
#include "platform/process/console.h"
#include "traces/byte_sink.h"
#include "traces/capture_reader.h"
#include "traces/empty_capture.h"

namespace snf {
namespace {

constexpr size_t kMaxGrid = 12;
constexpr uint64_t kReadPerProgress = 1 << 16;

// "100us,500us": each part read by `parse`, at most kMaxGrid, in rising order.
template <typename Value, typename Parse>
absl::Status ParseList(const std::string& text, const Parse& parse,
                       std::vector<Value>& list) {
  list.clear();
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    absl::StatusOr<Value> value = parse(part);
    if (!value.ok()) return value.status();
    if (!list.empty() && *value <= list.back()) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\": want rising values, in \"{}\"", part, text));
    }
    list.push_back(*value);
  }
  if (list.size() > kMaxGrid) {
    return absl::InvalidArgumentError(
        fmt::format("want at most {} values", kMaxGrid));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> ParseLimit(const std::string& text) {
  if (text == "none") return CaptureStatistics::kNoLimit;
  const auto bytes = ParseBytes(text);
  if (!bytes.ok()) return bytes.status();
  if (*bytes < 1 || *bytes > 1'000'000'000) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\": want 1B to 1GB, or none", text));
  }
  return static_cast<uint32_t>(*bytes);
}

std::string TimeoutText(Nanos timeout) {
  return FlagText(FormatDuration(timeout, Precision::kExact));
}

std::string LimitFlagText(uint32_t bytes) {
  return bytes == CaptureStatistics::kNoLimit
             ? "none"
             : FlagText(FormatBytes(bytes, Precision::kExact));
}

template <typename Value>
std::string PrintList(const std::vector<Value>& values,
                      std::string (*print)(Value)) {
  std::vector<std::string> parts;
  for (const Value value : values) parts.push_back(print(value));
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

TraceInfo::TraceInfo()
    : FlagCommand(
          {.summary = "describe captures: packets, flows and flowlets",
           .usage = "snf trace info FILE… [--FLAG=VALUE…]",
           .about =
               "Describes the packets, flows and flowlets in each capture "
               "(pcap, pcapng, also in gzip or zstd; - is stdin), and counts "
               "the packets that cannot be used. Reads a capture once; memory "
               "grows with its flows, not with its packets."}) {
  flags().Arguments("FILE", files_, 1);
  AddFlags();
}

void TraceInfo::AddFlags() {
  flow_key_.Add(
      flags(),
      "packets that belong to one flow, for sizes, gaps and flowlets:");
  flags().Custom(
      "timeouts", "T,T…",
      "flowlet timeouts to count flowlets for: a longer gap between packets of "
      "a flow begins a new flowlet (inf: no gap does)",
      [this](const std::string& text) {
        return ParseList(text, ParseDurationOrInfinity, options_.timeouts);
      },
      [this] { return PrintList(options_.timeouts, TimeoutText); });
  flags().Custom(
      "flowlet_bytes", "B,B…",
      "flowlet sizes to count flowlets for: a packet that would make a flowlet "
      "longer begins a new flowlet (none: no limit)",
      [this](const std::string& text) {
        return ParseList(text, ParseLimit, options_.flowlet_bytes);
      },
      [this] { return PrintList(options_.flowlet_bytes, LimitFlagText); });
  flags().Text("json", json_, "FILE",
               "write all figures as JSON to FILE (- is stdout, instead of "
               "text)");
  flags().Text("plot", plot_, "FILE.png",
               "plot the rate over time, sizes of flows, gaps and flowlets per "
               "flow, with a line for each capture");
  flags().Switch("quiet", quiet_, "print no progress on stderr");
}

absl::StatusOr<CaptureInfo> TraceInfo::Read(const std::string& file) const {
  auto opened = CaptureReader::Open(file);
  if (!opened.ok()) return opened.status();
  CaptureReader& reader = **opened;
  const auto progress =
      ShowProgress("reading " + Printable(file), reader.total_bytes(), quiet_);
  CaptureStatistics statistics(options_);
  CapturedPacket packet;
  while (reader.Next(packet) == ReadResult::kPacket) {
    statistics.Add(packet);
    if (reader.packets_read() % kReadPerProgress == 0) {
      progress->Update(reader.packets_read(), reader.bytes_read());
    }
  }
  if (!reader.status().ok() && !IsEmptyCapture(reader.status())) {
    return reader.status();
  }
  return CaptureInfo{.file = file,
                     .stored_bytes = reader.total_bytes(),
                     .facts = reader.facts(),
                     .warnings = reader.warnings(),
                     .options = options_,
                     .figures = statistics.Finish(),
                     .series = statistics.series()};
}

absl::Status TraceInfo::Run() {
  EndCleanlyWhenInterrupted(name());
  if (std::ranges::count(files_, "-") > 1) {
    return absl::InvalidArgumentError("stdin (-) can be read only once");
  }
  const std::array<WrittenFile, 2> written = {
      {{"--json", json_}, {"--plot", plot_}}};
  if (absl::Status s = CheckFiles(files_, written); !s.ok()) return s;
  if (!plot_.empty() && !plot_.ends_with(".png")) {
    return absl::InvalidArgumentError(
        fmt::format("--plot={}: want a name that ends with .png", plot_));
  }
  // Before the work, which may take long.
  if (!plot_.empty()) {
    if (absl::Status s = CheckPlotting(); !s.ok()) return s;
  }
  options_.kind = flow_key_.kind();
  options_.vlan = flow_key_.vlan();
  std::vector<CaptureInfo> infos;
  for (const std::string& file : files_) {
    auto info = Read(file);
    if (!info.ok()) return info.status();
    if (json_ != "-") {
      fmt::print("{}{}", infos.empty() ? "" : "\n",
                 TextOf(*info, Terminal::Of(STDOUT_FILENO)));
    }
    infos.push_back(*std::move(info));
  }
  const std::string json = JsonOf(infos);
  if (!plot_.empty()) {
    const auto png = PlotOf(json);
    if (!png.ok()) return png.status();
    const absl::Status drawn = WriteFile(plot_, *png);
    if (!drawn.ok()) return drawn;
  }
  return json_.empty() ? absl::OkStatus() : WriteFile(json_, json);
}

}  // namespace snf
