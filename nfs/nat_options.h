// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_OPTIONS_H_
#define SNF_NFS_NAT_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "base/byte_order.h"
#include "base/time.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// From whom an external endpoint takes packets (RFC 4787 §5).
enum class NatFiltering : uint8_t {
  kEndpointIndependent,      // from anybody
  kAddressDependent,         // from addresses that the inside has sent to
  kAddressAndPortDependent,  // from endpoints that the inside has sent to
};

// What --nf nat:… says. What is wrong is told by NfOptions::status().
struct NatOptions {
  explicit NatOptions(NfOptions& options);

  static constexpr uint32_t kMaxAddresses = 256;
  static constexpr int64_t kMaxPeers = 256;

  // ip=192.0.2.1-192.0.2.4+192.0.2.9: the external addresses, in order.
  std::vector<be32> addresses;
  // ports=1024-65535: external ports and ICMP identifiers, of each address and
  // protocol.
  uint16_t first_port = 1024;
  uint16_t last_port = 65'535;
  // filtering=endpoint_independent
  NatFiltering filtering = NatFiltering::kEndpointIndependent;
  // host_ports=0: the most mappings of one inside address; 0 for any number.
  uint32_t host_ports = 0;
  // peers=16: how many a mapping remembers, for its filter and for what TCP
  // connections it has.
  uint32_t peers = 16;
  // A mapping is over so long after its last outbound packet. RFC 4787 REQ-5,
  // RFC 5382 REQ-5 and RFC 5508 REQ-2 want no less than 2 min, 2 h 4 min, 4 min
  // and 60 s.
  Nanos udp_timeout = Seconds(300);
  Nanos tcp_timeout = Seconds(7'440);
  Nanos tcp_transitory_timeout = Seconds(240);
  Nanos icmp_timeout = Seconds(60);
  // refresh=outbound|both: whether inbound packets keep a mapping too.
  bool inbound_refreshes = false;
  // pooling=paired|arbitrary: whether an inside address has one external
  // address, or each endpoint its own.
  bool is_paired = true;
};

}  // namespace snf

#endif  // SNF_NFS_NAT_OPTIONS_H_
