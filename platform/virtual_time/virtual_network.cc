// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/virtual_network.h"

namespace snf {

void VirtualNetwork::Send(UnitId from, VirtualEvent message) {
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
  ++(state.pushed ? figures_.pushes : figures_.answers);
  figures_.bytes += state.bytes;
  if (state.pushed) figures_.pushed_bytes += state.bytes;
  observers_.on_state_sent(now_, from, to, state);
  const auto bytes = record.first(state.bytes);
  for (const Nanos delay : states_.SendState(state.bytes)) {
    const uint32_t kept = states_.Keep(bytes);
    if (kept == StateNetwork::kNoRecord) continue;
    After(delay, {.kind = VirtualEvent::Kind::kStateAtUnit,
                  .unit = to,
                  .epoch = EpochOf(from),
                  .record = kept,
                  .state = state});
  }
}

}  // namespace snf
