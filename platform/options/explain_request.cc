// SPDX-License-Identifier: Apache-2.0
#include "platform/options/explain_request.h"

#include <fmt/format.h>

#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/packet/endpoint.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/protocol_numbers.h"
#include "platform/report/explain/explain.h"

namespace snf {
namespace {

constexpr std::string_view kWorstWait = "worst-wait";
constexpr std::string_view kTop = "top";
constexpr std::string_view kTopOf = "top:";

absl::Status BadRequest(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// Returns the key by which the run knows the flow that `text` describes.
absl::StatusOr<FlowKey> ReadFlow(const std::string& text,
                                 const std::string& all, const FlowForm& form) {
  const auto at_odds = [&](const char* because) {
    return BadRequest(
        fmt::format("--explain={} with {}: {}", all, form.nf_flag, because));
  };
  absl::StatusOr<FlowKey> parsed = ParseFlowKey(text);
  if (!parsed.ok()) {
    return BadRequest(
        fmt::format("--explain: {}", std::string(parsed.status().message())));
  }
  FlowKey key = *parsed;
  const bool is_fragment = key.form == FlowKeyForm::kIpv4Fragment ||
                           key.form == FlowKeyForm::kIpv6Fragment;
  const bool is_ipv4 =
      key.form == FlowKeyForm::kIpv4 || key.form == FlowKeyForm::kIpv4Endpoint;
  const std::string_view colon = is_ipv4 ? ":" : "]:";
  if (HasPorts(key.protocol) && !is_fragment &&
      form.kind != FlowKeyKind::k3Tuple &&
      text.find(colon) == std::string::npos) {
    return BadRequest(fmt::format(
        "--explain: flow \"{}\" names no ports; want for example \"tcp "
        "10.0.0.1:5000 > 192.0.2.9:53\", 0 for a port that its packets lack",
        text));
  }
  const bool is_end = key.form == FlowKeyForm::kIpv4Endpoint ||
                      key.form == FlowKeyForm::kIpv6Endpoint;
  if (is_end && !form.is_inside_end) return at_odds("its flows have two ends");
  if (form.is_inside_end && !is_end) {
    if (!HasEnds(key)) return at_odds("its flows are no fragments");
    key = EndpointsOf(key, Direction::kForward).from;
  } else if (!is_end && form.kind != FlowKeyKind::k5Tuple) {
    Canonicalize(key);
  }
  return key;
}

absl::Status ReadTop(ExplainRequest& request) {
  request.kind = ExplainRequest::Kind::kTop;
  request.top = 1;
  if (request.text == kTop) return absl::OkStatus();
  const char* const end = request.text.data() + request.text.size();
  const auto [at, error] =
      std::from_chars(request.text.data() + kTopOf.size(), end, request.top);
  if (error == std::errc() && at == end && request.top >= 1 &&
      request.top <= Explainer::kMaxExplainers) {
    return absl::OkStatus();
  }
  return BadRequest(fmt::format("--explain={}: want top:1 to top:{}",
                                request.text, Explainer::kMaxExplainers));
}

}  // namespace

bool ExplainsAfterAPass(std::string_view text) {
  return text == kWorstWait || text == kTop || text.starts_with(kTopOf);
}

absl::StatusOr<ExplainRequest> ParseExplain(const std::string& text,
                                            const FlowForm& form) {
  ExplainRequest request = {.text = text};
  if (text.empty()) return request;
  if (text == kWorstWait) {
    request.kind = ExplainRequest::Kind::kWorstWait;
    return request;
  }
  if (ExplainsAfterAPass(text)) {
    if (absl::Status s = ReadTop(request); !s.ok()) return s;
    return request;
  }
  request.kind = ExplainRequest::Kind::kFlows;
  const std::vector<std::string> flows = absl::StrSplit(text, ';');
  if (flows.size() > Explainer::kMaxExplainers) {
    return BadRequest(fmt::format("--explain: {} flows, want at most {}",
                                  flows.size(), Explainer::kMaxExplainers));
  }
  for (std::string flow : flows) {
    absl::StripAsciiWhitespace(&flow);
    absl::StatusOr<FlowKey> key = ReadFlow(flow, text, form);
    if (!key.ok()) return key.status();
    request.flows.push_back(*key);
  }
  return request;
}

}  // namespace snf
