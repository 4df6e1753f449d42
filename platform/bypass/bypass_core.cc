// SPDX-License-Identifier: Apache-2.0
#include "platform/bypass/bypass_core.h"

namespace snf {

void BypassCore::on_clean_end() {
  if (state_ == Phase::kArmed) state_ = Phase::kEnded;
}

void BypassCore::on_daemon_gone(Instant now) {
  if (state_ != Phase::kArmed) return;
  is_gone_ = true;
  state_ = Phase::kWaiting;
  since_ = now;
}

BypassCore::Phase BypassCore::Look(Instant now, bool is_claimed) {
  switch (state_) {
    case Phase::kArmed:
    case Phase::kEnded:
      break;
    case Phase::kWaiting:
    case Phase::kPassing:
      if (is_claimed) {
        state_ = Phase::kGivenWay;
        since_ = now;
      } else if (state_ == Phase::kWaiting && now - since_ >= patience_) {
        state_ = Phase::kPassing;
      }
      break;
    case Phase::kGivenWay:
      if (!is_claimed) {
        state_ = Phase::kWaiting;
        since_ = now;
      } else if (now - since_ >= kMostGivenWay) {
        state_ = Phase::kEnded;
      }
      break;
  }
  return state_;
}

}  // namespace snf
