// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/kernel_routes.h"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "platform/ports/router/route_reader.h"

namespace snf {
namespace {

absl::Status Failed(uint32_t table) {
  return absl::UnavailableError(
      fmt::format("routes={}: the kernel gives no routes: {}", table,
                  std::strerror(errno)));
}

}  // namespace

absl::StatusOr<KernelRoutes> KernelRoutes::Open(const RouterConfig& config,
                                                int interface) {
  KernelRoutes routes(config, interface);
  if (absl::Status s = routes.Subscribe(); !s.ok()) return s;
  // A daemon of a routing protocol may change the table meanwhile.
  constexpr int kTries = 10;
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    status = routes.Read();
    if (!absl::IsAborted(status)) break;
  }
  if (!status.ok()) return status;
  return routes;
}

absl::Status KernelRoutes::Subscribe() {
  news_ = Descriptor(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
                            NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  // A link that goes down takes its IPv4 routes along without news of them.
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE |
                      RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!news_.is_open() ||
      bind(news_.number(), reinterpret_cast<const sockaddr*>(&address),
           sizeof address) != 0) {
    return Failed(config_->kernel_table);
  }
  return absl::OkStatus();
}

absl::Status KernelRoutes::Read() {
  constexpr size_t kDatagram = 64 << 10;  // the kernel sends at most 32 KB
  const Descriptor socket(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  struct {
    nlmsghdr head;
    rtmsg of;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = RTM_GETROUTE;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.of.rtm_family = AF_UNSPEC;
  if (!socket.is_open() ||
      !SetOption(socket, SOL_SOCKET, SO_RCVTIMEO, patience) ||
      send(socket.number(), &request, sizeof request, 0) < 0) {
    return Failed(config_->kernel_table);
  }
  RouteReader reader(*config_, interface_);
  const std::unique_ptr<std::byte[]> room(new std::byte[kDatagram]);
  while (true) {
    const ssize_t bytes = recv(socket.number(), room.get(), kDatagram, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return Failed(config_->kernel_table);
    const auto part = reader.Take({room.get(), static_cast<size_t>(bytes)});
    if (part == RouteReader::Part::kInterrupted) {
      return absl::AbortedError(fmt::format(
          "routes={}: the kernel's routes have changed again and again",
          config_->kernel_table));
    }
    if (part == RouteReader::Part::kMalformed ||
        part == RouteReader::Part::kRefused) {
      errno = part == RouteReader::Part::kRefused ? reader.error() : EBADMSG;
      return Failed(config_->kernel_table);
    }
    if (reader.seen() > kMost) {
      return absl::ResourceExhaustedError(fmt::format(
          "routes={}: the kernel has more than {} routes; the port reads all "
          "of its tables",
          config_->kernel_table, kMost));
    }
    if (part == RouteReader::Part::kLast) break;
  }
  routes_ = reader.Finish();
  unused_ = reader.unused();
  return absl::OkStatus();
}

bool KernelRoutes::HasNews() {
  std::byte news[8'192];
  constexpr int kMostAtOnce = 1'000;
  bool has_news = false;
  for (int i = 0; i < kMostAtOnce; ++i) {
    const ssize_t bytes =
        recv(news_.number(), news, sizeof news, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == ENOBUFS) {  // some were lost
      has_news = true;
      continue;
    }
    if (bytes <= 0) break;
    has_news = true;
  }
  return has_news;
}

bool KernelRoutes::Update(Instant now) {
  is_stale_ |= HasNews();
  if (!is_stale_ || now - read_at_ < kReadPeriod) return false;
  read_at_ = now;
  const std::vector<LearnedRoute> before = routes_;
  const uint64_t unused_before = unused_;
  if (!Read().ok()) return false;
  is_stale_ = false;
  return routes_ != before || unused_ != unused_before;
}

}  // namespace snf
