// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LEASES_UNIT_HOSTS_H_
#define SNF_RUNTIME_LEASES_UNIT_HOSTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "runtime/leases/unit_leases.h"

namespace snf {

// Theory of operation. Starts and stops the processes of units at the commands
// of a resource manager, and outlives all managers (proto/protocol.md §7). The
// host refuses a message of an earlier manager than the latest, or for an
// earlier life of a unit than the latest.
//
// A new manager asks for a report of each unit. The host then calls off a start
// that is not over, and a stop.
//
// Worked example: manager 1 starts unit 0, and fails. Manager 2 asks for the
// report of unit 0, which says that no process runs. When the start of manager
// 1 is over, the host drops the process; manager 2 starts the unit anew.
//
// A Process is made of its UnitLife. A Process has leases(), of UnitLeases,
// is_to_stop, and is_attached(): whether any controller, or the given one, uses
// the process.
//
// Owner-thread only.
template <typename Process>
class UnitHosts {
 public:
  // Each returns false, and does nothing, if the message is refused, or is for
  // another life of the unit.
  bool Start(const StartUnit& start);
  // The start of that life is over: returns the unit, or null if the start was
  // called off.
  Process* Ready(UnitLife life);
  bool SetShare(const snf::SetShare& set, std::vector<ShareSet>& answers);
  bool Stop(const StopUnit& stop);
  // Returns true if no process of that life runs. Ends the process, if the
  // process is to stop and no controller uses it.
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
  // Counts units that honour more than the manager has reserved for leases, and
  // units of which it has reserved more than there is. `reserved_of` returns
  // that share of a unit, or nothing if the manager has no leases there.
  template <typename ReservedOf>
  uint64_t CountOverpromised(const ReservedOf& reserved_of);

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
  // A process that controllers still use stays, also if its manager knows of
  // no leases.
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
  const bool is_used = unit->is_attached(set.holder.controller);
  return unit->leases().on_set_share(set, is_used, answers) ==
         UnitLeases::Refusal::kNone;
}

template <typename Process>
bool UnitHosts<Process>::Stop(const StopUnit& stop) {
  Host& host = HostOf(stop.unit.unit);
  if (IsOld(host, stop.manager_epoch)) return false;
  if (stop.unit.incarnation < host.incarnation) return true;
  if (stop.unit.incarnation > host.incarnation) {
    // The stop has overtaken the start.
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
template <typename ReservedOf>
uint64_t UnitHosts<Process>::CountOverpromised(const ReservedOf& reserved_of) {
  uint64_t count = 0;
  for (auto& [id, host] : hosts_) {
    if (!host.process.has_value()) continue;
    const std::optional<int64_t> reserved = reserved_of(GlobalUnitId{id});
    if (!reserved.has_value()) continue;
    const int64_t promised = host.process->leases().promised();
    count += promised > *reserved || *reserved > kWholeUnit ? 1 : 0;
  }
  return count;
}

}  // namespace snf

#endif  // SNF_RUNTIME_LEASES_UNIT_HOSTS_H_
