// SPDX-License-Identifier: Apache-2.0
// Random schedules of a group of controllers: members die, start again, freeze
// and go on; etcd is slow or away. No two members may ever handle the packets
// of one host, and in the end each host has one.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "resource_manager/core/gateway_group.h"

namespace snf {
namespace {

constexpr Nanos kTick = Milliseconds(5);
// Etcd is away no more often: a member that alone cannot reach etcd would go
// on, and who is away again and again cannot tell whether others are.
constexpr Nanos kMostOften = Seconds(2);
constexpr uint32_t kHosts = 24;

// The keys in etcd.
struct Store {
  GatewayGroup::Look all;
  int64_t revision = 0;

  bool Swap(const GatewayGroup::Swap& swap) {
    if (all.revision != swap.revision) return false;
    for (const auto& [number, wanted] : swap.beats) {
      const auto beat = all.beats.find(number);
      if ((beat == all.beats.end() ? 0 : beat->second.revision) != wanted) {
        return false;
      }
    }
    all.table = swap.table;
    all.revision = ++revision;
    return true;
  }
  // Revisions go back as well, or not.
  void Restore(const Store& backup) {
    all = backup.all;
    revision = backup.revision;
  }
  void Put(uint32_t number, const GatewayBeat& beat) {
    all.beats[number] = {.beat = beat, .revision = ++revision};
  }
};

// A process: an agent, which talks to etcd, and a path of packets.
class Process {
 public:
  Process(uint32_t number, uint32_t controllers, uint64_t incarnation, Rng rng)
      : number_(number),
        rng_(rng),
        clock_offset_{rng_.Uniform(-1'000'000'000'000, 1'000'000'000'000)},
        group_({.self = {.number = number,
                         .name = "d",
                         .incarnation = incarnation},
                .shape = {.controllers = controllers}}) {}

  void Freeze(Nanos time, Instant now) { frozen_until_ = now + time; }
  bool is_frozen(Instant now) const { return now < frozen_until_; }

  // Does what is due by `now`, which all clocks are apart from.
  void Turn(Store& store, bool is_away, Instant now) {
    if (is_frozen(now)) return;
    if (now >= next_call_) Call(store, is_away, now);
    if (now < next_turn_) return;
    next_turn_ = now + Delay(60);
    path_ = {.live = group_.table().live(),
             .is_active = group_.is_active(),
             .vouched_until = group_.vouched_until()};
    group_.OnApplied(group_.table().epoch);
  }

  bool Handles(uint32_t host, Instant now) const {
    return !is_frozen(now) && path_.is_active &&
           Own(now) < path_.vouched_until &&
           RendezvousOwner(host, path_.live) == number_;
  }
  bool is_in() const { return group_.is_in(); }

 private:
  enum class Step : uint8_t { kPut, kList, kAnswer, kSwap };

  Nanos Delay(int64_t most_ms) {
    return Milliseconds(rng_.Uniform(1, most_ms));
  }
  Instant Own(Instant now) const { return now + clock_offset_; }

  void Call(Store& store, bool is_away, Instant now) {
    next_call_ = now + Delay(40);
    switch (step_) {
      case Step::kPut:
        begun_ = Own(now);
        group_.set_ready();
        fails_ = is_away;
        beaten_ = !fails_ && group_.beats();
        if (beaten_) store.Put(number_, group_.beat());
        next_call_ = fails_ ? now + group_.patience() : next_call_;
        step_ = fails_ ? Step::kAnswer : Step::kList;
        return;
      case Step::kList:
        fails_ = is_away;
        look_ = store.all;
        if (fails_) next_call_ = now + group_.patience();
        step_ = Step::kAnswer;
        return;
      case Step::kAnswer:
        Answer(now);
        return;
      case Step::kSwap:
        // A change may be made, and its answer lost.
        if (!is_away || rng_.Chance(20'000)) store.Swap(*swap_);
        step_ = Step::kPut;
        return;
    }
  }

  void Answer(Instant now) {
    step_ = Step::kPut;
    if (fails_) {
      group_.OnNoAnswer(begun_);
      return;
    }
    group_.OnLook(look_, begun_, Own(now), beaten_);
    swap_ = group_.Wanted();
    if (swap_.has_value()) {
      step_ = Step::kSwap;
    } else {
      next_call_ = now + group_.period();
    }
  }

  const uint32_t number_;
  Rng rng_;
  const Nanos clock_offset_;
  GatewayGroup group_;
  Instant frozen_until_;
  Instant next_call_;
  Instant next_turn_;
  Step step_ = Step::kPut;
  Instant begun_;
  bool fails_ = false;
  bool beaten_ = false;
  GatewayGroup::Look look_;
  std::optional<GatewayGroup::Swap> swap_;
  struct {
    MemberSet live = 0;
    bool is_active = false;
    Instant vouched_until = Instant::min();
  } path_;
};

class World {
 public:
  explicit World(uint64_t seed)
      : rng_(seed), processes_(static_cast<size_t>(rng_.Uniform(1, 5))) {
    for (uint32_t i = 0; i < processes_.size(); ++i) Start(i);
  }

  // Returns false if two members handled one host.
  bool Run(Nanos time, bool has_faults) {
    for (const Instant end = now_ + time; now_ < end; now_ = now_ + kTick) {
      if (has_faults) Fail();
      for (auto& process : processes_) {
        if (process) process->Turn(store_, now_ < away_until_, now_);
      }
      for (uint32_t host = 0; host < kHosts; ++host) {
        if (Handlers(host) > 1) return false;
      }
    }
    return true;
  }

  // Returns true if each host has a member, and all are in.
  bool IsWhole() {
    for (uint32_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i] == nullptr || !processes_[i]->is_in()) return false;
    }
    for (uint32_t host = 0; host < kHosts; ++host) {
      if (Handlers(host) != 1) return false;
    }
    return true;
  }

  void StartAll() {
    away_until_ = now_;
    for (uint32_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i] == nullptr) Start(i);
      processes_[i]->Freeze({}, now_);
    }
  }
  uint64_t epoch() const { return store_.all.table->epoch; }

 private:
  uint32_t Handlers(uint32_t host) const {
    uint32_t handlers = 0;
    for (const auto& process : processes_) {
      handlers += process != nullptr && process->Handles(host, now_) ? 1 : 0;
    }
    return handlers;
  }

  void Start(uint32_t number) {
    const uint64_t incarnation = ++incarnations_;
    processes_[number] = std::make_unique<Process>(
        number, static_cast<uint32_t>(processes_.size()), incarnation,
        rng_.Fork(incarnation));
  }

  void Fail() {
    if (rng_.Chance(655)) {  // each half second
      const auto number = static_cast<uint32_t>(rng_.Below(processes_.size()));
      if (processes_[number] == nullptr) {
        Start(number);
      } else if (rng_.Chance(20'000)) {
        processes_[number] = nullptr;
      } else {
        processes_[number]->Freeze(Milliseconds(rng_.Uniform(1, 3'000)), now_);
      }
    }
    if (now_ > away_until_ + kMostOften && rng_.Chance(80)) {
      away_until_ = now_ + Milliseconds(rng_.Uniform(1, 4'000));
    }
    if (rng_.Chance(40)) backup_ = store_;  // each eight seconds
    if (rng_.Chance(20)) store_.Restore(backup_);
    if (rng_.Chance(10)) store_.Restore({});
  }

  Rng rng_;
  Store store_;
  Store backup_;
  std::vector<std::unique_ptr<Process>> processes_;
  uint64_t incarnations_ = 0;
  Instant now_;
  Instant away_until_;
};

TEST(GatewayGroupRandom, NoHostEverHasTwoMembersAndEachHasOneInTheEnd) {
  const TestSeeds seeds(300, 20'000);
  uint64_t changes = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    seeds.Note(seed);
    World world(seed);
    ASSERT_TRUE(world.Run(Seconds(40), true));
    world.StartAll();
    ASSERT_TRUE(world.Run(Seconds(8), false));
    EXPECT_TRUE(world.IsWhole());
    changes += world.epoch();
  }
  // The schedules are not idle.
  if (!seeds.is_part) {
    EXPECT_GT(changes, 10 * seeds.count());
  }
}

}  // namespace
}  // namespace snf
