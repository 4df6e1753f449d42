// SPDX-License-Identifier: Apache-2.0
#include "platform/trace/trace_convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/quantity.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/command_files.h"
#include "platform/process/console.h"
#include "platform/text/wording.h"
#include "traces/capture_format.h"

namespace snf {
namespace {

constexpr uint64_t kConvertedPerProgress = 1 << 14;

absl::Status Usage(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// "packets:1000", "time:1s", "flows:8", "none".
absl::Status ParseSplit(const std::string& text, SplitWriter::Options& split) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string by = text.substr(0, colon);
  const std::string amount = text.substr(std::min(colon + 1, text.size()));
  split.packets = 0;
  split.time = {};
  split.flow_parts = 0;
  if (text == "none") return absl::OkStatus();
  if (by == "time") {
    const auto time = ParseDuration(amount);
    if (!time.ok()) return time.status();
    split.time = *time;
    if (time->ns > 0) return absl::OkStatus();
  } else if (by == "packets" || by == "flows") {
    uint64_t number = 0;
    const char* const end = amount.data() + amount.size();
    const auto [at, error] = std::from_chars(amount.data(), end, number);
    const bool is_number = error == std::errc() && at == end && number > 0;
    if (is_number && by == "packets") {
      split.packets = number;
      return absl::OkStatus();
    }
    if (is_number && number <= SplitWriter::kMaxFlowParts) {
      split.flow_parts = static_cast<uint32_t>(number);
      return absl::OkStatus();
    }
  }
  return Usage(
      fmt::format("\"{}\": want packets:N, time:DURATION, flows:N (N up to "
                  "{}) or none",
                  text, SplitWriter::kMaxFlowParts));
}

}  // namespace

TraceConvert::TraceConvert()
    : FlagCommand(
          {.summary = "another format, framing or length; a part; several",
           .usage = "snf trace convert IN… OUT [--FLAG=VALUE…]",
           .about =
               "Reads captures (- is stdin), merges them by time and writes "
               "OUT "
               "(.pcap or .pcapng, also with .gz or .zst; - is stdout), or "
               "several by --split. Comments of the input are not kept."}) {
  flags().Arguments("FILE", files_, 2);
  AddFlags();
}

void TraceConvert::AddFlags() {
  flags().Choice("resolution", resolution_,
                 {{"ns", "nanoseconds"},
                  {"us",
                   "microseconds, for readers that know no other; what "
                   "is below is cut off"}},
                 "timestamps are written in:");
  flags().Choice("link", link_,
                 {{"keep", "as it is; pcap can hold one link type only"},
                  {"ethernet",
                   "Ethernet, with addresses made up where there "
                   "were none"},
                  {"raw", "raw IP, without link header, tags and padding"}},
                 "the framing of packets; where it changes, those that are not "
                 "IP are left out:");
  flags().Bytes("snap", snap_bytes_, 0, kMaxCapturedBytes,
                "cut packets to so many bytes (0: not at all)");
  flags().Duration("begin", begin_, Nanos{0}, Nanos::max(),
                   "leave out what is earlier than this, counted from the "
                   "first packet");
  flags().DurationOrInfinity(
      "end", end_, Nanos{1},
      "leave out what is not earlier than this, counted from the first packet");
  flags().Text("filter", filter_text_, "FILTER",
               "leave out what does not pass this filter of tcpdump's "
               "language, as in 'tcp port 80'");
  flags().Custom(
      "split", "BY:AMOUNT",
      "write several files, OUT with -0001, -0002 … in its name: packets:1000 "
      "(so many in each), time:1s (so long each), flows:8 (so many files, each "
      "with all packets of its connections)",
      [this](const std::string& text) {
        split_text_ = text;
        return ParseSplit(text, split_);
      },
      [this] { return split_text_; });
  flags().Switch("force", force_, "replace files that are there");
  flags().Switch("quiet", quiet_, "no progress on stderr");
}

absl::Status TraceConvert::Run() {
  EndCleanlyWhenInterrupted(name());
  const std::string out = files_.back();
  files_.pop_back();
  if (out.empty()) return Usage("the name of the file to write is empty");
  const WrittenFile written = {.flag = "", .name = out};
  if (absl::Status s = CheckCaptureName(written); !s.ok()) return s;
  if (!split_.splits()) {
    absl::Status s = CheckFiles(files_, {&written, 1});
    if (!s.ok()) return s;
  }
  if (begin_ >= end_) {
    return Usage(fmt::format("{}: want less than {}", flags().Printed("begin"),
                             flags().Printed("end")));
  }
  if (split_.splits() && out == "-") {
    return Usage("--split: stdout (-) is one file");
  }
  split_.force = force_;
  split_.writer.microseconds = resolution_ == 1;
  if (snap_bytes_ > 0) split_.writer.snap_bytes = snap_bytes_;
  SplitWriter writer(out, split_);
  // Before the work, where it is known already.
  absl::Status status = SplitWriter::CheckAbsent(writer.PathOf(0), force_);
  if (!status.ok()) return status;
  if (!filter_text_.empty()) {
    auto filter = PacketFilter::Compile(filter_text_);
    if (!filter.ok()) {
      return Usage(
          fmt::format("--filter: {}", std::string(filter.status().message())));
    }
    filter_ = *std::move(filter);
  }
  if (link_ != 0) {
    link_changer_ = std::make_unique<LinkChanger>(
        link_ == 1 ? LinkType::kEthernet : LinkType::kRawIp);
  }
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  status = Convert(**reader, writer);
  if (!status.ok()) return status;
  for (const std::string& warning : (*reader)->warnings()) {
    fmt::print(stderr, "{}: {}\n", name(), Printable(warning));
  }
  if (writer.packets_written() == 0) SayThatNothingIsLeft(**reader);
  const uint32_t parts = writer.parts_written();
  fmt::print(
      out == "-" ? stderr : stdout, "{}: {} of {}{}{}\n",
      Printable(writer.PathOf(0)), FormatCount(writer.packets_written()),
      Plural((*reader)->packets_read(), "packet"),
      split_.splits() ? fmt::format(" in {}", Plural(parts, "file")) : "",
      LeftOutText());
  return absl::OkStatus();
}

absl::Status TraceConvert::Convert(MergedReader& reader, SplitWriter& writer) {
  const auto progress =
      ShowProgress("converting", reader.total_bytes(), quiet_);
  CapturedPacket packet;
  while (reader.Next(packet) == ReadResult::kPacket) {
    if (reader.packets_read() % kConvertedPerProgress == 0) {
      progress->Update(reader.packets_read(), reader.bytes_read());
    }
    if (!Keep(packet)) {
      if (filter_ != nullptr && !filter_->status().ok()) {
        return Usage(fmt::format("--filter: {}",
                                 std::string(filter_->status().message())));
      }
      continue;
    }
    if (absl::Status s = writer.Write(packet); !s.ok()) return s;
  }
  if (!reader.status().ok()) return reader.status();
  return writer.Close();
}

bool TraceConvert::Keep(CapturedPacket& packet) {
  if (first_ == Instant::min()) first_ = packet.time;
  last_ = std::max(last_, packet.time);
  const Nanos since = packet.time - first_;
  if ((begin_.ns > 0 && since < begin_) || since >= end_) {
    ++left_out_.window;
    return false;
  }
  if (filter_ != nullptr && !filter_->Passes(packet)) {
    ++left_out_.filter;
    return false;
  }
  if (link_changer_ != nullptr && !link_changer_->Change(packet)) {
    ++left_out_.not_ip;
    return false;
  }
  if (snap_bytes_ > 0) {
    packet.bytes =
        packet.bytes.first(std::min<size_t>(packet.bytes.size(), snap_bytes_));
  }
  return true;
}

void TraceConvert::SayThatNothingIsLeft(const MergedReader& reader) const {
  const std::string made =
      split_.splits() ? "no file is made" : "the capture has no packet";
  if (left_out_.window == reader.packets_read()) {
    fmt::print(stderr, "{}: {}: {} {}, while {} lasts {}\n", name(), made,
               flags().Printed("begin"), flags().Printed("end"),
               Printable(FileList(files_)), FormatDuration(last_ - first_));
    return;
  }
  fmt::print(stderr, "{}: {}: nothing is left of {}{}\n", name(), made,
             Plural(reader.packets_read(), "packet"), LeftOutText());
}

std::string TraceConvert::LeftOutText() const {
  std::vector<std::string> reasons;
  const auto add = [&reasons](uint64_t packets, const char* why) {
    if (packets == 0) return;
    reasons.push_back(fmt::format("{} {}", FormatCount(packets), why));
  };
  add(left_out_.window, "outside of the time");
  add(left_out_.filter, "did not pass the filter");
  add(left_out_.not_ip, "not IP");
  if (reasons.empty()) return "";
  return fmt::format("; left out: {}", fmt::join(reasons, ", "));
}

}  // namespace snf
