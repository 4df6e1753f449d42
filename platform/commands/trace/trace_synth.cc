// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_synth.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/quantity.h"
#include "base/text_file.h"
#include "platform/commands/trace/trace_synth_report.h"
#include "platform/process/clean_interrupt.h"
#include "traces/synthesis/drawn_model.h"

namespace snf {
namespace {

constexpr uint32_t kShareOne = 65'536;
constexpr uint32_t kLeastSnap = 96;
// Bytes read of a packet of the model.
constexpr uint32_t kModelSnap = 96;
constexpr int64_t kMostWindows = 10'000;
constexpr size_t kMostStringsBytes = 16u << 20;
constexpr uint64_t kModelStream = 3;

// Traffic with known figures. Of the paper's traces it tells packets,
// connections, the median packet, and of the first that 5 % of the flows are
// above 10 KB (SNF §9); and that flowlets give 5.18 and 4.66 times as many
// chances as flows, with T = 100 and 500 µs (SNF §9.6): of the first trace, at
// 1 Gbit/s for a second. The rest is chosen so that these come out.
struct Preset {
  const char* name;
  const char* what;
  const char* flow_bytes;
  const char* packet_bytes;
  const char* gap;
  const char* burst_packets;
  const char* pause;
  double packets;  // 0: as --duration says
};
constexpr std::array<Preset, 3> kPresets = {{
    {"none", "many small flows and some large ones",
     "90% lognormal(2KB, 1) + 10% pareto(10KB, 1.1, 10MB)",
     "40% uniform(60B, 120B) + 20% uniform(121B, 1400B) + 40% 1514B",
     "exp(20us)", "lognormal(4, 1)", "lognormal(2ms, 1.5)", 0},
    {"snf_199k",
     "the trace of the paper's figures: 6.4 M packets in 199 K connections, "
     "median 1434 B, 5 % of the flows above 10 KB",
     "95% lognormal(1.2KB, 0.8) + 5% pareto(12KB, 0.55, 44MB)",
     "34% uniform(60B, 90B) + 10% uniform(91B, 1433B) + 56% 1434B", "exp(20us)",
     "lognormal(5.7, 1)", "lognormal(1.5ms, 1)", 6.4e6},
    {"snf_1.7k",
     "the paper's other trace: 3.8 M packets in 1.7 K connections, median 368 "
     "B",
     "lognormal(700KB, 1)",
     "45% uniform(60B, 200B) + 10% 368B + 45% uniform(369B, 1434B)",
     "exp(50us)", "lognormal(4, 1)", "lognormal(1ms, 1)", 3.8e6},
}};

}  // namespace

TraceSynth::TraceSynth()
    : FlagCommand(
          {.summary =
               "generate traffic from a model: a capture or distributions",
           .usage = "snf trace synth --out=FILE [--like=FILE] [--FLAG=VALUE…]",
           .about =
               "Generates packets with correct headers and checksums, timed by "
               "a model. The model is a capture (--like), whose flows provide "
               "gaps, sizes and directions, or a set of distributions. Flows "
               "begin at random times, long before the first packet that is "
               "written, so that the traffic is stationary. A distribution is "
               "a value (1434B, 2ms), uniform(a, b), exp(mean), "
               "lognormal(median, sigma), pareto(min, shape, max), file(path) "
               "with one value a line, followed by its count unless that is 1, "
               "or a mixture: '35% 66B + 65% 1434B'."}),
      tcp_share_(kShareOne * 9 / 10),
      server_share_(kShareOne * 6 / 10) {
  making_.AddFlags(flags());
  AddModelFlags();
  AddOtherFlags();
}

void TraceSynth::AddDistribution(const std::string& name,
                                 Distribution::Unit unit, std::string& text,
                                 const std::string& help) {
  flags().Custom(
      name, "DIST", help,
      [unit, &text](const std::string& given) {
        text = given;
        return Distribution::Parse(given, unit).status();
      },
      [&text] { return text; });
}

void TraceSynth::AddModelFlags() {
  flags().Heading("The model: a capture");
  flags().Text("like", like_, "FILE", "the capture to imitate");
  flags().Switch(
      "resample", resample_,
      "exchange blocks of gaps and sizes among flows of similar packet count "
      "and duration; without this flag, flows are copied unchanged");
  flags().Heading("The model: distributions");
  std::vector<FlagSet::Meaning> presets;
  for (const Preset& each : kPresets) presets.push_back({each.name, each.what});
  flags().Choice("preset", preset_, presets,
                 "values of the flags below that are not given; also the "
                 "number of packets, unless --duration is given");
  AddDistribution("flow_bytes", Distribution::Unit::kBytes, flow_bytes_,
                  "bytes of a flow on the wire, both directions");
  AddDistribution("packet_bytes", Distribution::Unit::kBytes, packet_bytes_,
                  "bytes of a packet, link header included");
  AddDistribution("gap", Distribution::Unit::kTime, gap_,
                  "time between the packets of a burst");
  AddDistribution("burst_packets", Distribution::Unit::kCount, burst_packets_,
                  "packets in a burst");
  AddDistribution("pause", Distribution::Unit::kTime, pause_,
                  "time between the bursts of a flow");
  flags().Fraction("tcp_share", tcp_share_, kShareOne,
                   "share of flows that are TCP; all others are UDP");
  flags().Fraction("server_share", server_share_, kShareOne,
                   "share of packets that the server sends");
  flags().Count("concurrency", concurrency_, 0, 100'000'000,
                "flows under way at a time, on average: all gaps are scaled by "
                "one factor; 0 leaves the gaps unchanged");
  flags().Count(
      "model_flows", model_flows_, 1, 10'000'000,
      "flows drawn for the model; the flows of the capture are copies of them");
}

void TraceSynth::AddOtherFlags() {
  flags().Heading("Bursts of an adversary");
  Overlay::Bursts& bursts = options_.bursts;
  flags().Count("attack_every", bursts.every, 0, 1'000'000'000,
                "every n-th flow has a burst, which counts towards the rate; "
                "0: no flow has one");
  flags().Count("attack_packets", bursts.packets, 1, 1'000'000,
                "packets of each burst, back to back at 10 Gbit/s");
  flags().Bytes("attack_bytes", bursts.packet_bytes, 60, FlowModel::kMostBytes,
                "bytes of each packet");
  flags().Heading("Packets");
  flags().Text("strings", strings_, "FILE",
               "byte strings to put into payloads, one a line; \\xHH, \\n"
               " and so on stand for other bytes");
  options_.packets.string_density = PacketMaker::kDensityOne / 100;
  flags().Fraction("string_density", options_.packets.string_density,
                   PacketMaker::kDensityOne,
                   "share of packets with room for it that carry one");
  flags().Bytes(
      "snap", options_.snap_bytes, kLeastSnap, kMaxCapturedBytes,
      "bytes kept of each packet; the rate still counts whole packets");
}

absl::Status TraceSynth::CheckModel() {
  for (const char* flag :
       {"preset", "flow_bytes", "packet_bytes", "gap", "burst_packets", "pause",
        "tcp_share", "server_share", "concurrency", "model_flows"}) {
    if (!like_.empty() && flags().given(flag)) {
      return absl::InvalidArgumentError(fmt::format(
          "--like and --{}: flows come either from a capture or from "
          "distributions",
          flag));
    }
  }
  if (like_.empty() && flags().given("resample")) {
    return absl::InvalidArgumentError("--resample needs --like");
  }
  if (strings_.empty() && flags().given("string_density")) {
    return absl::InvalidArgumentError("--string_density needs --strings");
  }
  return absl::OkStatus();
}

absl::StatusOr<FlowModel> TraceSynth::ReadModel() {
  SourceCaptures capture(kModelSnap);
  const absl::Status status = making_.ReadSources({like_}, capture);
  if (!status.ok()) return status;
  FlowModel model = ModelOf(capture);
  if (making_.duration.ns / kMostWindows > model.period().ns) {
    return absl::DataLossError(fmt::format(
        "{}: covers {}, too short a time to model {}", like_,
        FormatDuration(model.period()), FormatDuration(making_.duration)));
  }
  return model;
}

absl::StatusOr<FlowModel> TraceSynth::DrawModel() {
  const Preset& preset = kPresets[preset_];
  const auto parse = [](const std::string& given, const char* preset_text,
                        Distribution::Unit unit) {
    // Both texts were checked before.
    return *Distribution::Parse(given.empty() ? preset_text : given, unit);
  };
  using Unit = Distribution::Unit;
  const FlowDistributions distributions = {
      .flow_bytes = parse(flow_bytes_, preset.flow_bytes, Unit::kBytes),
      .packet_bytes = parse(packet_bytes_, preset.packet_bytes, Unit::kBytes),
      .gap = parse(gap_, preset.gap, Unit::kTime),
      .burst_packets =
          parse(burst_packets_, preset.burst_packets, Unit::kCount),
      .pause = parse(pause_, preset.pause, Unit::kTime),
      .tcp_share = static_cast<double>(tcp_share_) / kShareOne,
      .server_share = static_cast<double>(server_share_) / kShareOne};
  FlowModel model = DrawnModel(distributions, model_flows_,
                               Rng(making_.seed).Fork(kModelStream));
  if (preset.packets > 0 && !flags().given("duration")) {
    const Conversations& drawn = model.conversations();
    double bytes = 0;
    for (size_t i = 0; i < drawn.size(); ++i) {
      bytes += static_cast<double>(drawn.BytesOf(i));
    }
    const double wanted =
        bytes / static_cast<double>(drawn.packets()) * preset.packets;
    making_.duration = {
        static_cast<int64_t>(wanted * 8e9 /
                             static_cast<double>(making_.rate_bps)) +
        1};
  }
  if (concurrency_ == 0) return model;
  if (ConcurrencyOf(model, making_.rate_bps) <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: flows without gaps cannot overlap",
                    flags().Printed("concurrency")));
  }
  return WithConcurrency(model, making_.rate_bps, concurrency_);
}

absl::Status TraceSynth::ReadStrings() {
  if (strings_.empty()) return absl::OkStatus();
  const auto text = ReadTextFile(strings_, kMostStringsBytes);
  if (!text.ok()) return text.status();
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    std::string bytes;
    std::string error;
    if (!absl::CUnescape(lines[i], &bytes, &error)) {
      return absl::DataLossError(
          fmt::format("{}:{}: {}", strings_, i + 1, error));
    }
    options_.packets.strings.push_back(std::move(bytes));
  }
  if (!options_.packets.strings.empty()) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{}: contains no string", strings_));
}

absl::Status TraceSynth::Run() {
  EndCleanlyWhenInterrupted(name());
  absl::Status status = making_.CheckOut({like_, strings_});
  if (status.ok()) status = CheckModel();
  if (status.ok()) status = ReadStrings();
  if (!status.ok()) return status;
  const absl::StatusOr<FlowModel> model =
      like_.empty() ? DrawModel() : ReadModel();
  if (!model.ok()) return model.status();
  if (like_.empty() || !resample_) return Make(*model, *model);
  return Make(*model, Resampled(*model, Rng(making_.seed).Fork(kModelStream)));
}

absl::Status TraceSynth::Make(const FlowModel& model, const FlowModel& flows) {
  options_.rate_bps = making_.rate_bps;
  options_.duration = making_.duration;
  options_.seed = making_.seed;
  Synthesizer synthesizer(flows, options_);
  if (synthesizer.expected_bytes() == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} for {}: less than a single packet of the model",
                    flags().Printed("rate"), flags().Printed("duration")));
  }
  absl::Status status = making_.Write(
      [&](CapturedPacket& packet) { return synthesizer.Next(packet); },
      synthesizer.expected_bytes(), options_.snap_bytes);
  if (!status.ok()) return status;
  const SynthReport report = {.out = making_.out,
                              .like = like_,
                              .model = model,
                              .options = options_,
                              .window = synthesizer.window(),
                              .period = synthesizer.period(),
                              .tally = synthesizer.tally(),
                              .with_string = synthesizer.with_string()};
  return making_.Tell(JsonOf(report), TextOf(report));
}

}  // namespace snf
