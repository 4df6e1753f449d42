// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TEST_CAPTURES_H_
#define SNF_PLATFORM_TEST_CAPTURES_H_

#include <cstdlib>
#include <string>

namespace snf {

// Real captures that are not part of the project, with a table of what is in
// them (MANIFEST.tsv): SNF_TRACES names their folder. Tests run from the
// source root, and are skipped where the captures are not.
inline std::string CapturesDir() {
  const char* named = std::getenv("SNF_TRACES");
  return named != nullptr ? named : "../shared/traces";
}

}  // namespace snf

#endif  // SNF_PLATFORM_TEST_CAPTURES_H_
