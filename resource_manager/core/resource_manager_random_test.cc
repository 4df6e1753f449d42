// SPDX-License-Identifier: Apache-2.0
//
// Random lives of controllers, units and managers; messages to units come late,
// twice and in any order, or are lost, and so are grants. SNF_LONG_TESTS=1 runs
// 20 times as many.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "resource_manager/core/resource_manager.h"

namespace snf {
namespace {

constexpr uint32_t kUnits = 5;
constexpr uint8_t kControllers = 4;

// A process of a unit, with what it honours.
struct FakeUnit {
  struct Held {
    ControllerLife holder;
    uint64_t sequence = 0;
    int64_t share = 0;
    int64_t target = 0;
  };
  bool alive = false;
  uint64_t incarnation = 0;
  uint64_t manager = 0;
  std::map<LeaseId, Held> leases{};

  int64_t honoured() const {
    int64_t sum = 0;
    for (const auto& [id, held] : leases) sum += held.share;
    return sum;
  }
};

struct FakeController {
  std::optional<ControllerLife> life;
  uint64_t asks = 0;
  int64_t wants = 0;
  std::map<LeaseId, int64_t> leases;
  std::map<LeaseId, uint64_t> sequences{};  // of the last grants
};

class World {
 public:
  explicit World(uint64_t seed) : rng_(seed) { Restart(false); }

  void Step() {
    now_ = now_ + Milliseconds(rng_.Uniform(0, 20));
    const auto c = static_cast<uint8_t>(rng_.Below(kControllers));
    FakeController& controller = controllers_[c];
    const auto u = static_cast<uint32_t>(rng_.Below(kUnits));
    switch (rng_.Below(24)) {
      case 0:
        Join(c);
        break;
      case 1:
        if (controller.life && rng_.Chance(20'000)) {
          manager_->on_controller_dead(now_, *controller.life, out_);
          controller = {};
        }
        break;
      case 2:
        if (rng_.Chance(20'000)) Kill(u);
        break;
      case 3:
        if (rng_.Chance(10'000)) Restart(true);
        break;
      case 4:
        if (rng_.Chance(20'000)) {
          manager_->Close(now_, Life(u), out_);
        }
        break;
      case 5:
      case 6:
      case 7:
        AskFor(c, rng_.Uniform(0, 3 * kWholeUnit));
        break;
      case 8:
        if (controller.life && !controller.leases.empty()) {
          const auto [lease, share] = *controller.leases.begin();
          const int64_t keep = rng_.Uniform(0, share);
          const LeaseRefusal why = manager_->on_give_back(
              now_, {*controller.life, lease, keep}, out_);
          if (why == LeaseRefusal::kNone && keep == 0) {
            controller.leases.erase(lease);
          }
        }
        break;
      case 9:
        Renew(c);
        break;
      case 10:
        manager_->on_tick(now_, out_);
        break;
      case 11:
        Drain(u);
        break;
      case 12:
        if (controller.life && rng_.Chance(20'000)) Succeed(c);
        break;
      default:
        DeliverOne();
    }
    Take();
    Check();
  }

  // Lets everything go well until nothing changes, then checks that those who
  // wait hold nearly as much as anybody.
  void Settle() {
    is_settling_ = true;
    for (uint8_t c = 0; c < kControllers; ++c) {
      if (!controllers_[c].life) Join(c);
    }
    for (int round = 0; round < 400; ++round) {
      now_ = now_ + Milliseconds(100);
      for (uint8_t c = 0; c < kControllers; ++c) {
        if (!controllers_[c].life) Join(c);
        AskFor(c, (c + 1) * kWholeUnit);
        Renew(c);
      }
      manager_->on_tick(now_, out_);
      Take();
      Check();
      for (int i = 0; i < 2; ++i) {
        while (!to_units_.empty()) DeliverOne();
        for (uint32_t u = 0; u < kUnits; ++u) Drain(u);
        Take();
        Check();
      }
    }
    ASSERT_FALSE(manager_->recovering());
    int64_t most = 0;
    int64_t sum = 0;
    for (uint8_t c = 0; c < kControllers; ++c) {
      const int64_t held = manager_->held(ControllerId{c});
      most = std::max(most, held);
      sum += held;
    }
    EXPECT_GE(sum, kUnits * kWholeUnit - 2 * ResourceManager::kLeastMove);
    for (uint8_t c = 0; c < kControllers; ++c) {
      const int64_t held = manager_->held(ControllerId{c});
      if (held < (c + 1) * kWholeUnit) {
        EXPECT_GE(held, most - 2 * ResourceManager::kLeastMove) << int{c};
      }
      int64_t told = 0;
      for (const auto& [lease, share] : controllers_[c].leases) told += share;
      EXPECT_EQ(told, held) << int{c};
    }
  }

  uint64_t lost() const { return lost_; }
  uint64_t grants() const { return grants_; }
  uint64_t successions() const { return successions_; }

 private:
  UnitLife Life(uint32_t u) const {
    return {GlobalUnitId{u}, units_[u].incarnation};
  }

  // Nothing is lost while all is to settle.
  bool Loses() {
    if (is_settling_ || !rng_.Chance(3'000)) return false;
    ++lost_;
    return true;
  }

  void Restart(bool recover) {
    out_.clear();
    manager_ = std::make_unique<ResourceManager>(
        ManagerOptions{.max_units = kUnits,
                       .max_starts = 2,
                       .start_timeout = Seconds(1),
                       .keep_warm = Seconds(1)},
        ++epoch_, recover, out_);
    Take();
  }

  void Join(uint8_t c) {
    controllers_[c] = {};
    controllers_[c].life = manager_->on_join(now_, ControllerId{c}, out_);
  }

  // Another process takes the controller's place, with what units tell it.
  void Succeed(uint8_t c) {
    const auto life = manager_->on_succeed(now_, ControllerId{c}, out_);
    if (!life) return;
    ++successions_;
    EXPECT_GT(life->epoch, controllers_[c].life->epoch);
    controllers_[c] = {.life = life, .leases = {}};
    for (const FakeUnit& unit : units_) {
      for (const auto& [id, held] : unit.leases) {
        if (held.holder.controller != ControllerId{c} || held.target == 0) {
          continue;
        }
        controllers_[c].leases[id] = held.target;
      }
    }
  }

  void AskFor(uint8_t c, int64_t wants) {
    FakeController& controller = controllers_[c];
    if (!controller.life) return;
    controller.wants = wants;
    manager_->on_ask(now_, {*controller.life, ++controller.asks, wants}, out_);
  }

  void Renew(uint8_t c) {
    FakeController& controller = controllers_[c];
    if (!controller.life) return;
    for (const auto& [lease, share] : controller.leases) {
      manager_->on_renew(
          now_, {*controller.life, lease, controller.sequences[lease]}, out_);
    }
  }

  void Kill(uint32_t u) {
    if (!units_[u].alive) return;
    const UnitLife life = Life(u);
    units_[u].alive = false;
    units_[u].leases.clear();
    if (manager_->recovering() &&
        manager_->state(life.unit) == ResourceManager::State::kUnknown) {
      return;  // the question will find nobody
    }
    manager_->on_unit_dead(now_, life, out_);
  }

  void Drain(uint32_t u) {
    FakeUnit& unit = units_[u];
    for (auto at = unit.leases.begin(); at != unit.leases.end();) {
      const auto [id, held] = *at;
      if (held.target > 0) {
        ++at;
        continue;
      }
      at = unit.leases.erase(at);
      Check();
      manager_->on_share_set(now_, {Life(u), unit.manager, id, held.sequence},
                             out_);
    }
  }

  void Take() {
    for (size_t i = 0; i < out_.size(); ++i) {
      const ManagerCommand command = out_[i];
      if (const auto* grant = std::get_if<Grant>(&command)) {
        ++grants_;
        if (Loses()) continue;
        FakeController& c = controllers_[value(grant->to.controller)];
        if (c.life == grant->to) {
          c.leases[grant->lease] = grant->share;
          c.sequences[grant->lease] = grant->sequence;
        }
      } else if (const auto* gone = std::get_if<Gone>(&command)) {
        FakeController& c = controllers_[value(gone->to.controller)];
        if (c.life == gone->to) c.leases.erase(gone->lease);
      } else if (std::get_if<Revoke>(&command) == nullptr &&
                 std::get_if<NewManager>(&command) == nullptr) {
        const auto* const set = std::get_if<SetShare>(&command);
        if (set != nullptr && manager_->recovering()) {
          EXPECT_LT(value(set->lease) >> 32, epoch_) << "granted too early";
        }
        if (Loses()) continue;
        to_units_.push_back(command);
        if (set != nullptr && rng_.Chance(6'000)) to_units_.push_back(command);
      }
    }
    out_.clear();
  }

  void DeliverOne() {
    if (to_units_.empty()) return;
    const size_t i = rng_.Below(to_units_.size());
    const ManagerCommand command = to_units_[i];
    to_units_.erase(to_units_.begin() + static_cast<ptrdiff_t>(i));
    std::visit([this](const auto& message) { Deliver(message); }, command);
    Take();
    Check();
  }

  void Deliver(const SetShare& set) {
    FakeUnit& unit = units_[value(set.to.unit)];
    if (!unit.alive || unit.incarnation != set.to.incarnation ||
        set.manager_epoch < unit.manager) {
      return;
    }
    const auto at = unit.leases.find(set.lease);
    if (at == unit.leases.end()) {
      // One that is over; a unit remembers its numbers.
      if (set.share > 0 && done_[set.lease] >= set.sequence) return;
      if (set.share == 0) {
        done_[set.lease] = set.sequence;
        Answer(set);
        return;
      }
    } else if (set.sequence <= at->second.sequence) {
      // The answer may be lost.
      if (set.sequence == at->second.sequence && set.share > 0) Answer(set);
      return;
    }
    FakeUnit::Held& held = unit.leases[set.lease];
    held.holder = set.holder;
    held.sequence = set.sequence;
    held.target = set.share;
    done_[set.lease] = set.sequence;
    if (set.share == 0) return;  // answered when it is drained
    held.share = set.share;
    Check();
    Answer(set);
  }
  void Answer(const SetShare& set) {
    if (Loses()) return;
    manager_->on_share_set(now_,
                           {set.to, units_[value(set.to.unit)].manager,
                            set.lease, set.sequence, set.share},
                           out_);
  }
  void Deliver(const StartUnit& start) {
    FakeUnit& unit = units_[value(start.unit.unit)];
    if (start.unit.incarnation <= unit.incarnation) return;
    if (Loses()) return;
    if (start.unit.incarnation >> 32 < epoch_) return;
    unit = {.alive = true,
            .incarnation = start.unit.incarnation,
            .manager = epoch_};
    if (rng_.Chance(8'000)) return Kill(value(start.unit.unit));
    manager_->on_ready(now_, start.unit, out_);
  }
  void Deliver(const StopUnit& stop) {
    FakeUnit& unit = units_[value(stop.unit.unit)];
    if (stop.manager_epoch < unit.manager) return;
    if (!unit.alive && unit.incarnation == stop.unit.incarnation) {
      manager_->on_stopped(now_, stop.unit, out_);
    }
    if (!unit.alive || unit.incarnation != stop.unit.incarnation) return;
    unit.alive = false;
    unit.leases.clear();
    if (manager_->on_stopped(now_, stop.unit, out_) != LeaseRefusal::kNone) {
      manager_->on_unit_dead(now_, stop.unit, out_);
    }
  }
  void Deliver(const AskReport& ask) {
    if (ask.manager_epoch != epoch_ || Loses()) return;
    FakeUnit& unit = units_[value(ask.unit)];
    unit.manager = epoch_;
    std::vector<ReportedLease> leases;
    for (const auto& [id, held] : unit.leases) {
      leases.push_back(
          {id, held.holder, held.sequence, held.share, held.target});
    }
    // It may have been asked twice.
    const bool is_new =
        manager_->state(ask.unit) == ResourceManager::State::kUnknown;
    EXPECT_EQ(
        manager_->on_report(now_, {Life(value(ask.unit)), epoch_, !unit.alive},
                            leases, out_),
        is_new ? LeaseRefusal::kNone : LeaseRefusal::kWrongState);
  }
  void Deliver(const NewManager&) {}
  void Deliver(const Grant&) {}
  void Deliver(const Revoke&) {}
  void Deliver(const Gone&) {}
  void Deliver(const NewLife&) {}

  // No unit honours more than itself, nor more than the manager has promised.
  void Check() {
    for (uint32_t u = 0; u < kUnits; ++u) {
      const int64_t honoured = units_[u].honoured();
      ASSERT_LE(honoured, kWholeUnit) << "unit " << u;
      const auto state = manager_->state(GlobalUnitId{u});
      if (state != ResourceManager::State::kActive &&
          state != ResourceManager::State::kWarm) {
        continue;
      }
      ASSERT_GE(manager_->free(GlobalUnitId{u}), 0) << "unit " << u;
      ASSERT_LE(honoured, kWholeUnit - manager_->free(GlobalUnitId{u}))
          << "unit " << u;
    }
  }

  Rng rng_;
  Instant now_{0};
  uint64_t epoch_ = 0;
  bool is_settling_ = false;
  uint64_t lost_ = 0;
  uint64_t grants_ = 0;
  uint64_t successions_ = 0;
  ManagerOut out_;
  std::unique_ptr<ResourceManager> manager_;
  FakeUnit units_[kUnits];
  FakeController controllers_[kControllers];
  std::vector<ManagerCommand> to_units_;
  std::map<LeaseId, uint64_t> done_;
};

TEST(ResourceManagerRandom, PromisesNoShareTwiceAndLeavesNobodyWaiting) {
  const TestSeeds seeds(500, 10'000);
  uint64_t grants = 0, successions = 0, lost = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    World world(seed);
    for (int step = 0; step < 600 && !testing::Test::HasFailure(); ++step) {
      world.Step();
    }
    if (testing::Test::HasFailure()) return;
    world.Settle();
    if (testing::Test::HasFailure()) return;
    grants += world.grants();
    successions += world.successions();
    lost += world.lost();
  }
  EXPECT_GT(lost, 5 * seeds.count());
  EXPECT_GT(grants, 10 * seeds.count());
  EXPECT_GT(successions, seeds.count());
}

}  // namespace
}  // namespace snf
