// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_GROUP_TRAFFIC_H_
#define SNF_PLATFORM_DAEMON_GROUP_GROUP_TRAFFIC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/packet/fragment_table.h"
#include "platform/daemon/group/flow_heirs.h"
#include "platform/daemon/group/group_link.h"
#include "platform/daemon/group/group_member.h"
#include "platform/daemon/group/place_giving.h"
#include "platform/ports/frames/filter_program.h"
#include "platform/ports/packet_port.h"
#include "platform/ports/steering.h"
#include "platform/run/figures/live_figures.h"

namespace snf {

// Theory of operation. Has live traffic go by the table of a group: frames that
// come to the ports of this process go to the chains if their hosts are this
// member's (Steering).
//
// If members share the ports of one machine, the filter at each port follows
// the table, and lets in nothing while this member may not handle its hosts.
// When the filter changes, frames of the filter before wait in a port's ring.
// Until the port was seen empty, frames are dropped whose hosts have become
// another member's: so a table holds for all frames as soon as Turn has taken
// it. When a member has joined again, all frames that wait are dropped first.
//
// If each member has ports of its own, all frames come in, and frames of
// another member's hosts are sent to it (GroupLink). A frame from another
// member is taken if its hosts are this member's, else dropped: no frame is
// sent on twice, whatever tables the two have. A later fragment goes where its
// first one went.
//
//   port ─► own? ─► chains ─► port of this machine
//            └ no ─► GroupLink ┈┈► the other member: own? ─► its chains
//
// A flow of own hosts may be another member's, since it began there
// (FlowHeirs::Aside). Its frames are set aside: sent to that member, and back
// if the flow is over, also between members that share ports. That is bounded:
// who gets such a frame sends it nowhere but back, and a frame that came back
// nowhere.
//
// While a member is not vouched for, frames at shared ports wait; once it finds
// itself out of the table, they are dropped. At ports of its own, it sends
// other members their frames, and drops its own.
//
// Owner-thread only.
class GroupTraffic {
 public:
  // `ports` are the run's, in their order. If they have filters
  // (PortSpec::steering), or there is no link, the ports are shared. Without
  // `heirs`, flows end with their controller.
  GroupTraffic(GroupMember& member, std::shared_ptr<const Steering> steering,
               std::unique_ptr<GroupLink> link,
               const std::vector<PortSpec>& ports,
               std::unique_ptr<FlowHeirs> heirs = nullptr);

  // The following give the member's place to another process (PlaceGiving), and
  // let that process continue. Error: FailedPrecondition, flows are on their
  // way from or to another member, or it may handle no packets.
  absl::Status CheckGiving() const;
  void GivePlace(int connection, std::function<void(bool is_gone)> told) {
    giving_ = std::make_unique<PlaceGiving>(connection, member_, *heirs_,
                                            std::move(told));
  }
  // Null if the place is not being given, and was not.
  PlaceGiving* giving() { return giving_.get(); }
  void EndGiving() { giving_.reset(); }
  // Acts by the table of the process before: no frames are dropped that it had
  // not read. Call it first.
  void Continue();
  // Returns the sockets for others' frames and states, in this order.
  std::vector<int> descriptors() const;

  // Joins the table from now on.
  void Begin() { member_.Begin(); }
  void Leave() { member_.Leave(); }
  // Returns true while the table has this member, as of the last turn.
  bool is_in() const { return view_.is_in; }
  // Brings it up to date with the table: call it at each turn, before frames
  // are taken. Returns the steering by which all ports are to filter from now
  // on; null if it is as it was.
  std::shared_ptr<const Steering> Turn();
  // To be told after the ports filter so. While flows are given to a member,
  // that member must not begin.
  void OnTurned() {
    if (heirs_ == nullptr || !heirs_->is_giving()) told_ = view_.table->epoch;
    member_.OnTurn(told_);
  }
  // To be told after each look at a port, and whether it had frames.
  void OnReceived(size_t port, bool has_received);

  // Returns false while frames are to wait.
  bool may_receive() const {
    if (giving_ != nullptr || (heirs_ != nullptr && heirs_->is_continuing())) {
      return false;
    }
    return has_own_ports_ || !view_.is_active || drains_ || is_vouched_;
  }
  // Returns true if the chains are to get the frame that came by the port. Else
  // it was sent to its member, or dropped, and counted.
  bool Admits(size_t port, const PortFrame& frame, Instant now);
  // Sends a frame, which came by the port with that place or from a member, to
  // the member that is to get it.
  void SetAside(size_t port, const PortFrame& frame,
                const FlowHeirs::Aside& aside);
  // Gives frames that other members have sent, with the port's place: for each
  // about as many as a port gives. Returns false if nothing has come.
  using Take = absl::FunctionRef<void(size_t port, const PortFrame& frame,
                                      const FlowHeirs::Way& way)>;
  bool Receive(Take take);
  void Flush();

  // Another process has the place: states of others go there from now on.
  void StopStates() {
    if (heirs_ != nullptr) heirs_->StopLink();
  }
  // Null if flows end with their controller.
  FlowHeirs* heirs() { return heirs_.get(); }
  bool has_own_ports() const { return has_own_ports_; }
  // Returns true if a frame of another member waits. Costs a system call.
  bool has_frames() const { return link_ != nullptr && link_->has_frames(); }
  int descriptor() const { return link_ == nullptr ? -1 : link_->descriptor(); }
  const GroupCounts& counts() const { return counts_; }
  LiveFigures::Group figures() const;
  // Adds them, and how etcd answers.
  void AddTo(LiveFigures& all) const {
    all.group = figures();
    TakeLonger(member_.etcd(), all.etcd);
  }

 private:
  struct Port {
    Side side;
    uint32_t number;
    std::vector<FilterStep> places;
    // The ring may hold frames that an earlier filter let in.
    bool is_stale = false;
  };

  void Follow(const GroupMember::View& view);
  void StaleAll();
  void Greet();
  bool IsVouchedFor() const;
  bool may_handle() const { return view_.is_active && is_vouched_; }
  uint32_t PlaceOf(const Port& port, std::span<const std::byte> frame) const {
    return ResultOf(port.places, frame) - 1;
  }
  // Returns true if the frame's place is this member's. FragmentGate and
  // OwnerOfLater know the owners of later fragments, which count as own.
  bool IsOwn(const Port& port, std::span<const std::byte> frame) const;
  bool AdmitsOfShared(const Port& port, std::span<const std::byte> frame);
  bool AdmitsOfAll(const Port& port, const PortFrame& frame, Instant now);
  bool SendOn(uint32_t to, GroupLink::Frame frame, GroupCount count);
  bool SendOne(uint32_t to, const GroupLink::Frame& frame);
  bool MayTake(const Port& port, const GroupLink::Frame& frame) const;
  // Returns who has the datagram of a later fragment; kNobody: it is not known.
  uint8_t OwnerOfLater(std::span<const std::byte> frame, Instant now) const;
  void Remember(std::span<const std::byte> frame, uint8_t owner, Instant now);
  void TakeFrom(const GroupLink::Frame& frame, Take take);
  bool Drop(GroupCount why) {
    counts_.Add(why);
    return false;
  }

  GroupMember& member_;
  const std::shared_ptr<const Steering> steering_;
  const std::unique_ptr<GroupLink> link_;
  const bool has_own_ports_;
  const std::unique_ptr<FlowHeirs> heirs_;
  std::unique_ptr<PlaceGiving> giving_;
  std::vector<Port> ports_;
  GroupMember::View view_;
  bool is_vouched_ = false;  // as of the last turn
  uint64_t told_ = 0;        // the epoch of which the member was told
  MemberSet live_ = 0;
  Steering::Owners owners_{};
  // The live members by which the ports filter; nothing before the first turn.
  std::optional<MemberSet> filtered_;
  Instant next_greeting_ = Instant::min();
  bool drains_ = false;  // what waits in the rings is dropped
  // Datagrams to external addresses whose first fragment has come: the owner's
  // number stands in Flow::first_bytes. With a link.
  std::optional<FragmentTable> begun_;
  GroupCounts counts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_GROUP_TRAFFIC_H_
