// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_FLOW_HEIRS_H_
#define SNF_PLATFORM_DAEMON_GROUP_FLOW_HEIRS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/messages/messages.h"
#include "base/rendezvous.h"
#include "base/time.h"
#include "controller/hand_over/flow_sweep.h"
#include "controller/hand_over/standby_flows.h"
#include "platform/daemon/group/away_flows.h"
#include "platform/daemon/group/flow_returns.h"
#include "platform/daemon/group/group_member.h"
#include "platform/daemon/group/host_homes.h"
#include "platform/daemon/group/member_flows.h"
#include "platform/daemon/group/returned_flows.h"
#include "platform/daemon/group/state_link.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/run/run.h"
#include "resource_manager/core/gateway_group.h"
#include "traces/capture_reader.h"

namespace snf {

// Theory of operation. Lets flows of a group outlive their controller
// (proto/protocol.md H5 to H7). Each member has an heir, the next live member
// by number, to which it sends the states of its flows again and again
// (FlowSweep, StateLink); and it keeps the states of others (StandbyFlows). If
// a member dies, packets of its hosts come to its heir. The first packet of
// each flow takes the flow out of the kept ones, and then finds it among the
// heir's own.
//
//   own flows ─FlowSweep─► StateLink ┈┈► the heir
//   others    ┈┈► StateLink ─► StandbyFlows ─Meet: a packet comes─► own flows
//
// Once the member is back, it gets all of its flows before it handles packets,
// and says that it has them. Meanwhile nothing goes to the own heir.
//
//   own flows of the member ─FlowReturns─► StateLink ┈┈► ReturnedFlows
//
// A flow that began here while the home of its hosts was away has the home's
// places, too. But pieces of pools, as ports of a NAT, are this member's: a
// flow with such pieces stays here. The home is told, and sends the flow's
// packets from its hosts here (AwayFlows, H8).
//
// Owner-thread only: the thread that takes packets.
class FlowHeirs {
 public:
  // How a packet came here.
  struct Way {
    enum class Kind : uint8_t {
      kOwner,   // its hosts are this member's
      kHolder,  // its flow is this one's: `from` sent it, whose the hosts are
      kBack,    // as kOwner: the holder does not have its flow any more
    };
    Kind kind = Kind::kOwner;
    uint32_t from = 0;
  };
  // A packet that another member is to get.
  struct Aside {
    uint32_t to = 0;
    uint32_t home = 0;  // whose pieces its flow has
    bool is_back = false;
    friend bool operator==(const Aside&, const Aside&) = default;
  };

  // `self` is the own number in the table. If `hosts` knows no homes, flows
  // that begin here end here.
  FlowHeirs(std::unique_ptr<StateLink> link, uint32_t self,
            const StandbyFlows::Options& options, HostHomes hosts = {})
      : link_(std::move(link)),
        self_(self),
        hosts_(std::move(hosts)),
        standby_(options),
        away_(options.idle_timeout),
        returns_(self, *link_, standby_, away_, hosts_),
        returned_(options),
        moves_(returns_, self) {}

  // Goes by this table from now on. A process that is not in it sends nothing.
  void Follow(const GroupMember::View& view);
  // This member may handle packets, or not: while it may not, its flows come
  // back.
  void set_active(bool is_active);
  // Returns true while a member that has come back waits for its flows.
  bool is_giving() const { return returns_.to().has_value(); }
  // Returns true if no flows are on their way from or to another member.
  bool is_settled() const {
    return returns_.is_done() && came_.empty() && taken_.empty() &&
           returned_.is_done();
  }

  // The following move all flows to another process (MemberFlows): first all
  // flows that run here, then copies. Move returns true once it has given all.
  void BeginMove(const RealDriver& driver, MemberFlows::Give give) {
    moves_.Begin(driver.controller(), std::move(give));
  }
  bool Move(RealDriver& driver, size_t room);
  void EndMove() { moves_.End(); }
  uint64_t lost_in_move() const { return moves_.lost(); }
  // Called in that process, before the first turn. `lost` flows did not come
  // along.
  void Continue(std::vector<StateLink::Received> flows, uint64_t lost) {
    moved_ = std::move(flows);
    lost_ = lost;
    is_continuing_ = true;
  }
  // Returns true until these flows are here, or given up: packets wait.
  bool is_continuing() const { return is_continuing_; }
  // The table by which flows go.
  uint64_t epoch() const { return table_ == nullptr ? 0 : table_->epoch; }
  void StopLink() { link_->Stop(); }
  int states_descriptor() const { return link_->descriptor(); }

  // Sends changed flows, and takes messages. Call it at each turn. The driver,
  // whose flows are sent, may be null; the flows of another driver are all sent
  // again.
  void Turn(RealDriver* driver, Instant now);
  // A packet is about to be offered to the driver: takes its flow, if that was
  // a dead member's. If it returns something, another member is to get the
  // packet, and the driver is not.
  std::optional<Aside> Meet(RealDriver& driver, const CapturedPacket& packet,
                            const Way& way) {
    has_flows_ = true;
    if (!looks_ && way.kind == Way::Kind::kOwner) [[likely]]
      return std::nullopt;
    return Look(driver, packet, way);
  }

  // Counts how often all flows were looked at.
  uint64_t sweeps() const { return sweep_.sweeps(); }
  // Returns true while the heir may lack what flows ran before that sweep.
  bool IsBehind(uint64_t sweep) const {
    return link_->round() != 0 && (sweeps() < sweep || sweep_.behind() > 0 ||
                                   away_.untold() > 0 || link_->unsent() > 0);
  }

  std::vector<NamedCount> named() const;
  // As StateLink::WhyNotSent.
  std::string WhyNotSent() const { return link_->WhyNotSent(); }

 private:
  // To whom messages go.
  struct Target {
    std::optional<uint32_t> to{};
    bool is_heir = false;
    friend bool operator==(const Target&, const Target&) = default;
  };
  // All flows came by that connection.
  struct Taken {
    uint32_t by = 0;  // who waits for the answer
    uint64_t round = 0;
    uint64_t said_in = 0;  // round of the own connection
    Instant until = Instant::max();
  };

  void Connect();
  void SayTaken();
  void DropExpired();
  void Send(RealDriver& driver, Instant now);
  void OnState(const Controller& controller, const State& state,
               std::span<const std::byte> record);
  void Receive(Instant now, size_t most);
  bool TakeMessage(Instant now, const StateLink::Received& message);
  bool TakeRound(const StateLink::Received& message);
  bool TakeCopy(Instant now, const StateLink::Received& message);
  bool TakeAway(Instant now, const StateLink::Received& message);
  std::optional<uint32_t> OwnerOf(uint32_t home) const {
    return Has(live_, home) ? std::optional(home) : NextMember(home, live_);
  }
  std::optional<Aside> Look(RealDriver& driver, const CapturedPacket& packet,
                            const Way& way);
  std::optional<Aside> HolderOf(const RealDriver& driver,
                                const CapturedPacket& packet,
                                const FlowKey& key);
  void Inherit(RealDriver& driver, const CapturedPacket& packet,
               const KnownFlows::Sought& sought);
  void NoteBegun(const RealDriver& driver);
  void TakeMoved();
  void SettleTaken(RealDriver& driver);
  void UpdateHeritage();

  const std::unique_ptr<StateLink> link_;
  const uint32_t self_;
  const HostHomes hosts_;
  FlowSweep sweep_;
  StandbyFlows standby_;
  AwayFlows away_;
  FlowReturns returns_;
  ReturnedFlows returned_;
  MemberFlows moves_;
  std::vector<StateLink::Received> moved_;  // that are still to be taken
  bool is_continuing_ = false;
  uint64_t came_along_ = 0;  // flows and copies of the process before
  uint64_t lost_ = 0;        // flows that it could not give
  const RealDriver* driver_ = nullptr;  // whose flows are sent
  uint64_t round_ = 0;        // of the connection for which the sweep began
  uint64_t sweep_round_ = 0;  // grows with each beginning of the sweep
  std::shared_ptr<const GatewayTable> table_;
  bool is_in_ = false;
  bool is_active_ = false;
  MemberSet live_ = 0;
  Target target_;
  // Several members may give, after deaths of one after the other.
  std::vector<Taken> came_;  // all flows have come
  std::deque<Taken> taken_;  // and were taken: the first one is told
  // The sender and the round of flows that are not for this member, by its
  // table: it does not say that it has taken that round.
  std::optional<std::pair<uint32_t, uint64_t>> refused_;
  Instant now_ = Instant::min();        // of the last turn
  Instant next_drop_ = Instant::min();  // of expired flows
  bool has_pools_ = false;              // the driver's NF
  bool has_heritage_ = false;           // a dead member's flows are kept
  bool has_away_ = false;               // of hosts that are here now
  bool begins_ = false;     // flows that begin here may be another home's
  bool looks_ = false;      // any of these: packets are looked at
  bool has_flows_ = false;  // here, or knows of some
  // Flows that begin, and their homes: the driver may have them by the next
  // turn.
  struct Begun {
    FlowKey key;
    uint32_t home = 0;
    bool was_sought = false;
  };
  std::vector<Begun> begun_;
  Instant next_settling_ = Instant::min();
  uint64_t given_up_ =
      0;  // flows of the driver, when no taken flow was awaited
  uint64_t sent_ = 0;
  uint64_t ended_ = 0;
  uint64_t too_long_ = 0;  // states that were not sent
  uint64_t malformed_ = 0;
  uint64_t untaken_ = 0;  // copies that no unit can take
  uint64_t put_off_ = 0;  // tries to take a copy for which there was no room
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_FLOW_HEIRS_H_
