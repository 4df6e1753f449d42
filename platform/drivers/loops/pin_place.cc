// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/pin_place.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "absl/status/status.h"

namespace snf {

std::vector<int> OwnCpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

uint32_t PinPlace::ThreadsOn(uint32_t cpus_there, uint32_t least) const {
  const uint32_t others = std::max(cpus_there, uint32_t{1}) - 1;
  return std::max(1 + others / runs, least);
}

absl::StatusOr<std::vector<int>> PinPlace::CpusOf(std::span<const int> all,
                                                  uint32_t threads) const {
  const uint32_t own = std::max(threads, uint32_t{1}) - 1;
  const uint32_t needed = 1 + runs * own;
  if (needed > all.size()) {
    return absl::InvalidArgumentError(
        runs == 1
            ? fmt::format("{} threads cannot be pinned to {} CPUs", threads,
                          all.size())
            : fmt::format("{} threads for each of {} chains cannot be pinned "
                          "to {} CPUs: they need {}, of which all share one",
                          threads, runs, all.size(), needed));
  }
  std::vector<int> given = {all.front()};
  const auto mine = all.subspan(1 + number * own, own);
  given.insert(given.end(), mine.begin(), mine.end());
  return given;
}

}  // namespace snf
