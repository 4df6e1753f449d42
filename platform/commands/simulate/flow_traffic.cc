// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/simulate/flow_traffic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/quantity.h"

namespace snf {
namespace {

constexpr int kGapShift = 10;
constexpr uint64_t kModelStream = 1;
constexpr uint64_t kFlowStream = 2;
constexpr int64_t kFastestBps = 1'000'000'000'000;
constexpr int64_t kLongestNs = Seconds(3'600).ns;

}  // namespace

absl::StatusOr<FlowTraffic> FlowTraffic::Create(const Options& options) {
  Rng rng = Rng(options.seed).Fork(kModelStream);
  std::vector<Flow> model;
  double bits = 0;
  double duration_s = 0;
  for (uint32_t i = 0; i < kModelFlows; ++i) {
    const Flow flow = {
        std::clamp<int64_t>(options.flow_rate.Draw(rng), 1, kFastestBps),
        std::clamp<int64_t>(options.flow_duration.Draw(rng), 1, kLongestNs)};
    const double seconds = static_cast<double>(flow.duration_ns) * 1e-9;
    bits += static_cast<double>(flow.bps) * seconds;
    duration_s += seconds;
    model.push_back(flow);
  }
  const double alive =
      static_cast<double>(options.rate_bps) * duration_s / bits;
  if (alive > kMostFlows / 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        FormatBitRate(options.rate_bps), " would be ",
        FormatCount(static_cast<uint64_t>(alive)), " flows at a time, above ",
        FormatCount(kMostFlows / 2), ": use flows of a higher rate"));
  }
  const double gap_ns = duration_s * 1e9 / kModelFlows / alive;
  if (gap_ns < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        FormatBitRate(options.rate_bps),
        " would be more than a flow in a nanosecond: use longer flows"));
  }
  if (gap_ns > static_cast<double>(kLongestNs)) {
    return absl::InvalidArgumentError(absl::StrCat(
        FormatBitRate(options.rate_bps),
        " would be less than a flow in an hour: use slower or shorter flows"));
  }
  return FlowTraffic(options, std::move(model), alive);
}

FlowTraffic::FlowTraffic(const Options& options, std::vector<Flow> model,
                         double alive)
    : controllers_(options.controllers),
      model_(std::move(model)),
      rng_(Rng(options.seed).Fork(kFlowStream)),
      at_start_(static_cast<uint64_t>(std::llround(alive))),
      ends_(kMostFlows) {
  SNF_CHECK(controllers_ > 0);
  durations_before_ = {0};
  for (const Flow& flow : model_) {
    durations_before_.push_back(durations_before_.back() + flow.duration_ns);
  }
  const double mean_duration =
      static_cast<double>(durations_before_.back()) / kModelFlows;
  mean_gap_ = std::llround(mean_duration / alive * (1 << kGapShift));
  DrawNextBegin();
}

void FlowTraffic::DrawNextBegin() {
  next_begin_ += rng_.Exponential(mean_gap_);
}

FlowTraffic::Change FlowTraffic::Next(Instant end) {
  if (at_start_ > 0) {
    --at_start_;
    const auto at = static_cast<int64_t>(
        rng_.Below(static_cast<uint64_t>(durations_before_.back())));
    const auto above = std::upper_bound(durations_before_.begin(),
                                        durations_before_.end(), at);
    const auto model =
        static_cast<uint32_t>(above - durations_before_.begin() - 1);
    return Begin({}, model, *above - at);
  }
  for (;;) {
    const Instant begin{next_begin_ >> kGapShift};
    const Instant wakeup = ends_.next_wakeup();
    if (std::min(begin, wakeup) >= end) return {end};
    if (begin < wakeup) {
      const auto model = static_cast<uint32_t>(rng_.Below(kModelFlows));
      const Change change = Begin(begin, model, model_[model].duration_ns);
      DrawNextBegin();
      if (change.bps != 0) return change;
      continue;
    }
    const uint32_t ended = ends_.PopDue(wakeup);
    if (ended == TimingWheel::kNone) continue;  // it opened a level
    const UnderWay flow = flows_[ended];
    flows_[ended].model = std::exchange(free_, ended);
    --under_way_;
    return {wakeup, flow.controller, -model_[flow.model].bps};
  }
}

FlowTraffic::Change FlowTraffic::Begin(Instant now, uint32_t model,
                                       int64_t left_ns) {
  const auto controller = static_cast<uint32_t>(rng_.Below(controllers_));
  if (under_way_ == kMostFlows) {
    ++refused_;
    return {now};
  }
  ++under_way_;
  uint32_t slot = free_;
  if (slot == TimingWheel::kNone) {
    slot = static_cast<uint32_t>(flows_.size());
    flows_.push_back({controller, model});
  } else {
    free_ = flows_[slot].model;
    flows_[slot] = {controller, model};
  }
  ends_.Arm(slot, now + Nanos{left_ns});
  return {now, controller, model_[model].bps};
}

}  // namespace snf
