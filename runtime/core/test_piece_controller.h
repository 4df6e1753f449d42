// SPDX-License-Identifier: Apache-2.0
// A controller of random schedules decides about aliases and pieces; it is
// here, with what lies between it and its units.
#ifndef SNF_RUNTIME_CORE_TEST_PIECE_CONTROLLER_H_
#define SNF_RUNTIME_CORE_TEST_PIECE_CONTROLLER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/test_pieces.h"
#include "runtime/core/unit.h"

namespace snf {

class PieceController {
 public:
  // A patient controller refuses only what it has asked everybody for, and what
  // no packet waits for.
  PieceController(PieceFlows& flows, PieceLedger& ledger, bool is_patient)
      : flows_(flows), ledger_(ledger), is_patient_(is_patient) {}

  // Answers an alias; `present` are the flows that are not over.
  AliasResult Decide(const Alias& alias, std::span<const FlowId> present) {
    PieceFlow& flow = flows_.at(alias.flow);
    if (flow.is_over) return AliasResult::kUnknown;
    uint16_t port = 0;
    while (PieceNf::AliasKey(port) != alias.key) ++port;
    uint32_t in_group = 0;
    for (const FlowId id : present) {
      const PieceFlow& other = flows_.at(id);
      if (id == flow.id || !other.alias.has_value()) continue;
      if (other.alias == port) return AliasResult::kConflict;
      in_group += slot_of(id) % 3 == alias.group ? 1 : 0;
    }
    if (alias.group_limit != 0 && in_group >= alias.group_limit) {
      return AliasResult::kGroupFull;
    }
    flow.alias = port;
    return AliasResult::kGranted;
  }

  void on_request(const PieceRequest& request) {
    ASSERT_FALSE(HasRequest(request.pool, request.unit)) << "one at a time";
    Desk& desk = desks_.at(request.pool);
    desk.requests.push_back(request.unit);
    if (request.is_ahead) desk.ahead.insert(request.unit);
  }
  void on_returned(const PieceBlock& pieces) {
    ledger_.MoveWord(pieces, PieceLedger::kUnderWay, PieceLedger::kController);
    if (pieces.mask != 0) return;
    ASSERT_EQ(desks_.at(pieces.pool).asked.erase(pieces.unit), 1u);
  }
  bool HasRequest(uint16_t pool, UnitId unit) const {
    return std::ranges::count(desks_.at(pool).requests, unit) > 0;
  }

  // Work is what the controller does about a pool; it may be nothing.
  struct Work {
    enum class Kind : uint8_t { kNone, kGrant, kReclaim };
    Kind kind = Kind::kNone;
    PieceBlock pieces{};  // goes to its unit
  };
  Work WorkAt(uint16_t pool, Rng& rng) {
    Desk& desk = desks_.at(pool);
    if (desk.requests.empty()) return {};
    PieceBlock word = ledger_.Any(pool, rng.Next());
    if (word.mask == 0 && !desk.ahead.empty()) {
      word.unit = *desk.ahead.begin();
      desk.ahead.erase(word.unit);
      std::erase(desk.requests, word.unit);
      return {Work::Kind::kGrant, word};
    }
    if (word.mask == 0 && desk.asked.empty() &&
        (is_patient_ ? !desk.has_asked : rng.Below(2) == 0)) {
      desk.has_asked = true;
      return {Work::Kind::kReclaim, word};
    }
    // While units are asked, it mostly waits for what comes.
    if (word.mask == 0 && !desk.asked.empty() &&
        (is_patient_ || rng.Below(8) != 0)) {
      return {};
    }
    desk.has_asked = false;
    if (rng.Below(2) == 0) word.mask &= rng.Next() | (word.mask & -word.mask);
    ledger_.MoveWord(word, PieceLedger::kController, PieceLedger::kUnderWay);
    const size_t i = rng.Below(desk.requests.size());
    word.unit = desk.requests[i];
    desk.ahead.erase(word.unit);
    desk.requests.erase(desk.requests.begin() + static_cast<ptrdiff_t>(i));
    return {Work::Kind::kGrant, word};
  }
  void Ask(uint16_t pool, UnitId unit) { desks_.at(pool).asked.insert(unit); }

  // Returns true if no request waits, and no unit still returns pieces.
  bool is_quiet() const {
    return std::ranges::all_of(desks_, [](const Desk& desk) {
      return desk.requests.empty() && desk.asked.empty();
    });
  }
  // Returns true as well if it is patient, and waits for units alone.
  bool has_work(uint16_t pool) const {
    const Desk& desk = desks_.at(pool);
    return !desk.requests.empty() &&
           (desk.asked.empty() || !desk.ahead.empty() ||
            ledger_.Count(pool, PieceLedger::kController) > 0);
  }

 private:
  struct Desk {
    std::vector<UnitId> requests;
    std::set<UnitId> ahead;  // are the units of requests ahead of need
    std::set<UnitId> asked;
    bool has_asked = false;  // units were asked for the next request
  };

  PieceFlows& flows_;
  PieceLedger& ledger_;
  bool is_patient_;
  std::array<Desk, kTestPools> desks_;
};

// Messages go up to the controller in order.
struct PieceReport {
  UnitCommand command;
  Alias alias{};
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_PIECE_CONTROLLER_H_
