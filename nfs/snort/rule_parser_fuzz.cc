// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a file of rules, and tests the rules on a payload: no
// crash, no read outside, and places inside the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "nfs/snort/evaluator.h"
#include "nfs/snort/matcher.h"
#include "nfs/snort/rule_set.h"

namespace snf::snort {
namespace {

void ReadAndTest(std::string_view text) {
  // A file of the machine must not be read.
  if (text.find("include") != std::string_view::npos) return;
  RuleSetReader reader({.with_commented = true});
  (void)reader.ReadText(text, "fuzz");
  const RuleSet set = reader.Take();
  const auto lines = static_cast<uint32_t>(1 + std::ranges::count(text, '\n'));
  for (const RuleSet::Finding& finding : set.findings) {
    for (const Problem& problem : finding.problems) {
      SNF_CHECK(problem.place.line >= 1 && problem.place.line <= lines);
      SNF_CHECK(problem.place.column >= 1);
    }
  }
  const std::string payload = "GET /evil HTTP/1.1\r\n\r\n12 abcABC\x01\x02";
  Buffers buffers;
  for (BufferView& view : buffers) view = {payload, 3, true};
  Evaluator evaluator({.steps = 200, .regex_steps = 200});
  for (const Rule& rule : set.rules) {
    (void)evaluator.MatchesPayload(rule, buffers);
    (void)RuleMatcher::FastPatternOf(rule);
  }
}

}  // namespace
}  // namespace snf::snort

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  snf::snort::ReadAndTest({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
