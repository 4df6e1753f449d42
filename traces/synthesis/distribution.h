// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_DISTRIBUTION_H_
#define SNF_TRACES_SYNTHESIS_DISTRIBUTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/rng.h"

namespace snf {

// A distribution of sizes, times or rates, as people write it in flags:
//
//   1434B                       this value always
//   uniform(64B, 1500B)         any between, the ends included
//   exp(2ms)                    exponential, by its mean
//   lognormal(4KB, 1.5)         by its median and the σ of its logarithm
//   pareto(1KB, 1.2, 10MB)      from the first to the last value, by its shape
//   file(sizes.txt)             a value a line, each equally likely; a number
//                               behind it says how often it counts
//   35% 66B + 65% 1434B         a mixture, also of the above; shares add up to
//                               100 %
//
// A value; owner-thread only. Drawing takes logarithms and powers of doubles.
class Distribution {
 public:
  enum class Unit : uint8_t { kBytes, kTime, kBitRate, kCount };

  // Parses such a text. Errors: InvalidArgument, which names the part that is
  // wrong; for a file, the status of reading it.
  static absl::StatusOr<Distribution> Parse(const std::string& text, Unit unit);

  // Draws a value of at least 0. Times are in nanoseconds.
  int64_t Draw(Rng& rng) const;

  const std::string& text() const { return text_; }

 private:
  enum class Shape : uint8_t {
    kFixed,
    kUniform,
    kExp,
    kLognormal,
    kPareto,
    kFile
  };
  struct Term {
    double share = 1;
    Shape shape = Shape::kFixed;
    double a = 0;  // the arguments
    double b = 0;
    double c = 0;
    std::vector<double> values = {};         // of a file
    std::vector<double> counts_before = {};  // sums, one more than values
  };

  static absl::StatusOr<Term> ParseTerm(const std::string& text, Unit unit);
  static absl::Status ReadValues(const std::string& path, Unit unit,
                                 Term& term);
  static double DrawFrom(const Term& term, Rng& rng);

  std::string text_;
  std::vector<Term> terms_;
};

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_DISTRIBUTION_H_
