// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/lease_words.h"

#include "base/check.h"
#include "runtime/leases/unit_leases.h"

namespace snf {
namespace {

void Put(UnitLife life, proto::UnitLife& word) {
  word.set_unit(value(life.unit));
  word.set_incarnation(life.incarnation);
}

UnitLife Read(const proto::UnitLife& word) {
  return {GlobalUnitId{word.unit()}, word.incarnation()};
}

bool IsShare(int64_t share) { return share >= 0 && share <= kWholeUnit; }

void Put(const UnitLeaseReport& report, proto::UnitReport& word) {
  Put(report.unit.unit, *word.mutable_unit());
  word.set_manager_epoch(report.unit.manager_epoch);
  word.set_is_dead(report.unit.is_dead);
  for (const ReportedLease& lease : report.leases) {
    proto::HeldLease& held = *word.add_lease();
    held.set_lease(value(lease.lease));
    held.set_life(lease.holder.epoch);
    held.set_sequence(lease.sequence);
    held.set_share(lease.share);
    held.set_target(lease.target);
  }
}

std::optional<ToManager> Read(const proto::UnitReport& word,
                              ControllerId sender) {
  if (word.lease_size() > static_cast<int>(UnitLeases::kMostLeases)) {
    return std::nullopt;
  }
  UnitLeaseReport report = {.unit = {.unit = Read(word.unit()),
                                     .manager_epoch = word.manager_epoch(),
                                     .is_dead = word.is_dead()}};
  for (const proto::HeldLease& held : word.lease()) {
    if (!IsShare(held.share()) || !IsShare(held.target())) return std::nullopt;
    report.leases.push_back({.lease = LeaseId{held.lease()},
                             .holder = {sender, held.life()},
                             .sequence = held.sequence(),
                             .share = held.share(),
                             .target = held.target()});
  }
  return report;
}

// Fills the word that a command is.
struct PutCommand {
  Instant now;
  proto::ToMember& word;

  void operator()(const SetShare& set) const {
    proto::SetShare& to = *word.mutable_set_share();
    Put(set.to, *to.mutable_to());
    to.set_manager_epoch(set.manager_epoch);
    to.set_lease(value(set.lease));
    to.set_life(set.holder.epoch);
    to.set_sequence(set.sequence);
    to.set_share(set.share);
  }
  void operator()(const Grant& grant) const {
    proto::Grant& to = *word.mutable_grant();
    to.set_life(grant.to.epoch);
    to.set_lease(value(grant.lease));
    Put(grant.unit, *to.mutable_unit());
    to.set_share(grant.share);
    to.set_sequence(grant.sequence);
    to.set_manager_epoch(grant.manager_epoch);
  }
  void operator()(const Revoke& revoke) const {
    proto::Revoke& to = *word.mutable_revoke();
    to.set_life(revoke.to.epoch);
    to.set_lease(value(revoke.lease));
    to.set_keep(revoke.keep);
    to.set_within_ns((revoke.until - now).ns);
    to.set_manager_epoch(revoke.manager_epoch);
  }
  void operator()(const Gone& gone) const {
    proto::Gone& to = *word.mutable_gone();
    to.set_life(gone.to.epoch);
    to.set_lease(value(gone.lease));
    to.set_manager_epoch(gone.manager_epoch);
  }
  void operator()(const StopUnit& stop) const {
    Put(stop.unit, *word.mutable_stop_unit()->mutable_unit());
    word.mutable_stop_unit()->set_manager_epoch(stop.manager_epoch);
  }
  void operator()(const AskReport& ask) const {
    word.mutable_ask_report()->set_unit(value(ask.unit));
    word.mutable_ask_report()->set_manager_epoch(ask.manager_epoch);
  }
  void operator()(const NewManager& next) const {
    word.mutable_new_manager()->set_manager_epoch(next.manager_epoch);
  }
  // A unit is capacity: no process of it starts. A Welcome has the life.
  void operator()(const StartUnit& /*start*/) const { SNF_CHECK(false); }
  void operator()(const NewLife& /*given*/) const { SNF_CHECK(false); }
};

}  // namespace

std::optional<proto::ToManager> WordOf(const ToManager& message) {
  proto::ToManager word;
  if (const auto* ask = std::get_if<Ask>(&message)) {
    word.mutable_ask()->set_life(ask->from.epoch);
    word.mutable_ask()->set_number(ask->number);
    word.mutable_ask()->set_capacity(ask->capacity);
  } else if (const auto* renew = std::get_if<Renew>(&message)) {
    word.mutable_renew()->set_life(renew->from.epoch);
    word.mutable_renew()->set_lease(value(renew->lease));
    word.mutable_renew()->set_sequence(renew->sequence);
  } else if (const auto* back = std::get_if<GiveBack>(&message)) {
    word.mutable_give_back()->set_life(back->from.epoch);
    word.mutable_give_back()->set_lease(value(back->lease));
    word.mutable_give_back()->set_keep(back->keep);
  } else if (const auto* set = std::get_if<ShareSet>(&message)) {
    proto::ShareSet& to = *word.mutable_share_set();
    Put(set->from, *to.mutable_from());
    to.set_manager_epoch(set->manager_epoch);
    to.set_lease(value(set->lease));
    to.set_sequence(set->sequence);
    to.set_share(set->share);
  } else if (const auto* report = std::get_if<UnitLeaseReport>(&message)) {
    Put(*report, *word.mutable_report());
  } else if (const auto* stopped = std::get_if<UnitStopped>(&message)) {
    Put(stopped->unit, *word.mutable_unit_stopped());
  } else {
    return std::nullopt;
  }
  return word;
}

std::optional<ToManager> ReadWord(const proto::ToManager& word,
                                  ControllerId sender) {
  const auto life = [&](uint64_t epoch) {
    return ControllerLife{sender, epoch};
  };
  switch (word.what_case()) {
    case proto::ToManager::kAsk:
      return Ask{life(word.ask().life()), word.ask().number(),
                 word.ask().capacity()};
    case proto::ToManager::kRenew:
      return Renew{life(word.renew().life()), LeaseId{word.renew().lease()},
                   word.renew().sequence()};
    case proto::ToManager::kGiveBack:
      return GiveBack{life(word.give_back().life()),
                      LeaseId{word.give_back().lease()},
                      word.give_back().keep()};
    case proto::ToManager::kShareSet:
      return ShareSet{Read(word.share_set().from()),
                      word.share_set().manager_epoch(),
                      LeaseId{word.share_set().lease()},
                      word.share_set().sequence(), word.share_set().share()};
    case proto::ToManager::kReport:
      return Read(word.report(), sender);
    case proto::ToManager::kUnitStopped:
      return UnitStopped{Read(word.unit_stopped())};
    default:
      return std::nullopt;
  }
}

proto::ToMember WordOf(Instant now, const ManagerCommand& command) {
  proto::ToMember word;
  std::visit(PutCommand{now, word}, command);
  return word;
}

std::optional<FromManager> ReadWord(Instant now, const proto::ToMember& word,
                                    ControllerId receiver) {
  const auto life = [&](uint64_t epoch) {
    return ControllerLife{receiver, epoch};
  };
  switch (word.what_case()) {
    case proto::ToMember::kWelcome:
      return NewLife{life(word.welcome().life())};
    case proto::ToMember::kSetShare: {
      const proto::SetShare& set = word.set_share();
      return SetShare{.to = Read(set.to()),
                      .manager_epoch = set.manager_epoch(),
                      .lease = LeaseId{set.lease()},
                      .holder = life(set.life()),
                      .sequence = set.sequence(),
                      .share = set.share()};
    }
    case proto::ToMember::kAskReport:
      return AskReport{GlobalUnitId{word.ask_report().unit()},
                       word.ask_report().manager_epoch()};
    case proto::ToMember::kStopUnit:
      return StopUnit{Read(word.stop_unit().unit()),
                      word.stop_unit().manager_epoch()};
    case proto::ToMember::kGrant: {
      const proto::Grant& grant = word.grant();
      return Grant{.to = life(grant.life()),
                   .lease = LeaseId{grant.lease()},
                   .unit = Read(grant.unit()),
                   .share = grant.share(),
                   .sequence = grant.sequence(),
                   .manager_epoch = grant.manager_epoch()};
    }
    case proto::ToMember::kRevoke: {
      const proto::Revoke& revoke = word.revoke();
      if (revoke.within_ns() > Seconds(3'600).ns ||
          revoke.within_ns() < -Seconds(3'600).ns) {
        return std::nullopt;
      }
      return Revoke{life(revoke.life()), LeaseId{revoke.lease()}, revoke.keep(),
                    now + Nanos{revoke.within_ns()}, revoke.manager_epoch()};
    }
    case proto::ToMember::kGone:
      return Gone{life(word.gone().life()), LeaseId{word.gone().lease()},
                  word.gone().manager_epoch()};
    case proto::ToMember::kNewManager:
      return NewManager{word.new_manager().manager_epoch()};
    default:
      return std::nullopt;
  }
}

}  // namespace snf
