// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/shard_leases.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "platform/drivers/cluster/lease_user_options.h"
#include "platform/drivers/real_time/real_driver.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

LeaseUserOptions OptionsOf(const RunOptions& options,
                           const ClusterOptions& cluster,
                           ControllerId controller) {
  // Threads and processes may stand still for some time.
  constexpr Nanos kRoundTrip = Seconds(1);
  LeaseUserOptions user =
      LeaseUserOptionsOf(options, cluster, controller, kRoundTrip);
  user.has_global_numbers = true;
  return user;
}

}  // namespace

ShardLeases::ShardLeases(const RunOptions& options,
                         const ClusterOptions& cluster, ControllerLife life,
                         ManagerMail& manager, std::vector<UnitMail*> units)
    : user_(OptionsOf(options, cluster, life.controller), life),
      manager_(manager),
      unit_mail_(std::move(units)) {}

bool ShardLeases::Poll() {
  if (!driver_->has_controller()) return false;
  const Instant now = RealClock::Monotonic();
  bool did = false;
  for (const ToController& message : mail_.Take()) {
    Handle(now, message);
    did = true;
  }
  for (const UnitId unit : driver_->TakeLeft()) {
    user_.on_left(now, unit);
    did = true;
  }
  if (now >= next_sample_) {
    next_sample_ = now + LeaseUser::kSample;
    user_.on_load(now, user_.EndSample());
  }
  if (now >= user_.next_epoch()) {
    FindFailed(now);
    user_.on_epoch(now);
    did = true;
  }
  const bool carried = Carry(now);
  if (did || carried) {
    has_unit_.store(user_.has_share(), std::memory_order_release);
  }
  return did;
}

// Flows of a unit whose process was killed have moved. Flows of a unit that has
// another host move now. The unit is leased anew once its next process
// runs.
void ShardLeases::FindFailed(Instant now) {
  const UnitPool& units = driver_->controller().units();
  for (uint16_t u = 0; u < user_.units(); ++u) {
    const UnitId unit{u};
    if (!user_.uses(unit)) continue;
    if (units.state(unit) == UnitPool::State::kStopped) {
      user_.on_left(now, unit);
    } else if (driver_->LeaveHost(unit)) {
      user_.on_not_leased(unit);
    }
  }
}

void ShardLeases::Handle(Instant now, const ToController& message) {
  grants_ += std::holds_alternative<Grant>(message) ? 1 : 0;
  user_.Handle(now, message);
  share_max_ = std::max(share_max_, user_.held());
}

bool ShardLeases::Carry(Instant now) {
  const LeaseUserCommands commands = user_.Settle(now);
  for (const LeaseUserCommand& command : commands) {
    if (const auto* lease = std::get_if<LeaseUnit>(&command)) {
      // While the unit's process fails, each epoch tries again.
      if (!driver_->Lease(lease->unit, static_cast<uint32_t>(lease->share))) {
        user_.on_not_leased(lease->unit);
      }
    } else if (const auto* revoke = std::get_if<RevokeUnit>(&command)) {
      driver_->Revoke(revoke->unit, revoke->at_once);
    } else {
      manager_.Put(std::get<ToManager>(command));
    }
  }
  return !commands.empty();
}

// --- The successor of a controller that failed. ------------------------------

void ShardLeases::on_failure() {
  reported_.clear();
  awaited_ = unit_mail_.size();
  for (UnitMail* const thread : unit_mail_) {
    thread->Put(AskLeases{user_.life().controller, &mail_});
  }
}

bool ShardLeases::has_answers() {
  if (awaited_ == 0) return true;
  for (const ToController& message : mail_.Take()) {
    const auto* held = std::get_if<HeldLeases>(&message);
    if (held == nullptr) continue;
    --awaited_;
    reported_.insert(reported_.end(), held->begin(), held->end());
  }
  return awaited_ == 0;
}

void ShardLeases::on_successor() {
  const Instant now = RealClock::Monotonic();
  const UnitPool& units = driver_->controller().units();
  user_.on_successor(now, std::nullopt, std::exchange(reported_, {}),
                     [&](UnitId unit) {
                       return units.state(unit) != UnitPool::State::kStopped;
                     });
  Carry(now);
  has_unit_.store(user_.has_share(), std::memory_order_release);
}

}  // namespace snf
