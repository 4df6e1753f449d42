// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_LOOP_RECOVERY_H_
#define SNF_CONTROLLER_LIVE_LOOP_RECOVERY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/failure_messages.h"
#include "base/messages/unit_commands.h"
#include "controller/core/alias_table.h"
#include "controller/live/controller_events.h"
#include "controller/live/packets_under_way.h"

namespace snf {

class ControllerLoop;

// Theory of operation. The part of a ControllerLoop that survives the end of a
// loop of units whose process has ended (proto/protocol.md F1-F6):
//
//   End ─► units fail, loggers are sealed ─first answer─► survivors elsewhere
//    └──────────────── MayBegin ─► Start ─► Begin ────────────────┘
//
// End takes what the units had said, lets all of them fail, and tells their
// loggers. What these release comes before their first answer to a Seal: then
// the packets that are still under way to the units have survived them, and go
// to other units (F4). Once all loggers have answered, the next process may
// begin. Buffers of the loop's share that come back meanwhile wait for that
// process.
//
// While there is no controller, UnledLoop ends loops with EndChannels and
// TakeLost.
//
// Owner-thread only. A part of the loop that it is given.
class LoopRecovery {
 public:
  LoopRecovery(ControllerLoop& loop, size_t loops, size_t max_units)
      : loop_(loop), loops_(loops), old_numbers_(max_units) {}

  // As ControllerLoop::EndLoop, while there is a controller that is led.
  template <ControllerHost Host>
  void End(size_t loop, Host& host);
  // As ControllerLoop::MayBegin, StartLoop and BeginLoop.
  bool MayBegin(size_t loop) const;
  void Start(size_t loop);
  void Begin(size_t loop);

  // Ends all that is under way between the controller, the loop and its
  // loggers: the units get no more, and their loggers take what was sent.
  void EndChannels(size_t loop);
  // Takes what is under way to units for which `is_lost(UnitId)` holds out of
  // their channels, and calls lost(PacketsUnderWay::Sent) for each. An alias in
  // `aliases` that such a packet had set is over.
  template <typename IsLost, typename Lost>
  void TakeLost(const IsLost& is_lost, const AliasTable& aliases,
                ControllerEvents& events, const Lost& lost);
  // The controller has failed: returns the packets that it was to send to other
  // units, and drops what is for the next process of a loop.
  absl::flat_hash_set<PacketHandle> Abandon();
  // A successor has these units: channels of dead loops are old.
  void on_successor();

  // Keeps a buffer for the next process. Returns false if the loop runs.
  bool KeepBuffer(size_t loop, PacketHandle packet);
  // Returns true if the loop has ended, and no process is about to run it.
  bool IsDead(size_t loop) const {
    return loops_[loop].has_ended && !loops_[loop].starts;
  }
  bool any_ended() const;
  // The packet, if it survived a unit, has gone to another, or was dropped.
  void OnEnd(PacketHandle packet) {
    if (!survivors_.empty()) [[unlikely]]
      survivors_.erase(packet);
  }
  // Returns true if the packet went to its unit by a channel that has ended.
  bool IsOld(const UnitCommand& command) const {
    return command.meta.channel_number <= old_numbers_[value(command.unit)];
  }

  void SendSeal(const ControllerCommand& command);
  // Takes an answer of a logger, or of a unit, to a Seal or a query; leaves in
  // the loop's out_ what the controller commands.
  void on_done(const DoneAnswer& done, bool of_logger,
               ControllerEvents& events);

  // As ControllerLoop::Condemn.
  void Condemn(size_t loop, PacketHandle packet) {
    loops_[loop].condemned = packet;
  }
  void CondemnFlow(size_t loop, FlowId flow) {
    loops_[loop].condemned_flow = flow;
  }

  // Counts clocks without a packet that were in units which have failed.
  uint64_t null_packets_lost() const { return null_packets_lost_; }

 private:
  struct Loop {
    bool has_ended = false;
    bool starts = false;  // another process is about to run it
    bool awaits_survivors = false;
    uint32_t round = 0;                 // of the first Seal; 0: not sent yet
    std::vector<UnitId> unsealed;       // whose loggers have still to answer
    std::vector<UnitId> started;        // during End; for the next process
    std::vector<PacketHandle> buffers;  // returned by Begin
    // A packet and a flow that other units do not get.
    PacketHandle condemned = kNoPacket;
    FlowId condemned_flow = kNoFlow;
  };

  bool HasOther(size_t loop) const;
  bool FailNext(size_t loop, uint32_t& unit, ControllerEvents& events);
  void TakeStarted(size_t loop, std::vector<ControllerCommand>& kept);
  void TakeSurvivors(size_t loop, ControllerEvents& events);

  ControllerLoop& loop_;
  std::vector<Loop> loops_;
  std::vector<uint64_t> old_numbers_;  // by unit: of channels that have ended
  // Packets that the controller has to find other units for.
  absl::flat_hash_set<PacketHandle> survivors_;
  uint64_t null_packets_lost_ = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_RECOVERY_H_
