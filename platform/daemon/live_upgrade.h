// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LIVE_UPGRADE_H_
#define SNF_PLATFORM_DAEMON_LIVE_UPGRADE_H_

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/control/control_client.h"
#include "platform/daemon/chains/chain_set.h"
#include "platform/daemon/group/group_link.h"
#include "platform/daemon/group/place_giving.h"
#include "platform/daemon/live_traffic.h"
#include "platform/ports/port_spec.h"
#include "platform/process/mailbox.h"
#include "proto/control.pb.h"

namespace snf {

// Names the ports of a daemon, for another one that is to have the same.
struct UpgradePorts {
  std::vector<std::string> texts;  // as --port has them, in order
  // The place in a group; else Steering::text; "" if they are not shared.
  std::string steering;
  std::string group_nf{};  // the chain that a member of a group began with

  // `group` names the place in a group; "": there is none.
  static UpgradePorts Of(const std::vector<PortSpec>& ports,
                         const std::string& group, const std::string& nf);
};

// The place of a member of a group, for its successor (proto/protocol.md H9).
struct SucceededMember {
  ReceivedPlace received;
  std::unique_ptr<GroupLink> link{};  // null if ports are shared
  Descriptor states;                  // listens for others' states
};

// Theory of operation. A daemon takes the place of another one of its name
// while packets go through (LiveTraffic has what becomes of these):
//
//   the other (LiveSuccessor)              the old one (LivePredecessor)
//   listens at a socket of its own
//   Upgrade, by the control service ─────►
//              ◄─ kFiles: its lock, a channel and a receiver for each port ───
//              ◄─ the reply: rings, free pieces of pools ─────────────────────
//              ◄─ kClosed: nobody listens at the control socket any more ─────
//   listens there, and takes packets
//   kEnd, if it is told to end before ───►
//              ◄─ the channels' ends; kPieces: those that the old one had ────
//
// Each message is whole (SOCK_SEQPACKET), its first byte is its kind. If the
// other ends first, the old one listens again and goes on.
//
// A member of a group gives its flows as well, and ends then (PlaceGiving):
// kFiles has the group's sockets too, and other messages than kClosed are
// PlaceGiving's.
class LivePredecessor {
 public:
  struct Hooks {
    std::function<void()> close_server;  // waits for calls that are under way
    std::function<void()> open_server;   // again
    std::function<void()> end;           // as SIGTERM does
  };
  ~LivePredecessor();

  // Both must outlive the mailbox's end. `lock` is the daemon's lock.
  void Begin(LiveTraffic& traffic, ChainSet& chains, UpgradePorts ports,
             int lock, Hooks hooks);
  // Does what the call asks for; on any thread, one at a time.
  absl::Status Upgrade(Mailbox& mailbox, Mailbox::Deadline deadline,
                       const proto::UpgradeRequest& request,
                       proto::UpgradeReply& reply);
  // Returns once no call is under way. Call it after the mailbox's end, which
  // refuses later ones.
  void AwaitCall() { const std::scoped_lock lock(call_); }
  // Returns true if another daemon has its place.
  bool has_handed_on() const { return has_handed_on_; }
  // Returns once it is known whether another daemon has the place of a member
  // of a group. Call it after AwaitCall.
  void Join() {
    if (attends_.joinable()) attends_.join();
  }
  // All chains have ended: gives away what they had. Call it last.
  void End(ChainSet& chains);

 private:
  absl::Status Connect(const std::string& file);
  absl::Status HandOn(Nanos within, proto::UpgradeReply& reply);
  absl::StatusOr<HandedPlace> GivePlace();
  void Attend(std::promise<void> closed);
  bool AwaitEnd();

  std::mutex call_;  // held while a call is under way
  LiveTraffic* traffic_ = nullptr;
  ChainSet* chains_ = nullptr;
  UpgradePorts ports_;
  int lock_ = -1;
  Hooks hooks_;
  Descriptor connection_;
  std::thread attends_;
  std::future<void> is_closed_;  // the server is, and the other knows
  std::future<bool> is_gone_;    // the place in a group is; else it stays
  std::atomic<bool> has_handed_on_ = false;
  std::atomic<bool> ends_ = false;
};

class LiveSuccessor {
 public:
  // Listens at this file, which it removes again. Error: Unavailable.
  static absl::StatusOr<std::unique_ptr<LiveSuccessor>> Listen(
      const std::string& file);
  ~LiveSuccessor();

  // Takes the place of the daemon that the client asks; returns once nobody
  // listens at its sockets. Chains must not have begun. Errors, after which the
  // old one goes on: those of the call; Unavailable.
  absl::Status TakeOver(ControlClient& client, const UpgradePorts& ports,
                        Nanos within, LiveTraffic& traffic, ChainSet& chains);
  // As TakeOver, of a member of a group: chains begin with all of their pieces.
  absl::StatusOr<SucceededMember> TakeOverMember(ControlClient& client,
                                                 const UpgradePorts& ports,
                                                 LiveTraffic& traffic);
  // Return what the old one held as the daemon's lock; the latter once.
  int lock_file() const { return lock_.number(); }
  Descriptor TakeLock() { return std::move(lock_); }
  // Gives the chains, by the mailbox, what the old one's had in the end.
  void Attend(ChainSet& chains, Mailbox& mailbox);
  uint64_t older_flows() const { return older_flows_; }
  // Returns older_flows() until the old one has ended, which Attend notices;
  // then 0. Any thread.
  uint64_t flows_before() const { return has_ended_ ? 0 : older_flows_; }

 private:
  LiveSuccessor(std::string file, Descriptor listener)
      : file_(std::move(file)), listener_(std::move(listener)) {}
  absl::StatusOr<proto::UpgradeReply> Ask(ControlClient& client,
                                          const UpgradePorts& ports,
                                          Nanos within) const;
  absl::Status Receive(const proto::UpgradeReply& reply, LiveTraffic& traffic,
                       size_t others = 0);
  absl::Status AwaitClosed() const;

  const std::string file_;
  Descriptor listener_;
  Descriptor connection_;
  Descriptor lock_;
  std::vector<Descriptor> others_;  // of the group
  std::thread attends_;
  std::atomic<bool> has_ended_ = false;  // the old one
  uint64_t older_flows_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LIVE_UPGRADE_H_
