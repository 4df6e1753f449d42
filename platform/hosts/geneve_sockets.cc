// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/geneve_sockets.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "platform/hosts/path_search.h"
#include "platform/service/socket_address.h"

namespace snf {

absl::Status SystemFailure(const std::string& what) {
  return absl::UnavailableError(
      fmt::format("{}: {}", what, std::strerror(errno)));
}

namespace {

constexpr int kBufferBytes = 4 << 20;  // of a socket

sockaddr* Generic(sockaddr_storage& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

uint16_t PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

sockaddr_storage WithPort(sockaddr_storage address, uint16_t port) {
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  }
  return address;
}

// Packets are not to be fragmented, neither here nor on their way.
void SetOptions(int fd) {
  const int discover = IP_PMTUDISC_DO;
  setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
  setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof(discover));
  const int on = 1;
  setsockopt(fd, IPPROTO_IPV6, IPV6_DONTFRAG, &on, sizeof(on));
  for (const auto& [force, ask] : {std::pair(SO_RCVBUFFORCE, SO_RCVBUF),
                                   std::pair(SO_SNDBUFFORCE, SO_SNDBUF)}) {
    if (setsockopt(fd, SOL_SOCKET, force, &kBufferBytes,
                   sizeof(kBufferBytes)) != 0) {
      setsockopt(fd, SOL_SOCKET, ask, &kBufferBytes, sizeof(kBufferBytes));
    }
  }
}

absl::StatusOr<int> BoundSocket(sockaddr_storage at) {
  const int fd = socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return SystemFailure("socket");
  SetOptions(fd);
  const int on = 1;  // links share the port
  if (PortOf(at) != 0) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (bind(fd, Generic(at), SocketAddressBytes(at)) == 0) return fd;
  const absl::Status failed =
      SystemFailure(fmt::format("UDP port {}", PortOf(at)));
  close(fd);
  return failed;
}

}  // namespace

absl::StatusOr<int> GeneveSockets::OpenForStrays(int listener) {
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (getsockname(listener, Generic(own), &size) != 0) {
    return SystemFailure("address of the agent");
  }
  return BoundSocket(WithPort(own, kGenevePort));
}

absl::StatusOr<std::unique_ptr<GeneveSockets>> GeneveSockets::Open(
    int connection, uint16_t port) {
  sockaddr_storage own = {};
  sockaddr_storage peer = {};
  socklen_t size = sizeof(own);
  socklen_t peer_size = sizeof(peer);
  if (getsockname(connection, Generic(own), &size) != 0 ||
      getpeername(connection, Generic(peer), &peer_size) != 0) {
    return SystemFailure("addresses of the connection");
  }
  if (own.ss_family != AF_INET && own.ss_family != AF_INET6) {
    return absl::UnavailableError("the connection has no IP addresses");
  }
  std::unique_ptr<GeneveSockets> sockets(new GeneveSockets(own, peer, port));
  for (int& fd : sockets->out_) {
    const auto bound = BoundSocket(WithPort(own, 0));
    if (!bound.ok()) return bound.status();
    fd = *bound;
  }
  return sockets;
}

GeneveSockets::~GeneveSockets() {
  for (const int fd : out_) {
    if (fd >= 0) close(fd);
  }
  for (const int fd : in_) {
    if (fd >= 0) close(fd);
  }
}

GeneveSockets::Ports GeneveSockets::ports() const {
  Ports ports{};
  for (size_t i = 0; i < kCutChannels; ++i) {
    sockaddr_storage bound = {};
    socklen_t size = sizeof(bound);
    if (getsockname(out_[i], Generic(bound), &size) == 0) {
      ports[i] = PortOf(bound);
    }
  }
  return ports;
}

absl::Status GeneveSockets::Connect(const Ports& peer) {
  for (size_t i = 0; i < kCutChannels; ++i) {
    sockaddr_storage to = WithPort(peer_, port_);
    sockaddr_storage from = WithPort(peer_, peer[i]);
    const auto bound = BoundSocket(WithPort(own_, port_));
    if (!bound.ok()) return bound.status();
    in_[i] = *bound;
    if (connect(out_[i], Generic(to), SocketAddressBytes(to)) != 0 ||
        connect(in_[i], Generic(from), SocketAddressBytes(from)) != 0) {
      return SystemFailure("UDP");
    }
    // Before it was connected, the socket may have taken any datagram.
    std::byte any;
    while (recv(in_[i], &any, 1, MSG_DONTWAIT) >= 0) {
    }
  }
  return absl::OkStatus();
}

void GeneveSockets::Send(size_t channel, const DatagramHeader& header,
                         size_t bytes, int flags) const {
  static constexpr std::array<std::byte, kMostDatagram> kZeros{};
  std::array<iovec, 2> parts = {
      iovec{const_cast<std::byte*>(header.bytes.data()), header.size},
      iovec{const_cast<std::byte*>(kZeros.data()),
            bytes > header.size ? bytes - header.size : 0}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  sendmsg(out_[channel], &message, flags);
}

bool GeneveSockets::Receive(
    size_t channel,
    const std::function<void(std::span<const std::byte>)>& take) {
  std::array<iovec, kBatch> parts;
  std::array<mmsghdr, kBatch> all;
  for (size_t i = 0; i < kBatch; ++i) {
    parts[i] = {&buffers_[i * kMostDatagram], kMostDatagram};
    all[i] = {};
    all[i].msg_hdr.msg_iov = &parts[i];
    all[i].msg_hdr.msg_iovlen = 1;
  }
  const int got =
      recvmmsg(in_[channel], all.data(), kBatch, MSG_DONTWAIT, nullptr);
  for (int i = 0; i < got; ++i) {
    const auto at = static_cast<size_t>(i);
    take(std::span(buffers_).subspan(at * kMostDatagram, all[at].msg_len));
  }
  return got == static_cast<int>(kBatch);
}

size_t GeneveSockets::headers() const {
  constexpr size_t kIpv4 = 20;
  constexpr size_t kIpv6 = 40;
  constexpr size_t kUdp = 8;
  return kUdp + (own_.ss_family == AF_INET6 ? kIpv6 : kIpv4);
}

size_t GeneveSockets::KernelsPath(size_t channel) const {
  int mtu = 0;
  socklen_t size = sizeof(mtu);
  if (getsockopt(out_[channel], IPPROTO_IP, IP_MTU, &mtu, &size) != 0 &&
      getsockopt(out_[channel], IPPROTO_IPV6, IPV6_MTU, &mtu, &size) != 0) {
    mtu = PathSearch::kLeast;
  }
  return std::clamp<size_t>(static_cast<size_t>(mtu), PathSearch::kLeast,
                            PathSearch::kMost);
}

}  // namespace snf
