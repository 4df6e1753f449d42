// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_FILE_H_
#define SNF_BASE_TEXT_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace snf {

// All of a file of at most `max_bytes`, for set-up only. The status says why it
// cannot be had, and of which file; of a larger one, OutOfRange.
absl::StatusOr<std::string> ReadTextFile(const std::string& file,
                                         size_t max_bytes);

}  // namespace snf

#endif  // SNF_BASE_TEXT_FILE_H_
