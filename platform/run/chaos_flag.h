// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_CHAOS_FLAG_H_
#define SNF_PLATFORM_RUN_CHAOS_FLAG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "platform/run/run.h"

namespace snf {

// The longest delay, and the highest probability (9 of 10), that can be given.
inline constexpr Nanos kMaxChaosDelay = Seconds(10);
inline constexpr uint32_t kMaxChaos65536 = 58'982;

struct Share {
  uint32_t of_65536 = 0;  // the nearest
  bool vanished = false;  // rounded to none
};
// A decimal like "0.01" or ".5", if it is one and at most 1.
std::optional<Share> ShareOf(std::string_view text);
// Returns it with as few decimals as ShareOf reads as the same.
std::string FormatShare(uint32_t of_65536);
// Returns a duration as ParseDuration reads it, without blanks: "1.5us".
std::string FormatPlainDuration(Nanos duration);

// The value of --chaos is KEY=VALUE with blanks between them, each key once at
// the most, in any order. What is not named does not happen.
//
//   state_delay=0..2ms     further delay of each message about state, evenly
//                          from that range; or always the one that is given
//   state_loss=0.01        probability of a message's being lost, 0 to 0.9
//   state_duplicate=0.01   … of its arriving twice
//   start_failure=0.1      … of a unit's start never coming to its end
//   logger_delay, logger_loss, logger_duplicate
//                          the same as state_…, of what goes between units and
//                          their output loggers
//   lease_delay, lease_loss, lease_duplicate
//                          the same, of messages about leases of several
//                          controllers
//
// Probabilities are decimals, rounded to 1/65,536 without floating point; one
// that rounds to none, though it is not 0, is refused. What cannot be read is
// InvalidArgument with the key and the value.
absl::StatusOr<ChaosOptions> ParseChaos(const std::string& text);

// The shortest text that ParseChaos reads as these options; "" for no chaos.
std::string FormatChaos(const ChaosOptions& chaos);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_CHAOS_FLAG_H_
