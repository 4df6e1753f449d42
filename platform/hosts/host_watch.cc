// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/host_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text/wording.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr uint32_t kMostProcesses = 32;

std::string NameOf(const HostPlace& host) {
  return fmt::format("host {} ({})", host.name.data(), host.address.data());
}

// Returns true if the host is among hosts in the order of their names.
bool Has(const std::vector<HostPlace>& hosts, const HostPlace& host) {
  const auto same =
      std::ranges::equal_range(hosts, host.name, {}, &HostPlace::name);
  return std::ranges::find(same, host) != same.end();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostWatch>> HostWatch::Start(
    std::unique_ptr<EtcdClient> client, Options options) {
  auto registry = HostRegistry::Of(*client, options.cluster);
  if (!registry.ok()) return registry.status();
  return std::unique_ptr<HostWatch>(new HostWatch(
      std::move(client), *std::move(registry), std::move(options)));
}

HostWatch::HostWatch(std::unique_ptr<EtcdClient> client, HostRegistry registry,
                     Options options)
    : options_(std::move(options)),
      client_(std::move(client)),
      registry_(std::move(registry)),
      prober_([this] { Probe(); }),
      watch_(client_->Watch(registry_.prefix(), *this)) {}

HostWatch::~HostWatch() {
  watch_.reset();
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  prober_.join();
}

std::vector<HostPlace> HostWatch::Hosts() const {
  const std::scoped_lock lock(mutex_);
  return hosts_;
}

std::optional<Outage::State> HostWatch::etcd() const {
  const std::scoped_lock lock(mutex_);
  return outage_.At(RealClock::Monotonic());
}

void HostWatch::on_all(const EtcdRange& range) {
  places_.clear();
  for (const EtcdPair& pair : range.pairs) {
    places_.insert_or_assign(pair.key, PlaceOf(pair));
  }
  Take();
}

void HostWatch::on_change(const EtcdPair& pair, bool is_deleted) {
  if (is_deleted) {
    places_.erase(pair.key);
  } else {
    places_.insert_or_assign(pair.key, PlaceOf(pair));
  }
  Take();
}

absl::StatusOr<HostPlace> HostWatch::PlaceOf(const EtcdPair& pair) const {
  const auto host = HostRegistry::Read(pair);
  if (!host.ok()) return host.status();
  if (host->version() != options_.version) {
    return absl::InvalidArgumentError(fmt::format(
        "host \"{}\" has version {}, and this daemon {}",
        Printable(host->name()), Printable(host->version()), options_.version));
  }
  if (options_.wire == HostWire::kGeneve && !host->geneve()) {
    return absl::InvalidArgumentError(fmt::format(
        "host \"{}\" has joined without --geneve, and this daemon has "
        "--host_wire=geneve",
        Printable(host->name())));
  }
  auto place =
      HostPlace::Of(host->name(), host->address(),
                    std::clamp(host->units(), uint32_t{1}, kMostProcesses));
  if (place.ok()) {
    place->wire = options_.wire;
    return place;
  }
  return absl::InvalidArgumentError(
      fmt::format("host \"{}\": {}", Printable(host->name()),
                  std::string(place.status().message())));
}

void HostWatch::Take() {
  std::vector<HostPlace> hosts;
  std::map<std::string, std::string> refused;
  std::map<decltype(HostPlace::address), std::string> names;  // by address
  for (const auto& [key, place] : places_) {
    if (!place.ok()) {
      refused[key] = std::string(place.status().message());
      continue;
    }
    const auto [other, is_new] =
        names.try_emplace(place->address, place->name.data());
    if (is_new) {
      hosts.push_back(*place);
    } else {
      refused[key] = fmt::format("{} has the address of host {}",
                                 NameOf(*place), other->second);
    }
  }
  std::ranges::stable_sort(hosts, {}, &HostPlace::name);
  std::vector<HostPlace> before;
  {
    const std::scoped_lock lock(mutex_);
    before = std::exchange(hosts_, hosts);
  }
  version_.fetch_add(1, std::memory_order_release);
  for (const HostPlace& host : hosts) {
    if (Has(before, host)) continue;
    options_.notice(
        false,
        fmt::format("{} has joined, for {}{}", NameOf(host),
                    Plural(host.processes, "unit"),
                    host.wire == HostWire::kGeneve ? ", by GENEVE" : ""));
  }
  for (const HostPlace& host : before) {
    if (Has(hosts, host)) continue;
    options_.notice(false, fmt::format("{} has left, and its units are drained",
                                       NameOf(host)));
  }
  for (const auto& [key, why] : refused) {
    const auto known = refused_.find(key);
    if (known != refused_.end() && known->second == why) continue;
    options_.notice(true, why + ": the host gets no units");
  }
  refused_ = std::move(refused);
}

void HostWatch::Probe() {
  bool is_lost = false;
  std::unique_lock lock(mutex_);
  while (!stops_) {
    lock.unlock();
    const Instant asked = RealClock::Monotonic();
    const auto found = client_->Get(registry_.prefix());
    lock.lock();
    if (found.ok()) {
      outage_.OnAnswer();
    } else {
      outage_.OnNoAnswer(asked, std::string(found.status().message()));
    }
    lock.unlock();
    if (!found.ok() && !std::exchange(is_lost, true)) {
      options_.notice(true,
                      fmt::format("units stay on the hosts that they have: {}",
                                  std::string(found.status().message())));
    } else if (found.ok() && std::exchange(is_lost, false)) {
      options_.notice(false, "etcd answers again");
    }
    lock.lock();
    changed_.wait_for(lock, std::chrono::nanoseconds(kProbePeriod.ns),
                      [this] { return stops_; });
  }
}

}  // namespace snf
