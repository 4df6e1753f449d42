// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_FLOW_KEY_TEXT_H_
#define SNF_BASE_PACKET_FLOW_KEY_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/packet/flow_key.h"

namespace snf {

// Returns "tcp", "icmp6" …, or the number of a protocol that has no name here.
std::string ToString(IpProtocol protocol);
// Reads a name, also in capitals, or the number of any protocol. Returns
// nothing for any other text.
std::optional<IpProtocol> ParseProtocol(std::string_view text);

// Writes a flow key for people:
//
//   tcp 10.0.0.1:5000 > 192.0.2.9:53
//   vlan 100 udp [2001:db8::1]:5000 > [2001:db8::9]:53
//   icmp 10.0.0.1:77 > 192.0.2.9:77           77 is the identifier
//   gre 10.0.0.1 > 192.0.2.9                  both ports are 0
//   fragment 4711 udp 10.0.0.1 > 192.0.2.9    FlowKeyForm::kIpv4Fragment
//   udp 10.0.0.1:5000                         FlowKeyForm::kIpv4Endpoint
//
// IPv6 is compressed as RFC 5952 wants it. A protocol without a name here is
// its number: "89 10.0.0.1 > 10.0.0.2".
std::string ToString(const FlowKey& key);

// Reads that form. Protocols may be numbers or in capitals, and a missing port
// is 0. With "<>" in place of ">" the key is that of the connection, so the
// ends may come in any order; a single end gives an endpoint key. A text that
// cannot be read gives InvalidArgument, which quotes it.
absl::StatusOr<FlowKey> ParseFlowKey(const std::string& text);

}  // namespace snf

#endif  // SNF_BASE_PACKET_FLOW_KEY_TEXT_H_
