// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_BENCH_SUITE_H_
#define SNF_PLATFORM_COMMANDS_BENCH_BENCH_SUITE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// Returns the CPU time of the calling thread, in nanoseconds.
int64_t ThreadCpuNs();

// Measures cases against each other.
//
// Theory of operation. The cases are interleaved: each repetition takes one
// sample of every case, and begins with another one in turn. So a machine that
// slows down slows both sides of a ratio, and the ratio of one repetition is
// good even if its times are not.
//
// Owner-thread only.
class BenchSuite {
 public:
  // Returns the cost of one operation, in nanoseconds unless the row says
  // otherwise, measured over about `operations` of them.
  using Sample = std::function<double(uint64_t operations)>;
  struct BenchCase {
    Sample sample;
    // Called at the end: returns an error if a result was wrong. May be empty.
    std::function<absl::Status()> check = {};
  };
  using Make = std::function<absl::StatusOr<BenchCase>()>;

  // Returns the index of the case of this name. If there is none, makes it.
  size_t Add(const std::string& name, const Make& make);

  // Takes `repetitions` samples of each case, of some `operations` each, and
  // calls `begin` ahead of each repetition.
  void Run(uint32_t repetitions, uint64_t operations,
           const std::function<void(uint32_t)>& begin);
  // Returns the first error that a case's check finds.
  absl::Status Check() const;

  // Says why the case could not be made; OK if it was.
  const absl::Status& status(size_t i) const { return all_[i].status; }
  // The case's samples, one a repetition.
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

// Returns the CPU time of this thread that an operation takes. run(n) does n
// operations or some more, and returns how many. It is called first with an
// eighth of `operations`, so that caches are warm.
double CpuNsOf(uint64_t operations,
               const std::function<uint64_t(uint64_t)>& run);

// The median of samples, and their range.
struct Spread {
  double median = 0;
  double lowest = 0;
  double highest = 0;
};
Spread SpreadOf(std::vector<double> samples);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_BENCH_SUITE_H_
