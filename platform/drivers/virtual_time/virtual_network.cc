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
  const auto send = [&](UnitId each, Nanos delay) {
    DeliverState(from, each, state, record, delay);
  };
  const auto delays = states_.SendState(state.bytes);
  if (!state.pushed) {
    observers_.on_state_sent(now_, from, to, state);
    for (const Nanos delay : delays) send(to, delay);
    return;
  }
  hosts_.ForEachOnHost(to, [&](UnitId each) {
    observers_.on_state_sent(now_, from, each, state);
    for (const Nanos delay : delays) send(each, delay);
  });
}

void VirtualNetwork::HandOver(UnitId from, UnitId to, const State& state,
                              std::span<const std::byte> record) {
  observers_.on_state_sent(now_, from, to, state);
  for (const Nanos delay : states_.HandOver()) {
    DeliverState(from, to, state, record, delay);
  }
}

void VirtualNetwork::DeliverState(UnitId from, UnitId to, const State& state,
                                  std::span<const std::byte> record,
                                  Nanos delay) {
  const uint32_t kept = states_.Keep(record.first(state.bytes));
  if (kept == StateNetwork::kNoRecord) return;
  VirtualEvent message = VirtualEvent::Of(VirtualEvent::Kind::kBetweenUnits,
                                          UnitCommand::Send(to, state));
  message.epoch = EpochOf(from);
  message.record = kept;
  After(delay, message);
}

}  // namespace snf
