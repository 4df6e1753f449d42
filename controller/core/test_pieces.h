// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_TEST_PIECES_H_
#define SNF_CONTROLLER_CORE_TEST_PIECES_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "controller/core/test_driver.h"

namespace snf {

// Plays units that take pieces of pools, keep some in flows, and give them back
// late or never when they are asked. It expects of every answer what must
// always hold: that a unit asked for it, that granted pieces were at the
// controller and no word was fuller, that all who wait get a share, that
// nothing is refused while pieces are free, that only units are asked that may
// have some, at most once in a round, and that all requests are answered in
// time. It tracks where each piece is. For tests only.
class TestPieces {
 public:
  static constexpr uint16_t kPools = 2;

  TestPieces(Rng rng, uint32_t units, TestDriver& driver);

  // Plays some random events at `now` and handles the commands that follow.
  void Play(Instant now);
  // Moves some pieces from the unit into a flow that it owns.
  void TakeIntoFlow(FlowId flow, UnitId unit);

  // Handles those of the controller's commands that concern pieces.
  void Observe(Instant now, const Commands& commands);
  void on_flow_moved(UnitId to) { holders_.insert(to); }
  // The pieces of the flow become the unit's.
  void on_flow_end(FlowId flow, UnitId unit);
  // Stops the unit after it has returned all its pieces.
  void Stop(Instant now, UnitId unit);
  // Returns all pieces of all units.
  void ReturnAll(Instant now);

  void Check() const;
  // Expects that no request is overdue; the controller's timers must have been
  // called up to `now`.
  void ExpectAnswers(Instant now) const;
  bool HasOpenRequests() const;

  // Totals over the run.
  uint64_t blocks = 0, waited = 0, refused = 0, refused_ahead = 0, shared = 0,
           unanswered = 0, stopped_in_round = 0, faulty = 0,
           faulty_messages = 0, from_flows = 0;

 private:
  struct Pool {
    uint32_t first = 0, last = 0;
    std::set<uint32_t> controller;
    std::vector<std::set<uint32_t>> units;
    std::vector<std::optional<Instant>> requested;
    std::vector<bool> is_ahead;  // of need, of the units that requested
    // The end of the first round that began since, for units that requested.
    std::vector<std::optional<Instant>> answer_by;
    std::optional<Instant> round_began;             // is when the last one did
    std::vector<std::optional<Instant>> answer_at;  // to a kReclaim
    std::vector<std::optional<Instant>> asked_at;
  };

  void PlayUnit(Instant now, uint16_t pool, UnitId unit);
  void Return(Instant now, const PieceBlock& word);
  bool ReturnWord(Instant now, uint16_t pool, UnitId unit);
  void SayNonsense(Instant now, uint16_t pool);
  void on_pieces(const PieceBlock& word);
  void on_reclaim(Instant now, const PieceBlock& word);
  void NoteRound(Instant now, Pool& pool) const;

  Rng rng_;
  uint32_t units_;
  TestDriver& driver_;
  std::array<Pool, kPools> pools_;
  std::map<FlowId, std::set<std::pair<uint16_t, uint32_t>>> flows_;
  std::set<UnitId> holders_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_TEST_PIECES_H_
