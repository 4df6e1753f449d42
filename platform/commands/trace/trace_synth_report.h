// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_SYNTH_REPORT_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_SYNTH_REPORT_H_

#include <cstdint>
#include <string>

#include "base/time.h"
#include "traces/synthesis/flow_model.h"
#include "traces/synthesis/overlay_tally.h"
#include "traces/synthesis/synthesizer.h"

namespace snf {

// Data of the report of `snf trace synth`: the result, and the model.
struct SynthReport {
  const std::string& out;
  const std::string& like;  // empty: flows were drawn
  const FlowModel& model;
  const Synthesizer::Options& options;
  Nanos window;  // of the synthesizer
  Nanos period;
  const OverlayTally& tally;
  uint64_t with_string = 0;
};
std::string TextOf(const SynthReport& report);
std::string JsonOf(const SynthReport& report);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_SYNTH_REPORT_H_
