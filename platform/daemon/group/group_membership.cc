// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/group_membership.h"

#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <utility>

#include "base/text/wording.h"

namespace snf {
namespace {

// "0, 2", or "none".
std::string Numbers(const GatewayTable& table) {
  std::string text;
  for (const Gateway& member : table.members) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", member.number);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Instant GroupMembership::Now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

absl::StatusOr<std::unique_ptr<GroupMembership>> GroupMembership::Start(
    std::unique_ptr<EtcdClient> client, Options options) {
  auto store = GroupStore::Of(*client, options.cluster, options.group);
  if (!store.ok()) return store.status();
  std::unique_ptr<GroupMembership> membership(new GroupMembership(
      std::move(client), *std::move(store), std::move(options)));
  if (absl::Status s = membership->AwaitPlace(); !s.ok()) return s;
  membership->thread_ = std::thread([m = membership.get()] { m->Run(); });
  return membership;
}

GroupMembership::GroupMembership(std::unique_ptr<EtcdClient> client,
                                 GroupStore store, Options options)
    : options_(std::move(options)),
      client_(std::move(client)),
      store_(std::move(store)),
      group_(options_.member) {
  view_.table = std::make_shared<const GatewayTable>();
}

GroupMembership::~GroupMembership() {
  Leave();
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GroupMembership::Begin() {
  wants_in_ = true;
  changed_.notify_all();
}

void GroupMembership::Leave() {
  wants_in_ = false;
  changed_.notify_all();
}

GroupMembership::View GroupMembership::Current() const {
  const std::scoped_lock lock(mutex_);
  return view_;
}

void GroupMembership::OnTurn(uint64_t epoch) {
  applied_.store(epoch, std::memory_order_release);
  turned_ns_.store(Now().ns, std::memory_order_release);
}

// A member that was killed a moment ago is silent soon.
absl::Status GroupMembership::AwaitPlace() {
  const Instant end = Now() + options_.member.silence + Seconds(5);
  const Instant told_by =
      Now() + Nanos{options_.member.silence.ns + 4 * group_.period().ns};
  while (true) {
    const Instant begun = Now();
    const auto look = store_.Look();
    absl::Status why = look.status();
    if (look.ok()) {
      group_.OnLook(*look, begun, Now(), false);
      why = group_.CheckJoin();
      if (why.ok()) return why;
      if (Now() > told_by) break;
    } else if (Now() > end || !absl::IsUnavailable(why)) {
      return why;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(group_.period().ns));
  }
  return absl::FailedPreconditionError(
      fmt::format("group \"{}\": {}", options_.group,
                  std::string(group_.CheckJoin().message())));
}

bool GroupMembership::stops() const {
  const std::scoped_lock lock(mutex_);
  return stops_;
}

void GroupMembership::Wait(Nanos time) {
  std::unique_lock lock(mutex_);
  const bool wants_in = wants_in_;
  changed_.wait_for(lock, std::chrono::nanoseconds(time.ns),
                    [&] { return stops_ || wants_in_ != wants_in; });
}

void GroupMembership::Run() {
  while (!stops()) {
    if (!Cycle()) Wait(group_.period());
  }
  const Instant end = Now() + options_.member.silence;
  while (group_.is_in() && Now() < end) Cycle();
}

bool GroupMembership::IsPathAlive(Instant now) const {
  const Instant turned{turned_ns_.load(std::memory_order_acquire)};
  return now - turned < Nanos{options_.member.silence.ns / 2};
}

bool GroupMembership::Cycle() {
  if (wants_in_) {
    group_.set_ready();
  } else {
    group_.set_leaves();
  }
  const Instant begun = Now();
  group_.OnApplied(applied_.load(std::memory_order_acquire));
  group_.OnOut(out_.load(std::memory_order_relaxed));
  const bool beats = group_.beats() && IsPathAlive(begun);
  if (beats) {
    const absl::Status put =
        store_.Beat(options_.member.self.number, group_.beat());
    if (!put.ok()) {
      OnNoAnswer(begun, put);
      return true;
    }
  }
  const auto look = store_.Look();
  if (!look.ok()) {
    OnNoAnswer(begun, look.status());
    return absl::IsUnavailable(look.status());
  }
  if (std::exchange(is_lost_, false)) {
    options_.notice(false, "etcd answers again");
  }
  group_.OnLook(*look, begun, Now(), beats);
  Publish();
  const auto swap = group_.Wanted();
  if (!swap.has_value()) return false;
  constexpr Nanos kForOthers = Milliseconds(5);
  if (!store_.Swap(*swap).ok()) Wait(kForOthers);
  return true;
}

void GroupMembership::OnNoAnswer(Instant begun, const absl::Status& why) {
  group_.OnNoAnswer(begun);
  if (!std::exchange(is_lost_, true)) {
    options_.notice(true,
                    fmt::format("group \"{}\": its table stays as it is: "
                                "{}",
                                options_.group, std::string(why.message())));
  }
  Publish();
}

void GroupMembership::Publish() {
  View now = {.table = nullptr,
              .is_in = group_.is_in(),
              .is_active = group_.is_active(),
              .joined = group_.joined(),
              .vouched_until = group_.vouched_until()};
  View before;
  {
    const std::scoped_lock lock(mutex_);
    before = view_;
    now.table = *before.table == group_.table()
                    ? before.table
                    : std::make_shared<const GatewayTable>(group_.table());
    view_ = now;
  }
  TellChanges(before, now);
}

void GroupMembership::TellChanges(const View& before, const View& now) {
  const GatewayTable& table = *now.table;
  const auto tell = [this](bool is_warning, const std::string& what) {
    options_.notice(is_warning,
                    fmt::format("group \"{}\": {}", options_.group, what));
  };
  if (before.is_in && !now.is_in && wants_in_) {
    tell(true, fmt::format("this controller is out of the table, in epoch {}: "
                           "it takes no packets until it has joined again",
                           table.epoch));
  }
  for (const Gateway& member : before.table->members) {
    if (table.Find(member.number) != nullptr || !now.is_in) continue;
    tell(true, fmt::format("controller {} (\"{}\") is out of the table: others "
                           "have its hosts",
                           member.number, Printable(member.name)));
  }
  if (now.is_in && before.table->epoch != table.epoch) {
    tell(false,
         fmt::format("epoch {}: live controllers are {}, of {}", table.epoch,
                     Numbers(table), table.shape.controllers));
  }
  const std::string why(wants_in_ && !now.is_in ? group_.CheckJoin().message()
                                                : "");
  if (!why.empty() && why != refused_) tell(true, "cannot join: " + why);
  refused_ = why;
}

}  // namespace snf
