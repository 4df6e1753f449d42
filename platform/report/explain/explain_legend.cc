// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "base/quantity.h"
#include "fmt/format.h"
#include "platform/report/explain/explain_story.h"

namespace snf {
std::string FormatLegend(const FlowStory& story, const RunOptions& options) {
  const ControllerOptions& controller = options.controller;
  const bool by_wait = controller.load_signal == LoadSignal::kWait;
  const std::string load =
      by_wait ? fmt::format("load, the wait there in % of {}",
                            FormatDuration(controller.latency_target,
                                           Precision::kExact))
              : "load in %";
  const std::string limit =
      by_wait ? "the limit, 100 or\n            less, and 12.5 more for the "
                "unit where the flow ran last"
              : "100";
  const std::string by_policy = fmt::format(
      "N: {}; \"no room\" where load + demand > {}. The\n"
      "            policy {} chose \">\"",
      load, limit, story.policy);
  const std::string by_score = fmt::format(
      R"(N: {}, plus {:.1f} for a unit with the flow's state: where
            it ran last{}, or a replica has had time to come; "no room" where
            load + demand > {}. The highest sum with room is chosen, ">", of
            equals the lowest N. Without room anywhere a unit is started; till
            it is ready the least loaded is OVERCOMMITTED)",
      load, static_cast<double>(controller.alpha_1024) * 100 / 1024,
      by_wait ? " (twice that)" : "", limit);
  return fmt::format(
      R"(
How to read the flowlets
  +0.0 ms   since the flow's first packet; then why the flowlet began, and what
            was decided
  demand    the rate that the flow's earlier flowlets let expect, for a first
            one those of all flows; and in % of a unit of {capacity}
  units     {score}.
            Of more than {units}: ">", those with the state, the fullest with
            room, the least loaded
  state     asked of its old unit when the flowlet's first packet had its turn,
            or there already; held are packets that waited for it
  pushed    ahead of the next flowlet, when the flow had been idle for {idle}
  latency   from arrival to release: {hop} to the unit, the wait, the service,
            {hop} to the exit

)",
      fmt::arg("capacity", FormatBitRate(controller.unit_capacity_bps)),
      fmt::arg("score", story.by_score ? by_score : by_policy),
      fmt::arg("units", FlowletStory::kMaxCandidates),
      fmt::arg("idle", FormatDuration({controller.flowlet_timeout.ns / 2},
                                      Precision::kExact)),
      fmt::arg("hop", FormatDuration(options.hop_delay, Precision::kExact)));
}

}  // namespace snf
