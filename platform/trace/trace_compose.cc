// SPDX-License-Identifier: Apache-2.0
#include "platform/trace/trace_compose.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>

#include "platform/process/clean_interrupt.h"
#include "platform/trace/trace_compose_report.h"
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
               "Takes captures apart into their conversations and makes a "
               "capture in which so many copies of them overlap, each at its "
               "own pace, that they add up to a rate. Copies begin at any "
               "time, as a Poisson process, from long before the first packet "
               "that is written, and have addresses of their own. So bursts, "
               "and the flowlets that they make, are as they were, while "
               "squeezing a capture in time would melt them together. FILE is "
               "pcap or pcapng, also in gzip or zstd; - is stdin. What is made "
               "is written as it is drawn: memory is for the captures and the "
               "conversations under way."}) {
  flags().Arguments("FILE", files_, 1);
  making_.AddFlags(flags());
  flags().Heading("How it is composed");
  flags().Custom(
      "weight", "bytes^A",
      fmt::format("how often a conversation is taken: by this power of its "
                  "bytes, from -{0} to {0}. More than 0 prefers fat ones, less "
                  "thin ones; 1, as bytes^0, takes all alike",
                  kSteepest),
      [this](const std::string& text) { return SetWeight(text); },
      [this] { return weight_; });
  flags().Bytes("snap", snap_bytes_, kLeastSnap, kMaxCapturedBytes,
                "keep only so much of a packet; rates are by whole packets all "
                "the same");
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
    return absl::InvalidArgumentError(fmt::format(
        "{} for {}: too little for a single packet of these captures",
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
