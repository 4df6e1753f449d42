// SPDX-License-Identifier: Apache-2.0
#include "controller/live/state_sources.h"

#include <cstdint>

#include "controller/recovery/owner_history.h"

namespace snf {

bool MayPull(const Controller& known, const Pull& pull) {
  if (known.owners().forgotten() > 0) return true;
  const FlowTable& flows = known.flows();
  const uint32_t slot = slot_of(pull.flow);
  if (slot >= flows.used() ||
      flows.numbers(slot).generation != generation_of(pull.flow)) {
    return false;
  }
  bool may = flows.cold(slot).owner == pull.requester;
  known.owners().ForEach(slot, [&](const OwnerHistory::Run& run) {
    may |= run.unit == pull.requester;
  });
  return may;
}

StatesAtLoggers FindStatesAtLoggers(const Controller& known) {
  StatesAtLoggers found;
  for (uint32_t slot = 0; slot < known.flows().used(); ++slot) {
    bool is_source = false;
    known.owners().ForEach(slot, [&](const OwnerHistory::Run& run) {
      if (!run.at_logger || run.is_taken || run.is_superseded) return;
      is_source = true;
      found.failed = run.unit;
      found.owner = known.flows().cold(slot).owner;
    });
    found.flows += is_source ? 1 : 0;
  }
  return found;
}

}  // namespace snf
