// SPDX-License-Identifier: Apache-2.0
#include "platform/process/command_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>

namespace snf {
namespace {

namespace fs = std::filesystem;

bool IsFile(const std::string& name) {
  if (name.empty() || name == "-") return false;
  std::error_code ignored;
  const auto type = fs::status(name, ignored).type();
  return type == fs::file_type::regular || type == fs::file_type::not_found;
}

// Also where it is not there yet.
fs::path Place(const std::string& name) {
  std::error_code error;
  const fs::path absolute = fs::absolute(name, error);
  const fs::path place = fs::weakly_canonical(absolute, error);
  return error ? fs::path(name) : place;
}

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored) || Place(a) == Place(b);
}

std::string WithoutCompression(std::string name) {
  for (const std::string_view compression : {".gz", ".zst"}) {
    if (!name.ends_with(compression)) continue;
    name.erase(name.size() - compression.size());
    break;
  }
  return name;
}

}  // namespace

absl::Status CheckFiles(const std::vector<std::string>& read,
                        std::span<const WrittenFile> written) {
  for (size_t i = 0; i < written.size(); ++i) {
    const WrittenFile& file = written[i];
    if (!IsFile(file.name)) continue;
    for (const std::string& input : read) {
      if (IsSameFile(input, file.name)) {
        return absl::InvalidArgumentError(
            fmt::format("{}: is also an input", file.Printed()));
      }
    }
    for (const WrittenFile& other : written.first(i)) {
      if (IsFile(other.name) && IsSameFile(other.name, file.name)) {
        return absl::InvalidArgumentError(
            fmt::format("{} and {}: both would write the same file",
                        other.Printed(), file.Printed()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCaptureName(const WrittenFile& file) {
  const std::string name = WithoutCompression(file.name);
  if (!IsFile(file.name) || name.ends_with(".pcap") ||
      name.ends_with(".pcapng")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: its name has to end in .pcap or .pcapng, or in one of these and .gz "
      "or .zst; or be -, for stdout",
      file.Printed()));
}

bool NamesPcapng(const std::string& name) {
  return WithoutCompression(name).ends_with(".pcapng");
}

}  // namespace snf
