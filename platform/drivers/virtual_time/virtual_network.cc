// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/virtual_network.h"

namespace snf {

void VirtualNetwork::Send(UnitId from, const UnitCommand& command) {
  VirtualEvent message =
      VirtualEvent::Of(VirtualEvent::Kind::kBetweenUnits, command);
  message.epoch = EpochOf(from);
  for (const Nanos delay : states_.Send()) {
    if (states_.in_order()) {
      AfterHop(message);
    } else {
      After(delay, message);
    }
  }
}

void VirtualNetwork::SendState(UnitId from, UnitId to, const State& state,
                               std::span<const std::byte> record) {
  observers_.on_state_sent(now_, from, to, state);
  const auto bytes = record.first(state.bytes);
  for (const Nanos delay : states_.SendState(state.bytes)) {
    const uint32_t kept = states_.Keep(bytes);
    if (kept == StateNetwork::kNoRecord) continue;
    VirtualEvent message = VirtualEvent::Of(VirtualEvent::Kind::kBetweenUnits,
                                            UnitCommand::Send(to, state));
    message.epoch = EpochOf(from);
    message.record = kept;
    After(delay, message);
  }
}

}  // namespace snf
