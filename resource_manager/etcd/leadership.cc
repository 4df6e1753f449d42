// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/leadership.h"

#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <utility>

#include "base/text/wording.h"

namespace snf {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);

// Counts suspended time as well, as etcd's servers elsewhere do.
Nanos SinceBoot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

}  // namespace

Leadership::Leadership(EtcdClient& client, Options options)
    : client_(client),
      options_(std::move(options)),
      thread_([this] { Run(); }) {}

Leadership::~Leadership() {
  stops_.store(true);
  thread_.join();
  until_ns_.store(0);
  // At the latest, the lease ends by itself.
  if (lease_ != 0) client_.Revoke(lease_).IgnoreError();
}

bool Leadership::is_leader() const { return SinceBoot().ns < until_ns_.load(); }

void Leadership::Run() {
  while (!stops_.load()) {
    if (until_ns_.load() > 0) {
      Renew();
      const Nanos next{SinceBoot().ns + term_.ns / 4};
      while (!stops_.load() && SinceBoot() < next) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      continue;
    }
    const absl::StatusOr<bool> leads = Campaign();
    if (!leads.ok()) Tell(true, std::string(leads.status().message()));
    if (!leads.ok() || !*leads) std::this_thread::sleep_for(kLookEvery);
  }
}

absl::StatusOr<bool> Leadership::Campaign() {
  const auto held = client_.Get(options_.key);
  if (!held.ok()) return held.status();
  if (held->has_value()) {
    Tell(false, fmt::format("waits: the leader is {}",
                            Printable((*held)->value.substr(0, 200))));
    return false;
  }
  const Nanos began = SinceBoot();
  const absl::StatusOr<EtcdLease> lease = client_.Grant(options_.term);
  if (!lease.ok()) return lease.status();
  lease_ = lease->id;
  const auto put = client_.Transact({{options_.key, 0}},
                                    {{options_.key, options_.value, lease_}});
  int64_t revision = put.ok() && put->is_done ? put->revision : 0;
  if (put.ok() && !put->found.empty() && put->found[0].lease == lease_) {
    revision =
        put->found[0].mod_revision;  // the answer to a first try was lost
  }
  if (revision == 0) {
    // Also if the answer was lost: then the key ends with its lease.
    client_.Revoke(std::exchange(lease_, 0)).IgnoreError();
    if (!put.ok()) return put.status();
    return false;
  }
  revision_.store(revision, std::memory_order_release);
  Tell(false, kLeads);
  Lead(began, lease->granted);
  return true;
}

void Leadership::Lead(Nanos since_boot, Nanos term) {
  term_ = term;
  until_ns_.store(since_boot.ns + term.ns - term.ns / 10);
}

void Leadership::Renew() {
  const Nanos began = SinceBoot();
  const absl::StatusOr<Nanos> renewed = client_.KeepAlive(lease_);
  // A renewal after the end by its own clock would let the process lead again
  // without a new key.
  if (renewed.ok() && is_leader()) return Lead(began, *renewed);
  if (is_leader() && !absl::IsNotFound(renewed.status())) return;
  until_ns_.store(0);
  // The lease is gone, or was not renewed within its term.
  Tell(true,
       fmt::format("no longer leads: {}",
                   renewed.ok() ? "etcd has answered too late"
                                : std::string(renewed.status().message())));
  client_.Revoke(std::exchange(lease_, 0)).IgnoreError();
}

void Leadership::Tell(bool is_warning, const std::string& line) {
  if (line == std::exchange(told_, line) || options_.notice == nullptr) return;
  options_.notice(is_warning, line);
}

}  // namespace snf
