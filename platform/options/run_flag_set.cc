// SPDX-License-Identifier: Apache-2.0
#include "platform/options/run_flag_set.h"

#include <fmt/format.h>

namespace snf {

absl::Status RunFlagSet::AtOdds(const char* flag, const char* with,
                                const std::string& because) const {
  return absl::InvalidArgumentError(fmt::format(
      "{} with {}: {}", flags.Printed(flag), flags.Printed(with), because));
}

absl::Status RunFlagSet::Check(const std::vector<Conflict>& conflicts) const {
  for (const Conflict& conflict : conflicts) {
    if (!conflict.when) continue;
    for (const char* flag : conflict.flags) {
      if (given(flag)) return AtOdds(flag, conflict.with, conflict.because);
    }
  }
  return absl::OkStatus();
}

}  // namespace snf
