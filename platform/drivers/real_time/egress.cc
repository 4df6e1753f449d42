// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/egress.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/check.h"

namespace snf {

Egress::Egress(const RunOptions& options, Observers observers, Ingress& ingress,
               BufferPool& buffers, ControllerLoop& loop, RunResult& result)
    : controller_id_(options.controller.controller_id),
      has_digest_(options.check),
      has_sides_(result.aliases.has_sides),
      observers_(std::move(observers)),
      ingress_(ingress),
      buffers_(buffers),
      loop_(loop),
      result_(result),
      order_(options.controller.max_flows),
      provisioning_(options.controller),
      exits_(buffers, observers_, provisioning_, result,
             [this](PacketHandle packet) { ReturnBuffer(packet); }) {
  provisioning_.Reserve();
  if (has_sides_) granted_.reserve(1'024);
  if (has_digest_ && has_sides_) {
    renaming_digest_ = std::make_unique<RenamingDigest>(options.flow.fragments);
  }
}

void Egress::PassThrough(Instant now, const CapturedPacket& captured) {
  if (has_digest_) digest_.Add(kNoFlow, captured.bytes);
  if (renaming_digest_ != nullptr) {
    renaming_digest_->Add(now, kNoFlow, captured.link, captured.bytes);
  }
  exits_.PassThrough(now, captured);
}

void Egress::on_packet(Instant now, const UnitCommand& command) {
  if (command.kind >= UnitCommand::Kind::kEmit && HandleOther(now, command))
      [[unlikely]] {
    return;
  }
  const bool is_right = order_.On(
      command, [=, this](const UnitCommand& next) { EndPacket(now, next); });
  if (!is_right) [[unlikely]]
    Refuse(command);
}

// Returns true if nothing is left to do. A packet that an NF made is in a
// buffer of the unit's share, which is claimed, as the unit may die before it
// returns.
bool Egress::HandleOther(Instant now, const UnitCommand& command) {
  if (command.kind == UnitCommand::Kind::kEmit) {
    buffers_.Claim(command.packet);
    return false;
  }
  exits_.End(now, command);
  return true;
}

// Refuses a clock that has ended before, or was never given.
void Egress::Refuse(const UnitCommand& command) {
  loop_.Refuse(command.unit, "end of a packet", "clock",
               value(command.meta.clock));
}

inline void Egress::Release(Instant now, const UnitCommand& command) {
  if (has_digest_) AddToDigests(now, command);
  std::optional<Ingress::Return> to;
  if (has_sides_ && command.kind != UnitCommand::Kind::kEmit) {
    to = ingress_.ComesBack(now, command.packet);
  }
  exits_.Release(now, command, to.has_value());
  if (to.has_value()) [[unlikely]]
    BringBack(now, command.packet, *to);
}

void Egress::EndPacket(Instant now, const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  if (!granted_.empty()) [[unlikely]]
    ShowAlias(command.meta);
  if (command.kind == Kind::kEmit) [[unlikely]] {
    if (exits_.has_records(command.packet)) {
      exits_.ReleaseRecords(command.packet);
    } else {
      Release(now, command);
    }
    return;
  }
  observers_.on_run(now, command.meta);
  if (command.kind == Kind::kRelease) [[likely]] {
    if (now < command.meta.arrival) [[unlikely]] {
      loop_.Refuse(command.unit, "end of a packet", "arrival",
                   static_cast<uint64_t>(command.meta.arrival.ns));
    }
    Release(now, command);
  } else {
    exits_.End(now, command);
  }
  loop_.FreeSlot(command, *this);
}

// Lets a released packet arrive at the controller once more.
void Egress::BringBack(Instant now, PacketHandle packet,
                       const Ingress::Return& to) {
  ++result_.aliases.packets_hairpinned;
  PacketInfo& info = buffers_.info(packet);
  info.arrival = now;
  provisioning_.on_offered(now, info.original_length);
  // From here on a unit may work on it.
  loop_.Arrive(to.key, now, info.original_length, packet, to.by_alias);
}

void Egress::AddToDigests(Instant now, const UnitCommand& command) {
  const auto& [info, bytes] = buffers_.view(command.packet);
  digest_.Add(command.meta.flow, bytes);
  if (renaming_digest_ == nullptr) return;
  renaming_digest_->Add(now, command.meta.flow, info.link, bytes);
}

void Egress::ReturnBuffer(PacketHandle packet) {
  const BufferPool::Party owner = buffers_.owner(packet);
  if (owner != BufferPool::Party{0}) {
    loop_.ReturnBuffer(owner, packet);
  } else {
    Violate(fmt::format("buffer {} came back twice", value(packet)));
  }
}

void Egress::on_drop(Instant now, PacketHandle packet, DropReason reason) {
  exits_.Drop(now, packet, reason);
}

void Egress::on_unit_up(Instant now, UnitId unit) {
  provisioning_.on_unit_up(now, unit);
  observers_.on_unit_up(now, unit);
}

void Egress::on_unit_down(Instant now, UnitId unit) {
  provisioning_.on_unit_down(now, unit);
  observers_.on_unit_down(now, unit);
}

void Egress::on_drained(Instant now, const DrainReport& with_payload) {
  exits_.RecordLatency();
  if (order_.repeated() != nullptr) [[unlikely]]
    Refuse(*order_.repeated());
  provisioning_.on_drained(now, with_payload.unit, with_payload.packets,
                           with_payload.bytes);
}

void Egress::on_end_flow(const EndFlow& end) {
  observers_.on_end_flow(loop_.now(), kNoUnit, end);
  ForgetAlias(end.flow, end.last);
  order_.End(end.flow, end.last);
}

void Egress::on_forsake(Instant now, const EndFlow& end) {
  if (end.last > Clock{}) ForgetAlias(end.flow, end.last);
  order_.Forsake(end.flow,
                 [=, this](const UnitCommand& next) { EndPacket(now, next); });
  absl::erase_if(granted_, [&](const auto& granted) {
    return granted.first.first == end.flow;
  });
}

// Takes the flows over as the successor has them: some of the predecessor's
// words may have been lost with it.
void Egress::on_successor(Instant /*now*/, const Controller& controller) {
  const FlowTable& flows = controller.flows();
  const auto flow_in = [&](uint32_t slot) {
    if (slot >= flows.used() || flows.cold(slot).owner == kNoUnit) {
      return kNoFlow;
    }
    return MakeFlowId(controller_id_, slot, flows.numbers(slot).generation);
  };
  order_.Succeed(controller_id_, flows.used(), [&](uint32_t slot) {
    const FlowId flow = flow_in(slot);
    return std::pair(flow, flow == kNoFlow ? Clock{} : flows.hot(slot).clock);
  });
  if (!has_sides_) return;
  for (uint32_t slot = 0; slot < flows.used(); ++slot) {
    Alias alias;
    alias.flow = flow_in(slot);
    if (alias.flow == kNoFlow || !controller.aliases().Read(slot, alias) ||
        granted_.contains({alias.flow, alias.clock})) {
      continue;
    }
    ingress_.on_alias(alias, flows.hot(slot).key);
  }
}

void Egress::on_inherited(const PacketMeta& meta, PacketHandle packet) {
  order_.Inherit(meta);
  result_.packets_inherited += packet != kNoPacket ? 1 : 0;
}

void Egress::on_alias_granted(const Alias& alias, const FlowKey& inside) {
  granted_[{alias.flow, alias.clock}] = {.alias = alias, .inside = inside};
}

void Egress::ShowAlias(const PacketMeta& meta) {
  const auto found = granted_.find({meta.flow, meta.clock});
  if (found == granted_.end()) return;
  const auto& [alias, inside, is_over] = found->second;
  if (!is_over) ingress_.on_alias(alias, inside);
  if (renaming_digest_ != nullptr) {
    renaming_digest_->on_granted(alias.key, inside);
  }
  granted_.erase(found);
}

void Egress::on_alias_over(FlowId flow, Clock clock) {
  ForgetAlias(flow, clock);
}

void Egress::ForgetAlias(FlowId flow, Clock clock) {
  ingress_.ForgetAlias(flow, clock);
  for (auto& [of, granted] : granted_) {
    granted.is_over |= of.first == flow && of.second <= clock;
  }
}

void Egress::Violate(std::string what) {
  ++result_.violations;
  constexpr size_t kMostMessages = 10;
  if (result_.violation_messages.size() < kMostMessages) {
    result_.violation_messages.push_back(std::move(what));
  }
}

void Egress::CheckNoneWaits() {
  if (order_.waiting() + order_.earlier() == 0) return;
  Violate(
      fmt::format("I3: {} packets wait for clocks that never ended, of "
                  "flows of which {} have lost their slot",
                  order_.waiting(), order_.earlier()));
}

void Egress::Finish(Instant now) {
  provisioning_.on_end(now);
  observers_.on_end(now);
  result_.digest = digest_.value();
  result_.digest_up_to_renaming =
      renaming_digest_ != nullptr ? renaming_digest_->value() : result_.digest;
}

}  // namespace snf
