// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LIVE_TRAFFIC_H_
#define SNF_PLATFORM_DAEMON_LIVE_TRAFFIC_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/packet/packet_info.h"
#include "base/time.h"
#include "platform/daemon/chains/chain_set.h"
#include "platform/daemon/group/group_traffic.h"
#include "platform/ports/address_table.h"
#include "platform/ports/frame_channel.h"
#include "platform/ports/packet_port.h"
#include "platform/ports/port_spec.h"
#include "platform/ports/returning_port.h"
#include "platform/ports/successor_port.h"
#include "platform/process/mailbox.h"
#include "platform/run/released_packet.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"

namespace snf {

// A port that another process receives from.
struct HandedPort {
  FrameChannel channel;
  PacketReceiver receiver;
};
// The place of a member of a group.
struct HandedPlace {
  std::vector<HandedPort> ports;
  std::vector<int> group_sockets;  // GroupTraffic::descriptors
};

// Theory of operation. Live traffic through a run in real time: a frame that
// comes in at one side is offered to the chains that run, and leaves at the
// other when they release it, with its Ethernet addresses. So to hosts and
// routers at both ends SNF is a piece of wire. ARP and frames without a flow
// go through, unless the chain filters or translates and cannot read it.
//
//   inside ─Receive─► Offer ─► ChainSet ───on_release─► Send ─► outside
//   inside ◄─Send──── on_release ◄─── ChainSet ◄─ Offer ◄─Receive─ outside
//
// Of several ports of a side, a packet leaves by the one where its receiver was
// last seen (AddressTable); by all of them, a copy each, if it was seen at none
// of these, or the packet is for a group of hosts, as ARP's questions. It never
// leaves at the side at which it came in. A frame whose receiver was last seen
// at the sender's side is filtered, as by a bridge (IEEE 802.1Q, §8.7): it is
// not offered to the chains, and counted (PortsFigures::filtered). So hosts at
// two ports of a side reach each other only by a router at the other side, as
// with isolated ports of a bridge. If another port of the side is up, a port
// whose interface is lost gets nothing.
//
//   Worked example: inside1=lan0, inside2=lan1, outside=wan0. An answer of ARP
//   comes in by lan1 from A, and leaves by wan0. What comes in by wan0 for A
//   now leaves by lan1 alone; a broadcast by lan0 and lan1.
//
// Of several ports of a side that have addresses (router.h), a packet leaves by
// the port whose routes have the longest prefix of its destination, the first
// of equals; without a route, by the first, which answers with an error.
//
// A port of both sides (GwlbPort) is the only one: everything leaves by it, and
// the port knows where to.
//
// A packet that an NF made came by no port: it leaves where a frame came from
// whose sender had its destination's address. If there was none, it leaves at
// the side opposite to its own sender's: so a health check, framed as a packet
// to a router of this process, leaves as that packet does. If neither address
// was seen, it is dropped and counted (PortsFigures::unrouted).
//
// A packet from the inside to an alias goes back to the inside (Egress), with
// its Ethernet addresses the other way round: its sender took them for those of
// the way out.
//
// Another process may take the place of this one, as of a newer program, while
// packets go through: each flow stays with the process that it began with.
// This one goes on to read, and passes on what no flow of its own wants, by a
// channel for each port; the other sends by sockets of its own. Once this one
// has no flows any more, the other reads on in the rings of the same sockets,
// from where this one has ended: so no packet is lost or repeated.
//
//   lan0 ─► ring ─► this process ─┬─ its flows ─► its chains ─► wan0
//             ┊                   └─ else ─channel─► the other ─► wan0
//             └┄┄ later ┄┄► the other
//
// Ports that route also give the other process the neighbours that they know,
// and each frame that says a link address (RoutedPort). This process ends only
// after the last packet that waits for a neighbour.
//
// Where the controllers that share the ports, or have ports on several
// machines, are a group, GroupTraffic says which frames are for this one.
//
// A packet's time is when the kernel took it from the interface: so its latency
// and its flowlets do not depend on how late it was read here.
//
// Owner-thread only.
class LiveTraffic final : public RunObserver {
 public:
  // Opens the ports, which CheckPorts has found right. If there is a notice,
  // they outlive their interfaces (ReturningPort). Errors are those of
  // PacketPort::Open.
  static absl::StatusOr<std::unique_ptr<LiveTraffic>> Open(
      const std::vector<PortSpec>& ports,
      const ReturningPort::Notice& notice = nullptr);

  // Opens the ports of a process that takes the place of another. They are to
  // be given what they receive by, in their order, before Run. Error: also
  // FailedPrecondition, a port is of a kind that cannot be handed on.
  static absl::StatusOr<std::unique_ptr<LiveTraffic>> OpenAsSuccessor(
      const std::vector<PortSpec>& ports, const ReturningPort::Notice& notice);
  // `ask_to_end` tells the process before that this one is to end.
  void TakeOver(std::vector<HandedPort> ports,
                std::function<void()> ask_to_end);
  // From now on passes on what the chains do not take. Errors:
  // FailedPrecondition, a port cannot; those of FrameChannel. Then nothing has
  // changed.
  absl::StatusOr<std::vector<HandedPort>> HandOn();
  bool has_handed_on() const { return !channels_.empty(); }
  // If the successor has ended, this process takes all packets as before.
  void LookAtSuccessor(ChainSet& chains);
  // The same of a member of a group, whose place and flows go to that process
  // by the connection (PlaceGiving): nothing is received meanwhile. Returns the
  // ports, and the sockets of the group. If it does not come about, the ports
  // are received from as before, and `told` is told. Errors: also
  // FailedPrecondition, this member's flows cannot go along.
  absl::StatusOr<HandedPlace> GivePlace(ChainSet& chains, int connection,
                                        std::function<void(bool is_gone)> told);
  bool is_of_group() const { return group_ != nullptr; }

  // Goes by the table of a group from now on. Call it before Run.
  void Follow(std::unique_ptr<GroupTraffic> group);
  // Adds figures of the group, if there is one.
  void AddGroup(LiveFigures& figures) const;
  // Has frames of several packets cut even if the chains take them whole.
  void CutMerged() { keeps_merged_ = false; }

  // Takes packets until `interrupted` is set, or a port or a chain fails.
  // What had come by then is offered. Letters in the mailbox, which may be
  // null, are opened between batches. An error is that of a port.
  absl::Status Run(ChainSet& chains, const std::atomic<bool>& interrupted,
                   Mailbox* mailbox = nullptr);
  // What Run is made of, for who has a loop of its own: starts their
  // clock.
  static void Begin(ChainSet& chains);
  // Takes some of what has come, and sends what is released. Returns false if
  // there was nothing to do.
  bool Turn(ChainSet& chains);
  // Sends what ChainSet::Finish has released. Call it last.
  void Finish();

  void on_release(const ReleasedPacket& packet) override;

  // Returns the figures of all ports; they change as the run goes on.
  const PortsFigures& figures() const { return figures_; }
  // Returns a violation if packets of the chains and those of the ports do not
  // add up; "" if they do.
  std::string WhatDoesNotAddUp(const RunResult& result,
                               const std::vector<EarlierChain>& earlier) const;
  // Returns a line for each reason for which a port refused packets or did not
  // send them: "port both: 3 no_cookie".
  std::vector<std::string> reasons() const;
  // Returns what there is to say about the ports at the beginning, a line each.
  std::vector<std::string> notes() const;

 private:
  // A port, and its side.
  struct Place {
    Side side;
    std::unique_ptr<PacketPort> port;
  };

  struct Leaving {
    std::span<const std::byte> bytes;
    uint16_t segment_bytes;  // ParsedPacket::segment_bytes
  };

  LiveTraffic() = default;
  bool has_one_port() const { return places_.size() == 1; }
  bool Receive(ChainSet& chains);
  bool ReceiveAtPorts(ChainSet& chains);
  bool ReceiveFromGroup(ChainSet& chains);
  // Takes the frames that wait after StopReceiving.
  void Drain(ChainSet& chains);
  void SettleHeirs(ChainSet& chains);
  void LeaveGroup(ChainSet& chains);
  void TurnGiving(ChainSet& chains);
  // A turn that takes frames from other members alone. Returns true if it did
  // anything.
  bool TurnWithoutPorts(ChainSet& chains);
  void TurnHeirs(ChainSet& chains);
  // Returns the driver whose flows the group's heirs get; null if there is
  // none.
  RealDriver* DriverOfHeirs(ChainSet& chains) const;
  // If `steers` is false, ports stay: to steer one would open it again.
  void FollowGroup(bool steers);
  void KeepMerged(bool keep);
  void Flush();
  void Offer(ChainSet& chains, size_t port, const PortFrame& frame,
             Instant came, const FlowHeirs::Way& way = {});
  void PassOn(ChainSet& chains, size_t port, const PortFrame& frame);
  // Gives the successor a frame, if there is one.
  void SendToSuccessor(ChainSet& chains, size_t port, const PortFrame& frame);
  // Returns true once all work that is left is that of a live successor.
  bool IsSucceeded(ChainSet& chains);
  bool has_predecessor() const;
  void AwaitPredecessor(ChainSet& chains);
  static void Send(PacketPort& port, const Leaving& frame);
  void SendTo(Side side, const Leaving& frame);
  PacketPort& RoutedPortOf(Side side, std::span<const std::byte> frame) const;
  void SendToAll(Side side, const Leaving& frame);
  void SendToReceiver(const Leaving& frame);
  void SendBack(const Leaving& frame);
  // The frame came in by this port. Returns true if its receiver is at the same
  // side.
  bool StaysAtItsSide(size_t port, std::span<const std::byte> frame) const;
  bool IsFromInside(std::span<const std::byte> frame) const;
  void WaitForFrames(ChainSet& chains);
  bool has_frames() const;
  // Returns false while frames are to wait.
  bool may_receive(const ChainSet& chains) const;
  // Looks for frames as long as --busy_poll says, but no longer than `most`.
  // Returns true as soon as there are some.
  bool PollForFrames(Nanos most) const;
  void UpdateFigures();
  absl::Status status() const;

  std::vector<Place> places_;
  bool keeps_merged_ = true;  // where the chains take them
  bool are_kept_ = false;     // now, at the ports
  Nanos idle_wait_;           // the next wait while nothing happens
  AddressTable addresses_;    // its ports are those of places_
  bool routes_ = false;       // ports have addresses
  PortsFigures figures_;
  Instant next_update_ = Instant::min();
  std::unique_ptr<GroupTraffic> group_;  // may be null
  uint64_t offered_ = 0;
  Instant last_came_ = Instant::min();
  std::vector<FrameChannel> channels_;      // by port, after HandOn
  uint64_t passed_on_ = 0;                  // packets, also those lost there
  std::vector<SuccessorPort*> successors_;  // by port, until TakeOver
  std::function<void()> ask_to_end_;
  ReturningPort::Notice notice_;
  std::vector<std::byte> turned_;  // the last frame that went back inside
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LIVE_TRAFFIC_H_
