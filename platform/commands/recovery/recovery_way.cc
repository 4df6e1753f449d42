// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/recovery/recovery_way.h"

#include <time.h>

#include "runtime/core/service_model.h"

namespace snf {

Nanos TransferTime(const RunOptions& options, uint64_t bytes) {
  const auto bits = static_cast<unsigned __int128>(bytes) * 8;
  const auto bandwidth = static_cast<uint64_t>(options.state_bandwidth_bps);
  return {options.state_delay.ns +
          static_cast<int64_t>(bits * 1'000'000'000 / bandwidth)};
}

Nanos CpuTimeOfThread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

Nanos ServiceTimeOf(const RunOptions& options, const KeptStep& step) {
  const ServiceModel service(options.controller.unit_capacity_bps,
                             options.controller.unit_packets_ps);
  Nanos sum;
  for (const KeptStep::Input& kept : step.inputs) {
    if (!kept.has_packet()) continue;
    sum.ns += service.ServiceTime(kept.info.original_length).ns;
  }
  return sum;
}

}  // namespace snf
