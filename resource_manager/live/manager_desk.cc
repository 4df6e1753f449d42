// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/manager_desk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/version.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr Nanos kAliveEvery = Seconds(1);  // or eight times in a member term
constexpr Nanos kLookEvery = Milliseconds(100);
// A process ends a little after its stream has.
constexpr Nanos kLookClosely = Milliseconds(5);

// `name` is a member's, which lives.
absl::Status CheckSameUnits(const MemberFile& before,
                            const ManagerDesk::Options& options,
                            const std::string& name) {
  if (before.units == options.units &&
      before.unit_capacity_bps == options.unit_capacity_bps &&
      before.follows_hosts == options.follows_hosts) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(fmt::format(
      "\"{}\" lives, and has leases of {} units of {} bit/s{}: a manager of "
      "others has to wait for its end",
      name, before.units, before.unit_capacity_bps,
      before.follows_hosts ? " on hosts" : ""));
}

// Adds the units of which the desk has leases, by LeaseId.
template <typename Leases>
void AddUnits(const Leases& leases, const ResourceManager& core,
              const DeskHosts& hosts, proto::LookReply& reply) {
  std::map<uint32_t, proto::LeasedUnit> units;
  for (const auto& [id, set] : leases) {
    const uint32_t unit = value(set.last.to.unit);
    proto::Lease& lease = *units[unit].add_lease();
    lease.set_lease(value(id));
    lease.set_controller(value(set.last.holder.controller));
    lease.set_share(set.last.share);
    lease.set_state(set.last.share == 0 ? "ending"
                    : set.is_confirmed  ? "held"
                                        : "setting");
  }
  for (auto& [unit, told] : units) {
    told.set_unit(unit);
    told.set_host(hosts.HostOf(unit));
    told.set_free(core.free(GlobalUnitId{unit}));
    *reply.add_unit() = std::move(told);
  }
}

void AddCounts(const ManagerCounters& counters, proto::LookReply& reply) {
  const std::pair<const char*, uint64_t> counts[] = {
      {"asks", counters.asks},     {"given_back", counters.given_back},
      {"grants", counters.grants}, {"revoked", counters.revoked},
      {"gone", counters.gone},     {"unheard", counters.unheard},
  };
  (*reply.mutable_count())["refused"] = counters.refused;
  for (const auto& [name, count] : counts) {
    if (count > 0) (*reply.mutable_count())[name] = count;
  }
}

ManagerOptions CoreOptions(const ManagerDesk::Options& options) {
  // No process of a unit costs anything, so none is stopped.
  return {.max_units = options.units,
          .max_starts = options.units,
          .term = options.term,
          .keep_warm = Seconds(1'000'000'000)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ManagerDesk>> ManagerDesk::Start(
    const Options& options) {
  std::unique_ptr<ManagerDesk> desk(new ManagerDesk(options));
  auto before = desk->notes_.Read();
  if (!before.ok()) return before.status();
  desk->file_ = {.units = options.units,
                 .unit_capacity_bps = options.unit_capacity_bps,
                 .follows_hosts = options.follows_hosts};
  if (before->has_value()) {
    desk->Adopt(**before);
    if (!desk->members_.empty()) {
      const absl::Status same = CheckSameUnits(
          **before, options, desk->members_.begin()->second.name);
      if (!same.ok()) return same;
    }
    desk->file_.epoch = (*before)->epoch;
  } else if (options.notes != nullptr) {
    // The notes of earlier managers, if any, were lost.
    desk->lost_ = {.last = kMostEpoch,
                   .until = desk->began_ + options.member_term};
  }
  if (desk->file_.epoch >= kMostEpoch) {
    return absl::DataLossError(fmt::format(
        "the notes: an epoch of {} is too great", desk->file_.epoch));
  }
  desk->BeginAnew(desk->file_.epoch + 1);
  if (absl::Status s = desk->Note(); !s.ok()) return s;
  desk->thread_ = std::thread([desk = desk.get()] { desk->Run(); });
  return desk;
}

// Takes over the members that live, or may live, and the hosts of units.
void ManagerDesk::Adopt(const MemberFile& before) {
  for (const MemberFile::Member& noted : before.members) {
    Member member = {
        .process = noted.process,
        .name = noted.name,
        .machine = noted.machine == options_.machine ? "" : noted.machine,
        .watch = ProcessWatch(noted.process),
        .heard = now_,
        .may_hold = true};
    if (!is_alive(member)) continue;
    members_.emplace(noted.controller, std::move(member));
  }
  for (const MemberFile::Site& site : before.sites) hosts_.Restore(site);
}

ManagerDesk::ManagerDesk(const Options& options)
    : options_(options),
      own_notes_(options.file),
      notes_(options.notes != nullptr ? *options.notes : own_notes_),
      manager_(CoreOptions(options)),
      hosts_(options.units, {.note = [this] { return Note(); },
                             .tell = [this] { TellHosts(); },
                             .execute = [this] { SendCommands(); }}),
      began_(RealClock::Monotonic()),
      now_(began_),
      next_tick_(began_),
      next_alive_(began_ + kAliveEvery) {}

ManagerDesk::~ManagerDesk() {
  stops_now_.store(true, std::memory_order_seq_cst);
  bell_.Ring();
  if (!thread_.joinable()) return;
  thread_.join();
  if (!may_serve()) return;
  BuryDead();
  if (members_.empty()) notes_.Remove();
}

void ManagerDesk::Tell(bool is_warning, const std::string& line) const {
  if (options_.notice != nullptr) options_.notice(is_warning, line);
}

void ManagerDesk::on_message(const StreamPtr& from, proto::ToManager message) {
  if (letters_.fetch_add(1) >= kMostLetters) {
    letters_.fetch_sub(1);
    from->End();
    return;
  }
  mail_.Put(Said{from, std::move(message)});
}

void ManagerDesk::on_end(const StreamPtr& stream) { mail_.Put(Ended{stream}); }

absl::Status ManagerDesk::Look(Deadline deadline, proto::LookReply& reply) {
  const auto answer = std::make_shared<std::promise<proto::LookReply>>();
  std::future<proto::LookReply> future = answer->get_future();
  mail_.Put(Question{answer});
  if (future.wait_until(deadline) != std::future_status::ready) {
    return absl::DeadlineExceededError("the resource manager stands still");
  }
  reply = future.get();
  return absl::OkStatus();
}

void ManagerDesk::Run() {
  const Nanos tick = ManagerOptions().revoke_grace;
  Instant next_look = now_;
  while (!stops_now_.load(std::memory_order_relaxed)) {
    const Instant before = std::exchange(now_, RealClock::Monotonic());
    if (!may_serve()) return;
    ForgiveSilence(before);
    for (const Letter& letter : mail_.Take()) {
      std::visit([this](const auto& what) { on_letter(what); }, letter);
      SendCommands();
    }
    if (now_ >= next_look) {
      BuryDead();
      next_look = now_ + (is_watchful_ ? kLookClosely : kLookEvery);
    }
    if (now_ >= next_tick_) {
      core().on_tick(now_, commands_);
      next_tick_ = now_ + tick;
    }
    SendCommands();
    WelcomeAll();
    if (options_.follows_hosts && !core().recovering()) {
      hosts_.Place(now_, core(), commands_);
    }
    if (now_ >= next_alive_) {
      proto::ToMember word;
      word.mutable_alive();
      for (const auto& [id, member] : members_) {
        if (member.stream != nullptr) member.stream->Send(word);
      }
      next_alive_ =
          now_ + std::min(kAliveEvery, Nanos{options_.member_term.ns / 8});
    }
    if (is_watchful_) next_look = std::min(next_look, now_ + kLookClosely);
    const auto has_work = [this] {
      return mail_.has_any() || stops_now_.load(std::memory_order_seq_cst);
    };
    const Instant due = std::min({next_tick_, next_look, next_alive_});
    bell_.Wait(has_work, std::max(due - now_, Nanos{}), 0);
  }
}

void ManagerDesk::BeginAnew(uint64_t epoch) {
  file_.epoch = epoch;
  if (manager_.is_up()) {
    if (absl::Status s = Note(); !s.ok()) Tell(true, std::string(s.message()));
  }
  leases_.clear();
  reports_.clear();
  stops_.clear();
  commands_.clear();
  bool has_holders = false;
  for (auto& [id, member] : members_) {
    member.is_welcome = false;
    has_holders |= member.may_hold;
  }
  manager_.Begin(epoch, has_holders, commands_);
  if (options_.follows_hosts) hosts_.Close(now_, core(), commands_);
  Tell(false, fmt::format("epoch {}: {}", epoch,
                          has_holders ? "asks its members for their leases"
                                      : "nobody has a lease"));
}

void ManagerDesk::TellHosts() {
  const auto word = hosts_.word();
  if (!word.has_value()) return;
  for (const auto& [id, member] : members_) {
    if (member.is_welcome) member.stream->Send(*word);
  }
}

void ManagerDesk::Handle(ControllerId from, const ToManager& message) {
  Member& member = members_.at(from);
  if (const auto* report = std::get_if<UnitLeaseReport>(&message)) {
    return Take(from, *report);
  }
  if (const auto* stopped = std::get_if<UnitStopped>(&message)) {
    const auto at = stops_.find(value(stopped->unit.unit));
    if (at == stops_.end() || at->second.unit != stopped->unit) return;
    at->second.left.insert(from);
    return EndStops();
  }
  if (!member.is_welcome) return manager_.on_unheard();
  const auto* const set = std::get_if<ShareSet>(&message);
  const auto lease = set == nullptr ? leases_.end() : leases_.find(set->lease);
  if (set != nullptr && (lease == leases_.end() ||
                         lease->second.last.holder.controller != from)) {
    return manager_.on_refused();
  }
  if (manager_.Handle(now_, message, commands_) != LeaseRefusal::kNone) return;
  if (const auto* ask = std::get_if<Ask>(&message)) {
    member.wanted = ask->capacity;
  } else if (set != nullptr) {
    lease->second.is_confirmed = true;
    if (set->share == 0) leases_.erase(lease);
  }
}

void ManagerDesk::Confirm(const SetShare& set) {
  core().on_share_set(
      now_, {set.to, set.manager_epoch, set.lease, set.sequence, set.share},
      commands_);
  leases_.erase(set.lease);
}

void ManagerDesk::SendCommands() {
  while (!commands_.empty()) {
    for (const ManagerCommand& command : std::exchange(commands_, {})) {
      Send(command);
    }
  }
}

void ManagerDesk::Send(const ManagerCommand& command) {
  manager_.on_delivered(command);
  Dispatch(
      command, [this](GlobalUnitId, const auto& what) { AtUnit(what); },
      [this](ControllerId id, const auto& what) { SendTo(id, what); },
      // A Welcome says the same.
      [this](const NewManager&) { Tell(false, "knows all leases"); });
}

void ManagerDesk::AtUnit(const SetShare& set) {
  leases_[set.lease] = {.last = set};
  if (members_.contains(set.holder.controller)) {
    SendTo(set.holder.controller, set);
  } else if (set.share == 0) {
    Confirm(set);  // its process has ended
  }
}

void ManagerDesk::AtUnit(const StartUnit& start) {
  core().on_ready(now_, start.unit, commands_);
}

void ManagerDesk::AtUnit(const StopUnit& stop) {
  Stop& at = stops_[value(stop.unit.unit)];
  if (at.unit != stop.unit) at = {.unit = stop.unit};
  for (const auto& [id, member] : members_) {
    if (!at.left.contains(id)) SendTo(id, stop);
  }
  EndStops();
}

void ManagerDesk::AtUnit(const AskReport& ask) {
  Reports& reports = reports_[value(ask.unit)];
  reports.manager_epoch = ask.manager_epoch;
  for (const auto& [id, member] : members_) {
    if (member.may_hold && !reports.of.contains(id)) SendTo(id, ask);
  }
  PutTogether(ask.unit);
}

void ManagerDesk::SendTo(ControllerId id, const ManagerCommand& command) {
  const auto at = members_.find(id);
  if (at == members_.end() || at->second.stream == nullptr) return;
  at->second.stream->Send(WordOf(now_, command));
}

void ManagerDesk::Take(ControllerId from, const UnitLeaseReport& report) {
  const auto at = reports_.find(value(report.unit.unit.unit));
  if (at == reports_.end() ||
      at->second.manager_epoch != report.unit.manager_epoch) {
    return manager_.on_refused();
  }
  at->second.of[from] = report;
  PutTogether(report.unit.unit.unit);
}

void ManagerDesk::PutAllTogether() {
  std::vector<GlobalUnitId> units;
  for (const auto& [unit, reports] : reports_) {
    units.push_back(GlobalUnitId{unit});
  }
  for (const GlobalUnitId unit : units) PutTogether(unit);
}

void ManagerDesk::PutTogether(GlobalUnitId unit) {
  const auto at = reports_.find(value(unit));
  if (at == reports_.end()) return;
  for (const auto& [id, member] : members_) {
    if (member.may_hold && !at->second.of.contains(id)) return;
  }
  ReportedUnit told = {.unit = {unit, 0},
                       .manager_epoch = at->second.manager_epoch,
                       .is_dead = true};
  std::vector<ReportedLease> leases;
  bool is_at_odds = false;
  for (const auto& [id, report] : at->second.of) {
    if (report.unit.is_dead) continue;
    is_at_odds |= !told.is_dead && told.unit != report.unit.unit;
    told.is_dead = false;
    told.unit.incarnation =
        std::max(told.unit.incarnation, report.unit.unit.incarnation);
    leases.insert(leases.end(), report.leases.begin(), report.leases.end());
  }
  // Two lives of a unit cannot be: as a lease told twice cannot.
  if (is_at_odds && !leases.empty()) leases.push_back(leases.front());
  reports_.erase(at);
  const LeaseRefusal why = core().on_report(now_, told, leases, commands_);
  if (why == LeaseRefusal::kNone) return;
  Tell(true, fmt::format("unit {}: its leases clash, and end", value(unit)));
}

// A unit that has stopped has no leases.
void ManagerDesk::EndStops() {
  std::vector<UnitLife> stopped;
  std::erase_if(stops_, [&](const auto& entry) {
    const Stop& stop = entry.second;
    const bool is_over = std::ranges::all_of(members_, [&](const auto& member) {
      return stop.left.contains(member.first);
    });
    if (is_over) stopped.push_back(stop.unit);
    return is_over;
  });
  for (const UnitLife life : stopped) {
    core().on_stopped(now_, life, commands_);
  }
}

// --- Who looks at it. --------------------------------------------------------

void ManagerDesk::on_letter(const Question& question) {
  proto::LookReply reply;
  reply.set_name(options_.name);
  reply.set_pid(getpid());
  reply.set_version(kVersion);
  reply.set_manager_epoch(file_.epoch);
  reply.set_elapsed_ns((now_ - began_).ns);
  reply.set_units(options_.units);
  reply.set_unit_capacity_bps(options_.unit_capacity_bps);
  reply.set_is_recovering(core().recovering());
  for (const auto& [id, member] : members_) {
    proto::Member& told = *reply.add_member();
    told.set_controller(value(id));
    told.set_name(member.name);
    told.set_pid(member.process.pid);
    told.set_is_connected(member.stream != nullptr);
    told.set_is_away(!member.machine.empty());
    told.set_held(core().held(id));
    told.set_asked(std::max<int64_t>(member.wanted - core().held(id), 0));
    const bool is_awaited =
        member.may_hold && std::ranges::any_of(reports_, [&](const auto& of) {
          return !of.second.of.contains(id);
        });
    if (core().recovering() && is_awaited) reply.add_awaited(member.name);
  }
  reply.set_follows_hosts(options_.follows_hosts);
  reply.set_units_placed(hosts_.placed());
  AddUnits(leases_, core(), hosts_, reply);
  AddCounts(manager_.counters(), reply);
  question.answer->set_value(std::move(reply));
}

}  // namespace snf
