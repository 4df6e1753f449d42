// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_LOG_H_
#define SNF_NFS_NAT_LOG_H_

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/byte_order.h"
#include "base/messages/log_batch.h"
#include "base/packet/ip_address.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// A record of the NAT's log of bindings (RFC 6888 REQ-12, RFC 7422): an inside
// end has an external end from a packet on, or not any more. Remote ends are
// not logged (RFC 6888 REQ-12).
struct NatBindingRecord {
  enum Event : uint8_t { kCreated, kReleased };

  IpAddress inside;  // kept as IpAddress::FromIpv4, or of IPv6 (NAT64)
  be32 external;
  be16 inside_port;  // or the identifier of an ICMP query
  be16 external_port;
  uint8_t event = kCreated;
  IpProtocol protocol{};
  uint8_t is_ipv6 = 0;
  std::array<uint8_t, 5> zeros{};
};
static_assert(sizeof(NatBindingRecord) == 32 &&
              std::has_unique_object_representations_v<NatBindingRecord>);

// Appends the record as a line of JSON.
void WriteBinding(const LogRecord& record, std::string& lines);

}  // namespace snf

#endif  // SNF_NFS_NAT_LOG_H_
