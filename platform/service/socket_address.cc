// SPDX-License-Identifier: Apache-2.0
#include "platform/service/socket_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/byte_order.h"
#include "base/text/wording.h"

namespace snf {
namespace {

sockaddr_in& Ipv4Of(sockaddr_storage& address) {
  return reinterpret_cast<sockaddr_in&>(address);
}
const sockaddr_in& Ipv4Of(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in&>(address);
}
const sockaddr_in6& Ipv6Of(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}

// getaddrinfo would take 10.9 for 10.0.0.9. It reads IPv6 alone, for the scope
// of fe80::1%eth0.
std::optional<sockaddr_storage> ParseIp(const std::string& text) {
  sockaddr_storage address{};
  if (inet_pton(AF_INET, text.c_str(), &Ipv4Of(address).sin_addr) == 1) {
    address.ss_family = AF_INET;
    return address;
  }
  addrinfo hints = {};
  hints.ai_family = AF_INET6;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(text.c_str(), nullptr, &hints, &found) != 0) {
    return std::nullopt;
  }
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

std::optional<sockaddr_storage> ParseBoth(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const char* const end = text.data() + text.size();
  uint16_t port = 0;
  const auto [stop, error] =
      std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end) return std::nullopt;
  auto address = ParseIp(host);
  if (!address.has_value()) return std::nullopt;
  // IPv4 and IPv6 have the port at the same place.
  Ipv4Of(*address).sin_port = htons(port);
  return address;
}

bool IsUnspecified(const sockaddr_storage& address) {
  const std::string text = IpTextOf(address);
  return text == "::" || text == "0.0.0.0";
}

}  // namespace

absl::StatusOr<sockaddr_storage> ParseSocketAddress(const std::string& text) {
  const auto address = ParseBoth(text);
  if (address.has_value()) return *address;
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\" is no ADDRESS:PORT, as 192.0.2.1:7000", Printable(text)));
}

absl::StatusOr<sockaddr_storage> ParseReachable(const std::string& text,
                                                const std::string& example) {
  const auto address = ParseBoth(text);
  if (address.has_value() && !IsUnspecified(*address) &&
      Ipv4Of(*address).sin_port != 0) {
    return *address;
  }
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is no ADDRESS:PORT that others can send to, as {}",
                  Printable(text), example));
}

absl::StatusOr<std::string> ParseHostIp(const std::string& text) {
  const auto address = ParseIp(text);
  if (address.has_value() && !IsUnspecified(*address)) {
    return IpTextOf(*address);
  }
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\" is no IP address of a host, as 192.0.2.1", Printable(text)));
}

std::string IpTextOf(const sockaddr_storage& address) {
  sockaddr_storage plain = address;
  if (address.ss_family == AF_INET6 &&
      IN6_IS_ADDR_V4MAPPED(&Ipv6Of(address).sin6_addr)) {
    plain = {};
    plain.ss_family = AF_INET;
    std::memcpy(&Ipv4Of(plain).sin_addr, &Ipv6Of(address).sin6_addr.s6_addr[12],
                sizeof(in_addr));
  }
  char host[NI_MAXHOST] = {};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&plain),
                  SocketAddressBytes(plain), host, sizeof(host), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  return host;
}

socklen_t SocketAddressBytes(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6)
                                       : sizeof(sockaddr_in);
}

}  // namespace snf
