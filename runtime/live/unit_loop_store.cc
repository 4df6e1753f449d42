// SPDX-License-Identifier: Apache-2.0
//
// How a loop goes about a store outside of units.
#include "runtime/live/unit_loop.h"

namespace snf {

bool UnitLoop::PollStore() {
  return links_.store->Poll(
      [this](const StoreAnswer& answer) { TakeFromStore(answer); });
}

void UnitLoop::TakeFromStore(const StoreAnswer& answer) {
  UnitShell& shell = Shell(answer.unit);
  bool has_more = true;
  while (has_more) {
    out_.clear();
    if (answer.is_there) {
      shell.unit.on_state(now_, answer.state, answer.record, out_);
    }
    has_more =
        !answer.is_there && shell.unit.on_store_silent(answer.state.flow, out_);
    AfterCall(shell);
  }
}

void UnitLoop::SendRecord(const UnitCommand& command,
                          std::span<const std::byte> record) {
  if (links_.store == nullptr) {
    SendToUnit(command, record);
  } else {
    links_.store->Write(command.state, record);
  }
}

}  // namespace snf
