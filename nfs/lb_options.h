// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_OPTIONS_H_
#define SNF_NFS_LB_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/packet/ip_address.h"
#include "base/time.h"
#include "nfs/lb_health_options.h"
#include "nfs/lb_maglev.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// A server as an option or a file names it: "10.0.0.1:8080*2#7".
struct LbServerName {
  NfOptions::Endpoint end;
  uint32_t weight = 1;
  std::optional<uint32_t> quic_id;
};

// A virtual end.
struct LbService {
  LbEnd end;
  // Its servers, if a file names them. If it is empty, the option "servers"
  // does.
  std::vector<LbServerName> own;
};

// A server of a service.
struct LbServer {
  LbEnd end;
  uint16_t service;  // its index
  // The identifier in connection ids of QUIC; none if it is not given.
  std::optional<uint32_t> quic_id;
};

// The servers as of a time. Indexes count LbOptions::servers.
class LbServers {
 public:
  enum class Use : uint8_t {
    kNone,      // it is removed or down
    kDraining,  // it gets no new connections while others are active
    kActive,
  };
  Use use(uint16_t server) const { return uses_[server]; }
  // The table of a service; empty if none of its servers can be used.
  const MaglevTable& table(uint16_t service) const { return tables_[service]; }
  // Returns true if no server of the service is active, so that draining ones
  // are used.
  bool uses_draining(uint16_t service) const { return draining_[service] != 0; }

 private:
  friend struct LbOptions;
  std::vector<Use> uses_;
  std::vector<MaglevTable> tables_;
  std::vector<uint8_t> draining_;
};

enum class LbAffinity : uint8_t { kNone, kSource };

// The way of packets to servers: rewritten, or as they are behind other
// headers, so that servers answer clients directly (lb_tunnel.h).
enum class LbForward : uint8_t { kRewrite, kIpip, kGue };

// The options of --nf lb:… . NfOptions::status() reports errors.
struct LbOptions {
  explicit LbOptions(NfOptions& options);

  static constexpr size_t kMaxServices = 256;
  static constexpr size_t kMaxServers = 4'096;  // of all services together

  // virtual=192.0.2.10:80+[2001:db8::10]:80, protocol=both|tcp|udp,
  // services=FILE. A service for each end and protocol, sorted.
  std::vector<LbService> services;
  // The servers of all times, sorted by end.
  std::vector<LbServer> servers;
  // servers=10.0.0.1:8080*2+10.0.0.2:8080, drain=10.0.0.2, down=10.0.0.3: in
  // the order of time.
  std::vector<NfOptions::Dated<std::shared_ptr<const LbServers>>> dated;

  // table=65537: the number of slots of each Maglev table.
  uint32_t table_size = 65'537;
  // affinity=none|source: with source, the client's address alone decides.
  LbAffinity affinity = LbAffinity::kNone;
  // forward=rewrite|ipip|gue.
  LbForward forward = LbForward::kRewrite;
  // outer=10.0.0.9+fd00::9: the source of outer headers, for servers of each
  // version of IP.
  std::optional<IpAddress> outer_ipv4;
  std::optional<IpAddress> outer_ipv6;
  // gue_port=6080: the UDP port to which GUE goes.
  uint16_t gue_port = 6'080;
  // mtu=1500: the longest IP packet to a server, outer headers included.
  uint32_t mtu = 1'500;
  // removed=reset|keep: the fate of TCP connections whose server is removed or
  // down.
  bool resets = true;
  // checker=10.0.0.9+fd00::9, and the options of checks.
  LbHealthOptions health;
  // quic=0: the length of the server identifier in connection ids, in bytes; 0
  // for a service without QUIC.
  uint32_t quic_id_bytes = 0;
  // The times without packets after which a connection is forgotten.
  Nanos tcp_opening_timeout = Seconds(30);  // after the client's SYN alone
  Nanos tcp_timeout = Seconds(7'440);       // RFC 5382 REQ-5
  Nanos tcp_closing_timeout = Seconds(120);
  Nanos udp_timeout = Seconds(300);

  // Returns the service with this end, or nothing.
  std::optional<uint16_t> ServiceOf(const LbEnd& end) const;
  // Returns true if a service has this address.
  bool IsVirtual(const IpAddress& address) const;
  // Returns the server with this end, or nothing.
  std::optional<uint16_t> ServerOf(const LbEnd& end) const;
  bool IsServer(const IpAddress& address) const;
  // Returns the service's server with this identifier, or nothing.
  std::optional<uint16_t> ServerOf(uint16_t service, uint32_t quic_id) const;
  // The servers at that time.
  const LbServers& AsOf(Instant time) const;
  // Returns when the server's use at that time began; nothing if it began with
  // the options.
  std::optional<Instant> UseSince(uint16_t server, Instant time) const;

 private:
  // The options that may change.
  struct Asked {
    std::vector<LbServerName> servers;
    std::vector<std::string> drain;
    std::vector<std::string> down;
  };
  static Asked Ask(NfOptions& options);
  // Returns the names of a service's servers.
  static const std::vector<LbServerName>& NamesOf(const LbService& service,
                                                  const Asked& asked) {
    return service.own.empty() ? asked.servers : service.own;
  }
  // Returns true if the server's version of IP serves the service: the same
  // one, or, behind outer headers, the other if it has no servers of its own.
  bool Serves(const LbServerName& server, const LbService& service,
              const Asked& asked) const;
  void AskForward(NfOptions& options);
  void CheckForward(NfOptions& options) const;
  void AskHealth(NfOptions& options);
  void CheckHealth(NfOptions& options) const;
  void AddServices(NfOptions& options);
  void AddServers(const std::vector<NfOptions::Dated<Asked>>& asked,
                  NfOptions& options);
  std::shared_ptr<const LbServers> ServersOf(const Asked& asked,
                                             NfOptions& options) const;

  std::vector<IpAddress> virtual_;       // sorted
  std::vector<IpAddress> server_hosts_;  // sorted
};

}  // namespace snf

#endif  // SNF_NFS_LB_OPTIONS_H_
