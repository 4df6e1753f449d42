// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_FLOW_SCOPE_H_
#define SNF_RUNTIME_SDK_FLOW_SCOPE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/packet/packet_info.h"
#include "base/packet/packet_parser.h"

namespace snf {

// The rule by which packets are one flow for an NF.
enum class FlowScope : uint8_t {
  kConnection,  // by the flow key that --flow_key names
  // All connections of one inside address, port (of ICMP queries, identifier)
  // and protocol are one flow, together with the packets that come to its alias
  // (proto/decisions.md 15). The flow's key is the EndpointKey of that
  // endpoint.
  kInsideEndpoint,
  kOwnKey,  // by the key that NetworkFunction::flow_key gives
};

// A packet of which an NF is asked what its flow is
// (NetworkFunction::flow_key). Valid during the call.
struct KeyedPacket {
  std::span<const std::byte> bytes;  // the frame, as Packet::bytes()
  const ParsedPacket& headers;       // has_ip() is true
  // The key of its connection. Later fragments have that of their first
  // fragment, or a fragment's form if that was not seen; ICMP errors have that
  // of the packet that they quote.
  FlowKey connection;
  Direction direction;  // along `connection`

  // Returns the packet as it looks without regard to other packets: later
  // fragments have keys of a fragment's form.
  static KeyedPacket Of(std::span<const std::byte> frame,
                        const ParsedPacket& headers);
};

// The answer. The key must not be FlowKey{}. In a chain, packets from the
// outside go through the NFs in the opposite order (chain.h). For that the NF
// is asked once more, and later fragments then have a fragment's form.
struct OwnFlow {
  FlowKey key;
  Side side = Side::kUnknown;
  // The packet answers a packet of the NF's own, as a health check. Each live
  // chain whose NF may have asked gets a copy (LiveChains).
  bool is_answer = false;
  friend bool operator==(const OwnFlow&, const OwnFlow&) = default;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_FLOW_SCOPE_H_
