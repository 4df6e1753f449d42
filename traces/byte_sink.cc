// SPDX-License-Identifier: Apache-2.0
#include "traces/byte_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "traces/file_status.h"

namespace snf {
namespace {

constexpr size_t kBufferBytes = 256u << 10;
constexpr mode_t kFileMode = 0666;  // less the umask

// The unfinished files of this process.
struct PartialFiles {
  std::mutex mutex;
  std::set<std::string> paths ABSL_GUARDED_BY(mutex);
};
PartialFiles& Partial() {
  static PartialFiles& files = *new PartialFiles;  // outlives all threads
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSink>> ByteSink::Open(
    const std::string& path) {
  if (path == "-") {
    return std::unique_ptr<ByteSink>(new ByteSink("stdout", "", STDOUT_FILENO));
  }
  struct stat facts {};
  const bool direct =
      stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode);
  const std::string partial_path = direct ? "" : path + ".partial";
  std::unique_lock<std::mutex> lock(Partial().mutex, std::defer_lock);
  if (!direct) lock.lock();  // a pipe may take long to open
  const int fd = open(direct ? path.c_str() : partial_path.c_str(),
                      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode);
  if (fd < 0) {
    return FileStatus(path + ": cannot create", errno);
  }
  if (!direct) Partial().paths.insert(partial_path);
  return std::unique_ptr<ByteSink>(new ByteSink(path, partial_path, fd));
}

ByteSink::ByteSink(std::string path, std::string partial_path, int fd)
    : path_(std::move(path)),
      partial_path_(std::move(partial_path)),
      fd_(fd),
      compressor_(Compressor::Create(CompressionOfName(path_))),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {
  if (compressor_ != nullptr) {
    compressed_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  }
}

ByteSink::~ByteSink() {
  if (fd_ >= 0 && fd_ != STDOUT_FILENO) {
    close(fd_);
  }
  if (!partial_path_.empty()) {
    const std::lock_guard lock(Partial().mutex);
    unlink(partial_path_.c_str());
    Partial().paths.erase(partial_path_);
  }
}

std::unique_lock<std::mutex> ByteSink::RemovePartialFiles() {
  std::unique_lock lock(Partial().mutex);
  for (const std::string& path : Partial().paths) unlink(path.c_str());
  return lock;
}

void ByteSink::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (buffered_bytes_ == kBufferBytes && !Flush(/*finish=*/false)) {
      return;
    }
    const size_t fit = std::min(bytes.size(), kBufferBytes - buffered_bytes_);
    std::memcpy(buffer_.get() + buffered_bytes_, bytes.data(), fit);
    buffered_bytes_ += fit;
    bytes = bytes.subspan(fit);
  }
}

absl::Status ByteSink::Close() {
  if (!Flush(/*finish=*/true)) {
    return status_;
  }
  if (fd_ != STDOUT_FILENO && close(std::exchange(fd_, -1)) != 0) {
    Fail("cannot close", errno);
    return status_;
  }
  if (!partial_path_.empty()) {
    const std::lock_guard lock(Partial().mutex);
    if (rename(partial_path_.c_str(), path_.c_str()) != 0) {
      Fail("cannot rename the finished file", errno);
      return status_;
    }
    Partial().paths.erase(partial_path_);
    partial_path_.clear();
  }
  return absl::OkStatus();
}

bool ByteSink::Flush(bool finish) {
  std::span<const std::byte> pending(buffer_.get(), buffered_bytes_);
  if (!status_.ok()) {
    return false;
  }
  buffered_bytes_ = 0;
  if (compressor_ == nullptr) {
    return WriteToFile(pending);
  }
  bool done = false;
  while (!done) {
    std::span<std::byte> room(compressed_.get(), kBufferBytes);
    done = compressor_->Encode(pending, room, finish);
    if (!WriteToFile({compressed_.get(), kBufferBytes - room.size()})) {
      return false;
    }
  }
  return true;
}

bool ByteSink::WriteToFile(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno != EINTR) {
      return Fail("cannot write", errno);
    }
    bytes = bytes.subspan(put > 0 ? static_cast<size_t>(put) : 0);
  }
  return true;
}

bool ByteSink::Fail(const char* what, int error_number) {
  status_ = FileStatus(path_ + ": " + what, error_number);
  return false;
}

absl::Status WriteFile(const std::string& path, std::string_view bytes) {
  auto sink = ByteSink::Open(path);
  if (!sink.ok()) return sink.status();
  (*sink)->Append(std::as_bytes(std::span(bytes)));
  return (*sink)->Close();
}

}  // namespace snf
