// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/gateway_group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/quantity.h"
#include "base/text/wording.h"

namespace snf {
namespace {

constexpr uint64_t kOdd = 0x9e37'79b9'7f4a'7c15;

absl::Status Refuse(const std::string& why) {
  return absl::FailedPreconditionError(why);
}

// Names the difference, from the joining member's point of view.
std::string Difference(const GroupShape& own, const GroupShape& theirs) {
  if (own.version != theirs.version) {
    return absl::StrCat("this one has version ", own.version,
                        ", and the group ", Printable(theirs.version));
  }
  if (own.silence != theirs.silence) {
    const auto text = [](Nanos silence) {
      return FlagText(FormatDuration(silence, Precision::kExact));
    };
    return absl::StrCat("this one has --takeover=", text(own.silence),
                        ", and the group ", text(theirs.silence));
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
                      Printable(theirs.program));
}

// Names the member: "controller 1 ("d.1 on a") at 10.0.0.1:6083".
std::string TextOf(const Gateway& member) {
  return absl::StrCat(
      "controller ", member.number, " (\"", Printable(member.name), "\")",
      member.address.empty() ? "" : " at ", Printable(member.address));
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
                       table.shape.IsLike(options_.shape);
  return is_self ? member : nullptr;
}

void GatewayGroup::OnLook(const Look& look, Instant begun, Instant now,
                          bool beaten) {
  if (!heard_.has_value() || now - *heard_ > pause()) hearing_since_ = now;
  heard_ = now;
  ++looks_;
  stored_ = look.table;
  revision_ = look.revision;
  beats_ = look.beats;
  Hear(look, now);
  FollowRevisions(look);
  const bool was_vouched_for = is_in_ && vouched_until_ > Instant::min();
  if (was_vouched_for && begun > vouched_until_) {
    BeginAnew();
    // Beats count from the next ones on: these may be a backup's.
    for (auto& [number, peer] : peers_) peer.mark = 0;
  }
  if (stored_.has_value() && !HasLostData()) Act(*stored_);
  const bool is_stored = stored_.has_value() && SelfIn(*stored_) != nullptr;
  if (is_in_ && is_stored && beaten) vouched_until_ = begun + hold();
  if (is_in_ && !is_active_) is_active_ = MayBeActive();
  if (is_stored && stored_->shape == options_.shape) brings_version_ = false;
}

void GatewayGroup::Continue(const Place& place) {
  const Gateway* const member = place.table.Find(options_.self.number);
  SNF_CHECK(member != nullptr);
  options_.self = *member;
  brings_version_ = place.table.shape.version != options_.shape.version;
  table_ = place.table;
  is_in_ = true;
  is_active_ = place.is_active;
  joined_ = place.joined;
  vouched_until_ = place.vouched_until;
}

void GatewayGroup::OnNoAnswer(Instant begun) {
  // A member that was frozen may have been taken out meanwhile.
  const bool was_frozen = begun > vouched_until_;
  const bool is_out = out_ > table_.epoch;
  if (is_in_ && !was_frozen && !is_out) vouched_until_ = begun + hold();
}

// A table that is older than table_, or another table of the same epoch, is of
// an earlier time.
bool GatewayGroup::HasLostData() const {
  if (!stored_.has_value()) return table_.epoch > 0;
  if (went_back_ && stored_->history == table_.history) return true;
  return stored_->epoch < table_.epoch ||
         (stored_->epoch == table_.epoch && *stored_ != table_);
}

// Keys are not deleted: so their revisions only grow, unless etcd's data is of
// an earlier time.
void GatewayGroup::FollowRevisions(const Look& look) {
  int64_t newest = look.revision;
  for (const auto& [number, beat] : look.beats) {
    newest = std::max(newest, beat.revision);
  }
  if (newest < newest_) went_back_ = true;
  newest_ = newest;
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
        peer.mark = beat->second.beat.mark;
        peer.is_active = beat->second.beat.is_active;
        peer.changed = now;
      }
      peers.emplace(member.number, peer);
    }
  }
  peers_ = std::move(peers);
}

void GatewayGroup::Act(const GatewayTable& table) {
  if (table.history != table_.history) went_back_ = false;
  const bool is_other = !is_in_ || table.history != table_.history;
  table_ = table;
  is_in_ = SelfIn(table) != nullptr;
  if (!is_in_) {
    is_active_ = false;
    vouched_until_ = Instant::min();
  } else if (is_other) {
    joined_ = table.epoch;
    BeginAnew();
  }
}

void GatewayGroup::BeginAnew() {
  is_active_ = false;
  begun_ = *heard_;
}

bool GatewayGroup::HasAllApplied() const {
  return std::ranges::all_of(table_.members, [this](const Gateway& member) {
    if (member.number == options_.self.number) return true;
    const auto peer = peers_.find(member.number);
    return peer != peers_.end() &&
           peer->second.incarnation == member.incarnation &&
           peer->second.mark == table_.mark;
  });
}

bool GatewayGroup::MayBeActive() const {
  if (!HasAllApplied()) return false;
  const bool is_any_active =
      std::ranges::any_of(table_.members, [this](const Gateway& member) {
        const auto peer = peers_.find(member.number);
        return peer != peers_.end() && member.number != options_.self.number &&
               peer->second.is_active;
      });
  return is_any_active ||
         *heard_ - std::max(begun_, hearing_since_) >= silence();
}

Nanos GatewayGroup::silence() const {
  const Nanos own = options_.shape.silence;
  return stored_.has_value() ? std::max(own, stored_->shape.silence) : own;
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
         stored_->shape.IsLike(options_.shape);
}

absl::Status GatewayGroup::CheckJoin() const {
  if (!stored_.has_value() || SelfIn(*stored_) != nullptr) {
    return absl::OkStatus();
  }
  for (const Gateway& member : stored_->members) {
    if (IsSilent(member) || IsPredecessor(member)) continue;
    if (!MayJoin(stored_->shape)) {
      return Refuse(absl::StrCat(TextOf(member), " is a member: ",
                                 Difference(options_.shape, stored_->shape)));
    }
    if (member.number == options_.self.number) {
      if (options_.continues && member.name == options_.self.name &&
          member.address != options_.self.address) {
        return Refuse(absl::StrCat(
            "with --upgrade both processes want the same --group_address, and "
            "this one has ",
            options_.self.address.empty() ? "none" : options_.self.address,
            ", and the earlier one ",
            member.address.empty() ? "none" : Printable(member.address)));
      }
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
  if (wants_in && SelfIn(next) == nullptr && next.shape != options_.shape) {
    next.members.clear();
    next.shape = options_.shape;
    next.key = options_.key;
  }
  if (brings_version_ && wants_in) {
    next.shape.version = options_.shape.version;
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
  const bool is_right =
      stored_.has_value() && next == *stored_ && (!HasLostData() || !wants_in);
  if (!is_there || is_right) return std::nullopt;
  next.epoch = std::max(next.epoch, table_.epoch) + 1;
  next.mark =
      std::max<uint64_t>(options_.self.incarnation ^ (looks_ * kOdd), 1);
  if (!stored_.has_value() || HasLostData()) {
    next.history = options_.self.incarnation ^ (next.epoch * kOdd);
  }
  return Swap{.table = std::move(next),
              .revision = revision_,
              .beats = std::move(beats)};
}

}  // namespace snf
