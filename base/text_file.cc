// SPDX-License-Identifier: Apache-2.0
#include "base/text_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace snf {

absl::StatusOr<std::string> ReadTextFile(const std::string& file,
                                         size_t max_bytes) {
  // Callers differ in their directories.
  const auto failed = [&file] {
    const int error = errno;
    std::error_code unknown;
    const auto path = std::filesystem::absolute(file, unknown);
    return absl::ErrnoToStatus(error, unknown ? file : path.string());
  };
  struct Close {
    void operator()(std::FILE* open) const { std::fclose(open); }
  };
  const std::unique_ptr<std::FILE, Close> open(std::fopen(file.c_str(), "rb"));
  if (open == nullptr) return failed();
  std::string text;
  char buffer[16 * 1024];
  for (;;) {
    const size_t bytes = std::fread(buffer, 1, sizeof buffer, open.get());
    if (bytes == 0) break;
    text.append(buffer, bytes);
    if (text.size() > max_bytes) {
      return absl::OutOfRangeError(
          absl::StrCat(file, ": has more than ", max_bytes, " bytes"));
    }
  }
  if (std::ferror(open.get()) != 0) return failed();
  return text;
}

}  // namespace snf
