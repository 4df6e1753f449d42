// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_HEALTH_OPTIONS_H_
#define SNF_NFS_LB_HEALTH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/protocol_numbers.h"
#include "base/time.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// One end of connections, with its protocol.
struct LbEnd {
  IpAddress address;
  be16 port;
  IpProtocol protocol{};
  bool is_ipv6 = false;

  friend bool operator==(const LbEnd&, const LbEnd&) = default;
  friend auto operator<=>(const LbEnd& a, const LbEnd& b) {
    return std::tuple(a.address, a.port.host(), a.protocol, a.is_ipv6) <=>
           std::tuple(b.address, b.port.host(), b.protocol, b.is_ipv6);
  }
};
// Returns "10.0.0.1:80".
std::string InWords(const LbEnd& end);

// The checks of servers: none, a TCP connection, or an HTTP request over one.
enum class LbHealthCheck : uint8_t { kNone, kTcp, kHttp };

// Health checks (lb_health.h).
struct LbHealthOptions {
  // check=none|tcp|http.
  LbHealthCheck check = LbHealthCheck::kNone;
  // The source of checks, for servers of each version of IP.
  std::optional<IpAddress> source_ipv4;
  std::optional<IpAddress> source_ipv6;
  // check_interval=2s: the time between two checks of a server.
  Nanos interval = Seconds(2);
  // rise=2, fall=3: the checks in a row that bring a server up, or down.
  uint32_t rise = 2;
  uint32_t fall = 3;
  // check_port=0: the port that is checked; 0 for the server's own.
  uint16_t port = 0;
  // check_path=/: the path of HTTP requests.
  std::string path = "/";

  bool is_on() const { return check != LbHealthCheck::kNone; }
  const std::optional<IpAddress>& source(bool is_ipv6) const {
    return is_ipv6 ? source_ipv6 : source_ipv4;
  }

  // Each asks for a part of the options, in the order of the help.
  void AskCheck(std::string_view help, NfOptions& options);
  void AskRounds(NfOptions& options);
  // `least` is 0 if servers have ports of their own, else 1.
  void AskPort(uint16_t otherwise, uint16_t least, std::string_view help,
               NfOptions& options);
  void AskPath(NfOptions& options);
};

}  // namespace snf

#endif  // SNF_NFS_LB_HEALTH_OPTIONS_H_
