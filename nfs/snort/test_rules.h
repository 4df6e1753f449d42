// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_TEST_RULES_H_
#define SNF_NFS_SNORT_TEST_RULES_H_

#include <gtest/gtest.h>

#include <string>

#include "nfs/snort/rule_set.h"

namespace snf::snort {

// Reads rules of a text; the test fails if the text cannot be read.
inline RuleSet RulesOf(const std::string& text) {
  RuleSetReader reader;
  const absl::Status status = reader.ReadText(text, "test.rules");
  EXPECT_TRUE(status.ok()) << status;
  return reader.Take();
}

// Options in a rule of TCP between any.
inline std::string RuleText(const std::string& options, int sid = 1) {
  return "alert tcp any any -> any any (msg:\"m\"; " + options +
         " sid:" + std::to_string(sid) + ";)\n";
}

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_TEST_RULES_H_
