// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_FLOW_RETURNS_H_
#define SNF_PLATFORM_DAEMON_GROUP_FLOW_RETURNS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/rendezvous.h"
#include "base/time.h"
#include "controller/hand_over/flow_giving.h"
#include "controller/hand_over/standby_flows.h"
#include "platform/daemon/group/away_flows.h"
#include "platform/daemon/group/away_list.h"
#include "platform/daemon/group/group_member.h"
#include "platform/daemon/group/held_homes.h"
#include "platform/daemon/group/host_homes.h"
#include "platform/daemon/group/state_link.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. Gives flows of other members back, once these have come
// back (proto/protocol.md H7): copies that no packet has taken, and flows that
// go on here, each as soon as its unit has run all of its packets (FlowGiving).
// The member says that it has all; then the flows are deleted here. Members
// that have come back at one time get their flows one after the other.
//
//   copies ───────────────────────┬─► StateLink ┈┈► the member (ReturnedFlows)
//   flows taken ──────FlowGiving─►┤
//   keys of flows that stay ──────┘
//
// A member that does not answer is given up after kMost. If it ends meanwhile,
// the flows stay here, as before. If the connection breaks, all flows are given
// again. Copies of flows that were given are kept for
// kMost: if the member ends before its heir has copies of them, they go on
// here.
//
// Owner-thread only. Memory: 16 bytes for each taken flow.
class FlowReturns {
 public:
  static constexpr Nanos kMost = Seconds(5);

  // All references must outlive the object.
  FlowReturns(uint32_t self, StateLink& link, StandbyFlows& copies,
              AwayFlows& away, const HostHomes& hosts)
      : self_(self),
        link_(link),
        copies_(copies),
        away_(away),
        hosts_(hosts),
        homes_(self),
        staying_(hosts) {}

  // Goes by this table from now on. `may_begin`: flows may have begun here that
  // are another home's, or its hosts'.
  void Follow(const GroupMember::View& view, Instant now, bool may_begin);
  // Returns the member that gets flows now; nothing if none does.
  std::optional<uint32_t> to() const {
    if (returns_.empty()) return std::nullopt;
    return returns_.front().move.to;
  }
  // The flow with that key, which runs here, has the places of that home: it
  // was taken, or began while its home was away. Returns false if there is no
  // such flow.
  bool OnFlowOf(uint32_t home, const RealDriver& driver, const FlowKey& key);
  // Returns the homes, without the own one, whose flows are here.
  MemberSet here() const { return homes_.here(); }
  // From now on, flows with other homes' hosts stay here (H8), or not.
  void set_stay(bool stay) { stay_ = stay; }
  // Returns whose places the flow has.
  uint32_t HomeOf(FlowId flow) const {
    auto found = inherited_.find(flow);
    if (found != inherited_.end()) return found->second;
    found = left_.find(flow);
    return found == left_.end() ? self_ : found->second;
  }
  // Returns true if no flow is being given, or waits to be deleted here, and no
  // copy of a flow that was given is kept.
  bool is_done() const {
    return returns_.empty() && leaving_.empty() && kept_.empty();
  }
  // Another driver has the flows from now on; flows of the earlier one stay
  // there until they end.
  void ForgetInherited() {
    inherited_.clear();
    leaving_.clear();
    left_.clear();
  }
  // Gives flows, if the link is to that member, and deletes flows that were
  // given. Call it at each turn; the driver may be null.
  void Turn(RealDriver* driver, bool is_linked, Instant now);
  // A unit shows a state. Returns false if the flow is not to be given now.
  bool OnState(const Controller& controller, const State& state,
               std::span<const std::byte> record, Instant now);
  // The member says that it has the flows of that round.
  void OnTakenBy(uint32_t member, uint64_t round);

  // Appends states_given, states_ungiven.
  void AppendTo(std::vector<NamedCount>& counts) const;

 private:
  struct Return {
    HeldHomes::Move move;
    std::vector<StandbyFlow> copies;
    Instant kept_until = Instant::max();  // once they were taken
  };

  std::vector<FlowId> InheritedOf(MemberSet homes) const;
  // Returns true if the first return is among these.
  bool PutBack(MemberSet homes, Instant now);
  void PutBackKept(MemberSet gone, Instant now);
  void DropKept();
  void BeginFirst();
  void BeginRound(uint64_t round);  // 0: there is no connection
  void GiveSome(RealDriver& driver, Instant now);
  void NoteGiven(const FlowName& name, uint32_t home, MemberSet homes,
                 Instant now);
  bool TellStaying(const Controller& controller, size_t& room);
  void End(bool is_taken);
  void DropStrays();
  void DeleteSome(RealDriver& driver);

  const uint32_t self_;
  StateLink& link_;
  StandbyFlows& copies_;
  AwayFlows& away_;
  const HostHomes& hosts_;
  HeldHomes homes_;
  AwayList staying_;  // of which the member is told
  bool stay_ = false;
  // Flows of other homes that go on here, or have ended, and their homes.
  absl::flat_hash_map<FlowId, uint32_t> inherited_;
  size_t prune_at_ = 1'024;
  // Flows that are to be deleted here, and their homes.
  std::deque<std::pair<FlowId, uint32_t>> leaving_;
  absl::flat_hash_map<FlowId, uint32_t> left_;  // the same, by flow
  Instant next_delete_ = Instant::min();
  // Flows are given to the first one.
  std::deque<Return> returns_;
  std::deque<Return> kept_;                 // in the order of their ends
  std::vector<StandbyFlow> given_running_;  // in this round
  Instant until_ = Instant::max();          // of the monotonic clock
  FlowGiving giving_;
  uint64_t round_ = 0;   // of the connection by which flows are given
  uint64_t number_ = 0;  // of the round in which flows are given; grows
  size_t next_copy_ = 0;
  uint64_t sent_ = 0;           // flows in this round
  bool tells_staying_ = false;  // all copies were sent
  bool gives_running_ = false;  // and the member was told what stays
  bool has_sent_all_ = false;
  uint64_t given_ = 0;    // flows
  uint64_t ungiven_ = 0;  // flows that their member may not have got
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_FLOW_RETURNS_H_
