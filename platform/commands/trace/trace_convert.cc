// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/quantity.h"
#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/command_files.h"
#include "platform/process/console.h"
#include "traces/capture_format.h"
#include "traces/loaded_capture.h"

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

std::string RemovedText(uint32_t parts) {
  if (parts == 0) return "";
  return fmt::format("; removed {} of an older split", Plural(parts, "file"));
}

}  // namespace

TraceConvert::TraceConvert()
    : FlagCommand(
          {.summary =
               "change format, framing or length; cut out a part; merge; split",
           .usage = "snf trace convert IN… OUT [--FLAG=VALUE…]",
           .about =
               "Reads captures (- is stdin), merges them by time (each keeps "
               "its order, but with --sort) and "
               "writes OUT (.pcap or .pcapng, also with .gz or .zst; - is "
               "stdout), or several files with --split. Comments in the "
               "input are not copied."}) {
  flags().Arguments("FILE", files_, 2);
  AddFlags();
}

void TraceConvert::AddFlags() {
  flags().Choice(
      "resolution", resolution_,
      {{"ns", "nanoseconds"},
       {"us",
        "microseconds, for older readers; smaller fractions are cut off"}},
      "unit of the written timestamps:");
  flags().Choice("link", link_,
                 {{"keep", "unchanged; pcap can hold only one link type"},
                  {"ethernet", "Ethernet; missing addresses are made up"},
                  {"raw", "raw IP, without link header, tags and padding"}},
                 "framing of the written packets; packets whose framing would "
                 "change are left out if they are not IP:");
  flags().Bytes("snap", snap_bytes_, 0, kMaxCapturedBytes,
                "bytes after which each packet is cut (0: none are cut)");
  flags().Duration(
      "begin", begin_, Nanos{0}, Nanos::max(),
      "leave out packets earlier than this, counted from the first packet");
  flags().DurationOrInfinity(
      "end", end_, Nanos{1},
      "leave out packets at or after this time, counted from the first packet");
  flags().Text("filter", filter_text_, "FILTER",
               "leave out packets that do not match this filter in tcpdump's "
               "language, as in 'tcp port 80'");
  flags().Custom(
      "split", "BY:AMOUNT",
      "write several files, named as OUT with -0001, -0002 …: packets:1000 "
      "(packets in each file), time:1s (duration of each file), flows:8 "
      "(number of files, each with all packets of its connections). No file "
      "of that name may be there; --force replaces them all",
      [this](const std::string& text) {
        split_text_ = text;
        return ParseSplit(text, split_);
      },
      [this] { return split_text_; });
  flags().Switch("sort", sort_,
                 "write the packets in the order of time; they are all loaded "
                 "for that");
  flags().Switch("force", force_, "replace existing files");
  flags().Switch("quiet", quiet_, "print no progress on stderr");
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
  if (status.ok()) status = CheckParts(writer.PartsThere());
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
  status = sort_ ? ConvertSorted(**reader, writer) : Convert(**reader, writer);
  if (!status.ok()) return status;
  for (const std::string& warning : (*reader)->warnings()) {
    PrintOnStderr("{}: {}\n", name(), Printable(warning));
  }
  if (writer.packets_written() == 0) SayThatNothingIsLeft(**reader);
  const uint32_t parts = writer.parts_written();
  fmt::print(
      out == "-" ? stderr : stdout, "{}: {} of {}{}{}\n",
      Printable(writer.PathOf(0)), FormatCount(writer.packets_written()),
      Plural((*reader)->packets_read(), "packet"),
      split_.splits() ? fmt::format(" in {}", Plural(parts, "file")) : "",
      LeftOutText() + RemovedText(writer.parts_removed()));
  return absl::OkStatus();
}

absl::Status TraceConvert::CheckParts(
    const std::vector<std::string>& there) const {
  for (const std::string& part : there) {
    const WrittenFile written = {.flag = "", .name = part};
    absl::Status status = CheckFiles(files_, {&written, 1});
    if (status.ok()) status = SplitWriter::CheckAbsent(part, force_);
    if (!status.ok()) return status;
  }
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
    if (absl::Status s = Write(packet, writer); !s.ok()) return s;
  }
  if (!reader.status().ok()) return reader.status();
  return writer.Close();
}

absl::Status TraceConvert::ConvertSorted(MergedReader& reader,
                                         SplitWriter& writer) {
  const auto progress = ShowProgress("sorting", reader.total_bytes(), quiet_);
  LoadedCapture loaded(HalfOfMemory());
  CapturedPacket packet;
  while (reader.Next(packet) == ReadResult::kPacket) {
    if (reader.packets_read() % kConvertedPerProgress == 0) {
      progress->Update(reader.packets_read(), reader.bytes_read());
    }
    if (absl::Status s = loaded.Add(packet); !s.ok()) return s;
  }
  if (!reader.status().ok()) return reader.status();
  loaded.SortByTime();
  for (size_t i = 0; i < loaded.size(); ++i) {
    packet = loaded.Packet(i, 0);
    if (absl::Status s = Write(packet, writer); !s.ok()) return s;
  }
  return writer.Close();
}

absl::Status TraceConvert::Write(CapturedPacket& packet, SplitWriter& writer) {
  if (Keep(packet)) return writer.Write(packet);
  if (filter_ == nullptr || filter_->status().ok()) return absl::OkStatus();
  return Usage(
      fmt::format("--filter: {}", std::string(filter_->status().message())));
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
    PrintOnStderr("{}: {}: {} {}, while {} lasts {}\n", name(), made,
                  flags().Printed("begin"), flags().Printed("end"),
                  Printable(FileList(files_)), FormatDuration(last_ - first_));
    return;
  }
  PrintOnStderr("{}: {}: none of {} is left{}\n", name(), made,
                Plural(reader.packets_read(), "packet"), LeftOutText());
}

std::string TraceConvert::LeftOutText() const {
  std::vector<std::string> reasons;
  const auto add = [&reasons](uint64_t packets, const char* why) {
    if (packets == 0) return;
    reasons.push_back(fmt::format("{} {}", FormatCount(packets), why));
  };
  add(left_out_.window, "outside of --begin and --end");
  add(left_out_.filter, "did not match the filter");
  add(left_out_.not_ip, "not IP");
  if (reasons.empty()) return "";
  return fmt::format("; left out: {}", fmt::join(reasons, ", "));
}

}  // namespace snf
