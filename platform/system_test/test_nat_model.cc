// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_nat_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace snf {
namespace {

constexpr uint32_t kInside = 10;  // the first byte of inside addresses
// A platform may take so long for what it does by itself.
constexpr int64_t kLeisure = 1'000'000;

}  // namespace

void NatModel::Fault(const Delivery& packet, const std::string& what) {
  faults_.push_back(fmt::format(
      "packet {}{}, {} > {}, arrived {} ns, {}: {}", packet.number,
      packet.is_again ? " again" : "", Text(in_.source), Text(in_.destination),
      packet.arrival,
      packet.drop.empty() ? "released"
                          : "dropped for " + std::string(packet.drop),
      what));
}

void NatModel::Expect(const Delivery& packet, const Fates& fates) {
  if (std::ranges::find(fates, packet.drop) != fates.end()) return;
  std::string wanted;
  for (const std::string_view fate : fates) {
    wanted += wanted.empty() ? "" : " or ";
    wanted += fate.empty() ? "released" : fate;
  }
  Fault(packet, "should have been: " + wanted);
}

void NatModel::ExpectFrame(const Delivery& packet, const Frame& expected) {
  const std::string wrong = Difference(packet.in, expected, packet.out);
  if (wrong.empty()) return;
  const ModelPacket out = ReadModelPacket(packet.out);
  const ModelPacket wanted = ReadModelPacket(expected);
  Fault(packet, fmt::format("is {} > {}, not {} > {}: {}", Text(out.source),
                            Text(out.destination), Text(wanted.source),
                            Text(wanted.destination), wrong));
}

bool NatModel::IsForWantOfRoom(std::string_view drop) const {
  if (drop == "buffer_pool_empty") return !options_.has_buffers_for_all;
  if (drop == "start_buffer_full") return true;  // or all units are stopping
  static constexpr std::array<std::string_view, 3> kReasons = {
      "unit_queue_full", "flow_table_full", "hold_overflow"};
  return !options_.has_room_for_all &&
         std::ranges::find(kReasons, drop) != kReasons.end();
}

void NatModel::Offer(const Delivery& packet) {
  const ModelPacket read = ReadModelPacket(packet.in);
  if (read.is_first_fragment) first_fragments_.try_emplace(read.id, read);
  if (read.is_later_fragment && !first_fragments_.contains(read.id)) {
    early_.insert(packet.number);
  }
}

void NatModel::Judge(const Delivery& packet) {
  in_ = ReadModelPacket(packet.in);
  if (packet.is_again) due_back_.erase(packet.number);
  if (early_.contains(packet.number)) return Expect(packet, {"fragment_early"});
  if (in_.is_later_fragment) {
    const ModelPacket& first = first_fragments_.at(in_.id);
    if (!packet.is_again) in_.source.port = first.source.port;
    in_.destination.port = first.destination.port;
  }
  if (IsForWantOfRoom(packet.drop)) ++counts_["dropped for want of room"];
  if (!packet.is_again && in_.source.address >> 24 == kInside) {
    return JudgeOutbound(packet);
  }
  const bool is_explicit = IsExternal(in_.destination.address);
  if (IsExternal(in_.source.address) && !is_explicit) {
    ++counts_["source spoofed"];
    if (IsForWantOfRoom(packet.drop)) return;
    return Expect(packet,
                  {options_.has_prefix ? "no_mapping" : "source_is_external"});
  }
  if (packet.flow == kNoFlow) return JudgeUnplaced(packet);
  JudgeInbound(packet);
}

// --- Flows -----------------------------------------------------------------

NatModel::Life& NatModel::Enter(const Delivery& packet,
                                const ModelEnd& endpoint) {
  const auto [entry, is_new] = lives_.try_emplace(packet.flow);
  Life& life = entry->second;
  if (is_new) {
    life.endpoint = endpoint;
    const auto [newest, is_first] = newest_.try_emplace(endpoint, packet.flow);
    if (!is_first) {
      Succeed(packet, lives_.at(newest->second));
      newest->second = packet.flow;
    }
  } else if (life.endpoint != endpoint) {
    Fault(packet, "is of the flow of " + Text(life.endpoint));
  } else if (life.mapping.has_value()) {
    const int64_t over = std::max(life.last_arrival + MaxTimeout(*life.mapping),
                                  life.last_done + options_.hop);
    if (packet.arrival > over + kLeisure) {
      Fault(packet, "is of a flow that was over");
    }
  }
  Note(packet, life);
  return life;
}

// Another flow is the endpoint's now; this one may have packets on their way.
void NatModel::Succeed(const Delivery& packet, Life& before) {
  if (IsSure(before, packet.arrival)) {
    Fault(packet, "its mapping was forgotten early");
  }
  if (before.mapping.has_value()) ++counts_["mappings ended by silence"];
  before.over = packet.arrival;
}

void NatModel::Note(const Delivery& packet, Life& life) {
  life.last_arrival = std::max(life.last_arrival, packet.arrival);
  life.last_done = std::max(life.last_done, packet.done);
  if (!packet.drop.empty()) return;
  if (packet.order < life.last_order || packet.fate < life.last_fate) {
    Fault(packet, "was released in front of an earlier packet of its flow");
  }
  life.last_order = packet.order;
  life.last_fate = packet.fate;
}

// For want of room it went nowhere, but showed that the flow is not idle.
void NatModel::Touch(const Delivery& packet,
                     const std::map<ModelEnd, FlowId>& flows,
                     const ModelEnd& end) {
  const auto flow = flows.find(end);
  if (flow == flows.end()) return;
  Life& life = lives_.at(flow->second);
  life.last_arrival = std::max(life.last_arrival, packet.arrival);
}

// --- From the inside -------------------------------------------------------

bool NatModel::MayMap() const {
  return !in_.is_error() && !in_.is_later_fragment && !in_.has_flag(kFlagRst) &&
         in_.kind != ModelPacket::Kind::kIcmpReply;
}

void NatModel::JudgeOutbound(const Delivery& packet) {
  const bool is_released = packet.drop.empty();
  const ModelEnd inside = in_.is_error() ? in_.quoted_destination : in_.source;
  if (packet.flow == kNoFlow) {
    if (!IsForWantOfRoom(packet.drop)) Fault(packet, "should have had a flow");
    return Touch(packet, newest_, inside);
  }
  Life& life = Enter(packet, inside);
  if (IsForWantOfRoom(packet.drop)) return;
  if (in_.is_error()) {
    Expect(packet, {!life.mapping.has_value() ? "no_mapping"
                    : !in_.has_good_checksums ? "icmp_checksum"
                                              : ""});
    if (!is_released || !life.mapping.has_value()) return;
    ++counts_["errors from inside"];
    MustComeBack(packet);
    return ExpectFrame(packet, WithSource(packet.in, life.mapping->external));
  }
  if (!is_released) return JudgeUnsent(packet, life);
  if (!life.mapping.has_value()) {
    if (!MayMap()) return Fault(packet, "makes no mapping");
    Map(packet, life, ReadModelPacket(packet.out).source);
  }
  Mapping& mapping = *life.mapping;
  ExpectFrame(packet, WithSource(packet.in, mapping.external));
  if (in_.is_later_fragment) ++counts_["later fragments"];
  if (in_.is_first_fragment) {
    // An identifier is at both ends.
    first_fragments_.at(in_.id).destination =
        ReadModelPacket(packet.out).destination;
  }
  if (in_.has_flag(kFlagRst)) {
    ++counts_["resets from inside"];
  } else {
    mapping.refreshed = packet.arrival;
  }
  Sent(packet, mapping);
  MustComeBack(packet);
}

// RFC 4787 REQ-9, where a mapping has what the packet leaves for.
void NatModel::MustComeBack(const Delivery& packet) {
  if (in_.is_later_fragment) return;
  const ModelPacket out = ReadModelPacket(packet.out);
  const auto holder =
      holders_.find(out.is_error() ? out.quoted_source : out.destination);
  if (holder == holders_.end() ||
      !IsSure(lives_.at(holder->second), packet.done + options_.hop)) {
    return;
  }
  due_back_.insert(packet.number);
}

void NatModel::JudgeUnsent(const Delivery& packet, Life& life) {
  if (life.mapping.has_value()) {
    return Fault(packet, "though it had " + Text(life.mapping->external));
  }
  if (!MayMap()) {
    ++counts_["makes no mapping"];
    return Expect(packet, {"no_mapping"});
  }
  const size_t ports = options_.last_port - options_.first_port + 1u;
  const bool is_limit = packet.drop == "mapping_limit";
  if (is_limit && options_.host_ports > 0) {
    ++counts_["host had all its ports"];
    claims_.push_back({.what = Where(packet),
                       .time = packet.done - options_.hop,
                       .mappings = options_.host_ports,
                       .host = in_.source.address});
  } else if (packet.drop == "ports_exhausted" && !options_.has_ports_for_all) {
    ++counts_["ports exhausted"];
    // Elsewhere some may be idle, or for a moment taken by one too many.
    if (options_.has_one_unit && options_.host_ports == 0 &&
        options_.addresses.size() == 1) {
      ++counts_["ports exhausted: counted"];
      claims_.push_back({.what = Where(packet),
                         .time = packet.done,
                         .mappings = ports,
                         .protocol = in_.source.protocol});
    }
  } else {
    return Fault(packet, "a mapping was to be made");
  }
  MayRefuse(packet, life);
}

// --- From the outside ------------------------------------------------------

void NatModel::JudgeUnplaced(const Delivery& packet) {
  const ModelEnd to = in_.is_error() ? in_.quoted_source : in_.destination;
  const bool is_explicit = IsExternal(in_.destination.address);
  const auto& flows = is_explicit ? holders_ : newest_;
  if (IsForWantOfRoom(packet.drop)) return Touch(packet, flows, to);
  Expect(packet, {is_explicit ? "no_mapping" : "not_translated"});
  const auto flow = flows.find(to);
  ++counts_[is_explicit ? "to nobody's external endpoint"
                        : "to an endpoint without mapping"];
  if (flow == flows.end() || !IsSure(lives_.at(flow->second), packet.arrival)) {
    return;
  }
  Fault(packet, "though there was a mapping");
}

void NatModel::JudgeInbound(const Delivery& packet) {
  const ModelEnd to = in_.is_error() ? in_.quoted_source : in_.destination;
  const bool is_explicit = IsExternal(in_.destination.address);
  const auto found = lives_.find(packet.flow);
  if (found == lives_.end()) {
    if (IsForWantOfRoom(packet.drop)) return;
    return Fault(packet, "went to a flow that nobody began");
  }
  Life& life = found->second;
  Note(packet, life);
  if (is_explicit ? !life.externals.contains(to) : to != life.endpoint) {
    Fault(packet, "went to the flow of " + Text(life.endpoint));
  }
  if (IsForWantOfRoom(packet.drop)) return;
  Expect(packet, InboundFates(packet, life));
  if (!packet.drop.empty()) {
    ++counts_[fmt::format("{}{}", in_.is_error() ? "error: " : "",
                          packet.drop)];
    if (packet.drop == "mapping_expired" && !in_.is_error() &&
        life.mapping.has_value()) {
      Unmap(life, packet.done + options_.hop);
    }
    return;
  }
  ExpectFrame(packet, is_explicit ? WithDestination(packet.in, life.endpoint)
                                  : packet.in);
  if (packet.is_again) ++counts_["hairpinned"];
  if (is_explicit && !packet.is_again) ++counts_["unsolicited, let in"];
  if (in_.is_later_fragment) ++counts_["later fragments"];
  if (in_.is_error()) {
    ++counts_[packet.is_again ? "errors hairpinned" : "errors from outside"];
    return;
  }
  if (!life.mapping.has_value()) return;
  Mapping& mapping = *life.mapping;
  if (options_.inbound_refreshes) mapping.refreshed = packet.arrival;
  Received(packet, mapping);
}

NatModel::Fates NatModel::InboundFates(const Delivery& packet,
                                       const Life& life) const {
  if (!life.mapping.has_value()) return {"no_mapping"};
  if (in_.is_error() && !in_.has_good_checksums) return {"icmp_checksum"};
  const Mapping& mapping = *life.mapping;
  const std::string_view other =
      in_.is_error() ? "quoted_not_ours" : "no_mapping";
  Fates fates;
  if (IsExternal(in_.destination.address)) {
    const ModelEnd to = in_.is_error() ? in_.quoted_source : in_.destination;
    if (to != mapping.external) {
      if (!in_.is_later_fragment) return {other};
      fates.push_back(other);
    }
  } else if (packet.arrival <= mapping.announced && life.externals.size() > 1) {
    // It was sent to the endpoint before; a later fragment does not show which.
    if (packet.arrival < mapping.announced && life.mappings == 2 &&
        !in_.is_later_fragment) {
      return {other};
    }
    fates.push_back(other);
  }
  const int64_t silence = packet.arrival - mapping.refreshed;
  if (silence > MinTimeout(mapping, packet.arrival)) {
    fates.push_back("mapping_expired");
  }
  if (silence > MaxTimeout(mapping)) return fates;
  const ModelEnd peer = in_.is_error() ? in_.quoted_destination : in_.source;
  const Admits admits =
      AdmitsPeer(mapping, peer, in_.is_later_fragment, packet.arrival);
  if (admits != Admits::kYes) fates.push_back("filtered");
  if (admits != Admits::kNo) fates.push_back("");
  return fates;
}

// --- What the NAT makes itself ---------------------------------------------

// RFC 5508 REQ-8; not more than one a second and flow.
void NatModel::MayRefuse(const Delivery& packet, Life& life) {
  constexpr int64_t kPeriod = 1'000'000'000;
  if (options_.has_buffers_for_all && life.refused.has_value() &&
      packet.arrival - *life.refused < kPeriod) {
    ++counts_["refusals held back"];
    return;
  }
  life.refused = packet.arrival;
  refusals_due_[packet.number] = packet.in;
}

void NatModel::JudgeGenerated(const Frame& frame) {
  constexpr size_t kIpAt = 14, kQuotedAt = kIpAt + 28;
  const auto fault = [this](const std::string& what) {
    faults_.push_back("a packet of the NAT's own: " + what);
  };
  if (frame.size() < kQuotedAt + 28) return fault("too short");
  const ModelPacket read = ReadModelPacket(frame);
  const auto due = refusals_due_.find(read.number);
  if (due == refusals_due_.end()) {
    return fault(fmt::format("about packet {}", read.number));
  }
  const Frame refused = due->second;
  refusals_due_.erase(due);
  ++counts_["refusals"];
  const ModelEnd inside = ReadModelPacket(refused).source;
  if (!std::equal(frame.begin() + kQuotedAt, frame.end(),
                  refused.begin() + kIpAt, refused.end())) {
    fault("does not quote " + Text(inside));
  }
  if (!read.is_error() || frame[kIpAt + 20] != std::byte{3} ||
      frame[kIpAt + 21] != std::byte{13} || !read.has_good_checksums) {
    fault("is no right ICMP error to " + Text(inside));
  }
  if (read.destination.address != inside.address ||
      !IsExternal(read.source.address)) {
    fault(Text(read.source) + " > " + Text(read.destination));
  }
}

void NatModel::Finish() {
  if (options_.has_buffers_for_all) {
    for (const auto& [number, frame] : refusals_due_) {
      faults_.push_back(fmt::format("packet {} was not refused", number));
    }
  }
  for (const uint32_t number : due_back_) {
    faults_.push_back(fmt::format("packet {} did not come back", number));
  }
  for (auto& [flow, life] : lives_) {
    if (!life.mapping.has_value()) continue;
    const int64_t over =
        life.over.value_or(life.last_arrival + MaxTimeout(*life.mapping));
    Unmap(life, std::max(over, life.last_done + options_.hop) + kLeisure);
  }
  for (const Claim& claim : claims_) {
    const auto mappings = static_cast<size_t>(
        std::ranges::count_if(pasts_, [&claim](const Past& past) {
          const ModelEnd& inside = past.endpoint;
          return past.from <= claim.time && claim.time <= past.until &&
                 (claim.host == 0 || claim.host == inside.address) &&
                 (claim.protocol == 0 || claim.protocol == inside.protocol);
        }));
    if (mappings >= claim.mappings) continue;
    faults_.push_back(fmt::format("{} with {} mappings of {}", claim.what,
                                  mappings, claim.mappings));
  }
}

}  // namespace snf
