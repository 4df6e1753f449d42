// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_LOG_H_
#define SNF_NFS_NAT_LOG_H_

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "base/byte_order.h"
#include "base/ipfix/ipfix_writer.h"
#include "base/messages/log_batch.h"
#include "base/packet/ip_address.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// A record of the NAT's log of bindings (RFC 6888 REQ-12, RFC 7422): an inside
// end has an external end from a packet on, or not any more, or was refused
// one. Remote ends are not logged (RFC 6888 REQ-12).
struct NatBindingRecord {
  enum Event : uint8_t {
    kCreated,
    kReleased,
    kOverHostPorts,   // the host has host_ports mappings
    kPortsExhausted,  // the external address has no port left
  };

  IpAddress inside;  // kept as IpAddress::FromIpv4, or of IPv6 (NAT64)
  be32 external;
  be16 inside_port;    // or the identifier of an ICMP query
  be16 external_port;  // 0: refused
  uint8_t event = kCreated;
  IpProtocol protocol{};
  uint8_t is_ipv6 = 0;
  uint8_t zero = 0;
  uint32_t host_ports = 0;  // the limit, with kOverHostPorts
};
static_assert(sizeof(NatBindingRecord) == 32 &&
              std::has_unique_object_representations_v<NatBindingRecord>);

// Appends the record as a line of JSON.
void WriteBinding(const LogRecord& record, std::string& lines);
// Appends the record as values of IPFIX and returns their fields: an event of
// RFC 8158. A record that no NAT writes has none.
std::span<const IpfixField> WriteBindingIpfix(const LogRecord& record,
                                              std::string& values);

}  // namespace snf

#endif  // SNF_NFS_NAT_LOG_H_
