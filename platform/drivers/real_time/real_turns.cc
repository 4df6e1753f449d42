// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_turns.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "runtime/ring/real_clock.h"

namespace snf {

bool RealTurns::Turn() {
  bool did = false;
  if (parts_.threads != nullptr && parts_.threads->Turn()) did = true;
  if (loop_.Turn(egress_)) did = true;
  if (parts_.unit_faults != nullptr && parts_.unit_faults->Turn()) did = true;
  if (parts_.controller_faults != nullptr && parts_.controller_faults->Turn()) {
    did = true;
  }
  if (parts_.starts != nullptr && parts_.starts->Turn()) did = true;
  look_.Turn();
  NoteGivenUp();
  return did;
}

Nanos RealTurns::LongestWait() const {
  Nanos most = Milliseconds(100);
  if (parts_.unit_faults != nullptr) {
    most = std::min(parts_.unit_faults->MayWait(), most);
  }
  if (parts_.controller_faults != nullptr) {
    most = std::min(parts_.controller_faults->MayWait(), most);
  }
  if (parts_.starts != nullptr) most = std::min(parts_.starts->MayWait(), most);
  return most;
}

void RealTurns::NoteGivenUp() {
  if (!loop_.is_led()) return;
  const uint64_t given_up =
      loop_.controller().counters().failures.flows_given_up;
  if (given_up <= given_up_) [[likely]]
    return;
  const Instant now = RealClock::Monotonic();
  if (given_up_ > 0 && now - given_up_noted_ < kBetweenNotices) return;
  if (notice_ != nullptr) {
    notice_(fmt::format(
        "{} lost their state in a failure, {} since the "
        "start",
        Plural(given_up - given_up_, "flow"), FormatCount(given_up)));
  }
  given_up_ = given_up;
  given_up_noted_ = now;
}

}  // namespace snf
