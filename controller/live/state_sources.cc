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

bool HasStateAtLoggers(const Controller& known) {
  bool is_source = known.is_recovering();
  for (uint32_t slot = 0; slot < known.flows().used(); ++slot) {
    known.owners().ForEach(slot, [&](const OwnerHistory::Run& run) {
      is_source |= run.at_logger && !run.is_taken && !run.is_superseded;
    });
  }
  return is_source;
}

}  // namespace snf
