// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/nf_log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text/wording.h"

namespace snf {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr std::string_view kEnd = ".log";

absl::Status CannotRead(const std::string& path, int error) {
  return absl::UnavailableError(
      fmt::format("{}: {}", Printable(path), std::strerror(error)));
}

// Returns the time of a line of JSON, "" if it has none. Times of one length
// compare as texts.
std::string_view TimeOf(std::string_view line) {
  constexpr std::string_view kKey = "{\"timestamp\":\"";
  if (!line.starts_with(kKey)) return "";
  line.remove_prefix(kKey.size());
  return line.substr(0, std::min(line.find('"'), size_t{64}));
}

}  // namespace

NfLogReader::File::~File() {
  if (fd >= 0) close(fd);
}

absl::StatusOr<NfLogReader> NfLogReader::Open(std::string directory,
                                              std::vector<std::string> logs) {
  NfLogReader reader(std::move(directory), std::move(logs));
  absl::Status status = reader.FindFiles();
  if (!status.ok()) return status;
  return reader;
}

absl::Status NfLogReader::FindFiles() {
  std::error_code error;
  std::filesystem::directory_iterator entries(directory_, error);
  if (error) return CannotRead(directory_, error.value());
  for (; !error && entries != std::filesystem::directory_iterator();
       entries.increment(error)) {
    const std::string file = entries->path().filename().string();
    if (!file.ends_with(kEnd)) continue;
    const std::string log = file.substr(0, file.size() - kEnd.size());
    const bool is_wanted =
        logs_.empty() || std::ranges::find(logs_, log) != logs_.end();
    if (!is_wanted || files_.contains(log)) continue;
    File& found = files_[log];
    found.path = entries->path().string();
    absl::Status status = OpenFile(found);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<std::string> NfLogReader::found() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

// A file that has just been renamed is there again soon.
absl::Status NfLogReader::OpenFile(File& file) {
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return absl::OkStatus();
  if (fd < 0) return CannotRead(file.path, errno);
  if (file.fd >= 0) close(file.fd);
  file.fd = fd;
  file.read = 0;
  return absl::OkStatus();
}

absl::StatusOr<size_t> NfLogReader::Read(File& file) {
  if (file.fd < 0) return 0;
  file.pending.erase(0, std::exchange(file.begin, 0));
  const size_t before = file.pending.size();
  file.pending.resize(before + kReadBytes);
  const ssize_t bytes =
      pread(file.fd, &file.pending[before], kReadBytes, file.read);
  const int error = errno;
  file.pending.resize(before + static_cast<size_t>(std::max(bytes, ssize_t{})));
  if (bytes < 0) return CannotRead(file.path, error);
  file.read += bytes;
  return static_cast<size_t>(bytes);
}

// Returns true if there is a line, which may be the end of a file without an
// end of line if `is_whole`.
bool NfLogReader::SetLine(File& file, bool is_whole) {
  const std::string_view left =
      std::string_view(file.pending).substr(file.begin);
  const size_t end = left.find('\n');
  file.line = end != left.npos                          ? end + 1
              : is_whole || left.size() >= kLongestLine ? left.size()
                                                        : 0;
  if (file.line == 0) return false;
  const std::string_view time = TimeOf(left.substr(0, file.line));
  if (!time.empty()) file.time = std::string(time);
  return true;
}

absl::Status NfLogReader::FindLine(File& file) {
  while (!SetLine(file, /*is_whole=*/false)) {
    // The name is looked at before the read: what is read then is all.
    struct stat named = {};
    struct stat opened = {};
    const bool has_name = stat(file.path.c_str(), &named) == 0;
    const bool is_open = file.fd >= 0 && fstat(file.fd, &opened) == 0;
    const auto bytes = Read(file);
    if (!bytes.ok()) return bytes.status();
    if (*bytes > 0) continue;
    const bool is_another =
        has_name && (!is_open || named.st_ino != opened.st_ino ||
                     named.st_dev != opened.st_dev);
    const bool is_emptied = is_open && opened.st_size < file.read;
    if (!is_another && !is_emptied) return absl::OkStatus();
    // The rest of the file is a line without an end.
    if (SetLine(file, /*is_whole=*/true)) return absl::OkStatus();
    if (is_emptied) file.read = 0;
    if (!is_another) continue;
    absl::Status status = OpenFile(file);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> NfLogReader::Next() {
  absl::Status status = FindFiles();
  std::string lines;
  while (status.ok() && lines.size() < kMostReturned) {
    File* first = nullptr;
    for (auto& [name, file] : files_) {
      if (file.line == 0) status = FindLine(file);
      if (!status.ok()) return status;
      if (file.line == 0) continue;
      if (first == nullptr || file.time < first->time) first = &file;
    }
    if (first == nullptr) break;
    lines.append(first->pending, first->begin, first->line);
    if (lines.back() != '\n') lines += '\n';
    first->begin += std::exchange(first->line, 0);
  }
  if (!status.ok()) return status;
  return lines;
}

}  // namespace snf
