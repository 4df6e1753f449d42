// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_FAULT_FLAG_H_
#define SNF_PLATFORM_REPLAY_FAULT_FLAG_H_

#include <string>

#include "absl/status/statusor.h"
#include "platform/run/run.h"

namespace snf {

// The most kills that can be asked for.
inline constexpr size_t kMaxKills = 1'000;

// The value of --faults is a list of kills with ; between them:
//
//   kill unit 3 at 1.2s    that unit, so long after the first packet
//   kill any at 1.2s       any one that runs then, drawn from the seed
//   kill any p=0.001       … with this probability with each packet that comes
//   kill unit 3 p=0.001    the same of that unit
//   kill logger 3 at 1.2s  the logger of that unit, with its host
//   kill process of any logger p=0.001
//                          any logger's process alone: its ring is kept
//   kill controller at 2s  the controller; or with p=
//
// Probabilities are decimals from 0 to 1, rounded to 1/65,536; one that rounds
// to none, though it is not 0, is refused. What cannot be read is
// InvalidArgument with the kill and the word. That the unit exists is not
// checked here.
absl::StatusOr<FaultOptions> ParseFaults(const std::string& text);

// The shortest text that ParseFaults reads as these options; "" for none.
std::string FormatFaults(const FaultOptions& faults);

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_FAULT_FLAG_H_
