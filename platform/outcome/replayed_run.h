// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_REPLAYED_RUN_H_
#define SNF_PLATFORM_OUTCOME_REPLAYED_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "platform/outcome/earlier_chain.h"
#include "platform/report/compare.h"
#include "platform/report/explain/explain.h"
#include "platform/report/unit_series.h"

namespace snf {

// The result of running captures, or live traffic, under one policy. Plain
// data.
struct ReplayedRun {
  ComparedRun run;
  std::vector<std::string> warnings = {};  // about the captures
  std::vector<FlowStory> stories = {};     // for --explain
  std::optional<UnitSeries> units = {};    // for --csv, in virtual time
  std::string usage = {};                  // for --usage, as JSON lines
  // The replaced chains of live traffic.
  std::vector<EarlierChain> earlier = {};
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_REPLAYED_RUN_H_
