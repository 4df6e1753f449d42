// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/flow_messages.h"

#include "base/messages/controller_counts.h"
#include "base/packet/link_type.h"

namespace snf {
namespace {

Instant SpanTo(Instant time, Instant now) {
  return time == Instant::max() ? time : Instant{(time - now).ns};
}
Instant TimeOf(Instant span, Instant now) {
  return span == Instant::max() ? span : now + Nanos{span.ns};
}

// Bytes from elsewhere are no bool or enumerator before they are checked.
bool IsPlain(std::span<const std::byte> state) {
  const auto is_none = [state](size_t at) { return state[at] == std::byte{}; };
  return is_none(offsetof(State, pushed)) && is_none(offsetof(State, named)) &&
         is_none(offsetof(State, delta)) &&
         IsLinkType(
             LinkType{std::to_integer<uint8_t>(state[offsetof(State, link)])});
}

}  // namespace

std::vector<std::byte> BytesOfFlow(FlowMessage message, Instant now,
                                   std::span<const std::byte> record) {
  message.flow.last_packet = SpanTo(message.flow.last_packet, now);
  message.state.timer = SpanTo(message.state.timer, now);
  return BytesOf(message, record);
}

// Inherit and ReturnedFlows ask if units can take the record: members change
// their chains one after the other.
std::optional<FlowThatCame> ReadFlow(std::span<const std::byte> bytes,
                                     Instant now) {
  FlowMessage message;
  if (bytes.size() < sizeof message ||
      !IsPlain(
          bytes.subspan(offsetof(FlowMessage, state)).first<sizeof(State)>()) ||
      !Load(bytes.first(sizeof message), message)) {
    return std::nullopt;
  }
  const auto record = bytes.subspan(sizeof message);
  const HandedFlow& flow = message.flow;
  const bool is_right =
      flow.name.key != FlowKey{} && flow.last == message.state.applied &&
      flow.last != Clock{} && flow.last < kMaxRestoredClock &&
      record.size() <= kMaxShownBytes && record.size() == message.state.bytes &&
      message.home < kMostAtPorts;
  if (!is_right) return std::nullopt;
  message.flow.last_packet = TimeOf(flow.last_packet, now);
  message.state.timer = TimeOf(message.state.timer, now);
  return FlowThatCame{.kind = message.kind,
                      .round = message.round,
                      .flow = {.flow = message.flow,
                               .state = message.state,
                               .record = {record.begin(), record.end()},
                               .home = message.home}};
}

}  // namespace snf
