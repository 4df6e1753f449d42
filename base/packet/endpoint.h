// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_ENDPOINT_H_
#define SNF_BASE_PACKET_ENDPOINT_H_

#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// Returns one end of connections as a FlowKey. Its source holds the address and
// the port (of ICMP queries the identifier) of one protocol, its destination is
// zero, and its form is kIpv4Endpoint or kIpv6Endpoint. It is the key of a flow
// of scope inside_endpoint, and of its alias (proto/decisions.md 15, 20).
FlowKey EndpointKey(const IpAddress& address, be16 port, IpProtocol protocol,
                    FlowKeyForm form);

// The two ends of a packet, as endpoint keys. An ICMP error has the ends of the
// packet that it quotes, exchanged; a later fragment has those of its first
// fragment.
struct Endpoints {
  FlowKey from;
  FlowKey to;
};
// Returns false for the key of a fragment whose first fragment was not seen:
// its ends are unknown.
bool HasEnds(const FlowKey& connection);
// Returns the ends of a packet with this connection key and direction. Requires
// HasEnds(connection). Each end keeps the connection's VLAN.
Endpoints EndpointsOf(const FlowKey& connection, Direction direction);

}  // namespace snf

#endif  // SNF_BASE_PACKET_ENDPOINT_H_
