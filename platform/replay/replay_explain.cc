// SPDX-License-Identifier: Apache-2.0
//
// What `snf replay --explain` asks for, and its answer.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/packet/endpoint.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/protocol_numbers.h"
#include "platform/explain/explain_top.h"
#include "platform/replay/replay.h"
#include "platform/run/nat_peer_emulator.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr std::string_view kWorstWait = "worst-wait";

absl::Status Usage(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

}  // namespace

bool ReplayCommand::explains_after_a_pass() const {
  return explain_ == kWorstWait || explain_ == "top" ||
         explain_.starts_with("top:");
}

absl::Status ReplayCommand::ReadFlow(const std::string& text,
                                     FlowKey& key) const {
  absl::StatusOr<FlowKey> parsed = ParseFlowKey(text);
  if (!parsed.ok()) {
    return Usage(
        fmt::format("--explain: {}", std::string(parsed.status().message())));
  }
  key = *parsed;
  const bool is_fragment = key.form == FlowKeyForm::kIpv4Fragment ||
                           key.form == FlowKeyForm::kIpv6Fragment;
  const std::string_view colon = key.form == FlowKeyForm::kIpv4 ? ":" : "]:";
  if (HasPorts(key.protocol) && !is_fragment &&
      options_.flow.kind != FlowKeyKind::k3Tuple &&
      text.find(colon) == std::string::npos) {
    return Usage(fmt::format(
        "--explain: flow \"{}\" names no ports; want for example \"tcp "
        "10.0.0.1:5000 > 192.0.2.9:53\", 0 for a port that its packets lack",
        text));
  }
  const bool is_end = key.form == FlowKeyForm::kIpv4Endpoint ||
                      key.form == FlowKeyForm::kIpv6Endpoint;
  if (is_end && !has_sides_) {
    return AtOdds("explain", "nf", "its flows have two ends");
  }
  if (has_sides_ && !is_end) {
    if (!HasEnds(key)) {
      return AtOdds("explain", "nf", "its flows are no fragments");
    }
    key = EndpointsOf(key, Direction::kForward).from;
  } else if (!is_end && options_.flow.kind != FlowKeyKind::k5Tuple) {
    Canonicalize(key);
  }
  return absl::OkStatus();
}

absl::Status ReplayCommand::FindTopFlows(size_t flows,
                                         std::vector<FlowKey>& keys) const {
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  FlowClassifier classifier(options_.flow);
  NatPeerEmulator peer_emulator(options_.inside);
  TopFlowFinder finder;
  CapturedPacket packet;
  ParsedPacket headers;
  FlowKey key;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    const Direction direction = classifier.Classify(packet.time, packet.link,
                                                    packet.bytes, headers, key);
    if (direction == Direction::kNone) continue;
    if (has_sides_) {
      if (!HasEnds(key)) continue;
      key = peer_emulator.Place(EndpointsOf(key, direction)).inside;
    }
    finder.Add(key, packet.original_bytes);
  }
  if (!(*reader)->status().ok()) return (*reader)->status();
  keys = finder.Top(flows);
  if (!keys.empty()) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: no IP packets, so no flow to explain", files_.front()));
}

absl::Status ReplayCommand::FindWorstWait(const NfSpec& nf,
                                          StateFigures::Worst& worst) const {
  auto reader = MergedReader::Open(files_);
  if (!reader.ok()) return reader.status();
  ComparedRun run = {.policy = Policies().front(), .result = {}};
  absl::Status status =
      RunCapture(**reader, nf, {}, "looking for the worst wait", run);
  if (!status.ok()) return status;
  worst = run.result.state.worst;
  if (worst.wait.ns > 0 && worst.key != FlowKey{}) return absl::OkStatus();
  return absl::DataLossError(
      "--explain=worst-wait: no packet was held for its flow's state or turn");
}

absl::Status ReplayCommand::Explain(const NfSpec& nf,
                                    std::vector<Explainer>& explainers) const {
  const PlacementPolicy& policy = *FindPlacementPolicy(Policies().front());
  std::vector<FlowKey> keys;
  if (explain_ == kWorstWait) {
    StateFigures::Worst worst;
    absl::Status status = FindWorstWait(nf, worst);
    if (!status.ok()) return status;
    explainers.emplace_back(worst.key, options_, policy)
        .Keep(worst.flow, worst.clock);
    return absl::OkStatus();
  }
  if (explains_after_a_pass()) {
    size_t flows = 1;
    if (explain_ != "top") {
      const char* const end = explain_.data() + explain_.size();
      const auto [at, error] = std::from_chars(explain_.data() + 4, end, flows);
      if (error != std::errc() || at != end || flows < 1 ||
          flows > Explainer::kMaxExplainers) {
        return Usage(fmt::format("--explain={}: want top:1 to top:{}", explain_,
                                 Explainer::kMaxExplainers));
      }
    }
    absl::Status status = FindTopFlows(flows, keys);
    if (!status.ok()) return status;
  } else {
    const std::vector<std::string> texts = absl::StrSplit(explain_, ';');
    if (texts.size() > Explainer::kMaxExplainers) {
      return Usage(fmt::format("--explain: {} flows, want at most {}",
                               texts.size(), Explainer::kMaxExplainers));
    }
    for (std::string text : texts) {
      absl::StripAsciiWhitespace(&text);
      absl::Status status = ReadFlow(text, keys.emplace_back());
      if (!status.ok()) return status;
    }
  }
  for (const FlowKey& key : keys)
    explainers.emplace_back(key, options_, policy);
  return absl::OkStatus();
}

absl::Status ReplayCommand::TellStories(
    const std::vector<FlowStory>& stories) const {
  std::FILE* to = json_ == "-" || out_ == "-" ? stderr : stdout;
  for (const FlowStory& story : stories) {
    if (story.packets.arrived == 0) {
      return absl::DataLossError(fmt::format(
          "--explain: flow \"{}\" did not come up; top is the flow with the "
          "most bytes",
          stories.size() == 1 ? explain_ : ToString(story.key)));
    }
    // They stand in the JSON.
    if (json_ != "-") fmt::print(to, "\n{}", FormatStory(story, options_));
  }
  return absl::OkStatus();
}

}  // namespace snf
