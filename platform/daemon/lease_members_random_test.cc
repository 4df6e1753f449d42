// SPDX-License-Identifier: Apache-2.0
// Resource managers and members that come and go, over the real service: at no
// time is more promised of a unit than there is.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/rng.h"
#include "controller/leases/lease_keeper.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "platform/daemon/lease_member.h"
#include "resource_manager/live/lease_server.h"
#include "resource_manager/live/manager_desk.h"
#include "resource_manager/live/test_child.h"
#include "runtime/leases/held_units.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr uint32_t kUnits = 3;
constexpr int64_t kCapacity = 1'000'000;
constexpr Nanos kPatience = Seconds(60);

// A daemon without packets: its load is what a test says, and flows need some
// time to leave a unit.
class Daemon {
 public:
  Daemon(std::string name, std::unique_ptr<TestChild> child,
         std::unique_ptr<LeaseMember> member, uint64_t seed)
      : name_(std::move(name)),
        child_(std::move(child)),
        rng_(seed),
        member_(std::move(member)),
        keeper_({.unit_capacity_bps = kCapacity,
                 .max_units = kUnits,
                 .term = Seconds(5),
                 .round_trip = Seconds(1)},
                member_->first_life()),
        life_(member_->first_life()),
        units_(kUnits,
               [this](GlobalUnitId unit) { return used_.contains(unit); }) {}

  // The manager takes the daemon for dead, and the daemon does not know yet:
  // its parts are free.
  bool is_cut_off() const { return buried_ > told_; }
  void CutOff() { ++buried_; }
  const std::string& name() const { return name_; }
  void set_load(int64_t bps) { load_ = bps; }
  int64_t promised(GlobalUnitId unit) const { return units_.promised(unit); }
  // What flows may be put into.
  int64_t used(GlobalUnitId unit) const {
    int64_t sum = 0;
    for (uint16_t u = 0; u < keeper_.units(); ++u) {
      const int64_t share = keeper_.share(UnitId{u});
      if (share > 0 && keeper_.life(UnitId{u}).unit == unit) sum += share;
    }
    return sum;
  }
  bool has_all() const { return keeper_.held() >= keeper_.wanted(); }
  int64_t held() const { return keeper_.held(); }
  uint64_t refused() const { return units_.refused(); }
  TestChild& child() { return *child_; }
  // As a process that was killed, before anybody takes notice.
  void BreakOff() { member_.reset(); }

  void Poll() {
    if (member_ == nullptr) return;
    const Instant now = RealClock::Monotonic();
    for (const FromManager& message : member_->inbox().Take()) {
      Handle(now, message);
    }
    keeper_.on_load(now, load_, requests_);
    if (now >= keeper_.next_wakeup()) keeper_.on_epoch(now, requests_);
    for (auto at = leaving_.begin(); at != leaving_.end();) {
      const auto [lease, due] = *at++;
      if (due > now) continue;
      leaving_.erase(lease);
      keeper_.on_vacated(now, lease, requests_);
    }
    Execute(now);
    UseUnits();
    for (ToManager& answer : units_.TakeAnswers()) {
      member_->outbox().Put(std::move(answer));
    }
  }

 private:
  void Handle(Instant now, const FromManager& message) {
    if (const auto* set = std::get_if<SetShare>(&message)) {
      UseUnits();
      units_.on_set_share(*set);
    } else if (const auto* ask = std::get_if<AskReport>(&message)) {
      units_.on_ask_report(*ask);
    } else if (const auto* stop = std::get_if<StopUnit>(&message)) {
      units_.on_stop_unit(*stop);
    } else if (const auto* grant = std::get_if<Grant>(&message)) {
      keeper_.on_grant(*grant, requests_);
    } else if (const auto* revoke = std::get_if<Revoke>(&message)) {
      keeper_.on_revoke(*revoke, requests_);
    } else if (const auto* gone = std::get_if<Gone>(&message)) {
      keeper_.on_gone(*gone);
      leaving_.erase(gone->lease);
    } else if (const auto* next = std::get_if<NewManager>(&message)) {
      keeper_.on_new_manager(now, *next, requests_);
    } else if (const auto* life = std::get_if<NewLife>(&message)) {
      life_ = life->life;
      keeper_.Succeed(now, life->life, requests_);
    } else if (std::holds_alternative<LeasesEnded>(message)) {
      for (const LeaseId lease : units_.EndAll()) {
        keeper_.on_gone({life_, lease, units_.manager_epoch()});
        leaving_.erase(lease);
      }
      EXPECT_EQ(keeper_.held(), 0);
      ++told_;
    }
  }
  void Execute(Instant now) {
    for (const LeaseCommand& request : std::exchange(requests_, {})) {
      if (const auto* vacate = std::get_if<VacateLease>(&request)) {
        leaving_[vacate->lease] =
            now + Microseconds(static_cast<int64_t>(rng_.Below(20'000)));
        of_leaving_[vacate->lease] = keeper_.life(vacate->unit).unit;
      } else if (const auto* ask = std::get_if<Ask>(&request)) {
        member_->outbox().Put(*ask);
      } else if (const auto* renew = std::get_if<Renew>(&request)) {
        member_->outbox().Put(*renew);
      } else {
        member_->outbox().Put(std::get<GiveBack>(request));
      }
    }
  }
  // Flows are where there are shares, and where they are leaving.
  void UseUnits() {
    std::map<GlobalUnitId, bool> used;
    for (uint16_t u = 0; u < keeper_.units(); ++u) {
      if (keeper_.share(UnitId{u}) > 0)
        used[keeper_.life(UnitId{u}).unit] = true;
    }
    for (const auto& [lease, due] : leaving_)
      used[of_leaving_.at(lease)] = true;
    used_ = std::move(used);
    units_.on_left();
  }

  const std::string name_;
  int buried_ = 0;
  int told_ = 0;
  std::unique_ptr<TestChild> child_;
  Rng rng_;
  std::unique_ptr<LeaseMember> member_;
  LeaseKeeper keeper_;
  ControllerLife life_;
  std::map<GlobalUnitId, bool> used_;
  HeldUnits units_;
  LeaseCommands requests_;
  std::map<LeaseId, Instant> leaving_;
  std::map<LeaseId, GlobalUnitId> of_leaving_;
  int64_t load_ = 0;
};

// A seed, and whether the daemons are on another machine than the managers.
struct Schedule {
  uint64_t seed = 0;  // 0: by the time of day
  bool is_away = false;
};

class LeaseMembersRandomTest : public testing::TestWithParam<Schedule> {
 protected:
  static constexpr Nanos kMemberTerm = Seconds(1);

  LeaseMembersRandomTest()
      : seed_(GetParam().seed != 0 ? GetParam().seed : SeedOfNow()),
        rng_(seed_),
        stem_(fmt::format("{}/snf-leases-{}-{}-{}",
                          std::filesystem::temp_directory_path().string(),
                          getpid(), GetParam().seed, is_away())) {
    fmt::print("SNF_TEST_SEED={}\n", seed_);
  }
  ~LeaseMembersRandomTest() override {
    daemons_.clear();
    EndManager();
    unlink((stem_ + ".members").c_str());
    unlink((stem_ + ".leases").c_str());
  }
  static bool is_away() { return GetParam().is_away; }
  static uint64_t SeedOfNow() {
    const char* const given = std::getenv("SNF_TEST_SEED");
    if (given != nullptr) return std::strtoull(given, nullptr, 10);
    return static_cast<uint64_t>(RealClock::Monotonic().ns);
  }

  void StartManager() {
    auto desk = ManagerDesk::Start(
        {.name = "test",
         .units = kUnits,
         .unit_capacity_bps = kCapacity,
         .machine = "here",
         .member_term = kMemberTerm,
         .file = stem_ + ".members",
         .notice = [this](bool, const std::string& line) { Hear(line); }});
    ASSERT_TRUE(desk.ok()) << desk.status();
    desk_ = *std::move(desk);
    StartServer();
  }
  void StartServer() {
    unlink((stem_ + ".leases").c_str());
    auto server = LeaseServer::Start(stem_ + ".leases", *desk_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // A daemon counts as dead, and others do not have its parts yet.
  void Hear(const std::string& line) {
    if (line.find("was not heard of") == line.npos) return;
    const size_t begin = line.find('"') + 1;
    const std::lock_guard lock(mutex_);
    buried_.push_back(line.substr(begin, line.find('"', begin) - begin));
  }
  void CutOffBuried() {
    const std::lock_guard lock(mutex_);
    for (const std::string& name : buried_) {
      for (const auto& daemon : daemons_) {
        if (daemon->name() == name) daemon->CutOff();
      }
    }
    burials_ += buried_.size();
    buried_.clear();
  }
  void EndManager() {
    server_.reset();
    desk_.reset();
  }
  // Others answer a manager that recovers meanwhile.
  void StartDaemon() {
    auto child = std::make_unique<TestChild>();
    const std::string name = fmt::format("d{}", ++names_);
    const LeaseMember::Options options = {
        .addresses = {LeaseAddress::OfSocket(stem_ + ".leases")},
        .manager = "test",
        .process = child->id(),
        .machine = is_away() ? "there" : "here",
        .name = name,
        .units = kUnits,
        .unit_capacity_bps = kCapacity};
    auto joining = std::async(std::launch::async, [&options] {
      return LeaseMember::Join(options, kPatience);
    });
    while (joining.wait_for(std::chrono::seconds(0)) !=
           std::future_status::ready) {
      Turn();
    }
    auto member = joining.get();
    ASSERT_TRUE(member.ok()) << member.status();
    daemons_.push_back(std::make_unique<Daemon>(
        name, std::move(child), *std::move(member), rng_.Next()));
  }
  // One step of all daemons but those that stand still; then the sums are
  // right.
  void Turn() {
    for (size_t i = 0; i < daemons_.size(); ++i) {
      if (!still_[i]) daemons_[i]->Poll();
    }
    CutOffBuried();
    for (uint32_t u = 0; u < kUnits; ++u) {
      int64_t sum = 0;
      for (const auto& daemon : daemons_) {
        const int64_t promised = daemon->promised(GlobalUnitId{u});
        ASSERT_LE(daemon->used(GlobalUnitId{u}), promised) << "unit " << u;
        if (!daemon->is_cut_off()) sum += promised;
      }
      for (const auto& daemon : broken_) {
        sum += daemon->promised(GlobalUnitId{u});
      }
      ASSERT_LE(sum, kWholeUnit) << "unit " << u;
      most_ = std::max(most_, sum);
    }
    poll(nullptr, 0, 1);
  }
  void TurnFor(Nanos time) {
    const Instant end = RealClock::Monotonic() + time;
    while (RealClock::Monotonic() < end && !HasFatalFailure()) Turn();
  }
  void KillDaemon(size_t i) {
    // Its leases count until the process has ended.
    daemons_[i]->BreakOff();
    if (is_away()) {
      // The machine is lost, with all its processes.
      daemons_.erase(daemons_.begin() + static_cast<std::ptrdiff_t>(i));
      still_.clear();
      return;
    }
    broken_.push_back(std::move(daemons_[i]));
    daemons_.erase(daemons_.begin() + static_cast<std::ptrdiff_t>(i));
    still_.clear();
    TurnFor(Milliseconds(rng_.Below(2) == 0 ? 0 : 150));
    broken_.back()->child().Kill();
    broken_.pop_back();
  }
  void SetLoads(int64_t most_of_all) {
    for (const auto& daemon : daemons_) {
      daemon->set_load(static_cast<int64_t>(
          rng_.Below(static_cast<uint64_t>(most_of_all) / daemons_.size())));
    }
  }

  const uint64_t seed_;
  Rng rng_;
  const std::string stem_;
  std::unique_ptr<ManagerDesk> desk_;
  std::unique_ptr<LeaseServer> server_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
  std::vector<std::unique_ptr<Daemon>> broken_;
  std::map<size_t, bool> still_;
  uint32_t names_ = 0;
  int64_t most_ = 0;
  std::mutex mutex_;
  std::vector<std::string> buried_ ABSL_GUARDED_BY(mutex_);  // names
  size_t burials_ = 0;
};

TEST_P(LeaseMembersRandomTest, PromisesNothingTwice) {
  ASSERT_NO_FATAL_FAILURE(StartManager());
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(StartDaemon());
  for (int step = 0; step < 25 && !HasFatalFailure(); ++step) {
    SetLoads(kCapacity * kUnits * 3 / 2);
    switch (rng_.Below(5)) {
      case 0:
        EndManager();
        TurnFor(Milliseconds(static_cast<int64_t>(rng_.Below(200))));
        ASSERT_NO_FATAL_FAILURE(StartManager());
        break;
      case 1:
        KillDaemon(rng_.Below(daemons_.size()));
        ASSERT_NO_FATAL_FAILURE(StartDaemon());
        break;
      case 2:
        // Both at once.
        EndManager();
        KillDaemon(rng_.Below(daemons_.size()));
        ASSERT_NO_FATAL_FAILURE(StartManager());
        ASSERT_NO_FATAL_FAILURE(StartDaemon());
        break;
      case 3:
        still_[rng_.Below(daemons_.size())] = true;
        break;
      default:
        break;
    }
    TurnFor(Milliseconds(static_cast<int64_t>(rng_.Below(250))));
    still_.clear();
  }
  if (is_away()) {
    // The network is away for longer than a member term.
    const size_t before = burials_;
    server_.reset();
    const Instant patience = RealClock::Monotonic() + kPatience;
    while (burials_ < before + daemons_.size() && !HasFatalFailure() &&
           RealClock::Monotonic() < patience) {
      Turn();
    }
    EXPECT_GE(burials_, before + daemons_.size());
    ASSERT_NO_FATAL_FAILURE(StartServer());
  }
  // In the end all have what they want.
  for (const auto& daemon : daemons_) daemon->set_load(kCapacity / 2);
  const auto all_have = [this] {
    return std::ranges::all_of(daemons_, [](const auto& daemon) {
      return !daemon->is_cut_off() && daemon->has_all() &&
             daemon->held() >= kWholeUnit / 2;
    });
  };
  const Instant end = RealClock::Monotonic() + kPatience;
  while (!all_have() && RealClock::Monotonic() < end && !HasFatalFailure()) {
    Turn();
  }
  EXPECT_TRUE(all_have());
  EXPECT_GT(most_, kWholeUnit / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LeaseMembersRandomTest,
                         testing::Values(Schedule{1}, Schedule{2}, Schedule{0},
                                         Schedule{3, true}, Schedule{0, true}));

}  // namespace
}  // namespace snf
