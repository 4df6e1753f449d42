// SPDX-License-Identifier: Apache-2.0
// TableWorld has units with copies of one table, its home, and a network
// between them that may lose, repeat and delay; and an account of all updates.
#ifndef SNF_RUNTIME_TABLES_TEST_TABLE_WORLD_H_
#define SNF_RUNTIME_TABLES_TEST_TABLE_WORLD_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "runtime/tables/table_home.h"
#include "runtime/tables/table_replica.h"

namespace snf {

struct TableWorldOptions {
  uint32_t units = 2;
  uint32_t max_entries = 100;
  uint32_t value_words = 2;
  TableShape::Merge merge = nullptr;
  bool for_reports = false;
  Nanos expires_after = Nanos::max();
  TableShape::OnTimer on_timer = nullptr;
  Nanos timer_period{};
  TableOptions table{};
  // Messages take so long; of 65,536, so many are lost, or come twice.
  Nanos delay_min = Microseconds(1);
  Nanos delay_max = Microseconds(1);
  uint32_t loss_65536 = 0;
  uint32_t duplicate_65536 = 0;
  uint64_t seed = 1;
};

class TableWorld {
 public:
  using Value = std::vector<uint64_t>;

  explicit TableWorld(const TableWorldOptions& options);

  void Start(uint32_t unit);
  // Stops a unit: it writes no more, and may be started again once it is not
  // joined().
  void Stop(uint32_t unit);
  // The stop is withdrawn, however far it has come: the unit goes on with the
  // incarnation that it had.
  void Withdraw(uint32_t unit);
  void Update(uint32_t unit, uint64_t key, const Value& delta);
  void Erase(uint32_t unit, uint64_t key);
  // Lets the unit's NF read its copy.
  void Look(uint32_t unit);
  // Return what a unit's copy has for the key, and for the rest.
  Value Read(uint32_t unit, uint64_t key) const;
  Value ReadRest(uint32_t unit) const;

  // Does everything that happens until then; the clock stands there afterwards.
  void RunUntil(Instant time);
  // Goes on until nothing is under way or to be done; returns false if that
  // does not come.
  bool RunToTheEnd();

  bool joined(uint32_t unit) const { return units_[unit].replica.joined(); }
  bool leaving(uint32_t unit) const { return units_[unit].leaving; }
  Instant now() const { return now_; }
  const TableHome& home() const { return home_; }
  TableCopy& copy(uint32_t unit) { return units_[unit].copy; }
  TableReplica& replica(uint32_t unit) { return units_[unit].replica; }

  // Returns in words what is wrong at the end; empty for nothing. The copies of
  // units that have joined must be as the home's, which is the sum of all
  // updates; with `exactly`, key by key unless a key was erased, else with the
  // rest.
  std::string Differences(bool exactly) const;
  // Returns what is wrong at any time, while nothing is refused: a unit sees
  // its own updates, none twice, and never less than before.
  std::string CheckReads(uint32_t unit, uint64_t key);

  // Each is the longest time from an update until all know it that had joined
  // by then; the second, where copies are read.
  Nanos spread_max() const { return spread_max_; }
  Nanos staleness_max() const { return staleness_max_; }
  uint64_t messages = 0;
  uint64_t words = 0;  // is the length of the longest message
  uint64_t lost = 0;
  uint64_t duplicated = 0;

 private:
  struct Unit {
    Unit(uint16_t number, const TableShape& shape, const TableOptions& options)
        : copy(shape), replica(0, UnitId{number}, copy, options) {}
    TableCopy copy;
    TableReplica replica;
    bool leaving = false;
    bool returns = false;  // its last stop was withdrawn on the way
    uint32_t incarnation = 0;
    std::map<uint64_t, Value> own;   // were written in this life
    std::map<uint64_t, Value> seen;  // were read last
  };
  struct UnderWay {
    bool to_home;
    TableMessage message;
  };
  struct Unseen {
    uint64_t version;
    Instant oldest;
    UnitId writer;  // has seen it from the beginning
  };

  void Send(bool to_home, const TableMessage& message);
  void Deliver(const UnderWay& sent);
  bool RunTimers();
  Instant NextTime() const;
  void Settle();
  void FindKnown(std::deque<Unseen>& updates, bool everywhere, Nanos& longest);
  Value Merged(Value a, const Value& b) const;

  TableWorldOptions options_;
  TableShape shape_;
  std::deque<Unit> units_;
  TableHome home_;
  Rng rng_;
  Instant now_;
  uint64_t sent_ = 0;
  uint32_t incarnation_ = 0;
  std::map<std::pair<Instant, uint64_t>, UnderWay> under_way_;
  std::map<uint64_t, Value> all_;
  std::set<uint64_t> erased_;  // keys, at least once
  std::deque<Unseen> unread_;
  std::deque<Unseen> unseen_;
  Nanos spread_max_{};
  Nanos staleness_max_{};
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_TEST_TABLE_WORLD_H_
