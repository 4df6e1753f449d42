// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_SUCCESSION_H_
#define SNF_CONTROLLER_LIVE_SUCCESSION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "controller/core/controller.h"
#include "controller/live/packets_under_way.h"
#include "controller/rebuild/rebuild.h"
#include "runtime/core/unit_commands.h"

namespace snf {

// Theory of operation. What a controller's loop has while its controller has
// failed and another is made of what units report (proto/protocol.md F9):
//
//   kUp ─Fail─► kDead ─Succeed─► kGathering ─all reported─► kMending ─► kUp
//
// Of each loop of units, and of the loop of their loggers, what comes ahead of
// its report was for the controller before; what comes behind it is for the
// next one, and stays in the ring until that is made. So a report, what was
// said before it and what is said after it never overlap, and no word is taken
// twice:
//
//   packets that left   both: they have left, whatever becomes of controllers
//   notes, ends         both: a new controller hears what the one before had
//                       not acted on for sure
//   pieces that go back ahead: in the ledger that the loggers report; behind:
//                       taken as ever
//   requests            ahead: nothing; units repeat those that are open behind
//                       their report
//
// Packets that arrive meanwhile wait.
//
// A loop of units whose process has ended reports nothing; its loggers do, once
// they have all that it had sent, and seal what has failed. If one ends while
// reports come, all that was reported may be out of date: reports with the next
// epoch are awaited (Restart). A report counts once it is whole, and if it is
// for the newest epoch.
//
// Worked example: of two loops, the first has reported, and its logger has not.
// That logger's link brings a release, which goes out, a note, which is kept,
// and the ledger. When the second loop and its logger are through, the
// controller is made, and gets the note.
//
// Owner-thread only. Grows with what is reported.
class Succession {
 public:
  enum class Phase : uint8_t { kUp, kDead, kGathering, kMending };
  // So many packets wait; more are lost.
  static constexpr size_t kMaxWaiting = 65'536;
  // No loop has more to report.
  static constexpr uint64_t kMaxWords = uint64_t{1} << 24;

  struct Figures {
    uint64_t packets_lost = 0;  // in the buffers of those that failed
    uint64_t clocks_lost = 0;   // given, and never sent
    uint64_t packets_waited = 0;
    Rebuild::Figures made;
  };

  Succession(const ControllerOptions& options, uint32_t loops)
      : max_units_(options.max_units),
        max_flows_(options.max_flows),
        warm_units_(options.leased ? 0 : options.warm_units),
        room_(
            std::min(options.unit_queue_packets, options.start_buffer_packets)),
        loops_(loops),
        is_up_(options.max_units),
        has_failed_(options.max_units),
        of_loops_(loops) {}

  Phase phase() const { return phase_; }
  bool is_up() const { return phase_ == Phase::kUp; }
  // There is one, which may not be done yet with what it has inherited.
  bool has_controller() const {
    return phase_ == Phase::kUp || phase_ == Phase::kMending;
  }
  uint32_t epoch() const { return epoch_; }
  // A controller has failed, some time.
  bool begun() const { return epoch_ > 0 || phase_ != Phase::kUp; }

  // The controller has failed; `former` is what it was.
  void Fail(Controller former);
  // So has one of another process, with all that it knew of units; `epoch` was
  // its own, and no unit is known to have had a higher incarnation. `former`
  // has had no packet. Of reports, those count that are made to the next one:
  // the one before may have died over its own.
  void Inherit(uint32_t epoch, uint32_t incarnation, Controller former) {
    epoch_ = epoch;
    incarnation_ = incarnation;
    is_heir_ = true;
    Fail(std::move(former));
  }
  // True from then on until Begin.
  bool is_heir() const { return is_heir_; }
  // An heir does not know who is starting. Returns the starts of units in which
  // packets wait, and which do not run.
  std::vector<ControllerCommand> StartsOfWaiting();
  // What was reported is void: Succeed has to follow once more.
  void Restart();
  // Its end was seen: reports with the returned epoch are awaited.
  uint32_t Succeed();
  // The loop of units, which has ended, reports nothing.
  void on_no_units(size_t loop) { of_loops_[loop].units_said = true; }
  // The unit has failed since the last controller failed.
  void on_unit_failed(UnitId unit) { has_failed_[value(unit)] = 1; }

  // True while the loop has not reported yet, or its loggers have not.
  bool awaits(size_t loop, bool of_logger) const {
    return !(of_logger ? of_loops_[loop].loggers_said
                       : of_loops_[loop].units_said);
  }
  bool has_all() const;
  // Takes a word of a report, which a decoder has passed. Returns false if it
  // cannot be.
  bool on_word(size_t loop, bool of_logger, const UnitCommand& word,
               std::span<const std::byte> payload);

  // What units said that the next controller is to hear as well.
  void Keep(const UnitCommand& word) { kept_.push_back(word); }
  // The controller has heard it; what follows may be in its buffers still.
  void Note(const UnitCommand& word) { unsure_.push_back(word); }
  void on_flushed() { unsure_.clear(); }

  // All have reported, and so many packets are in units. Makes the controller;
  // `starting` are the units that somebody starts. Returns false if the
  // packets are not those that were reported.
  bool Begin(Controller& controller, Instant now,
             std::span<const UnitId> starting, uint64_t in_channels);
  // Returns what is to be said to it now.
  std::vector<UnitCommand> TakeKept();
  std::span<const PacketsUnderWay::Sent> packets() const { return packets_; }
  // Until Begin.
  const Controller& former() const { return *former_; }
  // Does what is left to do; returns true if that was all.
  bool Mend(Controller& controller, Instant now, ControllerOut& out);
  // While so many are in units, there is no room for all packets that wait, and
  // so many that came since.
  bool IsCrowded(uint64_t in_channels, size_t later) const {
    return in_channels > 0 && in_channels + waiting_.size() + later > room_;
  }
  // Packets go on.
  void Finish();

  // A packet comes. Returns false if it is lost.
  bool Hold(const Arrival& arrival);
  size_t waiting() const { return waiting_.size(); }
  std::vector<Arrival> TakeWaiting();

  // Holds what the units of a loop, or their loggers, have reported so far.
  struct Said {
    std::vector<UnitCommand> words{};
    std::vector<FlowName> names{};
  };
  // Also the buffers that go back to the loop of units.
  struct OfLoop {
    bool units_said = false;
    bool loggers_said = false;
    Said of_units{};
    Said of_loggers{};
    std::vector<PacketHandle> returns{};
  };
  OfLoop& of_loop(size_t loop) { return of_loops_[loop]; }

  // The host was told of the unit.
  void set_up(UnitId unit, bool is) { is_up_[value(unit)] = is ? 1 : 0; }
  bool was_up(UnitId unit) const { return is_up_[value(unit)] != 0; }

  Figures& figures() { return figures_; }
  const Figures& figures() const { return figures_; }

 private:
  struct OfUnit {
    UnitReport standing;
    uint32_t slots = 0;
    uint64_t bytes = 0;
  };

  void Take(bool of_logger, const UnitCommand& word);

  uint32_t max_units_;
  uint32_t max_flows_;
  uint32_t warm_units_;
  uint32_t room_;  // for packets, in any unit
  uint32_t loops_;
  std::vector<uint8_t> is_up_;       // by unit
  std::vector<uint8_t> has_failed_;  // by unit
  std::vector<OfLoop> of_loops_;
  Phase phase_ = Phase::kUp;
  uint32_t epoch_ = 0;
  bool is_heir_ = false;
  uint32_t incarnation_ = 0;
  std::optional<Controller> former_;
  std::optional<Rebuild> rebuild_;
  std::vector<OfUnit> of_units_;
  std::vector<PacketsUnderWay::Sent> packets_;  // reported
  std::vector<UnitCommand> kept_;
  std::vector<UnitCommand> unsure_;
  std::vector<Arrival> waiting_;
  Figures figures_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_SUCCESSION_H_
