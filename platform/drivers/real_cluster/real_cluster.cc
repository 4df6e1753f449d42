// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/real_cluster.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "fmt/format.h"
#include "platform/drivers/cluster/flow_dispatcher.h"
#include "platform/drivers/cluster/merge_results.h"
#include "platform/run/figures/table_totals.h"
#include "platform/run/run_setup.h"

namespace snf {
namespace {

absl::Status CheckOptions(const RunOptions& options, const RealOptions& real) {
  const char* const what =
      real.isolation != Isolation::kThread    ? "isolation"
      : real.pin                              ? "pin"
      : !options.faults.changes.empty()       ? "controllers that join or leave"
      : options.state == StateMode::kExternal ? "an external store"
      : real.live != nullptr                  ? "a live view"
                                              : nullptr;
  if (what == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "several controllers in real time do not support {} yet", what));
}

absl::Status CheckKills(const FaultOptions& faults, uint32_t controllers) {
  for (const Kill& kill : faults.kills) {
    if (kill.controller < static_cast<int>(controllers)) continue;
    return absl::InvalidArgumentError(
        fmt::format("there is no controller {} to fail; the last one is {}",
                    kill.controller, controllers - 1));
  }
  return absl::OkStatus();
}

// Packets have their arrival as their time.
RealOptions RealOptionsOf(const RealOptions& real, uint32_t controllers) {
  RealOptions options = real;
  if (real.speed.kind != Speed::Kind::kMax) options.speed = Speed{};
  options.threads = std::max(real.threads, 1u);
  options.controllers = controllers;
  return options;
}

// Adds times, starts of units and failures, which MergeResults leaves out.
void AddOthers(const RunResult& one, RunResult& sum) {
  if (one.packets_in > 0) {
    sum.last_packet = std::max(sum.last_packet, one.last_packet);
  }
  sum.cluster.units_started += one.cold_starts;
  sum.cluster.units_up_max += one.units_max;
  sum.real.wall = std::max(sum.real.wall, one.real.wall);
  if (sum.failure.empty()) {
    sum.failure = one.failure;
    sum.nf_failed = one.nf_failed;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RealCluster>> RealCluster::Start(
    const RunOptions& options, const RealOptions& real,
    const ClusterOptions& of_cluster, const PlacementPolicy& policy,
    const NfSpec& nf, std::vector<Observers> observers) {
  const uint32_t controllers = of_cluster.controllers;
  SNF_CHECK(observers.size() == controllers);
  if (absl::Status s = CheckOptions(options, real); !s.ok()) return s;
  if (auto s = CheckKills(options.faults, controllers); !s.ok()) return s;
  const std::unique_ptr<NetworkFunction> example = nf.create();
  const uint64_t units = uint64_t{controllers} * options.controller.max_units;
  if (auto s = FlowDispatcher::Check(*example, controllers, units); !s.ok()) {
    return s;
  }
  RealOptions resolved = RealOptionsOf(real, controllers);
  std::unique_ptr<RealCluster> cluster(
      new RealCluster(options, real, controllers, nf));
  const uint32_t threads =
      1 + (of_cluster.shared ? controllers + 1 : 0) +
      (of_cluster.shared ? 1 : controllers) * resolved.threads;
  if (of_cluster.shared) {
    cluster->MakeLeases(of_cluster);
    resolved.host = cluster->workers_.get();
  }
  std::vector<FaultOptions> faults = cluster->FaultsOfControllers(controllers);
  for (uint32_t c = 0; c < controllers; ++c) {
    RealShard::Options of = {.run = options,
                             .real = resolved,
                             .policy = &policy,
                             .nf = nf,
                             .observers = std::move(observers[c]),
                             .clock = &cluster->clock_,
                             .external = &cluster->external_};
    of.run.controller.controller_id = static_cast<uint8_t>(c);
    of.real.tables = &cluster->tables_;
    of.run.faults = std::move(faults[c]);
    if (real.notice != nullptr) {
      of.real.notice = [notice = real.notice, c](std::string_view line) {
        notice(fmt::format("controller {}: {}", c, line));
      };
    }
    if (of_cluster.shared) {
      of.run.controller.leased = true;
      of.leases = cluster->leases_[c].get();
    }
    auto shard = RealShard::Start(std::move(of));
    if (!shard.ok()) return shard.status();
    cluster->shards_.push_back(*std::move(shard));
  }
  cluster->own_.real.threads = threads;
  return cluster;
}

void RealCluster::MakeLeases(const ClusterOptions& cluster) {
  workers_ = std::make_unique<SharedWorkers>(std::max(real_.threads, 1u),
                                             cluster.controllers);
  const ManagerOptions manager = {.max_units = options_.controller.max_units,
                                  .term = cluster.term,
                                  .revoke_grace = cluster.revoke_grace,
                                  .keep_warm = options_.controller.keep_warm};
  desk_ = std::make_unique<LeaseDesk>(manager, options_.faults.detection,
                                      workers_->mail());
  for (uint32_t c = 0; c < cluster.controllers; ++c) {
    const ControllerId id{static_cast<uint8_t>(c)};
    leases_.push_back(std::make_unique<ShardLeases>(
        options_, cluster, desk_->Join(id), desk_->mail(), workers_->mail()));
    desk_->Connect(leases_.back()->mail());
  }
  workers_->Start(desk_->mail());
  desk_->Start();
}

// Controllers have their first shares before the first packet, if a manager
// gives any: else what comes is dropped, or waits.
void RealCluster::WaitForUnits() {
  const Instant begin = RealClock::Monotonic();
  const auto has_unit = [](const auto& leases) { return leases->has_unit(); };
  while (!std::ranges::all_of(leases_, has_unit) && !is_interrupted() &&
         RealClock::Monotonic() - begin < real_.patience) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

RealCluster::RealCluster(const RunOptions& options, const RealOptions& real,
                         uint32_t controllers, const NfSpec& nf)
    : options_(options),
      real_(real),
      example_(nf.create()),
      tables_(*example_, controllers, options.controller.max_units,
              TableOptionsOf(options)),
      dispatcher_(options, *example_, controllers),
      pace_(real.speed),
      rng_(Rng(options.controller.seed).Fork(8)),
      plan_(options.faults),
      own_(EmptyResult(*example_)) {}

bool RealCluster::has_failed() const {
  return std::ranges::any_of(
      shards_, [](const auto& shard) { return shard->has_failed(); });
}

void RealCluster::Begin(Instant first_packet) {
  // Until then controllers that lease units have some.
  const bool leads = desk_ != nullptr && pace_.has_schedule();
  clock_.Start(first_packet + Nanos{leads ? -kLead.ns : 0});
  own_.first_packet = began_ = first_packet;
  for (const auto& shard : shards_) shard->Begin(first_packet);
  if (desk_ != nullptr) WaitForUnits();
  now_ = clock_.Now();
  const Nanos until_packet = first_packet - now_;
  for (const auto& [kill, at] : plan_.planned()) {
    if (desk_ == nullptr || !kill.is_of_manager()) continue;
    desk_->mail().Put(
        ManagerDeath{RealClock::Monotonic() + until_packet + kill.at});
  }
}

// Any may fail, when it is said to.
std::vector<FaultOptions> RealCluster::FaultsOfControllers(
    uint32_t controllers) {
  std::vector<FaultOptions> faults(controllers);
  if (!options_.faults.any_controller()) return faults;
  Kill never;
  never.victim = Kill::Victim::kController;
  for (FaultOptions& of_one : faults) of_one.kills.push_back(never);
  for (const auto& [kill, at] : plan_.planned()) {
    if (!kill.is_of_controller()) continue;
    faults[Choose(kill, controllers)].kills.push_back(kill);
  }
  return faults;
}

size_t RealCluster::Choose(const Kill& kill, size_t controllers) {
  return kill.controller != Kill::kAnyController
             ? static_cast<size_t>(kill.controller)
             : rng_.Below(controllers);
}

// Kills controllers, and the resource manager.
void RealCluster::KillByChance() {
  plan_.on_arrival(rng_, [this](const Kill& kill) {
    if (kill.is_of_controller()) {
      shards_[Choose(kill, shards_.size())]->KillController();
    } else if (kill.is_of_manager() && desk_ != nullptr) {
      desk_->mail().Put(ManagerDeath{RealClock::Monotonic()});
    }
  });
}

RealCluster::~RealCluster() {
  shards_.clear();
  if (desk_ != nullptr) desk_->Stop();
  if (workers_ != nullptr) workers_->Stop();
}

void RealCluster::Offer(const CapturedPacket& captured) {
  if (own_.packets_in == 0) {
    Begin(captured.time);
  } else if (captured.time < last_captured_) {
    ++own_.late_packets;
  }
  last_captured_ = std::max(last_captured_, captured.time);
  const Instant arrival = WaitUntilDue(captured);
  if (dispatcher_.has_sides()) TakeNews();
  KillByChance();
  ++own_.packets_in;
  own_.bytes_in += captured.original_bytes;
  const PacketDispatcher::Placed& placed = dispatcher_.Place(arrival, captured);
  if (placed.dropped == DropReason::kNotTranslated && real_.wait_for_room) {
    WaitForAlias(*shards_[value(placed.to)]);
    dispatcher_.PlaceAgain(arrival, captured);
  }
  if (placed.dropped.has_value()) {
    ++own_.dropped[static_cast<size_t>(*placed.dropped)];
    return;
  }
  CapturedPacket packet = placed.packet;
  if (pace_.has_schedule()) packet.time = arrival;
  Push(placed.to, packet);
}

// Returns the packet's arrival.
Instant RealCluster::WaitUntilDue(const CapturedPacket& captured) {
  if (!pace_.has_schedule()) {
    // Fragments age by it.
    if (own_.packets_in % PacketFeed::kBurst == 0) now_ = clock_.Now();
    return now_;
  }
  const Instant due = pace_.Due(captured.time, captured.original_bytes);
  if (due > now_) now_ = clock_.Now();
  if (due <= now_) return due;
  for (const auto& shard : shards_) shard->feed().Flush();
  // A sleep takes longer than this.
  constexpr Nanos kShort = Microseconds(100);
  constexpr Nanos kMost = Milliseconds(100);  // so that an interrupt is seen
  while (due > now_ && !is_interrupted()) {
    const Nanos left = std::min(due - now_, kMost);
    if (left > kShort) {
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(left.ns - kShort.ns / 2));
    } else {
      std::this_thread::yield();
    }
    now_ = clock_.Now();
  }
  return std::min(due, now_);
}

void RealCluster::WaitForAlias(RealShard& shard) {
  const Instant begin = RealClock::Monotonic();
  while (!shard.feed().WaitUntilSettled(kWait) && !is_interrupted() &&
         RealClock::Monotonic() - begin < real_.patience) {
  }
  TakeNews();
}

bool RealCluster::TakeNews() {
  bool has_departures = false;
  for (uint32_t c = 0; c < shards_.size(); ++c) {
    for (const AliasMail::News& news : shards_[c]->aliases().Take()) {
      switch (news.kind) {
        case AliasMail::Kind::kGranted:
          external_.Add(news.alias.key.source);
          dispatcher_.on_alias(ControllerId{static_cast<uint8_t>(c)},
                               news.alias, news.inside);
          break;
        case AliasMail::Kind::kOver:
          dispatcher_.on_alias_over(news.alias.flow, news.alias.clock);
          break;
        case AliasMail::Kind::kDeparture:
          has_departures |= BringBack(news);
          break;
      }
    }
  }
  return has_departures;
}

// The network brings back what left for a flow of another controller.
bool RealCluster::BringBack(const AliasMail::News& departed) {
  const auto to = dispatcher_.OwnerOf(departed.alias.key);
  if (!to.has_value()) return false;
  ++own_.aliases.packets_hairpinned;
  CapturedPacket packet;
  packet.time = clock_.Now();
  packet.bytes = departed.bytes;
  packet.original_bytes = departed.original_bytes;
  packet.link = departed.link;
  packet.side = Side::kOutside;
  Push(*to, packet);
  return true;
}

void RealCluster::Push(ControllerId to, const CapturedPacket& packet) {
  PacketFeed& feed = shards_[value(to)]->feed();
  while (!feed.Push(packet)) feed.WaitForRoom(kWait);
}

// What one brings to its end may be for another one.
void RealCluster::Settle() {
  const Instant begin = RealClock::Monotonic();
  const auto is_in_time = [&] {
    return !has_failed() && RealClock::Monotonic() - begin < real_.patience;
  };
  do {
    for (const auto& shard : shards_) {
      while (!shard->feed().WaitUntilSettled(kWait) && is_in_time()) {
      }
    }
  } while (TakeNews() && is_in_time());
}

RunResult RealCluster::Finish() {
  // A controller that ends skips time, of which tables are to be unaware while
  // another controller has packets.
  if (dispatcher_.has_sides() || tables_.size() > 0) Settle();
  if (desk_ != nullptr) desk_->Stop();
  for (const auto& shard : shards_) shard->Close();
  std::vector<RunResult> results;
  for (const auto& shard : shards_) {
    results.push_back(shard->TakeResult());
    buffers_in_use_ += shard->buffers_in_use();
  }
  TakeNews();
  if (workers_ != nullptr) workers_->Stop();
  return Merge(std::move(results));
}

RunResult RealCluster::Merge(std::vector<RunResult> results) const {
  RunResult sum = MergeResults(*example_, results);
  AddClusterTables(tables_, *example_, sum);
  sum.packets_in = own_.packets_in;
  sum.bytes_in = own_.bytes_in;
  sum.late_packets = own_.late_packets;
  sum.first_packet = sum.last_packet = own_.first_packet;
  sum.classifier = dispatcher_.counters();
  sum.aliases.at_once_max = dispatcher_.aliases_max();
  sum.aliases.packets_hairpinned += own_.aliases.packets_hairpinned;
  for (size_t i = 0; i < sum.dropped.size(); ++i) {
    sum.dropped[i] += own_.dropped[i];
  }
  sum.real.threads = own_.real.threads;
  sum.cluster.controllers = results.size();
  sum.cluster.foreign_aliases = dispatcher_.foreign_aliases();
  for (const RunResult& one : results) {
    AddOthers(one, sum);
    sum.controllers.push_back(FiguresOfController(options_, one));
  }
  if (desk_ == nullptr) {
    AddOwnUnits(results, sum);
    return sum;
  }
  AddEpochs(results, sum);
  sum.cluster.units_started = sum.cluster.units_up_max = 0;
  desk_->AddFigures(sum.cluster);
  workers_->AddFigures(sum.cluster);
  sum.cold_starts = sum.cluster.units_started;
  sum.units_max = static_cast<uint32_t>(sum.cluster.units_up_max);
  for (size_t c = 0; c < leases_.size(); ++c) {
    sum.controllers[c].grants = leases_[c]->grants();
    sum.controllers[c].share_max = leases_[c]->share_max();
  }
  return sum;
}

uint32_t RealCluster::buffers_in_use() const { return buffers_in_use_; }

}  // namespace snf
