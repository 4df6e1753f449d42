// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/group_traffic.h"

#include <algorithm>
#include <utility>

#include "base/keyed_hash.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"

namespace snf {
namespace {

// The key of an IPv4 fragment's datagram; nothing for other frames.
struct Fragmented {
  FlowKey key;
  be32 destination;
};
std::optional<Fragmented> FragmentedOf(std::span<const std::byte> frame) {
  const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
  if (packet.fragment == Fragment::kNone || packet.l3 != L3::kIpv4) {
    return std::nullopt;
  }
  const auto ip = Ipv4Header<const std::byte>::At(frame, packet.l3_offset);
  if (!ip) return std::nullopt;
  return Fragmented{.key = FragmentKey(frame, packet, false),
                    .destination = ip.destination()};
}

}  // namespace

GroupTraffic::GroupTraffic(GroupMembership& membership,
                           std::shared_ptr<const Steering> steering,
                           std::unique_ptr<GroupLink> link,
                           const std::vector<PortSpec>& ports)
    : membership_(membership),
      steering_(std::move(steering)),
      link_(std::move(link)),
      view_(membership.Current()) {
  owners_.fill(Steering::kNobody);
  if (link_ == nullptr) return;
  for (const PortSpec& port : ports) {
    ports_.push_back({.side = port.side,
                      .number = port.number,
                      .places = steering_->PlaceProgram(port.side)});
  }
  if (!steering_->has_external()) return;
  for (uint32_t i = 0; i < steering_->controller().count; ++i) {
    begun_.emplace_back(FragmentTable::Options{.hash_seed = SecretSeed()});
  }
}

bool GroupTraffic::IsVouchedFor() const {
  return GroupMembership::Now() < view_.vouched_until;
}

std::shared_ptr<const Steering> GroupTraffic::Turn() {
  const GroupMembership::View view = membership_.Current();
  if (view.table != view_.table || view.joined != view_.joined) Follow(view);
  view_ = view;
  may_receive_ = !view_.is_active || drains_ || IsVouchedFor();
  if (link_ != nullptr) {
    Greet();
    return nullptr;
  }
  const MemberSet wanted =
      view_.is_active && !drains_ ? view_.table->live() : MemberSet{0};
  if (wanted == filtered_ && !is_filter_old_) return nullptr;
  filtered_ = wanted;
  is_filter_old_ = false;
  return steering_->Among(wanted);
}

void GroupTraffic::Greet() {
  constexpr Nanos kPeriod = Milliseconds(100);
  membership_.OnOut(link_->out());
  const Instant now = GroupMembership::Now();
  if (!view_.is_in || now < next_greeting_) return;
  next_greeting_ = now + kPeriod;
  link_->Greet(steering_->controller().id, counts_);
}

void GroupTraffic::Follow(const GroupMembership::View& view) {
  owners_ =
      Steering::OwnersAmong(view.table->live(), steering_->controller().count);
  if (link_ != nullptr) {
    link_->Follow(*view.table);
  } else if (view.joined != view_.joined) {
    drains_ = true;
  }
}

void GroupTraffic::OnTurned() { membership_.OnTurn(view_.table->epoch); }

void GroupTraffic::OnReceived(bool has_received) {
  if (!has_received) drains_ = false;
}

bool GroupTraffic::Admits(size_t port, const PortFrame& frame, Instant now) {
  if (!view_.is_in || drains_) return Drop(GroupCount::kOut);
  if (link_ != nullptr) return AdmitsOfAll(port, frame, now);
  return view_.is_active || Drop(GroupCount::kNotYetOwn);
}

bool GroupTraffic::AdmitsOfAll(size_t port, const PortFrame& frame,
                               Instant now) {
  const uint32_t place = PlaceOf(ports_[port], frame.bytes);
  const bool is_later = place == Steering::kLaterFragment;
  const uint8_t owner =
      is_later ? OwnerOfLater(frame.bytes, now) : owners_[place];
  if (owner == Steering::kNobody) {
    return Drop(is_later ? GroupCount::kNoFirst : GroupCount::kNoOwner);
  }
  if (!begun_.empty() && !is_later && ports_[port].side == Side::kOutside) {
    Remember(frame.bytes, owner, now);
  }
  const uint32_t self = steering_->controller().id;
  if (owner == self) {
    return view_.is_active || Drop(GroupCount::kNotYetOwn);
  }
  const GroupLink::Frame out = {
      .side = ports_[port].side,
      .port = static_cast<uint8_t>(ports_[port].number),
      .bytes = frame.bytes};
  bool is_sent = link_->Send(self, owner, out);
  if (!is_sent) {
    // The queue may have been full.
    link_->Flush(counts_);
    is_sent = link_->Send(self, owner, out);
  }
  return Drop(is_sent ? GroupCount::kForwarded : GroupCount::kUnsendable);
}

uint8_t GroupTraffic::OwnerOfLater(std::span<const std::byte> frame,
                                   Instant now) const {
  const auto fragment = FragmentedOf(frame);
  if (!fragment.has_value()) return Steering::kNobody;
  for (size_t i = 0; i < begun_.size(); ++i) {
    if (begun_[i].Find(now, fragment->key) != nullptr) {
      return static_cast<uint8_t>(i);
    }
  }
  return Steering::kNobody;
}

void GroupTraffic::Remember(std::span<const std::byte> frame, uint8_t owner,
                            Instant now) {
  const auto fragment = FragmentedOf(frame);
  if (!fragment.has_value() || !steering_->IsExternal(fragment->destination)) {
    return;
  }
  begun_[owner].Insert(now, fragment->key, {});
}

bool GroupTraffic::Receive(Take take) {
  if (link_ == nullptr) return false;
  return link_->Receive(
      counts_, [&](const GroupLink::Frame& frame) { TakeFrom(frame, take); });
}

void GroupTraffic::TakeFrom(const GroupLink::Frame& frame, Take take) {
  const auto port = std::ranges::find_if(ports_, [&frame](const Port& one) {
    return one.side == frame.side && one.number == frame.port;
  });
  if (port == ports_.end()) {
    counts_.Add(GroupCount::kNoPort);
    return;
  }
  const uint32_t place = PlaceOf(*port, frame.bytes);
  const bool is_own = place == Steering::kLaterFragment ||
                      owners_[place] == steering_->controller().id;
  if (!is_own || !view_.is_active) {
    counts_.Add(GroupCount::kNotOwn);
    return;
  }
  counts_.Add(GroupCount::kTaken);
  take(static_cast<size_t>(port - ports_.begin()), {.bytes = frame.bytes});
}

void GroupTraffic::Flush() {
  if (link_ != nullptr) link_->Flush(counts_);
}

LiveFigures::Group GroupTraffic::figures() const {
  LiveFigures::Group group = {.name = membership_.options().group,
                              .state = "out",
                              .epoch = view_.table->epoch,
                              .controllers = steering_->controller().count};
  if (view_.is_active) {
    group.state = IsVouchedFor() ? "active" : "waiting";
  } else if (view_.is_in) {
    group.state = "joining";
  }
  for (const Gateway& member : view_.table->members) {
    const auto buckets = std::ranges::count(
        std::span(owners_).first(Steering::kBuckets), member.number);
    group.members.push_back(
        {.number = member.number,
         .name = member.name,
         .address = member.address,
         .hosts_1000 = static_cast<uint32_t>(buckets * 1'000 /
                                             int64_t{Steering::kBuckets})});
  }
  group.counts = counts_.named();
  return group;
}

}  // namespace snf
