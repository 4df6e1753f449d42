// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BENCH_BENCH_SUITE_H_
#define SNF_PLATFORM_BENCH_BENCH_SUITE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// CPU time of the calling thread, in nanoseconds.
int64_t ThreadCpuNs();

// Theory of operation. Things that are measured against each other,
// interleaved: in each repetition each of them once, in turns as the first. So
// what slows the machine down slows both sides of a ratio, and the ratio of one
// repetition is good where the times are not.
//
// Owner-thread only.
class BenchSuite {
 public:
  // One that is measured: returns what one operation takes (nanoseconds unless
  // said otherwise), found by about `operations` of them.
  using Sample = std::function<double(uint64_t operations)>;
  struct BenchCase {
    Sample sample;
    // At the end: whether all that was done was right. May be empty.
    std::function<absl::Status()> check = {};
  };
  using Make = std::function<absl::StatusOr<BenchCase>()>;

  // The place of the contestant of this name, which is made if there is none.
  size_t Add(const std::string& name, const Make& make);

  // `begin` is called ahead of each repetition.
  void Run(uint32_t repetitions, uint64_t operations,
           const std::function<void(uint32_t)>& begin);
  // Of all contestants.
  absl::Status Check() const;

  // Why a contestant could not be made.
  const absl::Status& status(size_t i) const { return all_[i].status; }
  // A sample of each repetition.
  const std::vector<double>& samples(size_t i) const { return all_[i].samples; }

 private:
  struct Entry {
    BenchCase bench_case;
    absl::Status status;
    std::vector<double> samples;
  };
  std::map<std::string, size_t> places_;
  std::vector<Entry> all_;
};

// Measures CPU time of this thread: run(n) does n operations or some more, and
// returns how many. An eighth as many go before, so that caches are warm.
double CpuNsOf(uint64_t operations,
               const std::function<uint64_t(uint64_t)>& run);

// The middle of samples, and how far they reach.
struct Spread {
  double median = 0;
  double lowest = 0;
  double highest = 0;
};
Spread SpreadOf(std::vector<double> samples);

}  // namespace snf

#endif  // SNF_PLATFORM_BENCH_BENCH_SUITE_H_
