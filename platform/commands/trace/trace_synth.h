// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_SYNTH_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_SYNTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/commands/trace/trace_making.h"
#include "platform/process/command.h"
#include "traces/synthesis/distribution.h"
#include "traces/synthesis/flow_model.h"
#include "traces/synthesis/synthesizer.h"

namespace snf {

// `snf trace synth` makes traffic after a model.
class TraceSynth final : public FlagCommand {
 public:
  TraceSynth();

 private:
  absl::Status Run() override;
  void AddModelFlags();
  void AddOtherFlags();
  void AddDistribution(const std::string& name, Distribution::Unit unit,
                       std::string& text, const std::string& help);
  // Returns InvalidArgument if flags describe flows although a capture is the
  // model.
  absl::Status CheckModel();
  absl::StatusOr<FlowModel> ReadModel();
  absl::StatusOr<FlowModel> DrawModel();
  absl::Status ReadStrings();
  // Makes the traffic of `flows`, which the report holds against `model`.
  absl::Status Make(const FlowModel& model, const FlowModel& flows);

  TraceMaking making_;
  std::string like_;
  bool resample_ = true;
  size_t preset_ = 0;
  std::string flow_bytes_;
  std::string packet_bytes_;
  std::string gap_;
  std::string burst_packets_;
  std::string pause_;
  uint32_t tcp_share_;
  uint32_t server_share_;
  uint32_t concurrency_ = 0;
  uint32_t model_flows_ = 20'000;
  std::string strings_;
  Synthesizer::Options options_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_SYNTH_H_
