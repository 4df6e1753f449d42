// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_compose.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>

#include "platform/commands/trace/trace_compose_report.h"
#include "platform/process/clean_interrupt.h"
#include "traces/synthesis/composer.h"

namespace snf {
namespace {

constexpr double kSteepest = 3;  // exponent of --weight
constexpr uint32_t kLeastSnap = 96;

std::vector<double> WeightsOf(const Conversations& conversations,
                              double exponent) {
  std::vector<double> weights;
  if (exponent == 0) return weights;
  for (size_t i = 0; i < conversations.size(); ++i) {
    weights.push_back(
        std::pow(static_cast<double>(conversations.BytesOf(i)), exponent));
  }
  return weights;
}

}  // namespace

TraceCompose::TraceCompose()
    : FlagCommand(
          {.summary = "overlay the conversations of captures to a rate",
           .usage = "snf trace compose FILE… --out=FILE [--FLAG=VALUE…]",
           .about =
               "Splits captures into their conversations, and makes a capture "
               "in which copies of the conversations overlap, each at its own "
               "pace, until they add up to --rate. Copies begin as a Poisson "
               "process, long before the first packet that is written, and "
               "each has its own addresses. So bursts and flowlets stay as "
               "they were; speeding up a capture would merge them instead. "
               "FILE is pcap or pcapng, also in gzip or zstd; - is stdin. "
               "Packets are written as they are drawn, so memory is needed "
               "only for the captures and the conversations under way."}) {
  flags().Arguments("FILE", files_, 1);
  making_.AddFlags(flags());
  flags().Heading("How conversations are drawn");
  flags().Custom(
      "weight", "bytes^A",
      fmt::format(
          "weight of a conversation in the draw: this power of its bytes, with "
          "A from -{0} to {0}. A above 0 prefers large conversations, below 0 "
          "small ones; 1, the same as bytes^0, treats all alike",
          kSteepest),
      [this](const std::string& text) { return SetWeight(text); },
      [this] { return weight_; });
  flags().Bytes(
      "snap", snap_bytes_, kLeastSnap, kMaxCapturedBytes,
      "bytes kept of each packet; the rate still counts whole packets");
}

absl::Status TraceCompose::SetWeight(const std::string& text) {
  weight_ = text;
  exponent_ = 0;
  if (text == "1") return absl::OkStatus();
  constexpr std::string_view kBase = "bytes^";
  const char* const end = text.data() + text.size();
  if (text.starts_with(kBase)) {
    const auto [rest, error] =
        std::from_chars(text.data() + kBase.size(), end, exponent_);
    if (error == std::errc() && rest == end &&
        std::abs(exponent_) <= kSteepest) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is neither 1 nor bytes^A with A from -{} to {}", text,
                  kSteepest, kSteepest));
}

absl::Status TraceCompose::Run() {
  EndCleanlyWhenInterrupted(name());
  absl::Status status = making_.CheckOut(files_);
  SourceCaptures sources(snap_bytes_);
  if (status.ok()) status = making_.ReadSources(files_, sources);
  if (!status.ok()) return status;
  const Overlay::Options options = {
      .rate_bps = making_.rate_bps,
      .duration = making_.duration,
      .seed = making_.seed,
      .weights = WeightsOf(sources.conversations(), exponent_)};
  Composer composer(sources, options);
  if (composer.expected_bytes() == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} for {}: less than a single packet of these captures",
                    flags().Printed("rate"), flags().Printed("duration")));
  }
  status = making_.Write(
      [&composer](CapturedPacket& packet) { return composer.Next(packet); },
      composer.expected_bytes(), snap_bytes_);
  if (!status.ok()) return status;
  const ComposeReport report = {.out = making_.out,
                                .sources = sources,
                                .left_out = making_.left_out,
                                .options = options,
                                .tally = composer.tally()};
  return making_.Tell(JsonOf(report), TextOf(report));
}

}  // namespace snf
