// SPDX-License-Identifier: Apache-2.0
// The members of a resource manager: who they are, and whether they live.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/messages/controller_counts.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "base/version.h"
#include "resource_manager/live/lease_words.h"
#include "resource_manager/live/manager_desk.h"

namespace snf {
namespace {

constexpr size_t kMostOfMachine = 128;
// The most managers that notes from a backup may lack.
constexpr uint64_t kMostLostEpochs = 1u << 20;
constexpr Nanos kLongestTurn = Milliseconds(500);

bool IsWord(const std::string& text) {
  const auto is_right = [](unsigned char c) { return std::isgraph(c) != 0; };
  return !text.empty() && std::ranges::all_of(text, is_right);
}

bool IsName(const std::string& name) {
  return name.size() <= kMostOfMemberName && IsWord(name);
}

absl::Status CheckHello(const proto::Hello& hello,
                        const ManagerDesk::Options& options, uint64_t epoch) {
  if (hello.version() != kVersion) {
    return absl::FailedPreconditionError(fmt::format(
        "the daemon's program is of version {}, the resource manager's of {}",
        Printable(hello.version()), kVersion));
  }
  if (!IsName(hello.name())) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is no name of a daemon", Printable(hello.name())));
  }
  if (hello.manager_epoch() > ManagerDesk::kMostEpoch ||
      hello.controller() >= kMostControllers) {
    return absl::InvalidArgumentError(fmt::format(
        "controller {} and epoch {} cannot be: there are {} controllers, and "
        "epochs up to {}",
        hello.controller(), hello.manager_epoch(), kMostControllers,
        ManagerDesk::kMostEpoch));
  }
  if (hello.manager_epoch() > epoch + kMostLostEpochs) {
    return absl::InvalidArgumentError(
        fmt::format("a manager of epoch {} cannot have been: this one is of "
                    "epoch {}",
                    hello.manager_epoch(), epoch));
  }
  if (hello.units() != options.units ||
      hello.unit_capacity_bps() != options.unit_capacity_bps) {
    return absl::FailedPreconditionError(fmt::format(
        "the daemon was told of {} units of {} bit/s, and there are {} of {} "
        "bit/s",
        hello.units(), hello.unit_capacity_bps(), options.units,
        options.unit_capacity_bps));
  }
  if (hello.follows_hosts() != options.follows_hosts) {
    return absl::FailedPreconditionError(
        options.follows_hosts
            ? "the resource manager has units on the hosts of a cluster, and "
              "the daemon was started without --etcd"
            : "the daemon has units on the hosts of a cluster, by --etcd, and "
              "the resource manager was started without --hosts");
  }
  if (hello.machine().size() > kMostOfMachine ||
      (!hello.machine().empty() && !IsWord(hello.machine()))) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" names no machine", Printable(hello.machine())));
  }
  return absl::OkStatus();
}

absl::Status NoProcess(const ProcessId& process) {
  return absl::InvalidArgumentError(
      fmt::format("there is no process {} that began at {}", process.pid,
                  process.start_time));
}

absl::Status Buried(Nanos term) {
  return absl::AbortedError(
      fmt::format("it was not heard of for {}, and its leases have ended",
                  FormatDuration(term)));
}

proto::ToMember RefusalOf(const absl::Status& why) {
  proto::ToMember word;
  word.mutable_refused()->set_code(why.raw_code());
  word.mutable_refused()->set_why(std::string(why.message()));
  return word;
}

proto::ToMember WelcomeOf(ControllerId id, uint64_t life, uint64_t epoch,
                          Nanos term) {
  proto::ToMember word;
  proto::Welcome& welcome = *word.mutable_welcome();
  welcome.set_controller(value(id));
  welcome.set_life(life);
  welcome.set_manager_epoch(epoch);
  welcome.set_term_ns(term.ns);
  return word;
}

template <typename Members>
absl::StatusOr<ControllerId> FirstFree(const Members& members) {
  for (uint8_t id = 0; id < kMostControllers; ++id) {
    if (!members.contains(ControllerId{id})) return ControllerId{id};
  }
  return absl::ResourceExhaustedError(
      fmt::format("there are {} controllers already", kMostControllers));
}

template <typename Member>
std::string EndOf(const Member& member, ControllerId id, Nanos term) {
  if (member.machine.empty()) {
    return fmt::format("controller {}, process {}, has ended: its leases end",
                       value(id), member.process.pid);
  }
  return fmt::format(
      "controller {}, \"{}\" of another machine, was not heard of for {}: its "
      "leases end",
      value(id), member.name, FormatDuration(term));
}

}  // namespace

void ManagerDesk::on_letter(const Said& said) {
  letters_.fetch_sub(1);
  if (said.message.has_hello()) {
    Meet(said.from, said.message.hello());
    return;
  }
  const auto at = by_stream_.find(said.from.get());
  if (at == by_stream_.end()) {
    manager_.on_refused();
    said.from->End();  // it has not said who it is, or was refused
    return;
  }
  const ControllerId from = at->second;
  members_.at(from).heard = now_;
  if (said.message.has_alive()) return;
  const auto message = ReadWord(said.message, from);
  if (!message.has_value()) {
    manager_.on_refused();
    return;
  }
  Handle(from, *message);
}

void ManagerDesk::on_letter(const Ended& ended) {
  const auto at = by_stream_.find(ended.stream.get());
  if (at == by_stream_.end()) return;
  Member& member = members_.at(at->second);
  by_stream_.erase(at);
  member.stream = nullptr;
  member.is_welcome = false;
  is_watchful_ = true;
}

std::string ManagerDesk::MachineOf(const proto::Hello& hello) const {
  return hello.machine() == options_.machine ? "" : hello.machine();
}

absl::StatusOr<ControllerId> ManagerDesk::IdFor(const proto::Hello& hello) {
  BuryDead();
  for (const auto& [id, member] : members_) {
    if (member.process != ProcessId{hello.pid(), hello.start_time()} ||
        member.name != hello.name() || member.machine != MachineOf(hello)) {
      continue;
    }
    if (!hello.has_controller() || hello.controller() == value(id)) return id;
    return absl::FailedPreconditionError(
        fmt::format("process {} is controller {}, and not {}", hello.pid(),
                    value(id), hello.controller()));
  }
  if (hello.has_controller()) {
    const ControllerId id{static_cast<uint8_t>(hello.controller())};
    const auto at = members_.find(id);
    if (at == members_.end()) return id;
    if (WasBuried(hello)) return Buried(options_.member_term);
    return absl::FailedPreconditionError(
        fmt::format("controller {} is \"{}\", process {}, which lives",
                    value(id), at->second.name, at->second.process.pid));
  }
  return FirstFree(members_);
}

bool ManagerDesk::HasToAskAgain(ControllerId id,
                                const proto::Hello& hello) const {
  if (hello.life() == 0) return false;
  return hello.manager_epoch() > file_.epoch || !members_.contains(id);
}

// A member of another machine may live, and was taken for dead. A leader of
// another machine may have done so before. If older notes were put back, the
// member knows a later manager.
bool ManagerDesk::WasBuried(const proto::Hello& hello) const {
  if (now_ < lost_.until && hello.manager_epoch() > lost_.after &&
      hello.manager_epoch() <= lost_.last) {
    return false;
  }
  const bool is_away = !MachineOf(hello).empty() || options_.notes != nullptr;
  return hello.life() != 0 && is_away && hello.manager_epoch() <= file_.epoch;
}

void ManagerDesk::Meet(const StreamPtr& stream, const proto::Hello& hello) {
  if (by_stream_.contains(stream.get())) {
    manager_.on_refused();
    return;
  }
  if (absl::Status s = CheckHello(hello, options_, file_.epoch); !s.ok()) {
    return Refuse(stream, s);
  }
  const ProcessId process = {hello.pid(), hello.start_time()};
  Member met = {.process = process,
                .name = hello.name(),
                .machine = MachineOf(hello),
                .watch = ProcessWatch(process),
                .heard = now_};
  if (!is_alive(met)) {
    return Refuse(stream, NoProcess(process));
  }
  const absl::StatusOr<ControllerId> id = IdFor(hello);
  if (!id.ok()) return Refuse(stream, id.status());
  const bool is_new = !members_.contains(*id);
  if (is_new && WasBuried(hello)) {
    return Refuse(stream, Buried(options_.member_term));
  }
  const bool asks_again = HasToAskAgain(*id, hello);
  Member& member = members_.try_emplace(*id, std::move(met)).first->second;
  member.heard = now_;
  if (is_new) {
    if (absl::Status s = Note(); !s.ok()) {
      members_.erase(*id);
      return Refuse(stream, s);
    }
    Tell(false,
         fmt::format("controller {} is \"{}\", process {}{}", value(*id),
                     hello.name(), process.pid,
                     member.machine.empty() ? "" : " of another machine"));
  }
  if (member.stream != nullptr) {
    by_stream_.erase(member.stream.get());
    member.stream->End();
  }
  member.stream = stream;
  member.is_welcome = false;
  member.life = hello.life();
  member.may_hold = hello.life() != 0;
  by_stream_[stream.get()] = *id;
  if (asks_again) {
    if (hello.manager_epoch() > file_.epoch) {
      lost_ = {.after = file_.epoch,
               .last = hello.manager_epoch(),
               .until = now_ + options_.member_term};
    }
    BeginAnew(std::max(file_.epoch, hello.manager_epoch()) + 1);
  } else {
    for (const auto& [unit, reports] : reports_) {
      SendTo(*id, AskReport{GlobalUnitId{unit}, reports.manager_epoch});
    }
    PutAllTogether();
  }
}

void ManagerDesk::Refuse(const StreamPtr& stream, const absl::Status& why) {
  manager_.on_refused();
  Tell(true, "refused: " + std::string(why.message()));
  stream->Send(RefusalOf(why));
  stream->End();
}

void ManagerDesk::WelcomeAll() {
  if (core().recovering()) return;
  for (auto& [id, member] : members_) {
    if (member.stream != nullptr && !member.is_welcome) Welcome(id, member);
  }
}

// Each stream has a life of its own: what was said by the one before, and comes
// late, is refused.
void ManagerDesk::Welcome(ControllerId id, Member& member) {
  const auto life = member.life != 0 ? core().LifeFor(now_, id, commands_)
                                     : core().on_join(now_, id, commands_);
  if (!life.has_value()) return;
  member.life = life->epoch;
  member.is_welcome = member.may_hold = true;
  member.wanted = 0;
  auto word = WelcomeOf(id, member.life, file_.epoch, options_.term);
  if (!member.machine.empty()) {
    word.mutable_welcome()->set_member_term_ns(options_.member_term.ns);
  }
  member.stream->Send(word);
  if (const auto hosts = hosts_.word()) member.stream->Send(*hosts);
  SendCommands();
}

bool ManagerDesk::is_alive(const Member& member) const {
  return member.machine.empty() ? member.watch.is_alive()
                                : now_ - member.heard < options_.member_term;
}

// While the desk stands still, it hears of no member.
void ManagerDesk::ForgiveSilence(Instant before) {
  const Nanos stood = now_ - before;
  if (stood <= kLongestTurn) return;
  for (auto& [id, member] : members_) {
    member.heard = std::min(member.heard + stood, now_);
  }
}

void ManagerDesk::BuryDead() {
  std::vector<ControllerId> dead;
  is_watchful_ = false;
  for (const auto& [id, member] : members_) {
    if (!is_alive(member)) {
      dead.push_back(id);
    } else {
      is_watchful_ |= member.stream == nullptr && member.machine.empty();
    }
  }
  for (const ControllerId id : dead) Bury(id);
}

void ManagerDesk::Bury(ControllerId id) {
  const auto at = members_.find(id);
  const Member member = std::move(at->second);
  members_.erase(at);
  if (member.stream != nullptr) {
    by_stream_.erase(member.stream.get());
    member.stream->End();
  }
  Tell(!member.machine.empty(), EndOf(member, id, options_.member_term));
  if (absl::Status s = Note(); !s.ok()) Tell(true, std::string(s.message()));
  for (auto& [unit, reports] : reports_) reports.of.erase(id);
  // What was to end before ends now as well.
  std::vector<SetShare> ending;
  for (const auto& [lease, set] : leases_) {
    if (set.last.holder.controller == id && set.last.share == 0) {
      ending.push_back(set.last);
    }
  }
  for (const SetShare& set : ending) Confirm(set);
  if (member.life != 0) {
    core().on_controller_dead(now_, {id, member.life}, commands_);
  }
  SendCommands();
  PutAllTogether();
  EndStops();
}

absl::Status ManagerDesk::Note() const {
  MemberFile file = file_;
  for (const auto& [id, member] : members_) {
    file.members.push_back({.controller = id,
                            .process = member.process,
                            .name = member.name,
                            .machine = member.machine.empty()
                                           ? options_.machine
                                           : member.machine});
  }
  file.sites = hosts_.sites();
  return notes_.Write(file);
}

}  // namespace snf
