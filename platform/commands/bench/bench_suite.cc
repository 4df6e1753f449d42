// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/bench_suite.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace snf {

int64_t ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

size_t BenchSuite::Add(const std::string& name, const Make& make) {
  const auto [place, is_new] = places_.try_emplace(name, all_.size());
  if (!is_new) return place->second;
  Entry entry;
  auto made = make();
  entry.status = made.status();
  if (made.ok()) entry.bench_case = *std::move(made);
  all_.push_back(std::move(entry));
  return place->second;
}

void BenchSuite::Run(uint32_t repetitions, uint64_t operations,
                     const std::function<void(uint32_t)>& begin) {
  for (uint32_t repetition = 0; repetition < repetitions; ++repetition) {
    begin(repetition);
    for (size_t i = 0; i < all_.size(); ++i) {
      Entry& entry = all_[(i + repetition) % all_.size()];
      if (!entry.status.ok()) continue;
      entry.samples.push_back(entry.bench_case.sample(operations));
    }
  }
}

absl::Status BenchSuite::Check() const {
  for (const Entry& entry : all_) {
    if (!entry.status.ok() || !entry.bench_case.check) continue;
    absl::Status status = entry.bench_case.check();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

double CpuNsOf(uint64_t operations,
               const std::function<uint64_t(uint64_t)>& run) {
  run(operations / 8);
  const int64_t begin = ThreadCpuNs();
  const uint64_t done = run(operations);
  return static_cast<double>(ThreadCpuNs() - begin) / static_cast<double>(done);
}

Spread SpreadOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const size_t half = samples.size() / 2;
  const double median = samples.size() % 2 == 1
                            ? samples[half]
                            : (samples[half - 1] + samples[half]) / 2;
  return {median, samples.front(), samples.back()};
}

}  // namespace snf
