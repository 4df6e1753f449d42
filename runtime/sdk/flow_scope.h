// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_FLOW_SCOPE_H_
#define SNF_RUNTIME_SDK_FLOW_SCOPE_H_

#include <cstdint>

namespace snf {

// The rule by which packets are one flow for an NF.
enum class FlowScope : uint8_t {
  kConnection,  // by the flow key that --flow_key names
  // All connections of one inside address, port (of ICMP queries, identifier)
  // and protocol are one flow, together with the packets that come to its alias
  // (proto/decisions.md 15). The flow's key is the EndpointKey of that
  // endpoint.
  kInsideEndpoint,
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_FLOW_SCOPE_H_
