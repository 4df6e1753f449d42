// SPDX-License-Identifier: Apache-2.0
#include "platform/bypass/bypass_state.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <thread>

#include "base/quantity.h"
#include "base/text/wording.h"

namespace snf {
namespace {

using Phase = BypassCore::Phase;

// A lock on the whole file.
struct flock WholeFile() {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

std::string ToTheSecond(Instant time) {
  const std::time_t seconds = time.ns / Seconds(1).ns;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

Descriptor OpenToRead(const DaemonFiles& files) {
  return Descriptor(
      open(BypassFileOf(files).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
}

// Returns nothing if no guard has the file.
std::optional<BypassState> ReadFrom(const Descriptor& file) {
  if (!file.is_open()) return std::nullopt;
  struct flock lock = WholeFile();
  if (fcntl(file.number(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) {
    return std::nullopt;
  }
  std::array<char, 256> text{};
  if (pread(file.number(), text.data(), text.size() - 1, 0) <= 0) {
    return BypassState();
  }
  return BypassState::Parse(text.data()).value_or(BypassState());
}

}  // namespace

std::string BypassState::text() const {
  return fmt::format("{:10} {} {:20} {:20} {:20} {:20} {:20}\n", pid,
                     static_cast<int>(state), since.ns, patience.ns,
                     counts.inside, counts.outside, counts.dropped);
}

std::optional<BypassState> BypassState::Parse(const std::string& text) {
  BypassState parsed;
  int number = 0;
  if (std::sscanf(text.c_str(),
                  "%d %d %" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNu64
                  " %" SCNu64,
                  &parsed.pid, &number, &parsed.since.ns, &parsed.patience.ns,
                  &parsed.counts.inside, &parsed.counts.outside,
                  &parsed.counts.dropped) != 7 ||
      number < 0 || number > static_cast<int>(Phase::kEnded)) {
    return std::nullopt;
  }
  parsed.state = static_cast<Phase>(number);
  return parsed;
}

std::string BypassFileOf(const DaemonFiles& files) {
  return fmt::format("{}/{}.bypass", files.directory, files.name);
}

Descriptor OpenBypassFile(const DaemonFiles& files, const BypassState& state) {
  Descriptor file(open(BypassFileOf(files).c_str(),
                       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct flock lock = WholeFile();
  if (!file.is_open() || fcntl(file.number(), F_OFD_SETLK, &lock) != 0) {
    return Descriptor();
  }
  WriteBypassState(file, state);
  return file;
}

void WriteBypassState(const Descriptor& file, const BypassState& state) {
  const std::string text = state.text();
  [[maybe_unused]] const ssize_t written =
      pwrite(file.number(), text.data(), text.size(), 0);
}

std::optional<BypassState> FindBypass(const DaemonFiles& files) {
  return ReadFrom(OpenToRead(files));
}

std::string WhatPasses(const DaemonFiles& files) {
  const std::optional<BypassState> guard = FindBypass(files);
  if (!guard.has_value()) return "";
  switch (guard->state) {
    case Phase::kWaiting:
      return fmt::format(
          "the daemon is gone; packets pass unprocessed unless another one "
          "comes within {} of {}",
          FormatDuration(guard->patience), ToTheSecond(guard->since));
    case Phase::kPassing:
      return fmt::format(
          "the daemon is gone; packets pass unprocessed since {}: {} from the "
          "inside, {} from the outside, {} dropped",
          ToTheSecond(guard->since), Plural(guard->counts.inside, "frame"),
          guard->counts.outside, guard->counts.dropped);
    case Phase::kGivenWay:
      return fmt::format(
          "the daemon is gone; another process has its interfaces since {}",
          ToTheSecond(guard->since));
    case Phase::kArmed:
    case Phase::kEnded:
      break;
  }
  return "";
}

bool EndBypass(const DaemonFiles& files) {
  constexpr int kLooks = 500;
  constexpr std::chrono::milliseconds kLook(10);
  const Descriptor file = OpenToRead(files);
  bool has_passed = false;
  for (int i = 0; i < kLooks; ++i) {
    // A guard removes the file before its process ends.
    const std::optional<BypassState> guard = ReadFrom(file);
    if (!guard.has_value()) break;
    has_passed |= guard->state != Phase::kArmed;
    // Half of the looks are for a clean end.
    if (guard->pid > 0 && i % 50 == 0) {
      kill(guard->pid, i < kLooks / 2 ? SIGTERM : SIGKILL);
    }
    std::this_thread::sleep_for(kLook);
  }
  unlink(BypassFileOf(files).c_str());  // of a guard that was killed
  rmdir(files.directory.c_str());       // if it is empty
  return has_passed;
}

}  // namespace snf
