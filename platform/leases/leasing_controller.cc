// SPDX-License-Identifier: Apache-2.0
#include "platform/leases/leasing_controller.h"

#include <algorithm>

namespace snf {

void LeasingController::Advance(Instant now) {
  const double seconds = static_cast<double>((now - since_).ns) * 1e-9;
  since_ = now;
  const double offered = static_cast<double>(load_bps_) * seconds;
  const double leased = static_cast<double>(held_) / LeaseOptions::kOne *
                        static_cast<double>(options_->unit_capacity_bps) *
                        seconds;
  epoch_bits_ += offered;
  figures_.offered_bits += offered;
  figures_.leased_bits += leased;
  figures_.short_bits += std::max(0.0, offered - leased);
}

int64_t LeasingController::SharesFor(int64_t load_bps,
                                     uint32_t headroom) const {
  constexpr int64_t kOne = LeaseOptions::kOne;
  static_assert(kOne == kWholeUnit);
  const int64_t with_room = load_bps + load_bps / kOne * headroom;
  const int64_t unit = options_->unit_capacity_bps;
  // Loads are up to 2^50 bit/s: units and the rest of one are counted apart.
  const int64_t part = (with_room % unit * kOne + unit - 1) / unit;
  int64_t shares = with_room / unit * kOne + part;
  if (!options_->shared) shares = (shares + kOne - 1) / kOne * kOne;
  return std::min(shares, int64_t{options_->manager.max_units} * kOne);
}

void LeasingController::AskFor(int64_t shares, LeaseRequests& out) {
  wanted_ = shares;
  out.push_back(Ask{life_, ++asks_, shares});
}

void LeasingController::on_load(Instant now, int64_t change_bps,
                                LeaseRequests& out) {
  Advance(now);
  load_bps_ += change_bps;
  if (SharesFor(load_bps_, options_->headroom / 2) <= wanted_) return;
  AskFor(SharesFor(load_bps_, options_->headroom), out);
}

void LeasingController::on_epoch(Instant now, LeaseRequests& out) {
  Advance(now);
  const double seconds = static_cast<double>((now - epoch_begin_).ns) * 1e-9;
  const auto mean = static_cast<int64_t>(epoch_bits_ / seconds);
  epoch_bits_ = 0;
  epoch_begin_ = now;
  AskFor(SharesFor(std::max(mean, load_bps_), options_->headroom), out);
  GiveBackAbove(now, wanted_, out);
  if (now >= next_renewal_) RenewAll(now, out);
}

void LeasingController::GiveBackAbove(Instant now, int64_t shares,
                                      LeaseRequests& out) {
  while (held_ > shares) {
    const auto [share, lease] = *by_share_.begin();
    Keep(now, lease, std::max(int64_t{0}, share - (held_ - shares)), out);
  }
}

void LeasingController::Keep(Instant now, LeaseId lease, int64_t share,
                             LeaseRequests& out) {
  const auto at = leases_.find(lease);
  Resize(at, share);
  at->second.given_back = now;
  out.push_back(GiveBack{life_, lease, share});
}

void LeasingController::Resize(std::map<LeaseId, Held>::iterator at,
                               int64_t share) {
  const int64_t before = at->second.share;
  if (before > 0) by_share_.erase({before, at->first});
  if (share > 0) by_share_.insert({share, at->first});
  at->second.share = share;
  held_ += share - before;
}

void LeasingController::RenewAll(Instant now, LeaseRequests& out) {
  next_renewal_ = now + Nanos{options_->manager.term.ns / 2};
  const Nanos under_way{2 * options_->message_delay.ns};
  std::erase_if(leases_, [&](const auto& lease) {
    const Held& held = lease.second;
    return held.share == 0 && now - held.given_back > under_way;
  });
  for (const auto& [lease, held] : leases_) {
    if (held.share > 0) out.push_back(Renew{life_, lease});
  }
}

void LeasingController::on_grant(Instant now, const Grant& grant) {
  Advance(now);
  const auto [at, is_new] = leases_.try_emplace(grant.lease);
  if (is_new || at->second.share > 0) Resize(at, grant.share);
}

void LeasingController::on_revoke(Instant now, const Revoke& revoke,
                                  LeaseRequests& out) {
  Advance(now);
  const auto at = leases_.find(revoke.lease);
  if (at == leases_.end() || at->second.share <= revoke.keep) return;
  Keep(now, revoke.lease, revoke.keep, out);
}

void LeasingController::on_gone(Instant now, const Gone& gone) {
  Advance(now);
  const auto at = leases_.find(gone.lease);
  if (at == leases_.end()) return;
  Resize(at, 0);
  leases_.erase(at);
}

}  // namespace snf
