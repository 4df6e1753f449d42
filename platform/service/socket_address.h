// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_SOCKET_ADDRESS_H_
#define SNF_PLATFORM_SERVICE_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"

namespace snf {

// Reads 192.0.2.1:7000 or [2001:db8::1]:7000. Names would have to be looked up
// while packets wait. Errors: InvalidArgument, naming the text.
absl::StatusOr<sockaddr_storage> ParseSocketAddress(const std::string& text);

// Reads ADDRESS:PORT at which other hosts reach this one: neither 0.0.0.0 nor
// port 0. Errors: InvalidArgument, naming the text; `example` is added.
absl::StatusOr<sockaddr_storage> ParseReachable(const std::string& text,
                                                const std::string& example);

// Reads the IP address of one host. Returns the text that IpTextOf writes for
// this address. Errors: InvalidArgument, naming the text.
absl::StatusOr<std::string> ParseHostIp(const std::string& text);

// Returns the IP address, without brackets and port. An IPv4 address that a
// socket of IPv6 has mapped is written as an IPv4 address.
std::string IpTextOf(const sockaddr_storage& address);

// Returns the bytes of the address's own type.
socklen_t SocketAddressBytes(const sockaddr_storage& address);

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_SOCKET_ADDRESS_H_
