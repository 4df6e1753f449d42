// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/nf_states.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sdk/shared_table.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

constexpr Instant kNow = Instant{} + Seconds(100);

// Watches the keys of a table: each has a count, and began at key seconds.
class KeyWatcher final : public NetworkFunction {
 public:
  Verdict process_packet(Packet& /*packet*/, FlowState& /*flow*/) override {
    return Verdict::forward();
  }
  void Hit(uint64_t key) { hits_.update(key, 1); }
  bool has_states() const override { return has_states_; }
  void set_has_states(bool has) { has_states_ = has; }
  std::vector<NfState> states(Instant /*now*/) const override {
    std::vector<NfState> states;
    hits_.for_each([&](uint64_t key, uint64_t count) {
      states.push_back({.object = "key " + std::to_string(key),
                        .state = std::to_string(count),
                        .since = Instant{} + Seconds(static_cast<int64_t>(key)),
                        .why = "hit"});
    });
    return states;
  }

 private:
  bool has_states_ = true;
  SharedTable<uint64_t, uint64_t> hits_ =
      declare_shared<uint64_t, uint64_t>("hits", 20'000);
};

// A unit whose NF hits keys, and the table's home.
struct WatchedRun {
  WatchedRun() { unit.on_ready(now, 1); }
  // Lets the home merge everything.
  void Settle() {
    unit.on_called(now);
    const auto to_unit = [&](const TableMessage& message) {
      back.push_back(message);
    };
    const auto to_home = [&](const TableMessage& message) {
      homes.on_message(now, message, to_unit);
    };
    for (int i = 0; i < 20'000; ++i) {
      now = now + Milliseconds(20);
      unit.on_timers(now, to_home);
      homes.on_timers(now, 0, to_unit);
      if (back.empty()) break;
      for (const TableMessage& message : std::exchange(back, {})) {
        unit.on_message(now, message, to_home);
      }
    }
  }

  Instant now = Instant{} + Seconds(1);
  KeyWatcher running;
  KeyWatcher example;
  UnitTables unit{UnitId{0}, running, TableOptions{}};
  TableHomes homes{example, 4, TableOptions{}};
  std::vector<TableMessage> back;
};

TEST(NfObjects, AreWhatTheNfSaysOfTheTotals) {
  WatchedRun run;
  EXPECT_TRUE(NfObjects(run.example, run.homes, kNow).empty());
  run.running.Hit(7);
  run.running.Hit(7);
  run.Settle();
  for (int i = 0; i < 2; ++i) {  // looking changes nothing
    const auto objects = NfObjects(run.example, run.homes, kNow);
    ASSERT_EQ(objects.size(), 1u);
    EXPECT_EQ(objects[0].object, "key 7");
    EXPECT_EQ(objects[0].state, "2");
    EXPECT_EQ(objects[0].age, Seconds(93));
    EXPECT_EQ(objects[0].why, "hit");
  }
  run.running.Hit(7);
  run.running.Hit(200);
  run.Settle();
  const auto objects = NfObjects(run.example, run.homes, kNow);
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0].state, "3");
  EXPECT_EQ(objects[1].age, Nanos{});  // it begins later than now
}

TEST(NfObjects, AreAtMostSoMany) {
  WatchedRun run;
  const auto hit = [&](uint64_t first, uint64_t last) {
    for (uint64_t key = first; key <= last; ++key) run.running.Hit(key);
    run.Settle();
  };
  hit(1, NetworkFunction::kMaxStates + 1);
  EXPECT_EQ(NfObjects(run.example, run.homes, kNow).size(),
            NetworkFunction::kMaxStates);
  // A large table is not copied twice a second.
  hit(NetworkFunction::kMaxStates + 2, NetworkFunction::kMaxStateEntries);
  EXPECT_EQ(NfObjects(run.example, run.homes, kNow).size(),
            NetworkFunction::kMaxStates);
  hit(NetworkFunction::kMaxStateEntries + 1,
      NetworkFunction::kMaxStateEntries + 1);
  EXPECT_TRUE(NfObjects(run.example, run.homes, kNow).empty());
}

TEST(NfObjects, AreNoneOfAnNfThatHasNone) {
  WatchedRun run;
  run.running.Hit(7);
  run.Settle();
  run.example.set_has_states(false);
  EXPECT_TRUE(NfObjects(run.example, run.homes, kNow).empty());
  EXPECT_EQ(run.example.tables()[0]->size(), 0u);
}

}  // namespace
}  // namespace snf
