// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/control/capture_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/packet_parser.h"
#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "platform/control/control_client.h"
#include "platform/control/daemon_cluster.h"
#include "platform/control/daemon_command.h"
#include "platform/process/clean_interrupt.h"
#include "platform/process/standard_streams.h"
#include "runtime/ring/real_clock.h"
#include "traces/capture_format.h"
#include "traces/capture_writer.h"

namespace snf {
namespace {

// Between two questions; the daemon keeps 2 MiB meanwhile.
constexpr auto kPause = std::chrono::milliseconds(50);

absl::StatusOr<CapturedPacket> PacketOf(const proto::CapturedFrame& frame) {
  const auto link = LinkTypeOf(frame.link());
  if (!link.has_value() || frame.original_bytes() < frame.data().size()) {
    return absl::InternalError(
        fmt::format("the daemon sent a packet of link type {} with {} of {} "
                    "bytes",
                    frame.link(), frame.data().size(), frame.original_bytes()));
  }
  return CapturedPacket{.time = {frame.time_ns()},
                        .bytes = std::as_bytes(std::span(frame.data())),
                        .original_bytes = frame.original_bytes(),
                        .link = *link};
}

// Returns "tcp 10.0.0.1:5000 > 192.0.2.9:80"; of a frame without IP, its link.
std::string NameOf(const CapturedPacket& packet) {
  const ParsedPacket headers = Parse(packet.link, packet.bytes);
  if (!headers.has_ip()) return "no IP";
  return ToString(FiveTuple(packet.bytes, headers, /*with_vlan=*/true));
}

std::string LineOf(const CapturedPacket& packet,
                   const proto::CapturedFrame& frame) {
  const std::time_t seconds = packet.time.ns / Seconds(1).ns;
  const int64_t micros = packet.time.ns % Seconds(1).ns / 1'000;
  return fmt::format("{:%H:%M:%S}.{:06} {}, {} bytes: {}{}\n",
                     fmt::localtime(seconds), micros, NameOf(packet),
                     packet.original_bytes, frame.is_dropped() ? "" : "left ",
                     Printable(frame.comment()));
}

class CaptureCommand final : public DaemonCommand {
 public:
  CaptureCommand()
      : DaemonCommand(
            {.summary = "capture packets of a daemon, with their fate",
             .usage = "snf capture [FILTER…] [--out=FILE] [--count=N] "
                      "[--for=TIME] [--drops]",
             .about =
                 "Captures packets as they leave the daemon or are dropped, "
                 "each with the unit that had it, its flowlet, its latency, or "
                 "why it was dropped. The filter is in the language of tcpdump "
                 "and selects a packet by its own headers, or by the addresses "
                 "and ports with which its flow began: so a filter for a host "
                 "finds its packets although a NAT has translated them. "
                 "Without a filter, captures all packets. Prints a line for "
                 "each packet, or writes a capture that Wireshark reads, with "
                 "the "
                 "same as a comment of each. Of several controllers, captures "
                 "at all; their packets are in order within some 50 ms. Ends "
                 "after --count packets, after --for, or by Ctrl-C."}) {
    flags().Arguments("FILTER", words_, 0);
    flags().Text(
        "out", out_, "FILE",
        "write the packets to FILE: pcapng, with comments; pcap if the "
        "name ends in .pcap, without");
    flags().Count("count", count_, 1, 100'000'000, "most packets to capture");
    flags().DurationOrInfinity("for", for_, Milliseconds(1),
                               "end after this time");
    flags().Count("snap", snap_, 0, kMaxCapturedBytes,
                  "most bytes to keep of each packet; 0: all");
    flags().Switch("drops", drops_, "capture only packets that are dropped");
  }

 private:
  absl::Status Run() override {
    static FirstInterrupt interrupt;
    EndCleanlyWhenInterrupted(name(), &interrupt);
    if (!out_.empty()) {
      auto writer = CaptureWriter::Open(out_, {});
      if (!writer.ok()) return writer.status();
      writer_ = *std::move(writer);
    }
    proto::CaptureRequest request;
    request.set_filter(absl::StrJoin(words_, " "));
    request.set_snap_bytes(snap_);
    request.set_drops_alone(drops_);
    const Instant begin = RealClock::Monotonic();
    if (absl::Status s = FindSources(); !s.ok()) return s;
    for (Source& source : sources_) {
      if (absl::Status s = AskOf(source, request); !s.ok()) return s;
    }
    interrupt.is_awaited = true;
    absl::Status status = Take();
    for (bool is_over = false; status.ok() && !is_over;) {
      std::this_thread::sleep_for(kPause);
      is_over = interrupt.came || taken() == count_ ||
                RealClock::Monotonic() - begin >= for_;
      is_over |= !AskAgain(is_over);
      status = Take();
    }
    if (!status.ok()) return status;
    return End();
  }

  // A daemon that captures.
  struct Source {
    std::string name;                       // of one of several controllers
    std::unique_ptr<ControlClient> client;  // of it; null: of the command
    proto::CaptureReply reply = {};         // the last one
    bool has_ended = false;
  };

  // The daemon, or all controllers of its name on this machine.
  absl::Status FindSources() {
    if (!is_remote()) {
      const auto members = AllMembersOf(daemon());
      if (!members.ok()) return members.status();
      for (const ClusterMember& member : *members) {
        sources_.push_back(
            {.name = ClusterMember::NameOf(daemon(), member.id),
             .client = ControlClient::Connect(member.files.socket)});
      }
    }
    if (sources_.empty()) sources_.push_back({});
    return absl::OkStatus();
  }

  absl::Status AskOf(Source& source, const proto::CaptureRequest& request) {
    source.reply.clear_frame();
    auto reply =
        source.client != nullptr ? source.client->Ask(request) : Ask(request);
    if (!reply.ok() && source.client == nullptr) return reply.status();
    if (!reply.ok()) {
      return absl::Status(reply.status().code(),
                          fmt::format("\"{}\": {}", Printable(source.name),
                                      std::string(reply.status().message())));
    }
    source.reply = *std::move(reply);
    return absl::OkStatus();
  }

  // Takes what the sources have captured since; returns false once all have
  // ended. Their packets so far stay.
  bool AskAgain(bool is_over) {
    bool any = false;
    for (Source& source : sources_) {
      if (source.has_ended) continue;
      proto::CaptureRequest request;
      request.set_capture(source.reply.capture());
      request.set_ends(is_over);
      const absl::Status status = AskOf(source, request);
      any |= status.ok();
      if (status.ok()) continue;
      source.has_ended = true;
      PrintOnStderr("{}: the capture ends early: {}\n", name(),
                    std::string(status.message()));
    }
    return any;
  }

  absl::Status Take() {
    std::vector<const proto::CapturedFrame*> frames;
    for (const Source& source : sources_) {
      for (const proto::CapturedFrame& frame : source.reply.frame()) {
        frames.push_back(&frame);
      }
    }
    if (sources_.size() > 1) {
      std::ranges::stable_sort(frames, {}, &proto::CapturedFrame::time_ns);
    }
    for (const proto::CapturedFrame* each : frames) {
      const proto::CapturedFrame& frame = *each;
      if (taken() == count_) break;
      const auto packet = PacketOf(frame);
      if (!packet.ok()) return packet.status();
      ++(frame.is_dropped() ? dropped_ : left_);
      if (writer_ == nullptr) {
        fmt::print("{}", LineOf(*packet, frame));
        continue;
      }
      const bool has_comments = !out_.ends_with(".pcap");
      if (!writer_->Write(*packet, has_comments ? frame.comment() : "")) {
        return writer_->status();
      }
    }
    return FlushStdout();
  }

  absl::Status End() {
    uint64_t lost = 0;
    for (const Source& source : sources_) lost += source.reply.lost();
    if (writer_ != nullptr) {
      if (absl::Status s = writer_->Close(); !s.ok()) return s;
    }
    PrintOnStderr(
        "{}: {} that left, {} that were dropped{}{}\n", name(),
        Plural(left_, "packet"), dropped_,
        lost == 0 ? ""
                  : fmt::format("; {} more were lost, as this command was late",
                                lost),
        out_.empty() ? "" : fmt::format("; in {}", Printable(out_)));
    return absl::OkStatus();
  }

  uint64_t taken() const { return left_ + dropped_; }

  std::vector<std::string> words_;
  std::string out_;
  uint32_t count_ = 10'000;
  Nanos for_ = Nanos::max();
  uint32_t snap_ = 0;
  bool drops_ = false;
  std::vector<Source> sources_;
  std::unique_ptr<CaptureWriter> writer_;
  uint64_t left_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace

std::unique_ptr<Command> CreateCaptureCommand() {
  return std::make_unique<CaptureCommand>();
}

}  // namespace snf
