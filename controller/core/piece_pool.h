// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_PIECE_POOL_H_
#define SNF_CONTROLLER_CORE_PIECE_POOL_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/core/controller_counters.h"
#include "controller/units/unit_set.h"

namespace snf {

// Theory of operation. The pool holds the pieces that are not at a unit, and
// the units that wait for some (proto/decisions.md 18). A request is answered
// with the word that has the most free pieces. If there are fewer pieces than
// words for all who wait, each gets its share of a word. When none is free, the
// request waits while the units that may have pieces are asked to return spare
// ones: a reclaim round. The round is over when every unit has answered or
// stopped, or kRound after its begin. The next round begins no sooner than
// kRound after the begin of the last.
//
// A request that no packet waits for, ahead of need, begins no round: with
// nothing free, it is refused at once. Another request is refused only if a
// round has found that no unit can spare a piece: at the end of the round, or
// at once until the next one. If a unit was granted several pieces since the
// round began, it may spare some: requests then wait for the next round. So
// each is answered within 2 · kRound.
//
// Worked example: pieces 0 … 127. Unit 0 asks and gets word 0, unit 1 word 1.
// Unit 2 asks, so units 0 and 1 are asked. Unit 0 returns pieces 40-63, which
// go to unit 2, and says that it can spare no more; unit 1 says so too. The
// round is over. Unit 3 asks 1 ms later, and waits: 9 ms later a round begins,
// and unit 2 returns pieces 41-63.
//
// A value; owner-thread only; nothing is allocated after construction.
class PiecePool {
 public:
  static constexpr Nanos kRound = Milliseconds(10);

  PiecePool(uint16_t pool, uint32_t first, uint32_t last, uint32_t max_units);

  uint32_t free() const { return free_; }
  uint64_t free(uint32_t word) const { return words_[word]; }

  // Notes that the unit asks for pieces. Returns false if it waits already.
  bool on_request(UnitId unit, bool is_ahead) {
    if (waiting_.Has(unit) || ahead_.Has(unit)) return false;
    return is_ahead ? ahead_.Insert(unit) : waiting_.Insert(unit);
  }
  // Notes that the unit has returned all spare pieces.
  void on_answer(UnitId unit) { asked_.Erase(unit); }
  // Forgets a unit that is gone. Returns true if the round waited for its
  // answer.
  bool on_unit_stopped(UnitId unit) {
    waiting_.Erase(unit);
    ahead_.Erase(unit);
    return asked_.Erase(unit);
  }
  // Marks pieces as out that an earlier controller granted to units. Returns
  // the mask of the pieces that were free here and belong to the pool.
  uint64_t MarkOut(uint32_t word, uint64_t mask);
  // Takes pieces back. Returns the mask of the pieces that were not out or do
  // not belong to the pool; they stay as they are.
  uint64_t on_returned(uint32_t word, uint64_t mask);
  // Does the same, but the pieces cannot be granted before EndHolding.
  uint64_t HoldBack(uint32_t word, uint64_t mask);
  // Returns true if there were some.
  bool EndHolding();

  // Answers, refuses and asks as far as `out` has room; must be called after
  // each of the methods above. `holders` are the units that may have pieces.
  // Returns the time of the next call: Instant::min() for at once,
  // Instant::max() for never.
  Instant Advance(Instant now, UnitSet& holders, PieceCounters& counters,
                  ControllerOut& out);

 private:
  enum class Phase : uint8_t {
    kIdle,
    kAsking,    // a round: units from ask_next_ on are still to be asked
    kAsked,     // a round: some have not answered yet
    kRefusing,  // no unit can spare a piece: refuse who waits
  };

  uint64_t ValidMask(uint32_t word) const;
  uint32_t FullestWord() const;
  UnitId NextOf(UnitSet& waiting);
  void Grant(UnitSet& waiting, UnitSet& holders, PieceCounters& counters,
             ControllerOut& out);
  void Refuse(UnitSet& waiting, PieceCounters& counters, ControllerOut& out);
  // Returns true if there is a unit to ask: it may have pieces, and waits for
  // none.
  bool CanAsk(const UnitSet& holders) const {
    return holders.NextFrom(0, &waiting_) != kNoUnit;
  }
  bool AskNext(const UnitSet& holders, ControllerOut& out);
  PieceBlock To(UnitId unit, uint32_t word, uint64_t mask) const {
    return {.word = word, .pool = pool_, .unit = unit, .mask = mask};
  }

  uint32_t first_;
  uint32_t last_;
  uint16_t pool_;
  Phase phase_ = Phase::kIdle;
  uint32_t grant_next_ = 0;  // the word to look at first
  uint32_t serve_next_ = 0;  // the unit to answer first
  uint32_t ask_next_ = 0;
  // The last round ends then at the latest, and the next begins then at the
  // earliest.
  Instant round_until_ = Instant::min();
  LazyArray<uint64_t> words_;  // the free pieces
  uint32_t free_ = 0;          // their number
  LazyArray<uint64_t> held_;   // came back, and are of no use yet
  bool holds_ = false;         // some
  UnitSet waiting_;            // for packets
  UnitSet ahead_;              // of need
  bool may_be_spare_ = false;  // a grant since the last round began had several
  UnitSet asked_;              // in this round, without an answer yet
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_PIECE_POOL_H_
