// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_SCHEDULE_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_SCHEDULE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/rng.h"
#include "platform/run/run.h"
#include "platform/system_test/test_run.h"

namespace snf {

// All that a run is made of.
struct Schedule {
  RunOptions options;
  std::string_view policy;
  const NfRegistration* nf = nullptr;
  std::vector<OfferedFrame> packets;
  bool is_synthetic = false;  // of UdpFrames; else of a capture
};

// Random schedules that are one line of `snf replay`: each option from the
// least to the most that its flag takes, state that moves over a network with
// chaos, the NFs "chronicle" and "passthrough", and for traffic bursts with
// gaps of up to years; or else packets that follow each other in `capture`.
Schedule AnySchedule(Rng& rng);
Schedule AnySchedule(Rng& rng, std::span<const OfferedFrame> capture);

// Random schedules that are not: on the NFs of test_run.h, whose frames ask for
// timers, replies and drops, and with limits that are no flags.
Schedule AnyScheduleOfAsks(Rng& rng);

// The command that runs the same, its capture being at `file`; for schedules of
// AnySchedule().
std::string ReplayLine(const Schedule& schedule, const std::string& file);

absl::Status WriteFrames(const std::string& file,
                         std::span<const OfferedFrame> packets);
absl::StatusOr<std::vector<OfferedFrame>> ReadFrames(const std::string& file);

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_SCHEDULE_H_
