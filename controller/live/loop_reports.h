// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_LOOP_REPORTS_H_
#define SNF_CONTROLLER_LIVE_LOOP_REPORTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/report_messages.h"
#include "base/messages/unit_commands.h"
#include "controller/core/options.h"
#include "controller/live/packets_under_way.h"
#include "controller/rebuild/succession.h"

namespace snf {

// Theory of operation. Reads what loops of units, and the loops of their
// loggers, report while a controller is made (succession.h); each of them is a
// source of the succession.
//
// Of each source, the words ahead of its report are for the controller that
// failed. The words behind are for the next one, and stay in the ring until
// that is made. So a report, what was said before it and what is said after it
// never overlap, and no word is taken twice:
//
//   packets that left   both: they have left, whatever becomes of controllers
//   notes, ends         both: a new controller hears what its predecessor may
//                       not have acted on
//   pieces that go back ahead: in the ledger that the loggers report; behind:
//                       taken as ever
//   requests            ahead: nothing; units repeat those that are open behind
//                       their report
//
// A loop of units whose process has ended reports nothing; its loggers do, once
// they have all that it had sent, and seal what has failed. If one ends while
// reports come, all that was reported may be out of date, and all report anew
// (Restart). A report counts once it is whole, and if it names the newest
// epoch.
//
// Worked example: of two loops, the first has reported, and its logger has not.
// That logger's link brings a release, which goes out, a note, which is kept,
// and the ledger. When the second loop and its logger are through, the
// controller is made, and gets the note.
//
// Owner-thread only. Grows with what is reported.
class LoopReports {
 public:
  // Limit of the words of one report.
  static constexpr uint64_t kMaxWords = uint64_t{1} << 24;

  // The number of a loop's source, and of its loggers' source.
  static size_t SourceOf(size_t loop, bool of_logger) {
    return 2 * loop + (of_logger ? 1 : 0);
  }
  static size_t Sources(size_t loops) { return 2 * loops; }

  // The succession outlives the object, and has Sources(loops).
  LoopReports(const ControllerOptions& options, size_t loops,
              Succession& succession);

  // The controller has failed, or what was reported is void: all loops that
  // have units are awaited.
  void Restart();
  // The controller was another process's, with all that it knew of units; no
  // unit is known to have had a higher incarnation than this.
  void Inherit(uint32_t incarnation) {
    incarnation_ = incarnation;
    is_heir_ = true;
  }
  // Returns true from Inherit until Begin.
  bool is_heir() const { return is_heir_; }

  bool awaits(size_t loop, bool of_logger) const {
    return succession_.awaits(SourceOf(loop, of_logger));
  }
  // Takes a word of a report, which a decoder has passed. Returns false if the
  // word is invalid.
  bool on_word(size_t loop, bool of_logger, const UnitCommand& word,
               std::span<const std::byte> payload);
  // The loop of units has ended, and reports nothing.
  void on_no_units(size_t loop) {
    if (awaits(loop, false)) succession_.on_reported(SourceOf(loop, false));
  }
  // The loop's units have failed: what they began to report is void.
  void Forget(size_t loop) { of_loops_[SourceOf(loop, false)] = {}; }
  // The unit has failed since the last controller failed.
  void on_unit_failed(UnitId unit) { has_failed_[value(unit)] = 1; }

  // Returns the starts of units in which packets wait, and which do not run: an
  // heir does not know which units are starting.
  std::vector<ControllerCommand> StartsOfWaiting();
  // All have reported: passes the units on to the succession. `starting` are
  // the units whose start is under way.
  void Begin(std::span<const UnitId> starting);
  // Returns the packets that units reported, until Restart.
  std::span<const PacketsUnderWay::Sent> packets() const { return packets_; }

  // Keeps a note or an end, which the next controller is to hear as well.
  void Keep(const UnitCommand& word) { kept_.push_back(word); }
  // Returns what was kept.
  std::vector<UnitCommand> TakeKept() { return std::exchange(kept_, {}); }
  // The controller has heard the word; what it commanded may not be sent yet.
  void Note(const UnitCommand& word) { unsure_.push_back(word); }
  // Forgets the noted words: the commands that follow from them are sent.
  void on_flushed() { unsure_.clear(); }

 private:
  // The words and names that a source has reported so far.
  struct Said {
    std::vector<UnitCommand> words{};
    std::vector<FlowName> names{};
  };
  struct OfUnit {
    UnitReport standing;
    uint32_t slots = 0;
    uint64_t bytes = 0;
  };

  void Take(bool of_logger, const UnitCommand& word);

  Succession& succession_;
  size_t loops_;  // that have units
  uint32_t warm_units_;
  bool is_heir_ = false;
  uint32_t incarnation_ = 0;
  std::vector<Said> of_loops_;  // by source
  std::vector<OfUnit> of_units_;
  std::vector<uint8_t> has_failed_;  // by unit
  std::vector<PacketsUnderWay::Sent> packets_;
  std::vector<UnitCommand> kept_;
  std::vector<UnitCommand> unsure_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_REPORTS_H_
