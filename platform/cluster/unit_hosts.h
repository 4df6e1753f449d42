// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CLUSTER_UNIT_HOSTS_H_
#define SNF_PLATFORM_CLUSTER_UNIT_HOSTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/messages/lease_messages.h"
#include "resource_manager/core/manager_commands.h"
#include "resource_manager/core/resource_manager.h"
#include "runtime/leases/unit_leases.h"

namespace snf {

// The answer to AskReport.
struct UnitLeaseReport {
  ReportedUnit unit;
  std::vector<ReportedLease> leases{};
};

// Theory of operation. Where the units of a resource manager run: starts and
// stops their processes, as the manager says, and outlives all of its managers
// (proto/protocol.md §7). It knows the latest manager that it has heard of, and
// the latest life of each unit: what comes from an earlier manager, or is for
// an earlier life, is refused.
//
// A new manager asks after each unit. A start that is not over then is called
// off, and so is a stop.
//
// Worked example: manager 1 starts unit 0, and fails. Manager 2 asks after it,
// and is told that there is no such process. When the start of manager 1 is
// over, nothing comes of it; manager 2 starts the unit anew.
//
// A Process is made of its UnitLife. It has leases(), of UnitLeases, and
// is_to_stop, and says whether any controller, or a certain one, uses it:
// is_attached().
//
// Owner-thread only.
template <typename Process>
class UnitHosts {
 public:
  // Each returns false, and does nothing, if the message is refused, and if it
  // is about another life of the unit.
  bool Start(const StartUnit& start);
  // The start of that life is over: returns the unit, or null if the start was
  // called off.
  Process* Ready(UnitLife life);
  bool SetShare(const snf::SetShare& set, std::vector<ShareSet>& answers);
  bool Stop(const StopUnit& stop);
  // Returns true if a process of that life is gone, or never came. Ends it, if
  // it is to stop and nobody uses it.
  bool HasStopped(UnitLife life);
  // None: the manager is an earlier one.
  std::optional<UnitLeaseReport> Ask(const AskReport& ask);

  // Returns null if there is no such process.
  Process* Find(UnitLife life);
  Process* Find(GlobalUnitId unit);
  template <typename Visit>
  void ForEach(const Visit& visit) {
    for (auto& [id, host] : hosts_) {
      if (host.process.has_value()) visit(*host.process);
    }
  }
  // Counts processes.
  uint32_t units_up() const { return units_up_; }
  // Counts units that honour more than the manager has reserved for leases.
  uint64_t CountOverpromised(const ResourceManager& manager);

 private:
  struct Host {
    uint64_t manager_epoch = 0;
    uint64_t incarnation = 0;  // the latest
    bool is_starting = false;
    std::optional<Process> process{};
  };

  Host& HostOf(GlobalUnitId unit) { return hosts_[value(unit)]; }
  // Returns true if the manager is an earlier one.
  static bool IsOld(Host& host, uint64_t manager_epoch);
  void End(Host& host);

  std::map<uint32_t, Host> hosts_;  // by GlobalUnitId
  uint32_t units_up_ = 0;
};

template <typename Process>
bool UnitHosts<Process>::IsOld(Host& host, uint64_t manager_epoch) {
  if (manager_epoch < host.manager_epoch) return true;
  host.manager_epoch = manager_epoch;
  return false;
}

template <typename Process>
void UnitHosts<Process>::End(Host& host) {
  units_up_ -= host.process.has_value() ? 1 : 0;
  host.process.reset();
}

template <typename Process>
Process* UnitHosts<Process>::Find(GlobalUnitId unit) {
  const auto at = hosts_.find(value(unit));
  if (at == hosts_.end() || !at->second.process.has_value()) return nullptr;
  return &*at->second.process;
}

template <typename Process>
Process* UnitHosts<Process>::Find(UnitLife life) {
  Process* const unit = Find(life.unit);
  return unit != nullptr && unit->leases().life() == life ? unit : nullptr;
}

template <typename Process>
bool UnitHosts<Process>::Start(const StartUnit& start) {
  Host& host = HostOf(start.unit.unit);
  const uint64_t incarnation = start.unit.incarnation;
  // One that controllers still use, though its manager knows of none, stays.
  const bool is_used = host.process.has_value() && host.process->is_attached();
  if (IsOld(host, incarnation >> 32) || incarnation <= host.incarnation ||
      is_used) {
    return false;
  }
  End(host);
  host.incarnation = incarnation;
  host.is_starting = true;
  return true;
}

template <typename Process>
Process* UnitHosts<Process>::Ready(UnitLife life) {
  Host& host = HostOf(life.unit);
  if (!host.is_starting || host.incarnation != life.incarnation) {
    return nullptr;
  }
  host.is_starting = false;
  ++units_up_;
  return &host.process.emplace(life);
}

template <typename Process>
bool UnitHosts<Process>::SetShare(const snf::SetShare& set,
                                  std::vector<ShareSet>& answers) {
  Process* const unit = Find(set.to);
  if (unit == nullptr || IsOld(HostOf(set.to.unit), set.manager_epoch)) {
    return false;
  }
  const auto why = unit->leases().on_set_share(set, answers);
  // Its holder may never have heard of it.
  if (set.share == 0 && !unit->is_attached(set.holder.controller)) {
    unit->leases().on_unused(set.lease, answers);
  }
  return why == UnitLeases::Refusal::kNone;
}

template <typename Process>
bool UnitHosts<Process>::Stop(const StopUnit& stop) {
  Host& host = HostOf(stop.unit.unit);
  if (IsOld(host, stop.manager_epoch)) return false;
  if (stop.unit.incarnation < host.incarnation) return true;
  if (stop.unit.incarnation > host.incarnation) {
    // It has overtaken the start.
    host.incarnation = stop.unit.incarnation;
    return true;
  }
  host.is_starting = false;
  if (host.process.has_value()) host.process->is_to_stop = true;
  return true;
}

template <typename Process>
bool UnitHosts<Process>::HasStopped(UnitLife life) {
  Process* const unit = Find(life);
  if (unit == nullptr) return true;
  if (!unit->is_to_stop || unit->is_attached()) return false;
  End(HostOf(life.unit));
  return true;
}

template <typename Process>
std::optional<UnitLeaseReport> UnitHosts<Process>::Ask(const AskReport& ask) {
  Host& host = HostOf(ask.unit);
  if (IsOld(host, ask.manager_epoch)) return std::nullopt;
  host.is_starting = false;
  UnitLeaseReport report = {.unit = {.unit = {ask.unit, host.incarnation},
                                     .manager_epoch = ask.manager_epoch,
                                     .is_dead = !host.process.has_value()}};
  if (report.unit.is_dead) return report;
  host.process->is_to_stop = false;
  report.unit.unit = host.process->leases().life();
  if (auto leases = host.process->leases().on_ask_report(ask.manager_epoch)) {
    report.leases = *std::move(leases);
  }
  return report;
}

template <typename Process>
uint64_t UnitHosts<Process>::CountOverpromised(const ResourceManager& manager) {
  uint64_t count = 0;
  for (auto& [id, host] : hosts_) {
    const GlobalUnitId unit{id};
    if (!host.process.has_value() || !manager.knows(unit)) continue;
    const auto state = manager.state(unit);
    if (state != ResourceManager::State::kWarm &&
        state != ResourceManager::State::kActive) {
      continue;
    }
    const int64_t reserved = kWholeUnit - manager.free(unit);
    const int64_t promised = host.process->leases().promised();
    count += promised > reserved || reserved > kWholeUnit ? 1 : 0;
  }
  return count;
}

}  // namespace snf

#endif  // SNF_PLATFORM_CLUSTER_UNIT_HOSTS_H_
