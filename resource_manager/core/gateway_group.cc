// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/gateway_group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace snf {
namespace {

absl::Status Refuse(const std::string& why) {
  return absl::FailedPreconditionError(why);
}

// Says what differs, from the joining member's point of view.
std::string Difference(const GroupShape& own, const GroupShape& theirs) {
  if (own.version != theirs.version) {
    return absl::StrCat("this one has version ", own.version,
                        ", and the group ", theirs.version);
  }
  if (own.controllers != theirs.controllers) {
    return absl::StrCat("this one is of ", own.controllers,
                        " controllers, and the group has ", theirs.controllers);
  }
  if (own.machine.empty() != theirs.machine.empty()) {
    return own.machine.empty()
               ? "this one has --group_address, and the members have none: "
                 "they share the ports of one machine"
               : "this one has no --group_address, and the members have: each "
                 "has ports of its own";
  }
  if (own.machine != theirs.machine) {
    return "the members share the ports of another machine, or network "
           "namespace; with --group_address each has ports of its own";
  }
  return absl::StrCat("this one runs ", own.program, ", and the group ",
                      theirs.program);
}

// Names the member: "controller 1 ("d.1 on a") at 10.0.0.1:6083".
std::string TextOf(const Gateway& member) {
  return absl::StrCat("controller ", member.number, " (\"", member.name, "\")",
                      member.address.empty() ? "" : " at ", member.address);
}

}  // namespace

MemberSet GatewayTable::live() const {
  MemberSet live = 0;
  for (const Gateway& member : members) live |= SetOf(member.number);
  return live;
}

const Gateway* GatewayTable::Find(uint32_t number) const {
  const auto found = std::ranges::find(members, number, &Gateway::number);
  return found == members.end() ? nullptr : &*found;
}

const Gateway* GatewayGroup::SelfIn(const GatewayTable& table) const {
  const Gateway* const member = table.Find(options_.self.number);
  const bool is_self = member != nullptr &&
                       member->incarnation == options_.self.incarnation &&
                       table.shape == options_.shape;
  return is_self ? member : nullptr;
}

void GatewayGroup::OnLook(const Look& look, Instant begun, Instant now,
                          bool beaten) {
  if (!heard_.has_value() || now - *heard_ > pause()) hearing_since_ = now;
  heard_ = now;
  stored_ = look.table;
  revision_ = look.revision;
  beats_ = look.beats;
  Hear(look, now);
  if (stored_.has_value() && !IsOfOldData(*stored_)) Act(*stored_);
  if (is_in_ && beaten) vouched_until_ = begun + hold();
  if (is_in_ && !is_active_) is_active_ = HasAllApplied();
}

void GatewayGroup::OnNoAnswer(Instant begun) {
  // A member that was frozen may have been taken out meanwhile.
  const bool was_frozen = begun > vouched_until_;
  const bool is_out = out_ > table_.epoch;
  if (is_in_ && !was_frozen && !is_out) vouched_until_ = begun + hold();
}

// Returns true if the table is older than table_, or another table of the same
// epoch: then etcd's data is of an earlier time.
bool GatewayGroup::IsOfOldData(const GatewayTable& stored) const {
  return stored.epoch < table_.epoch ||
         (stored.epoch == table_.epoch && stored != table_);
}

void GatewayGroup::Hear(const Look& look, Instant now) {
  std::map<uint32_t, Peer> peers;
  if (stored_.has_value()) {
    for (const Gateway& member : stored_->members) {
      const auto known = peers_.find(member.number);
      Peer peer{.incarnation = member.incarnation, .changed = now};
      if (known != peers_.end() &&
          known->second.incarnation == member.incarnation) {
        peer = known->second;
      }
      const auto beat = look.beats.find(member.number);
      if (beat != look.beats.end() &&
          beat->second.beat.incarnation == member.incarnation &&
          beat->second.revision != peer.revision) {
        peer.revision = beat->second.revision;
        peer.epoch = beat->second.beat.epoch;
        peer.changed = now;
      }
      peers.emplace(member.number, peer);
    }
  }
  peers_ = std::move(peers);
}

void GatewayGroup::Act(const GatewayTable& table) {
  table_ = table;
  const bool was_in = is_in_;
  is_in_ = SelfIn(table) != nullptr;
  if (!is_in_) {
    is_active_ = false;
    vouched_until_ = Instant::min();
  } else if (!was_in) {
    joined_ = table.epoch;
  }
}

bool GatewayGroup::HasAllApplied() const {
  return std::ranges::all_of(table_.members, [this](const Gateway& member) {
    if (member.number == options_.self.number) return true;
    const auto peer = peers_.find(member.number);
    return peer != peers_.end() &&
           peer->second.incarnation == member.incarnation &&
           peer->second.epoch >= joined_;
  });
}

int64_t GatewayGroup::RevisionOf(uint32_t number) const {
  const auto beat = beats_.find(number);
  return beat == beats_.end() ? 0 : beat->second.revision;
}

Nanos GatewayGroup::SilenceOf(uint32_t number) const {
  const auto peer = peers_.find(number);
  if (peer == peers_.end() || !heard_.has_value()) return {};
  return *heard_ - std::max(peer->second.changed, hearing_since_);
}

bool GatewayGroup::IsPredecessor(const Gateway& member) const {
  const Gateway& self = options_.self;
  return member.number == self.number && member.name == self.name &&
         member.address == self.address &&
         member.incarnation != self.incarnation && stored_.has_value() &&
         stored_->shape == options_.shape;
}

absl::Status GatewayGroup::CheckJoin() const {
  if (!stored_.has_value() || SelfIn(*stored_) != nullptr) {
    return absl::OkStatus();
  }
  for (const Gateway& member : stored_->members) {
    if (IsSilent(member) || IsPredecessor(member)) continue;
    if (stored_->shape != options_.shape) {
      return Refuse(absl::StrCat(TextOf(member), " is a member: ",
                                 Difference(options_.shape, stored_->shape)));
    }
    if (member.number == options_.self.number) {
      return Refuse(absl::StrCat(TextOf(member), " is a member already"));
    }
    if (!member.address.empty() && member.address == options_.self.address) {
      return Refuse(absl::StrCat(TextOf(member), " has this address"));
    }
  }
  return absl::OkStatus();
}

std::optional<GatewayGroup::Swap> GatewayGroup::Wanted() const {
  if (!heard_.has_value()) return std::nullopt;
  const bool wants_in = wants_in_ && CheckJoin().ok();
  GatewayTable next = stored_.value_or(table_);
  std::map<uint32_t, int64_t> beats;
  if (stored_.has_value()) {
    std::erase_if(next.members, [&](const Gateway& member) {
      const bool goes =
          member.incarnation != options_.self.incarnation &&
          (IsSilent(member) || (wants_in && IsPredecessor(member)));
      if (goes) beats[member.number] = RevisionOf(member.number);
      return goes;
    });
  }
  if (wants_in && next.shape != options_.shape) {
    next.members.clear();
    next.shape = options_.shape;
    next.key = options_.key;
  }
  if (!wants_in_) {
    std::erase_if(next.members, [&](const Gateway& member) {
      return member.incarnation == options_.self.incarnation;
    });
  } else if (wants_in && SelfIn(next) == nullptr) {
    next.members.push_back(options_.self);
    std::ranges::sort(next.members, {}, &Gateway::number);
  }
  const bool is_there = wants_in || stored_.has_value();
  const bool is_right = stored_.has_value() && next == *stored_ &&
                        (!IsOfOldData(*stored_) || !wants_in);
  if (!is_there || is_right) return std::nullopt;
  next.epoch = std::max(next.epoch, table_.epoch) + 1;
  return Swap{.table = std::move(next),
              .revision = revision_,
              .beats = std::move(beats)};
}

}  // namespace snf
