// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LEASES_LEASING_CONTROLLER_H_
#define SNF_PLATFORM_LEASES_LEASING_CONTROLLER_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "platform/leases/lease_options.h"

namespace snf {

using LeaseRequest = std::variant<Ask, Renew, GiveBack>;
using LeaseRequests = std::vector<LeaseRequest>;

// Theory of operation. What a controller asks for, by its load alone (SNF §7):
// at the end of each epoch, its mean load in it, or the present one if that is
// more, and the headroom. It gives back what it holds above that, the smallest
// leases first, so that it has one part of a unit at most to give. Within an
// epoch it asks again as soon as its load has used up half of the headroom. It
// renews its leases twice a term, and gives back at once what is revoked.
//
// A lease that was given back whole is remembered for a while: a grant of it
// may be under way.
//
// Worked example: units of 1 Gbit/s, headroom 10 %. After an epoch of 2 Gbit/s
// on average it asks for 2.2 units. If then flows add up to 2.1 Gbit/s, it asks
// for 2.31. After an epoch of 1.5 Gbit/s it keeps 1.65, and gives back the part
// of 0.31 and 0.35 of a whole one.
//
// A value; owner-thread only.
class LeasingController {
 public:
  LeasingController(const LeaseOptions& options, ControllerLife life)
      : options_(&options), life_(life) {}

  // What was measured since the last ResetFigures.
  struct Figures {
    double offered_bits = 0;
    double leased_bits = 0;  // that it could have served
    double short_bits = 0;   // of load above what it held
  };
  const Figures& figures() const { return figures_; }
  void ResetFigures() { figures_ = {}; }
  // Brings the figures up to now. The following calls do so, too.
  void Advance(Instant now);

  int64_t load_bps() const { return load_bps_; }
  // In 1/1024 of a unit.
  int64_t held() const { return held_; }

  void on_load(Instant now, int64_t change_bps, LeaseRequests& out);
  void on_epoch(Instant now, LeaseRequests& out);
  void on_grant(Instant now, const Grant& grant);
  void on_revoke(Instant now, const Revoke& revoke, LeaseRequests& out);
  void on_gone(Instant now, const Gone& gone);

 private:
  struct Held {
    int64_t share = 0;
    Instant given_back{};  // with a share of 0
  };

  int64_t SharesFor(int64_t load_bps, uint32_t headroom) const;
  void AskFor(int64_t shares, LeaseRequests& out);
  void GiveBackAbove(Instant now, int64_t shares, LeaseRequests& out);
  void Keep(Instant now, LeaseId lease, int64_t share, LeaseRequests& out);
  void Resize(std::map<LeaseId, Held>::iterator at, int64_t share);
  void RenewAll(Instant now, LeaseRequests& out);

  const LeaseOptions* options_;
  ControllerLife life_;
  int64_t load_bps_ = 0;
  int64_t held_ = 0;
  int64_t wanted_ = 0;
  uint64_t asks_ = 0;
  Instant since_{};  // of the figures
  Figures figures_;
  double epoch_bits_ = 0;
  Instant epoch_begin_{};
  Instant next_renewal_{};
  std::map<LeaseId, Held> leases_;
  std::set<std::pair<int64_t, LeaseId>> by_share_;  // none of 0
};

}  // namespace snf

#endif  // SNF_PLATFORM_LEASES_LEASING_CONTROLLER_H_
