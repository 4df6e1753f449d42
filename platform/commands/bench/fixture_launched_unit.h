// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LAUNCHED_UNIT_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LAUNCHED_UNIT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/time.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/drivers/loops/unit_process.h"
#include "platform/drivers/loops/unit_processes.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// For benchmarks: a unit with a NAT in a process of its own, in a container or
// not, which a run's launcher makes, and a stand-in for the controller, which
// starts the unit and sends it a packet. It looks for the answer without
// sleeping. Only the program snf has such processes. Owner-thread only.
class LaunchedUnit {
 public:
  // Errors as in LoopRegion::Create and UnitProcesses::Start.
  static absl::StatusOr<std::unique_ptr<LaunchedUnit>> Start(
      Isolation isolation);

  // Return the time from the request for the unit until its first packet is
  // back: Wake for a unit that has been parked for a millisecond, Make for one
  // without a process. Return Nanos::max() if it is not back within ten
  // seconds.
  Nanos Wake();
  Nanos Make();

 private:
  LaunchedUnit(const LoopRegion::Options& options, LoopRegion region,
               const NfSpec& nf);
  absl::Status Launch(Isolation isolation, const NfSpec& nf);
  bool WaitUntil(auto&& is_so);
  void Send(const ControllerCommand& command);
  void StartAndEnqueue(bool warm);
  void Answer();

  const LoopRegion::Options options_;
  LoopRegion region_;
  std::unique_ptr<NetworkFunction> nf_;  // runs nothing
  std::unique_ptr<UnitProcesses> processes_;
  uint32_t flow_ = 0;
  uint64_t clock_ = 0;   // of that flow
  uint64_t number_ = 0;  // of the channel
  uint32_t incarnation_ = 0;
  bool is_back_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_LAUNCHED_UNIT_H_
