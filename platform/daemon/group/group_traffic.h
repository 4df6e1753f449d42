// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_GROUP_TRAFFIC_H_
#define SNF_PLATFORM_DAEMON_GROUP_GROUP_TRAFFIC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/packet/fragment_table.h"
#include "platform/daemon/group/group_counts.h"
#include "platform/daemon/group/group_link.h"
#include "platform/daemon/group/group_membership.h"
#include "platform/ports/filter_program.h"
#include "platform/ports/packet_port.h"
#include "platform/ports/steering.h"
#include "platform/run/figures/live_figures.h"

namespace snf {

// Theory of operation. Has live traffic go by the table of a group: frames that
// come to the ports of this process go to the chains if their hosts are this
// member's (Steering).
//
// Where members share the ports of one machine, the filter at each port follows
// the table, and lets in nothing while this member may not handle its hosts.
// What waits in the ports' rings when a member has joined again was let in
// under an earlier table, and is dropped first.
//
// Where each member has ports of its own, all frames come in, and frames of
// another member's hosts are sent to it (GroupLink). A frame from another
// member is taken if its hosts are this member's, else dropped: no frame is
// sent on twice, whatever tables the two have. A later fragment goes where its
// first one went.
//
//   port ─► own? ─► chains ─► port of this machine
//            └ no ─► GroupLink ┈┈► the other member: own? ─► its chains
//
// While a member is not vouched for, frames wait; once it finds itself out of
// the table, they are dropped.
//
// Owner-thread only.
class GroupTraffic {
 public:
  // `link` is null if the ports are shared. `ports` are the run's, in their
  // order.
  GroupTraffic(GroupMembership& membership,
               std::shared_ptr<const Steering> steering,
               std::unique_ptr<GroupLink> link,
               const std::vector<PortSpec>& ports);

  // Joins the table from now on.
  void Begin() { membership_.Begin(); }
  void Leave() { membership_.Leave(); }
  // Brings it up to date with the table: call it at each turn, before frames
  // are taken. Returns the steering by which all ports are to filter from now
  // on; null if it is as it was.
  std::shared_ptr<const Steering> Turn();
  // To be told after the ports filter so, and whether frames had come in the
  // last turn.
  void OnTurned();
  void OnReceived(bool has_received);

  // Returns false while frames are to wait.
  bool may_receive() const { return may_receive_; }
  // Returns true if the chains are to get the frame that came by the port. Else
  // it was sent to its member, or dropped, and counted.
  bool Admits(size_t port, const PortFrame& frame, Instant now);
  // Gives frames that other members have sent, with the port's place. Returns
  // false if nothing has come.
  using Take = absl::FunctionRef<void(size_t port, const PortFrame& frame)>;
  bool Receive(Take take);
  void Flush();

  bool has_link() const { return link_ != nullptr; }
  int descriptor() const { return link_ == nullptr ? -1 : link_->descriptor(); }
  const GroupCounts& counts() const { return counts_; }
  LiveFigures::Group figures() const;

 private:
  struct Port {
    Side side;
    uint32_t number;
    std::vector<FilterStep> places;
  };

  void Follow(const GroupMembership::View& view);
  void Greet();
  bool IsVouchedFor() const;
  uint32_t PlaceOf(const Port& port, std::span<const std::byte> frame) const {
    return ResultOf(port.places, frame) - 1;
  }
  bool AdmitsOfAll(size_t port, const PortFrame& frame, Instant now);
  // Returns who has the datagram of a later fragment; kNobody: it is not known.
  uint8_t OwnerOfLater(std::span<const std::byte> frame, Instant now) const;
  void Remember(std::span<const std::byte> frame, uint8_t owner, Instant now);
  void TakeFrom(const GroupLink::Frame& frame, Take take);
  bool Drop(GroupCount why) {
    counts_.Add(why);
    return false;
  }

  GroupMembership& membership_;
  const std::shared_ptr<const Steering> steering_;
  const std::unique_ptr<GroupLink> link_;
  std::vector<Port> ports_;
  GroupMembership::View view_;
  Steering::Owners owners_{};
  MemberSet filtered_ = 0;  // the live members by which the ports filter
  bool is_filter_old_ = true;
  Instant next_greeting_ = Instant::min();
  bool drains_ = false;  // what waits in the rings is dropped
  bool may_receive_ = false;
  // By owner: datagrams to external addresses whose first fragment went there.
  // With a link.
  std::vector<FragmentTable> begun_;
  GroupCounts counts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_GROUP_TRAFFIC_H_
