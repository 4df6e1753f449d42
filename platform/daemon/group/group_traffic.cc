// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/group_traffic.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/keyed_hash.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"
#include "platform/daemon/group/group_membership.h"
#include "platform/ports/frames/frame_offload.h"

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

GroupTraffic::GroupTraffic(GroupMember& member,
                           std::shared_ptr<const Steering> steering,
                           std::unique_ptr<GroupLink> link,
                           const std::vector<PortSpec>& ports,
                           std::unique_ptr<FlowHeirs> heirs)
    : member_(member),
      steering_(std::move(steering)),
      link_(std::move(link)),
      has_own_ports_(link_ != nullptr &&
                     std::ranges::none_of(ports,
                                          [](const PortSpec& port) {
                                            return port.steering != nullptr;
                                          })),
      heirs_(std::move(heirs)),
      view_(member.Current()) {
  owners_.fill(Steering::kNobody);
  for (const PortSpec& port : ports) {
    ports_.push_back({.side = port.side,
                      .number = port.number,
                      .places = steering_->PlaceProgram(port.side)});
  }
  if (has_own_ports_ && steering_->has_external()) {
    begun_.emplace(FragmentTable::Options{.hash_seed = SecretSeed()});
  }
}

absl::Status GroupTraffic::CheckGiving() const {
  if (heirs_ == nullptr || !view_.is_in || !may_handle()) {
    return absl::FailedPreconditionError(
        "it is joining its group, or out of it: try again once it is active");
  }
  if (!heirs_->is_settled()) {
    return absl::FailedPreconditionError(
        "flows are on their way from or to another controller of its group: "
        "try again in a few seconds");
  }
  return absl::OkStatus();
}

void GroupTraffic::Continue() {
  view_ = member_.Current();
  Follow(view_);
}

std::vector<int> GroupTraffic::descriptors() const {
  std::vector<int> sockets;
  if (link_ != nullptr) sockets.push_back(link_->descriptor());
  if (heirs_ != nullptr) sockets.push_back(heirs_->states_descriptor());
  return sockets;
}

bool GroupTraffic::IsVouchedFor() const {
  return GroupMembership::Now() < view_.vouched_until;
}

std::shared_ptr<const Steering> GroupTraffic::Turn() {
  GroupMember::View view = member_.Current();
  // Flows of who joins are on their way from the process before: it waits.
  if (heirs_ != nullptr && heirs_->is_continuing() && view.is_in) {
    view.table = view_.table;
    view.joined = view_.joined;
  }
  if (view.table != view_.table || view.joined != view_.joined ||
      view.is_in != view_.is_in) {
    Follow(view);
  }
  view_ = view;
  is_vouched_ = IsVouchedFor();
  if (heirs_ != nullptr) heirs_->set_active(view_.is_active);
  if (has_own_ports_) {
    Greet();
    return nullptr;
  }
  const MemberSet wanted = view_.is_active && !drains_ ? live_ : MemberSet{0};
  if (wanted == filtered_) return nullptr;
  filtered_ = wanted;
  StaleAll();
  return steering_->Among(wanted);
}

void GroupTraffic::Greet() {
  constexpr Nanos kPeriod = Milliseconds(100);
  member_.OnOut(link_->out());
  const Instant now = GroupMembership::Now();
  if (!view_.is_in || now < next_greeting_) return;
  next_greeting_ = now + kPeriod;
  link_->Greet(steering_->controller().id, counts_);
}

void GroupTraffic::Follow(const GroupMember::View& view) {
  live_ = view.table->live();
  owners_ = Steering::OwnersAmong(live_, steering_->controller().count);
  if (heirs_ != nullptr) heirs_->Follow(view);
  if (link_ != nullptr) link_->Follow(*view.table);
  if (!has_own_ports_ && view.joined != view_.joined) {
    drains_ = true;
    StaleAll();
  }
}

void GroupTraffic::StaleAll() {
  for (Port& port : ports_) port.is_stale = true;
}

void GroupTraffic::OnReceived(size_t port, bool has_received) {
  if (has_received) return;
  ports_[port].is_stale = false;
  drains_ = drains_ && std::ranges::any_of(ports_, &Port::is_stale);
}

bool GroupTraffic::Admits(size_t port, const PortFrame& frame, Instant now) {
  if (!view_.is_in || drains_) return Drop(GroupCount::kOut);
  return has_own_ports_ ? AdmitsOfAll(ports_[port], frame, now)
                        : AdmitsOfShared(ports_[port], frame.bytes);
}

bool GroupTraffic::IsOwn(const Port& port,
                         std::span<const std::byte> frame) const {
  const uint32_t place = PlaceOf(port, frame);
  return place == Steering::kLaterFragment ||
         owners_[place] == steering_->controller().id;
}

bool GroupTraffic::AdmitsOfShared(const Port& port,
                                  std::span<const std::byte> frame) {
  if (!may_handle()) return Drop(GroupCount::kNotYetOwn);
  if (port.is_stale && !IsOwn(port, frame)) return Drop(GroupCount::kMoved);
  return true;
}

bool GroupTraffic::AdmitsOfAll(const Port& port, const PortFrame& frame,
                               Instant now) {
  const uint32_t place = PlaceOf(port, frame.bytes);
  const bool is_later = place == Steering::kLaterFragment;
  const uint8_t owner =
      is_later ? OwnerOfLater(frame.bytes, now) : owners_[place];
  if (is_later && owner == Steering::kNobody) {
    return Drop(GroupCount::kNoFirst);
  }
  // The owner of the first fragment may be dead.
  if (owner == Steering::kNobody || !Has(live_, owner)) {
    return Drop(GroupCount::kNoOwner);
  }
  if (begun_.has_value() && !is_later && port.side == Side::kOutside) {
    Remember(frame.bytes, owner, now);
  }
  if (owner != steering_->controller().id) {
    return SendOn(owner,
                  {.side = port.side,
                   .port = static_cast<uint8_t>(port.number),
                   .bytes = frame.bytes,
                   .segment_bytes = frame.segment_bytes},
                  GroupCount::kForwarded);
  }
  return may_handle() || Drop(GroupCount::kNotYetOwn);
}

// Sends each packet of a frame of several by a datagram of its own, unless both
// members are on this machine: a network would cut a long datagram.
bool GroupTraffic::SendOn(uint32_t to, GroupLink::Frame frame,
                          GroupCount count) {
  const uint16_t segment_bytes = frame.segment_bytes;
  const bool stays_whole =
      !has_own_ports_ && frame.bytes.size() <= GroupLink::kMostFrame;
  if (segment_bytes == 0 || stays_whole) {
    return Drop(SendOne(to, frame) ? count : GroupCount::kUnsendable);
  }
  const std::span<const std::byte> whole = frame.bytes;
  frame.segment_bytes = 0;
  uint64_t sent = 0;
  CutFrame(whole, segment_bytes, [&](std::span<const std::byte> packet) {
    frame.bytes = packet;
    sent += SendOne(to, frame) ? 1 : 0;
  });
  if (sent > 1) counts_.Add(GroupCount::kCut, sent - 1);
  return Drop(sent > 0 ? count : GroupCount::kUnsendable);
}

bool GroupTraffic::SendOne(uint32_t to, const GroupLink::Frame& frame) {
  const uint32_t self = steering_->controller().id;
  bool is_sent = link_ != nullptr && link_->Send(self, to, frame);
  if (!is_sent && link_ != nullptr) {
    // The queue may have been full.
    link_->Flush(counts_);
    is_sent = link_->Send(self, to, frame);
  }
  return is_sent;
}

void GroupTraffic::SetAside(size_t port, const PortFrame& frame,
                            const FlowHeirs::Aside& aside) {
  using Way = GroupLink::Way;
  SendOn(aside.to,
         {.side = ports_[port].side,
          .port = static_cast<uint8_t>(ports_[port].number),
          .bytes = frame.bytes,
          .way = aside.is_back ? Way::kBack : Way::kHolder,
          .home = static_cast<uint8_t>(aside.home),
          .segment_bytes = frame.segment_bytes},
         GroupCount::kAside);
}

uint8_t GroupTraffic::OwnerOfLater(std::span<const std::byte> frame,
                                   Instant now) const {
  const auto fragment = FragmentedOf(frame);
  if (!fragment.has_value() || !begun_.has_value()) return Steering::kNobody;
  const FragmentTable::Flow* const first = begun_->Find(now, fragment->key);
  return first == nullptr ? Steering::kNobody
                          : static_cast<uint8_t>(first->first_bytes);
}

void GroupTraffic::Remember(std::span<const std::byte> frame, uint8_t owner,
                            Instant now) {
  const auto fragment = FragmentedOf(frame);
  if (!fragment.has_value() || !steering_->IsExternal(fragment->destination)) {
    return;
  }
  begun_->Insert(now, fragment->key, {.key = {}, .first_bytes = owner});
}

bool GroupTraffic::Receive(Take take) {
  constexpr size_t kOfEach = 64;  // as a port gives
  if (link_ == nullptr) return false;
  const auto live = static_cast<size_t>(std::popcount(live_));
  const size_t most = std::max<size_t>(live, 2) - 1;
  bool has_received = false;
  for (size_t i = 0; i < most * kOfEach / GroupLink::kBatch; ++i) {
    const size_t came = link_->Receive(
        counts_, [&](const GroupLink::Frame& one) { TakeFrom(one, take); });
    has_received |= came > 0;
    if (came < GroupLink::kBatch) break;
  }
  return has_received;
}

void GroupTraffic::TakeFrom(const GroupLink::Frame& frame, Take take) {
  const auto port = std::ranges::find_if(ports_, [&frame](const Port& one) {
    return one.side == frame.side && one.number == frame.port;
  });
  if (port == ports_.end()) {
    counts_.Add(GroupCount::kNoPort);
    return;
  }
  if (!may_handle() || !MayTake(*port, frame)) {
    counts_.Add(GroupCount::kNotOwn);
    return;
  }
  counts_.Add(GroupCount::kTaken);
  using Kind = FlowHeirs::Way::Kind;
  const Kind kind = frame.way == GroupLink::Way::kHolder ? Kind::kHolder
                    : frame.way == GroupLink::Way::kBack ? Kind::kBack
                                                         : Kind::kOwner;
  take(static_cast<size_t>(port - ports_.begin()),
       {.bytes = frame.bytes, .segment_bytes = frame.segment_bytes},
       {.kind = kind, .from = frame.from});
}

// The sender of a frame whose flow is here may go by another table.
bool GroupTraffic::MayTake(const Port& port,
                           const GroupLink::Frame& frame) const {
  if (frame.way != GroupLink::Way::kHolder) return IsOwn(port, frame.bytes);
  return frame.home < kMostAtPorts &&
         owners_[Steering::kFirstBlock + frame.home] ==
             steering_->controller().id;
}

void GroupTraffic::Flush() {
  if (link_ != nullptr) link_->Flush(counts_);
}

LiveFigures::Group GroupTraffic::figures() const {
  LiveFigures::Group group = {.name = member_.group(),
                              .state = "out",
                              .epoch = view_.table->epoch,
                              .controllers = steering_->controller().count};
  if (view_.is_active) {
    group.state = IsVouchedFor() ? "active" : "waiting";
  } else if (view_.is_in) {
    group.state = "joining";
  }
  // Rounds sums, so that all shares are 1,000.
  const auto per_mille = [](uint32_t buckets) {
    return (buckets * 1'000 + Steering::kBuckets / 2) / Steering::kBuckets;
  };
  uint32_t before = 0;
  for (const Gateway& member : view_.table->members) {
    const uint32_t up_to =
        before +
        static_cast<uint32_t>(std::ranges::count(
            std::span(owners_).first(Steering::kBuckets), member.number));
    group.members.push_back(
        {.number = member.number,
         .name = member.name,
         .address = member.address,
         .hosts_1000 = per_mille(up_to) - per_mille(before)});
    before = up_to;
  }
  group.counts = counts_.named();
  if (heirs_ != nullptr) {
    std::ranges::move(heirs_->named(), std::back_inserter(group.counts));
    const bool has_others = view_.is_in && view_.table->members.size() > 1;
    if (has_others) group.states_away = heirs_->WhyNotSent();
  }
  return group;
}

}  // namespace snf
