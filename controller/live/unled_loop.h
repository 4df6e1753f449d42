// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_UNLED_LOOP_H_
#define SNF_CONTROLLER_LIVE_UNLED_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/unit_commands.h"
#include "base/rng.h"
#include "controller/core/controller.h"
#include "controller/core/controller_counters.h"
#include "controller/core/options.h"
#include "controller/live/controller_events.h"
#include "controller/live/loop_reports.h"
#include "controller/rebuild/lease_finder.h"
#include "controller/rebuild/succession.h"
#include "runtime/wire/decoder.h"

namespace snf {

class ControllerLoop;

// Theory of operation. The part of a ControllerLoop whose controller may fail
// (succession.h has the phases):
//
//   Fail ──► Succeed ──► Turn … until all have reported ──► Mend … ──► led
//
// What the controller had sent to units is there, whole. Of what it had not
// sent, a random part is sent still, and the rest is lost, and told (CutLink).
// While loops of units and of loggers report, packets go on to leave, and
// packets that arrive wait. Then the successor is made; events are told which
// units it takes for up; and buffers go back that returned meanwhile.
//
// A loop of units may end at any time (EndLoop): then all report anew, and the
// packets in its units are lost with the controller. Reports that lie about the
// packets of a loop close its link: the process of the loop will be made to
// end.
//
// An heir succeeds the controller of another process, with the same memory. It
// knows of packets what is reported; all other buffers are free.
//
// Owner-thread only. A part of the loop that it is given.
class UnledLoop {
 public:
  // Prepares a new controller.
  using Prepare = std::function<void(Controller&)>;
  // A turn without a controller takes at most so many bursts of each link.
  static constexpr uint32_t kReportBursts = 32;

  UnledLoop(ControllerLoop& loop, const ControllerOptions& options,
            size_t loops);
  // The controller was another process's, which is dead.
  void Inherit();

  void set_prepare(Prepare prepare) { prepare_ = std::move(prepare); }
  void set_settle(Prepare settle) { settle_ = std::move(settle); }
  void set_lease_finder(LeaseFinder& finder) { lease_finder_ = &finder; }

  const Succession& succession() const { return succession_; }
  bool has_controller() const { return succession_.has_controller(); }
  bool is_led() const { return succession_.is_up(); }
  bool is_heir() const { return reports_.is_heir(); }
  size_t waiting() const { return succession_.waiting(); }
  bool AwaitsReport(size_t loop, bool of_logger) const {
    return succession_.phase() == Succession::Phase::kGathering &&
           reports_.awaits(loop, of_logger);
  }
  // Returns true if a loop of units has ended since the controller failed.
  bool has_ended() const { return has_ended_; }

  // As those of ControllerLoop.
  template <ControllerHost Host>
  void Fail(Rng& rng, Host& host);
  void Succeed();
  // A turn while there is no controller.
  template <ControllerHost Host>
  bool Turn(Host& host);
  // Lets the successor send what its predecessor owed (Succession::Mend).
  template <ControllerHost Host>
  void Mend(Host& host);
  // A loop of units has ended before the controller is led.
  template <ControllerHost Host>
  void EndLoop(size_t loop, Host& host);
  // Packets of the batch wait, or are lost.
  void HoldBatch(ControllerEvents& events);

  // Keeps a buffer that goes back to a loop of units once there is a
  // controller.
  void KeepBuffer(size_t loop, PacketHandle packet) {
    returns_[loop].push_back(packet);
  }
  // The controller has heard this word; all that it commanded is sent.
  void Note(const UnitCommand& word) { reports_.Note(word); }
  void on_flushed() { reports_.on_flushed(); }
  // Notes what events are told of the unit.
  void set_up(UnitId unit, bool is_up) { told_up_[value(unit)] = is_up; }
  bool was_up(UnitId unit) const { return told_up_[value(unit)]; }

 private:
  using Phase = Succession::Phase;

  template <ControllerHost Host>
  size_t HandleLink(size_t loop, bool of_logger, Host& host);
  void HandleWord(size_t loop, bool of_logger, const Cell& cell,
                  std::span<const std::byte> payload);
  void LoseWord(size_t loop, const UnitCommand& command);
  void CutLink(size_t loop, Rng* rng, ControllerEvents& events);
  void on_unsent(const ControllerCommand& command, size_t loop,
                 ControllerEvents& events);
  void LosePacket(PacketHandle packet, ControllerEvents& events);
  void AbandonRecovery(ControllerEvents& events);
  void FailController();
  void MakeNext();
  void FailAgain(ControllerEvents& events);
  void EndUnits(size_t loop, ControllerEvents& events);
  bool CanBegin();
  bool AreReportsTrue();
  void BeginSuccessor(ControllerEvents& events);
  void TakeInherited();
  void LosePacketsOfDead(ControllerEvents& events);
  void TakeReported();
  void TellUnits(ControllerEvents& events);

  ControllerLoop& loop_;
  SuccessionCounters counters_;
  Succession succession_;
  LoopReports reports_;
  std::vector<std::vector<PacketHandle>> returns_;  // by loop, until kMending
  std::vector<bool> told_up_;                       // by unit
  uint32_t room_;  // packets in units and waiting, at most
  bool has_ended_ = false;
  LeaseFinder* lease_finder_ = nullptr;
  Prepare prepare_;  // the next controller
  Prepare settle_;   // may be null
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_UNLED_LOOP_H_
