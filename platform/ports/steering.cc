// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/steering.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>

#include "base/messages/controller_counts.h"
#include "base/packet/headers.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_address_text.h"
#include "base/text/wording.h"
#include "platform/run/run_setup.h"

namespace snf {
namespace {

bool ParseNumber(const char*& at, const char* end, uint32_t& number) {
  const auto parsed = std::from_chars(at, end, number);
  at = parsed.ptr;
  return parsed.ec == std::errc();
}

}  // namespace

absl::StatusOr<ControllerOf> ControllerOf::Parse(const std::string& text) {
  ControllerOf parsed;
  const char* at = text.data();
  const char* const end = at + text.size();
  if (!ParseNumber(at, end, parsed.id) || at == end || *at++ != '/' ||
      !ParseNumber(at, end, parsed.count) || at != end) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not of the form I/N, such as 0/2 and 1/2 for "
                    "two controllers",
                    Printable(text)));
  }
  if (parsed.count == 0 || parsed.count > kMostAtPorts) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\": want 1 to {} controllers", text, kMostAtPorts));
  }
  if (parsed.id >= parsed.count) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\": the last of {} is controller {}", text,
                    parsed.count, parsed.count - 1));
  }
  return parsed;
}

std::string ControllerOf::text() const {
  return fmt::format("{}/{}", id, count);
}

Steering::Steering(ControllerOf controller)
    : controller_(controller),
      owners_(OwnersAmong(FirstOf(controller.count), controller.count)) {}

Steering::Owners Steering::OwnersAmong(MemberSet live, uint32_t controllers) {
  Owners owners;
  owners.fill(kNobody);
  if (live == 0) return owners;
  const auto owner_of = [live](uint32_t home) {
    return static_cast<uint8_t>(Has(live, home) ? home
                                                : *NextMember(home, live));
  };
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    owners[bucket] = owner_of(*RendezvousOwner(bucket, FirstOf(controllers)));
  }
  for (uint32_t c = 0; c < controllers; ++c) {
    owners[kFirstBlock + c] = owner_of(c);
  }
  owners[kRest] = owner_of(0);
  return owners;
}

std::shared_ptr<const Steering> Steering::Among(MemberSet live) const {
  std::shared_ptr<Steering> steering(new Steering(*this));
  steering->owners_ = OwnersAmong(live, controller_.count);
  return steering;
}

// Each controller's units have their own tables. If a table is only for
// reports, each controller reports its own hosts.
absl::Status Steering::Check(const NetworkFunction& example,
                             uint32_t controllers) {
  const auto refuse = [controllers](const std::string& why) {
    return absl::InvalidArgumentError(
        fmt::format("{} controllers {}", controllers, why));
  };
  for (const NetworkFunction::Part& part : example.parts()) {
    for (const auto& table : part.nf->tables()) {
      if (table->shape().for_reports) continue;
      return refuse(
          "cannot run an NF whose packets read shared tables: live controllers "
          "are processes, each with tables of its own");
    }
  }
  if (controllers > 1 && example.flow_scope() == FlowScope::kOwnKey) {
    return refuse("cannot run an NF with flow keys of its own");
  }
  const bool has_sides = example.flow_scope() == FlowScope::kInsideEndpoint;
  for (const NetworkFunction::Pool& pool : example.pools()) {
    if (has_sides && !pool.address.has_value()) {
      return refuse(
          fmt::format("cannot divide the pool {}: its pieces are not the ports "
                      "of an address",
                      pool.name));
    }
  }
  return CheckParts(example, controllers);
}

absl::StatusOr<std::shared_ptr<const Steering>> Steering::Of(
    const NetworkFunction& example, ControllerOf controller) {
  if (absl::Status s = Check(example, controller.count); !s.ok()) return s;
  std::shared_ptr<Steering> steering(new Steering(controller));
  std::vector<NetworkFunction::Pool> pools;
  for (const NetworkFunction::Pool& pool : example.pools()) {
    if (!pool.address.has_value()) continue;
    steering->external_.push_back(*pool.address);
    pools.push_back(pool);
  }
  const auto parts = PartsOf(pools, controller.count);
  for (uint32_t c = 0; c < controller.count; ++c) {
    for (const PieceRange& part : parts[c]) {
      steering->blocks_.push_back({part.first, part.last, c});
    }
  }
  std::ranges::sort(steering->external_);
  const auto same = std::ranges::unique(steering->external_);
  steering->external_.erase(same.begin(), same.end());
  // All pools of NFs that there are have the same few ranges.
  std::ranges::sort(steering->blocks_, {}, &Block::first);
  for (size_t i = 1; i < steering->blocks_.size(); ++i) {
    if (steering->blocks_[i].first > steering->blocks_[i - 1].last) continue;
    return absl::InvalidArgumentError(
        "with several controllers, all external addresses must have the same "
        "range of ports");
  }
  return steering;
}

std::string Steering::blocks_text() const {
  std::string text;
  for (const be32 address : external_) {
    text += "; " + Ipv4Text(IpAddress::FromIpv4(address));
  }
  for (const Block& block : blocks_) {
    text += fmt::format("; {} to {} are {}'s", block.first, block.last,
                        block.owner);
  }
  return text;
}

bool Steering::IsExternal(be32 address) const {
  return std::ranges::binary_search(external_, address);
}

FragmentGate::FragmentGate(std::shared_ptr<const Steering> steering,
                           Side side) {
  if (steering == nullptr || side != Side::kOutside ||
      !steering->has_external()) {
    return;
  }
  steering_ = std::move(steering);
  own_.emplace(FragmentTable::Options{.hash_seed = SecretSeed()});
}

bool FragmentGate::LetsIn(std::span<const std::byte> frame, Instant now) {
  if (steering_ == nullptr) return true;
  const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
  if (packet.fragment == Fragment::kNone || packet.l3 != L3::kIpv4) return true;
  const auto ip = Ipv4Header<const std::byte>::At(frame, packet.l3_offset);
  if (!ip || !steering_->IsExternal(ip.destination())) return true;
  const FlowKey key = FragmentKey(frame, packet, false);
  if (packet.fragment == Fragment::kLater) {
    return own_->Find(now, key) != nullptr;
  }
  own_->Insert(now, key, {});
  return true;
}

}  // namespace snf
