// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_CHECK_H_
#define SNF_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace snf::internal {
[[noreturn]] inline void CheckFailed(const char* file, int line,
                                     const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}
}  // namespace snf::internal

// Aborts, in every build, if the condition is false. For programmer errors
// only: bytes that come from outside are parsed and never checked.
#define SNF_CHECK(condition)                                        \
  do {                                                              \
    if (!(condition)) [[unlikely]] {                                \
      ::snf::internal::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                               \
  } while (false)

#endif  // SNF_BASE_CHECK_H_
