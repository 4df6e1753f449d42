// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/launch/launch_wire.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "resource_manager/launch/launcher.h"

namespace snf {

bool SendWithDescriptors(int socket, std::span<const std::byte> bytes,
                         std::span<const int> descriptors) {
  iovec part = {.iov_base = const_cast<std::byte*>(bytes.data()),
                .iov_len = bytes.size()};
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(Launcher::kMostDescriptors * sizeof(int))>
          control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const size_t size = descriptors.size_bytes();
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool ReceiveWithDescriptors(int socket, std::vector<std::byte>& bytes,
                            std::vector<int>& descriptors) {
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(Launcher::kMostDescriptors * sizeof(int))>
          control{};
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
  descriptors.clear();
  if (size <= 0) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    descriptors.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(descriptors.data(), CMSG_DATA(header),
                descriptors.size() * sizeof(int));
  }
  return (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
}

bool SocketAddressOf(const std::string& file, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (file.empty() || file.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, file.data(), file.size());
  return true;
}

}  // namespace snf
