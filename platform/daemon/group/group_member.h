// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_GROUP_MEMBER_H_
#define SNF_PLATFORM_DAEMON_GROUP_GROUP_MEMBER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/outage.h"
#include "base/time.h"
#include "resource_manager/core/gateway_group.h"

namespace snf {

// This process as a member of a group, as the path of packets sees it. Tests
// have one without etcd; GroupMembership is the real one.
class GroupMember {
 public:
  // The table, and what this process may do by it; all of one moment.
  struct View {
    std::shared_ptr<const GatewayTable> table;  // not null
    bool is_in = false;
    bool is_active = false;
    uint64_t joined = 0;  // the epoch of the table with which it joined
    Instant vouched_until = Instant::min();  // of GroupMembership::Now()
  };

  GroupMember() = default;
  virtual ~GroupMember() = default;
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  // Joins from now on.
  virtual void Begin() = 0;
  // Begins to leave, without waiting.
  virtual void Leave() = 0;
  // Gives the membership to another process: this one does not leave, and
  // writes no more beats; one that is under way may still be written. Returns
  // nothing, and changes nothing, if this member may handle no packets, or
  // if the table has another epoch.
  virtual std::optional<GatewayGroup::Place> HandOn(uint64_t /*epoch*/) {
    return std::nullopt;
  }
  virtual View Current() const = 0;
  // The path of packets says that it turns, and by which epoch.
  virtual void OnTurn(uint64_t epoch) = 0;
  // Another member says that this one is not in the table of that epoch.
  virtual void OnOut(uint64_t epoch) = 0;
  virtual const std::string& group() const = 0;
  virtual Outage::State etcd() const { return {}; }
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_GROUP_MEMBER_H_
