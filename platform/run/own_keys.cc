// SPDX-License-Identifier: Apache-2.0
#include "platform/run/own_keys.h"

#include "absl/strings/str_cat.h"
#include "base/packet/flow_key_text.h"
#include "runtime/sdk/nf_call.h"

namespace snf {

void OwnKeys::Apply(std::span<const std::byte> frame,
                    const ParsedPacket& headers, Direction direction,
                    FlowKey& key) const {
  key = Ask(frame, headers, direction, key).key;
}

OwnFlow OwnKeys::Ask(std::span<const std::byte> frame,
                     const ParsedPacket& headers, Direction direction,
                     const FlowKey& connection) const {
  const KeyedPacket packet = {.bytes = frame,
                              .headers = headers,
                              .connection = connection,
                              .direction = direction};
  const bool asks_twice = asked_++ % kTwiceEvery == 0;
  OwnFlow flow;
  CallNf(*nf_, NfCall::Hook::kFlowKey, nullptr, kNoPacket, [&] {
    flow = nf_->flow_key(packet);
    if (flow.key == FlowKey{}) FailNf("gave the empty key");
    if (!asks_twice) return;
    const OwnFlow again = nf_->flow_key(packet);
    if (again == flow) return;
    FailNf(absl::StrCat("gave two flows for one packet, ", ToString(flow.key),
                        " and ", ToString(again.key),
                        ": it must depend on the packet alone"));
  });
  return flow;
}

std::optional<FlowKey> OwnKeys::InsideOf(std::span<const std::byte> frame,
                                         const ParsedPacket& headers,
                                         Direction direction,
                                         const FlowKey& connection) const {
  if (!tells_ends_) return std::nullopt;
  FlowKey key = connection;
  Apply(frame, headers, direction, key);
  const bool is_end = key.form == FlowKeyForm::kIpv4Endpoint ||
                      key.form == FlowKeyForm::kIpv6Endpoint;
  if (!is_end) return std::nullopt;
  return key;
}

}  // namespace snf
