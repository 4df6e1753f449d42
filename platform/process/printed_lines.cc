// SPDX-License-Identifier: Apache-2.0
#include "platform/process/printed_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/quantity.h"
#include "base/text/wording.h"

namespace snf {

void PrintedLines::Take(Instant now, size_t process, std::string_view name,
                        std::string_view bytes) {
  Source& source = sources_[process];
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    const size_t room = kMostBytes - source.line.size();
    source.line += part.substr(0, room);
    if (part.size() > room) {
      source.is_cut = true;
      source.left_out += part.size() - room;
    }
    if (end == bytes.npos) return;
    bytes.remove_prefix(end + 1);
    TakeLine(now, name, source);
  }
}

void PrintedLines::TakeLine(Instant now, std::string_view name,
                            Source& source) {
  const std::string line = std::exchange(source.line, {});
  const bool is_cut = std::exchange(source.is_cut, false);
  if (source.earned == Instant::min()) source.earned = now;
  const int64_t more = (now - source.earned).ns / kPause.ns;
  source.earned = source.earned + Nanos{more * kPause.ns};
  source.left = static_cast<uint32_t>(
      std::min<int64_t>(source.left + more, int64_t{kBurst}));
  if (line.empty()) return;
  if (source.left == 0) {
    source.left_out += line.size();
    return;
  }
  --source.left;
  const uint64_t left_out = std::exchange(source.left_out, 0);
  std::string text =
      fmt::format("{} printed: {}{}", name, Printable(line), is_cut ? "…" : "");
  if (left_out > 0) {
    text += fmt::format("; {} of it, or before it, were left out",
                        Plural(left_out, "byte"));
  }
  notice_(text);
}

void PrintedLines::End(Instant now, size_t process, std::string_view name) {
  Source& source = sources_[process];
  TakeLine(now, name, source);
  if (source.left_out == 0) return;
  notice_(fmt::format("{} printed {} that were left out", name,
                      Plural(std::exchange(source.left_out, 0), "byte")));
}

absl::StatusOr<PrintSockets> PrintSockets::Open() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 ends.data()) != 0) {
    return absl::UnavailableError(
        fmt::format("socketpair: {}", std::strerror(errno)));
  }
  // The kernel names the sender of all bytes.
  const int on = 1;
  setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  return PrintSockets{.reader = ends[0], .writer = ends[1]};
}

Printed ReadPrinted(int reader, PrintBuffer& buffer) {
  iovec part = {.iov_base = buffer.data(), .iov_len = buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = recvmsg(reader, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return {};
  ucred sender = {};
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_type == SCM_CREDENTIALS) {
    std::memcpy(&sender, CMSG_DATA(head), sizeof(sender));
  }
  return {.process = sender.pid,
          .bytes = {buffer.data(), static_cast<size_t>(size)}};
}

}  // namespace snf
