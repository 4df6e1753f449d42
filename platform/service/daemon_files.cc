// SPDX-License-Identifier: Apache-2.0
#include "platform/service/daemon_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/service/daemon_network.h"
#include "resource_manager/launch/launcher.h"

namespace snf {
namespace {

constexpr size_t kMostOfName = 40;

// Behind a dot there may be the number of one of several (daemon_cluster.h).
std::string_view WithoutNumber(std::string_view name) {
  const size_t dot = name.rfind('.');
  const bool has_number =
      dot != name.npos && dot + 1 < name.size() && name.size() - dot <= 3 &&
      name.find_first_not_of("0123456789", dot + 1) == name.npos;
  return has_number ? name.substr(0, dot) : name;
}

bool IsName(std::string_view whole) {
  const std::string_view name = WithoutNumber(whole);
  const auto is_right = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMostOfName && name[0] != '-' &&
         std::ranges::all_of(name, is_right);
}

absl::Status FileError(const std::string& file, int error) {
  std::string text = fmt::format("{}: {}", file, std::strerror(error));
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(text);
  }
  return absl::UnavailableError(text);
}

// A lock on the whole file.
struct flock WholeFile() {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

bool IsLocked(int file) {
  struct flock lock = WholeFile();
  return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool IsStill(const std::string& name, int file) {
  struct stat by_name = {};
  struct stat opened = {};
  return stat(name.c_str(), &by_name) == 0 && fstat(file, &opened) == 0 &&
         by_name.st_ino == opened.st_ino && by_name.st_dev == opened.st_dev;
}

void RemoveFolder(const std::string& name) {
  std::error_code ignored;
  std::filesystem::remove_all(name, ignored);
}

std::vector<std::string> KeepSockets(const DaemonFiles& files) {
  std::vector<std::string> sockets;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(files.directory, ignored)) {
    const std::string path = entry.path();
    if (path == files.keep || path.starts_with(files.keep + ".")) {
      sockets.push_back(path);
    }
  }
  return sockets;
}

pid_t ReadPid(int file) {
  char text[16] = {};
  const ssize_t size = pread(file, text, sizeof text - 1, 0);
  pid_t pid = 0;
  if (size > 0) std::from_chars(text, text + size, pid);
  return pid;
}

}  // namespace

absl::StatusOr<DaemonFiles> DaemonFiles::Of(const std::string& name) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(
        fmt::format("--name={}: want 1 to {} small letters, digits, _ and -",
                    name, kMostOfName));
  }
  const char* const own = std::getenv("XDG_RUNTIME_DIR");
  std::string directory = "/run";
  if (geteuid() != 0) {
    if (own == nullptr || *own != '/') {
      return absl::FailedPreconditionError(
          "no directory for the socket: XDG_RUNTIME_DIR is not set, and only "
          "root can use /run");
    }
    directory = own;
  }
  directory += "/snf";
  const std::string stem = fmt::format("{}/{}", directory, name);
  DaemonFiles files = {.name = name,
                       .directory = directory,
                       .lock = stem + ".lock",
                       .socket = stem + ".sock",
                       .log = stem + ".log",
                       .failed = FailedPacketsOf(stem),
                       .modules = stem + ".modules",
                       .keep = stem + ".keep",
                       .chains = stem + ".keep.chains",
                       .network = stem + ".net",
                       .leases = stem + ".leases",
                       .members = stem + ".members"};
  if (files.leases.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: too long for the name of a socket", files.leases));
  }
  return files;
}

std::string FailedPacketsOf(const std::string& stem) {
  return stem + ".failed.pcapng";  // pcap has no place for comments
}

std::string WhatWaits(const DaemonFiles& files) {
  uint32_t processes = 0;
  int left_ms = std::numeric_limits<int>::max();
  for (const std::string& socket : KeepSockets(files)) {
    const auto waiting = Launcher::LookAt(socket);
    if (!waiting.has_value()) continue;
    processes += waiting->processes;
    left_ms = std::min(left_ms, waiting->left_ms);
  }
  if (processes == 0) return "";
  return fmt::format("{} of units and loggers wait {} more",
                     Plural(processes, "process"),
                     FormatDuration(Milliseconds(left_ms)));
}

bool EndWaiting(const DaemonFiles& files) {
  bool has_ended = false;
  for (const std::string& socket : KeepSockets(files)) {
    has_ended |= Launcher::EndWaiting(socket);
    unlink(socket.c_str());  // of a launcher that was killed
  }
  return has_ended;
}

absl::StatusOr<pid_t> PidOf(const DaemonFiles& files) {
  const int file = open(files.lock.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) return 0;
    return FileError(files.lock, errno);
  }
  const pid_t pid = IsLocked(file) ? std::max(ReadPid(file), 1) : 0;
  close(file);
  return pid;
}

bool WaitForEnd(const DaemonFiles& files, Nanos patience) {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::nanoseconds(patience.ns);
  while (true) {
    const absl::StatusOr<pid_t> pid = PidOf(files);
    if (!pid.ok() || *pid == 0) return true;
    if (steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

absl::StatusOr<DaemonLock> DaemonLock::Take(const DaemonFiles& files) {
  while (true) {
    if (mkdir(files.directory.c_str(), 0700) != 0 && errno != EEXIST) {
      return FileError(files.directory, errno);
    }
    const int file =
        open(files.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    // The last daemon that ends removes the directory.
    if (file < 0 && errno == ENOENT) continue;
    if (file < 0) return FileError(files.lock, errno);
    struct flock lock = WholeFile();
    if (fcntl(file, F_OFD_SETLK, &lock) != 0) {
      const pid_t pid = ReadPid(file);
      close(file);
      return absl::FailedPreconditionError(fmt::format(
          "\"{}\" runs already, as process {}; snf down{} ends it", files.name,
          pid, files.name == "default" ? "" : " --name=" + files.name));
    }
    // The previous owner may have removed the file meanwhile.
    if (!IsStill(files.lock, file)) {
      close(file);
      continue;
    }
    DaemonLock taken(files, file);
    const std::string pid = fmt::format("{}\n", getpid());
    if (ftruncate(file, 0) != 0 ||
        pwrite(file, pid.data(), pid.size(), 0) < 0) {
      return FileError(files.lock, errno);
    }
    unlink(files.socket.c_str());
    unlink(files.leases.c_str());
    DaemonNetwork::Remove(files.network);
    // Chains that wait for this one may want them.
    if (access(files.chains.c_str(), F_OK) != 0) RemoveFolder(files.modules);
    return taken;
  }
}

DaemonLock::DaemonLock(DaemonFiles files, int file)
    : files_(std::move(files)), file_(file) {}

DaemonLock::DaemonLock(DaemonLock&& other) noexcept
    : files_(std::move(other.files_)), file_(std::exchange(other.file_, -1)) {}

DaemonLock DaemonLock::Adopt(const DaemonFiles& files, int file) {
  DaemonLock lock(files, file);
  lock.WritePid();
  return lock;
}

void DaemonLock::WritePid() const {
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(file_, 0) != 0) return;
  [[maybe_unused]] const ssize_t written =
      pwrite(file_, pid.data(), pid.size(), 0);
}

void DaemonLock::GiveAway() {
  if (file_ >= 0) close(std::exchange(file_, -1));
}

DaemonLock::~DaemonLock() {
  if (file_ < 0) return;
  unlink(files_.socket.c_str());
  unlink(files_.leases.c_str());
  RemoveFolder(files_.modules);
  unlink(files_.chains.c_str());
  unlink(files_.lock.c_str());
  close(file_);
  rmdir(files_.directory.c_str());  // if it was the last one's
}

}  // namespace snf
