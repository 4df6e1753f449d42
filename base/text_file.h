// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TEXT_FILE_H_
#define SNF_BASE_TEXT_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace snf {

// Returns the whole text of a file. A file of more than `max_bytes` is
// OutOfRange; the system has other errors, whose message names the whole path
// of the file. For set-up only.
absl::StatusOr<std::string> ReadTextFile(const std::string& file,
                                         size_t max_bytes);

}  // namespace snf

#endif  // SNF_BASE_TEXT_FILE_H_
