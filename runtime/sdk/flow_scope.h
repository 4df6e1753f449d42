// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_FLOW_SCOPE_H_
#define SNF_RUNTIME_SDK_FLOW_SCOPE_H_

#include <cstdint>

namespace snf {

// What makes packets one flow, for an NF.
enum class FlowScope : uint8_t {
  kConnection,  // as --flow_key says
  // All connections of one inside address, port and protocol (of ICMP queries,
  // identifier) are one flow, and what comes to its alias (proto/decisions.md
  // 15). The flow's key is EndpointKey(…) of that endpoint.
  kInsideEndpoint,
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_FLOW_SCOPE_H_
