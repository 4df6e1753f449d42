// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/kernel_routes.h"

#include <fmt/format.h>
#include <linux/fib_rules.h>
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

std::string KernelRoutes::Option() const {
  return config_->follows_rules
             ? "routes=rules"
             : fmt::format("routes={}", config_->kernel_table);
}

absl::Status KernelRoutes::Failed() const {
  return absl::UnavailableError(fmt::format(
      "{}: the kernel gives no routes: {}", Option(), std::strerror(errno)));
}

absl::StatusOr<KernelRoutes> KernelRoutes::Open(const RouterConfig& config,
                                                const std::string& interface) {
  KernelRoutes routes(config, interface);
  if (absl::Status s = routes.Subscribe(); !s.ok()) return s;
  // A daemon of a routing protocol may change the table meanwhile.
  constexpr int kTries = 10;
  absl::Status status;
  std::vector<RoutingRule> rules;
  for (int i = 0; i < kTries; ++i) {
    status = routes.Read(rules);
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
                      RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                      RTMGRP_IPV4_RULE | 1u << (RTNLGRP_IPV6_RULE - 1);
  if (!news_.is_open() ||
      bind(news_.number(), reinterpret_cast<const sockaddr*>(&address),
           sizeof address) != 0) {
    return Failed();
  }
  return absl::OkStatus();
}

absl::Status KernelRoutes::Dump(int type,
                                const std::function<DumpPart(Bytes)>& take,
                                const std::function<int()>& error) const {
  constexpr size_t kDatagram = 64 << 10;  // the kernel sends at most 32 KB
  const Descriptor socket(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  // Headers of requests for routes and rules have one length.
  static_assert(sizeof(rtmsg) == sizeof(fib_rule_hdr));
  struct {
    nlmsghdr head;
    rtmsg of;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = static_cast<uint16_t>(type);
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.of.rtm_family = AF_UNSPEC;
  if (!socket.is_open() ||
      !SetOption(socket, SOL_SOCKET, SO_RCVTIMEO, patience) ||
      send(socket.number(), &request, sizeof request, 0) < 0) {
    return Failed();
  }
  const std::unique_ptr<std::byte[]> room(new std::byte[kDatagram]);
  while (true) {
    const ssize_t bytes = recv(socket.number(), room.get(), kDatagram, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return Failed();
    switch (take({room.get(), static_cast<size_t>(bytes)})) {
      case DumpPart::kMore:
        break;
      case DumpPart::kLast:
        return absl::OkStatus();
      case DumpPart::kInterrupted:
        return absl::AbortedError(fmt::format(
            "{}: the kernel's routes have changed again and again", Option()));
      case DumpPart::kRefused:
        errno = error();
        return Failed();
      case DumpPart::kMalformed:
        errno = EBADMSG;
        return Failed();
    }
  }
}

absl::Status KernelRoutes::Read(std::vector<RoutingRule>& rules) {
  if (config_->follows_rules) {
    if (absl::Status s = ReadRules(rules); !s.ok()) return s;
  }
  RouteReader reader(*config_, interface_);
  bool is_too_long = false;
  const auto take = [&](Bytes datagram) {
    const DumpPart part = reader.Take(datagram);
    is_too_long = reader.seen() > kMost;
    return is_too_long ? DumpPart::kLast : part;
  };
  absl::Status status =
      Dump(RTM_GETROUTE, take, [&] { return reader.error(); });
  if (!status.ok()) return status;
  if (is_too_long) {
    return absl::ResourceExhaustedError(fmt::format(
        "{}: the kernel has more than {} routes; the port reads all of its "
        "tables",
        Option(), kMost));
  }
  routes_ = reader.Finish();
  unused_ = reader.unused();
  rules_ = rules;
  return absl::OkStatus();
}

absl::Status KernelRoutes::ReadRules(std::vector<RoutingRule>& rules) const {
  RuleReader reader(*config_, name_);
  absl::Status status = Dump(
      RTM_GETRULE, [&](Bytes datagram) { return reader.Take(datagram); },
      [&] { return reader.error(); });
  if (!status.ok()) return status;
  rules = std::move(reader.rules());
  if (!reader.not_followed().empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: ports do not follow {}", Option(), reader.not_followed()));
  }
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

// Most news meanwhile are of routes, links and addresses.
KernelRoutes::News KernelRoutes::TakeNotFollowed(
    std::string what, std::vector<RoutingRule> beside) {
  if (what == not_followed_ && beside == beside_) return News::kNone;
  not_followed_ = std::move(what);
  beside_ = std::move(beside);
  return News::kNotFollowed;
}

KernelRoutes::News KernelRoutes::Update(Instant now) {
  is_stale_ |= HasNews();
  if (!is_stale_ || now - read_at_ < kReadPeriod) return News::kNone;
  read_at_ = now;
  const std::vector<LearnedRoute> routes = routes_;
  const std::vector<RoutingRule> rules = rules_;
  const uint64_t unused = unused_;
  std::vector<RoutingRule> read;
  const absl::Status status = Read(read);
  if (absl::IsFailedPrecondition(status)) {
    is_stale_ = false;
    return TakeNotFollowed(std::string(status.message()), std::move(read));
  }
  if (!status.ok()) return News::kNone;
  is_stale_ = false;
  not_followed_.clear();
  return routes_ != routes || rules_ != rules || unused_ != unused
             ? News::kTaken
             : News::kNone;
}

}  // namespace snf
