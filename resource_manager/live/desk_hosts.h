// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_DESK_HOSTS_H_
#define SNF_RESOURCE_MANAGER_LIVE_DESK_HOSTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "proto/leases.pb.h"
#include "resource_manager/core/resource_manager.h"
#include "resource_manager/core/unit_sites.h"
#include "resource_manager/live/member_file.h"

namespace snf {

// Places the units of a resource manager on hosts (UnitSites): closes units
// whose hosts have left, and opens units on hosts that have room, once the
// notes have the hosts of these units. Owner-thread only.
class DeskHosts {
 public:
  // Each is called from Place.
  struct Calls {
    // Writes the notes, with sites(). Returns the error of that.
    std::function<absl::Status()> note;
    // Tells all members the hosts, by word().
    std::function<void()> tell;
    // Executes the core's commands.
    std::function<void()> execute;
  };
  DeskHosts(uint32_t units, Calls calls)
      : calls_(std::move(calls)), sites_(units) {}

  // Takes over a site of the notes. Before Place.
  void Restore(const MemberFile::Site& site);
  // Sets the hosts that have joined, in the order in which they are filled.
  void Set(std::vector<UnitHost> hosts) { joined_ = std::move(hosts); }
  // The core is a new one: no unit is opened before Place.
  void Close(Instant now, ResourceManager& core, ManagerOut& out);
  // Closes and opens units. Not while the core recovers.
  void Place(Instant now, ResourceManager& core, ManagerOut& out);

  // Returns the hosts of units; none if they are not known, or not noted, yet.
  std::optional<proto::ToMember> word() const;
  std::vector<MemberFile::Site> sites() const;
  // Counts the units whose shares may be given.
  uint32_t placed() const;
  // Returns the name of the unit's host; "" if there is none.
  std::string HostOf(uint32_t unit) const;

 private:
  void TakeIn(const ResourceManager& core);
  void Say(Instant now, bool are_placed, ResourceManager& core,
           ManagerOut& out);

  const Calls calls_;
  UnitSites sites_;
  std::optional<std::vector<UnitHost>> joined_{};  // not taken in yet
  bool is_known_ = false;                          // some were taken in
  bool is_noted_ = true;
  Instant next_note_;  // if one has failed
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_DESK_HOSTS_H_
