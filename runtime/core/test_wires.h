// SPDX-License-Identifier: Apache-2.0
// Random schedules share what is here: which are run, what happens in them, and
// what is on its way to a unit.
#ifndef SNF_RUNTIME_CORE_TEST_WIRES_H_
#define SNF_RUNTIME_CORE_TEST_WIRES_H_

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <vector>

#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "runtime/core/unit.h"

namespace snf {

// Totals count what happened in all schedules.
struct NetworkTotals {
  uint64_t packets = 0;
  uint64_t moves = 0;  // counts flowlets
  uint64_t doubled = 0;
  uint64_t flows_ended = 0;
  uint64_t stops = 0;
  uint64_t starts = 0;
};

// Items go down a channel, in order.
struct NetworkItem {
  enum class Kind : uint8_t { kPacket, kEnd, kStop, kAck, kPieces, kReclaim };
  Kind kind = Kind::kPacket;
  PacketHandle packet = kNoPacket;
  PacketMeta meta{};
  ReplicaSet replicas{};  // comes before the packet
  EndFlow end{};
  AliasAck ack{};
  PieceBlock pieces{};
};

// Wires carry one message from unit to unit.
struct NetworkWire {
  UnitCommand command;
  std::vector<std::byte> record;

  void Deliver(Instant now, Unit& unit, UnitOut& out) const {
    switch (command.kind) {
      case UnitCommand::Kind::kSendPull:
        unit.on_pull(now, command.pull, out);
        break;
      case UnitCommand::Kind::kSendState:
        unit.on_state(now, command.state, record, out);
        break;
      case UnitCommand::Kind::kSendTakeover:
        unit.on_takeover(now, command.takeover, out);
        break;
      default:
        unit.on_takeover_ack(now, command.takeover_ack, out);
    }
  }
};

// Runs Schedule(seed, totals) for 3,000 seeds, for 100,000 if SNF_LONG_TESTS is
// set, or for SNF_TEST_SEED, up to the first that fails. Returns how many ran.
template <typename Schedule, typename Totals>
uint64_t RunSchedules(Totals& totals) {
  const TestSeeds seeds(3'000, 100'000);
  for (const uint64_t seed : seeds.all()) {
    Schedule(seed, totals).Run();
    if (!::testing::Test::HasFailure()) continue;
    std::cout << TestSeeds::Name(seed) << "\n";
    return seed - seeds.first;
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": ";
  return seeds.count();
}

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_WIRES_H_
