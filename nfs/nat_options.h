// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_OPTIONS_H_
#define SNF_NFS_NAT_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "base/byte_order.h"
#include "base/time.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// Tells from whom an external endpoint takes packets (RFC 4787 §5).
enum class NatFiltering : uint8_t {
  kEndpointIndependent,      // from anybody
  kAddressDependent,         // from addresses that the inside has sent to
  kAddressAndPortDependent,  // from endpoints that the inside has sent to
};

// Holds the options of --nf nat:…. NfOptions::status() tells what is wrong with
// them.
struct NatOptions {
  explicit NatOptions(NfOptions& options);

  static constexpr uint32_t kMaxAddresses = 256;
  static constexpr int64_t kMaxPeers = 256;

  // ip=192.0.2.1-192.0.2.4+192.0.2.9 gives the external addresses, in order.
  std::vector<be32> addresses;
  // ports=1024-65535 gives the external ports, or ICMP identifiers, of each
  // address and protocol.
  uint16_t first_port = 1024;
  uint16_t last_port = 65'535;
  // filtering=endpoint_independent, address_dependent or
  // address_and_port_dependent.
  NatFiltering filtering = NatFiltering::kEndpointIndependent;
  // host_ports=0 limits the mappings of one inside address; 0 sets no limit.
  uint32_t host_ports = 0;
  // peers=16 says how many peers a mapping remembers, for its filter and for
  // the state of its TCP connections.
  uint32_t peers = 16;
  // A mapping ends this long after its last outbound packet. RFC 4787 REQ-5,
  // RFC 5382 REQ-5 and RFC 5508 REQ-2 require at least 2 min, 2 h 4 min, 4 min
  // and 60 s.
  Nanos udp_timeout = Seconds(300);
  Nanos tcp_timeout = Seconds(7'440);
  Nanos tcp_transitory_timeout = Seconds(240);
  Nanos icmp_timeout = Seconds(60);
  // refresh=outbound or both; with both, inbound packets keep a mapping too.
  bool inbound_refreshes = false;
  // pooling=paired or arbitrary. If paired, all endpoints of an inside address
  // get one external address; else each gets its own.
  bool is_paired = true;
};

}  // namespace snf

#endif  // SNF_NFS_NAT_OPTIONS_H_
