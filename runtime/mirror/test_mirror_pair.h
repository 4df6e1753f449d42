// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_MIRROR_TEST_MIRROR_PAIR_H_
#define SNF_RUNTIME_MIRROR_TEST_MIRROR_PAIR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/packet/packet_info.h"
#include "runtime/mirror/loop_mirror.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/test_region.h"
#include "runtime/ring/thread_link.h"

namespace snf {

// The memory of one side of a mirror, and the ends of its rings that this side
// has.
class TestMirrorSide {
 public:
  static constexpr size_t kRings = static_cast<size_t>(MirroredRing::kCount);
  static constexpr std::array<BufferPool::Options, 2> kShares = {
      BufferPool::Options{.small = 64, .medium = 4, .large = 1},
      BufferPool::Options{.small = 16, .medium = 1, .large = 1}};

  TestMirrorSide()
      : progress(region_.New<LoopProgress>()),
        control(region_.New<LoopControl>()),
        controllers(region_.New<ControllerEpoch>()),
        clock(region_.New<RealClock>()),
        units_bell(region_.New<Doorbell>()),
        controller_bell(region_.New<Doorbell>()),
        loggers_bell(region_.New<Doorbell>()) {
    for (std::span<std::byte>& ring : rings) ring = region_.RingMemory();
    region_.MakePool(kShares);
  }

  MirrorParts Parts() {
    return {.rings = rings,
            .progress = progress,
            .control = control,
            .controllers = controllers,
            .clock = clock,
            .units_bell = units_bell,
            .controller_bell = controller_bell,
            .loggers_bell = loggers_bell,
            .pool = Pool(0)};
  }
  BufferPool Pool(uint8_t party) { return region_.Attach(party); }
  CellRing::Producer Producer(MirroredRing ring) {
    return *CellRing::Producer::Attach(rings[static_cast<size_t>(ring)],
                                       nullptr);
  }
  CellRing::Consumer Consumer(MirroredRing ring) {
    return *CellRing::Consumer::Attach(rings[static_cast<size_t>(ring)]);
  }

 private:
  TestRegion region_;

 public:
  std::array<std::span<std::byte>, kRings> rings;
  LoopProgress* progress;
  LoopControl* control;
  ControllerEpoch* controllers;
  RealClock* clock;
  Doorbell* units_bell;
  Doorbell* controller_bell;
  Doorbell* loggers_bell;
};

// Two sides, and the mirrors between them.
class TestMirrorPair {
 public:
  explicit TestMirrorPair(Nanos ahead = {}) : ahead_(ahead) { Begin(); }

  // Makes new memory of the away side, and mirrors.
  void Begin() {
    away = std::make_unique<TestMirrorSide>();
    at_home = std::make_unique<LoopMirror>(
        LoopMirror::Options{.side = LoopMirror::Side::kHome,
                            .longest_entry = 1'024},
        home.Parts());
    at_away = std::make_unique<LoopMirror>(
        LoopMirror::Options{.side = LoopMirror::Side::kAway,
                            .ahead = ahead_,
                            .longest_entry = 1'024},
        away->Parts());
    std::vector<std::byte> begin;
    at_home->WriteBegin(begin);
    SNF_CHECK(at_away->ReadBegin(begin).ok());
  }
  // Carry all news.
  void Down() { Carry(*at_home, *at_away); }
  void Up() { Carry(*at_away, *at_home); }
  static std::vector<std::byte> Collect(LoopMirror& from) {
    std::vector<std::byte> frame;
    from.Collect(frame);
    return frame;
  }

  TestMirrorSide home;
  std::unique_ptr<TestMirrorSide> away;
  std::unique_ptr<LoopMirror> at_home;
  std::unique_ptr<LoopMirror> at_away;

 private:
  static void Carry(LoopMirror& from, LoopMirror& to) {
    SNF_CHECK(to.Apply(Collect(from)).ok());
  }
  Nanos ahead_;
};

// Returns a cell that carries the number, without a payload.
inline Cell TestCell(uint64_t number) {
  PacketMeta meta = {};
  meta.clock = Clock{number};
  return std::bit_cast<Cell>(
      ControllerCommand::Enqueue(UnitId{0}, kNoPacket, meta));
}
inline uint64_t NumberOf(const Cell& cell) {
  return value(cell.As<ControllerCommand>().meta.clock);
}

}  // namespace snf

#endif  // SNF_RUNTIME_MIRROR_TEST_MIRROR_PAIR_H_
