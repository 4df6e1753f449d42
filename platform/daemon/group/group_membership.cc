// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/group_membership.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
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

// Returns true for errors that all members have, or none of them may count on:
// etcd is away, too slow, or full. All others are answers.
bool IsNoAnswer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
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
  if (!membership->options_.member.continues) {
    membership->thread_ = std::thread([m = membership.get()] { m->Run(); });
  }
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
  if (!is_handed_on_) Leave();
  Ask([this] { stops_ = true; });
  if (thread_.joinable()) thread_.join();
}

absl::Status GroupMembership::Continue(const GatewayGroup::Place& place) {
  if (place.table.Find(options_.member.self.number) == nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "group \"{}\": this controller is not in its table", options_.group));
  }
  group_.Continue(place);
  OnTurn(place.table.epoch);
  wants_in_ = true;
  Publish();
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

std::optional<GatewayGroup::Place> GroupMembership::HandOn(uint64_t epoch) {
  const View view = Current();
  if (!view.is_in || !view.is_active || view.table->epoch != epoch) {
    return std::nullopt;
  }
  is_handed_on_ = true;
  Ask([this] { stops_ = true; });
  return GatewayGroup::Place{.table = *view.table,
                             .is_active = view.is_active,
                             .joined = view.joined,
                             .vouched_until = view.vouched_until};
}

void GroupMembership::Begin() {
  Ask([this] { wants_in_ = true; });
}

void GroupMembership::Leave() {
  Ask([this] { wants_in_ = false; });
}

void GroupMembership::Ask(const std::function<void()>& set) {
  {
    const std::scoped_lock lock(mutex_);
    set();
    ++asked_;
  }
  changed_.notify_all();
}

GroupMembership::View GroupMembership::Current() const {
  const std::scoped_lock lock(mutex_);
  return view_;
}

Outage::State GroupMembership::etcd() const {
  const std::scoped_lock lock(mutex_);
  return outage_.At(Now());
}

void GroupMembership::NoteAnswer(Instant begun, const absl::Status& status) {
  const std::scoped_lock lock(mutex_);
  if (status.ok()) return outage_.OnAnswer();
  outage_.OnNoAnswer(begun, std::string(status.message()));
}

void GroupMembership::OnTurn(uint64_t epoch) {
  applied_.store(epoch, std::memory_order_release);
  turned_ns_.store(Now().ns, std::memory_order_release);
}

// A member that was killed a moment ago is silent soon.
absl::Status GroupMembership::AwaitPlace() {
  const Instant first = Now();
  while (true) {
    const Instant begun = Now();
    const auto look = store_.Look();
    absl::Status why = look.status();
    if (look.ok()) {
      group_.OnLook(*look, begun, Now(), false);
      why = group_.CheckJoin();
      if (why.ok()) return why;
      const Nanos silent{group_.silence().ns + 4 * group_.period().ns};
      if (Now() > first + silent) break;
    } else if (!absl::IsUnavailable(why) ||
               Now() > first + options_.member.shape.silence + Seconds(5)) {
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
  changed_.wait_for(lock, std::chrono::nanoseconds(time.ns),
                    [this] { return asked_ != heeded_; });
}

void GroupMembership::Run() {
  while (!stops()) Wait(Cycle());
  if (is_handed_on_) return;
  // Two calls without an answer may be under way.
  constexpr Nanos kLongest = Seconds(2);
  const Nanos leaves{group_.period().ns + 2 * group_.patience().ns};
  const Instant end = Now() + std::min(leaves, kLongest);
  while (group_.is_in() && Now() < end) Wait(Cycle());
}

bool GroupMembership::IsPathAlive(Instant now) const {
  const Instant turned{turned_ns_.load(std::memory_order_acquire)};
  return now - turned < Nanos{options_.member.shape.silence.ns / 2};
}

void GroupMembership::HeedAsks() {
  const std::scoped_lock lock(mutex_);
  heeded_ = asked_;
}

// A member that lost its hosts, since its path stood still, joins again once
// the path turns.
void GroupMembership::SetWish() {
  if (wants_in_ && (group_.is_in() || IsPathAlive(Now()))) {
    group_.set_ready();
  } else {
    group_.set_leaves();
  }
}

Nanos GroupMembership::Cycle() {
  HeedAsks();
  if (is_handed_on_) return {};
  SetWish();
  const Instant begun = Now();
  group_.OnApplied(applied_.load(std::memory_order_acquire));
  group_.OnOut(out_.load(std::memory_order_relaxed));
  const bool beats = group_.beats() && IsPathAlive(begun);
  if (beats) {
    const absl::Status put =
        store_.Beat(options_.member.self.number, group_.beat());
    if (!put.ok()) return OnError(begun, put);
  }
  const auto look = store_.Look();
  if (!look.ok()) return OnError(begun, look.status());
  NoteAnswer(begun, absl::OkStatus());
  if (std::exchange(etcd_, Etcd::kAnswers) != Etcd::kAnswers) {
    Tell(false, "etcd answers again");
  }
  if (store_.unread() != unread_) {
    unread_ = store_.unread();
    if (!unread_.empty()) Tell(true, "a sign of life is not read: " + unread_);
  }
  group_.OnLook(*look, begun, Now(), beats);
  Publish();
  SetWish();  // it may be out now
  const auto swap = group_.Wanted();
  return swap.has_value() ? Change(*swap) : group_.period();
}

Nanos GroupMembership::Change(const GatewayGroup::Swap& swap) {
  const absl::StatusOr<bool> is_done = store_.Swap(swap);
  if (!is_done.ok()) {
    if (!std::exchange(is_change_refused_, true)) {
      Tell(true, fmt::format("its table cannot be changed: {}",
                             std::string(is_done.status().message())));
    }
    return group_.period();
  }
  is_change_refused_ = false;
  constexpr Nanos kForOthers = Milliseconds(5);  // one of which was first
  return *is_done ? Nanos{} : kForOthers;
}

Nanos GroupMembership::OnError(Instant begun, const absl::Status& why) {
  const bool is_away = IsNoAnswer(why);
  if (is_away) group_.OnNoAnswer(begun);
  NoteAnswer(begun, why);
  const Etcd etcd = is_away ? Etcd::kAway : Etcd::kRefuses;
  if (std::exchange(etcd_, etcd) != etcd) {
    Tell(true, fmt::format("{}: {}",
                           is_away ? "its table stays as it is"
                                   : "this controller takes no packets while "
                                     "etcd refuses",
                           std::string(why.message())));
  }
  Publish();
  return absl::IsUnavailable(why) ? Nanos{} : group_.period();
}

void GroupMembership::Tell(bool is_warning, const std::string& what) const {
  options_.notice(is_warning,
                  fmt::format("group \"{}\": {}", options_.group, what));
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
  if (before.is_in && !now.is_in && wants_in_) {
    Tell(true, fmt::format("this controller is out of the table, in epoch {}: "
                           "it takes no packets until it has joined again",
                           table.epoch));
  }
  for (const Gateway& member : before.table->members) {
    if (table.Find(member.number) != nullptr || !now.is_in) continue;
    Tell(true, fmt::format("controller {} (\"{}\") is out of the table: others "
                           "have its hosts",
                           member.number, Printable(member.name)));
  }
  if (now.is_in && before.table->epoch != table.epoch) {
    Tell(false,
         fmt::format("epoch {}: live controllers are {}, of {}", table.epoch,
                     Numbers(table), table.shape.controllers));
  }
  const std::string why(wants_in_ && !now.is_in ? group_.CheckJoin().message()
                                                : "");
  if (!why.empty() && why != refused_) Tell(true, "cannot join: " + why);
  refused_ = why;
}

}  // namespace snf
