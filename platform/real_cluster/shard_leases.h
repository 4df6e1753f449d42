// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_CLUSTER_SHARD_LEASES_H_
#define SNF_PLATFORM_REAL_CLUSTER_SHARD_LEASES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "controller/leases/lease_keeper.h"
#include "platform/cluster/cluster_options.h"
#include "platform/real_cluster/lease_mail.h"
#include "platform/real_time/real_driver.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. The leases of one of several controllers that run in
// real time: asks the resource manager for shares by the load of the last
// 10 ms, and makes the controller's units what it holds. The controller's
// number of a unit is the unit's global one.
//
//   LeaseDesk ─grants─► mail ─► LeaseKeeper ─► RealDriver::Lease, Revoke
//       ▲                           │
//       └────asks, renewals─────────┘
//
// Owner-thread only, but for the mail and has_unit.
class ShardLeases {
 public:
  // The manager's mail must outlive the object.
  ShardLeases(const RunOptions& options, const ClusterOptions& cluster,
              ControllerLife life, ManagerMail& manager);

  ControllerMail& mail() { return mail_; }
  // The controller has a share of a unit. Any thread.
  bool has_unit() const { return has_unit_.load(std::memory_order_acquire); }

  // A packet came, of that cost in bytes.
  void on_packet(uint64_t bytes) { sampled_[sample_] += bytes; }
  // Does what is to be done by now. Returns true if there was anything. Not
  // before RealDriver::Begin.
  bool Poll(RealDriver& driver);

  uint64_t grants() const { return grants_; }
  int64_t share_max() const { return share_max_; }

 private:
  static constexpr size_t kSamples = 10;
  static constexpr Nanos kSample = Milliseconds(1);
  // A unit that the controller uses, or has not left yet.
  struct Used {
    bool is_used = false;
    UnitLife life;
    int64_t share = 0;
    std::vector<LeaseId> vacating{};
  };

  void Sample(Instant now);
  void Handle(const ToController& message, bool& at_once);
  void Execute(Instant now, RealDriver& driver, bool at_once);
  void SetShares(Instant now, RealDriver& driver, bool at_once);
  void SetShare(Instant now, RealDriver& driver, uint16_t unit, int64_t share,
                bool at_once);
  int64_t ShareByLeases(UnitLife life) const;

  int64_t least_bps_;
  LeaseKeeper keeper_;
  ManagerMail& manager_;
  ControllerMail mail_;
  LeaseCommands requests_;
  std::vector<Used> units_;                   // by number
  std::array<uint64_t, kSamples> sampled_{};  // bytes
  size_t sample_ = 0;
  Instant next_sample_ = Instant::min();
  std::atomic<bool> has_unit_{false};
  uint64_t grants_ = 0;
  int64_t share_max_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_CLUSTER_SHARD_LEASES_H_
