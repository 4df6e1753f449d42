// SPDX-License-Identifier: Apache-2.0
#include "platform/modules/file_versions.h"

#include <fmt/format.h>

#include <cstddef>
#include <functional>

#include "base/text_file.h"
#include "platform/modules/module_stand_ins.h"

namespace snf {

std::string FileVersionOf(const std::string& file) {
  constexpr size_t kMostBytes = size_t{1} << 30;
  const absl::StatusOr<std::string> text = ReadTextFile(file, kMostBytes);
  if (!text.ok()) return "not readable";
  return fmt::format("{} bytes, hash {:016x}", text->size(),
                     std::hash<std::string>{}(*text));
}

FileVersions FileVersionsOf(const NfSpec& nf) {
  FileVersions versions;
  for (const NfSpec::InputFile& input : nf.input_files()) {
    for (const std::string& file : PathsOf(input)) {
      versions.emplace(fmt::format("{} ({})", file, input.option),
                       FileVersionOf(file));
    }
  }
  return versions;
}

}  // namespace snf
