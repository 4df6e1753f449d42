// SPDX-License-Identifier: Apache-2.0
// Copies, replicas and homes of a table allocate nothing after construction.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/test_allocations.h"
#include "gtest/gtest.h"
#include "runtime/tables/table_home.h"
#include "runtime/tables/table_replica.h"

namespace snf {
namespace {

constexpr uint32_t kUnits = 3;
constexpr uint64_t kRoom = 100;

// Units that write more keys than there is room for, read, come and go, and
// lose every seventh message.
class Tables {
 public:
  void Run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (uint32_t i = 0; i < kUnits; ++i) {
        if (!replicas_[i].joined()) {
          replicas_[i].on_start(now_, 1);
          stops_[i] = false;
        }
        stops_[i] |= round % 50 == 45 + static_cast<int>(i);
        if (stops_[i]) {
          replicas_[i].on_stop();
          continue;
        }
        for (uint64_t n = 0; n < 5 && round % 50 < 40; ++n) Update(i);
        if (round % 3 == 0) copies_[i].NoteRead();
        replicas_[i].on_updates(now_);
      }
      Exchange();
      now_ = now_ + Milliseconds(5);
    }
  }

  uint64_t messages() const { return messages_; }
  uint64_t repeated() const {
    return home_.repeated() + replicas_[0].repeated();
  }
  uint64_t refused() const { return home_.refused() + copies_[0].refused(); }

 private:
  void Update(uint32_t i) {
    const uint64_t key = ++updates_ * 7 % (3 * kRoom);
    const uint64_t delta = 1;
    copies_[i].BeginTentative();
    copies_[i].Update<1, 1>(&key, &delta);
    copies_[i].EndTentative(updates_ % 4 != 0);
  }

  void Exchange() {
    TableMessage out;
    for (uint32_t i = 0; i < kUnits; ++i) {
      while (replicas_[i].next_wakeup() <= now_ &&
             replicas_[i].on_timers(now_, out)) {
        Deliver(out);
      }
    }
    while (home_.on_timers(now_, out)) Deliver(out);
  }

  // And the answers to it.
  void Deliver(TableMessage message) {
    bool to_home = message.kind == TableMessage::Kind::kUpdate;
    TableMessage answer;
    for (bool any = true; any; to_home = !to_home, message = answer) {
      if (++messages_ % 7 == 0) return;
      TableReplica& replica = replicas_[value(message.unit)];
      any = to_home ? home_.on_message(now_, message, answer)
                    : replica.on_message(now_, message, answer);
    }
  }

  const TableShape shape_ = {
      .name = "t", .key_bytes = 8, .value_bytes = 8, .max_entries = kRoom};
  TableHome home_{0, shape_, kUnits, {}};
  std::array<TableCopy, kUnits> copies_{TableCopy(shape_), TableCopy(shape_),
                                        TableCopy(shape_)};
  std::array<TableReplica, kUnits> replicas_{
      TableReplica(0, UnitId{0}, copies_[0], {}),
      TableReplica(0, UnitId{1}, copies_[1], {}),
      TableReplica(0, UnitId{2}, copies_[2], {})};
  std::array<bool, kUnits> stops_{};
  Instant now_;
  uint64_t updates_ = 0;
  uint64_t messages_ = 0;
};

TEST(TableAllocation, IsNoneAfterConstruction) {
  Tables tables;
  const uint64_t at_start = Allocations();
  delete new std::vector<int>(9);
  EXPECT_EQ(Allocations(), at_start + 2) << "the counter does not count";
  const uint64_t before = Allocations();
  const size_t bytes_before = BytesInUse();
  tables.Run(500);
  EXPECT_EQ(Allocations(), before);
  EXPECT_EQ(BytesInUse(), bytes_before);
  EXPECT_GT(tables.messages(), 500u);
  EXPECT_GT(tables.repeated(), 50u);
  EXPECT_GT(tables.refused(), 50u);
}

}  // namespace
}  // namespace snf
