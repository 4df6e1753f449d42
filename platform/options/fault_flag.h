// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_FAULT_FLAG_H_
#define SNF_PLATFORM_OPTIONS_FAULT_FLAG_H_

#include <string>

#include "absl/status/statusor.h"
#include "platform/run/run.h"

namespace snf {

// The most faults that can be asked for.
inline constexpr size_t kMaxKills = 1'000;

// The value of --faults is a list of faults with ; between them:
//
//   kill unit 3 at 1.2s    that unit, so long after the first packet
//   kill any at 1.2s       any one that runs then, drawn from the seed
//   kill any p=0.001       … with this probability with each packet that comes
//   kill unit 3 p=0.001    the same of that unit
//   kill host 1 at 1.2s    all units of that host, and the loggers on it
//   kill any host p=0.001  any host on which a unit or a logger runs
//   kill logger 3 at 1.2s  the logger of that unit, with its host
//   kill process of any logger p=0.001
//                          any logger's process alone: its ring is kept
//   kill controller at 2s  the controller, or any one of several; or with p=
//   kill controller 2 at 2s  that one of several; or with p=
//   kill resource_manager at 2s  that of several controllers; or with p=
//   add controller at 3s   another one joins those that there are
//   remove controller 1 at 4s  that one, or without a number any one, leaves
//                          in good order
//
// Probabilities are decimals from 0 to 1, rounded to 1/65,536; one that rounds
// to none, though it is not 0, is refused. What cannot be read is
// InvalidArgument with the fault and the word. That the unit, the host or the
// controller exists is not checked here.
absl::StatusOr<FaultOptions> ParseFaults(const std::string& text);

// The shortest text that ParseFaults reads as these options, with those that
// join and leave at the end; "" for none.
std::string FormatFaults(const FaultOptions& faults);

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_FAULT_FLAG_H_
