// SPDX-License-Identifier: Apache-2.0
#include "platform/check/checker.h"

#include <fmt/format.h>

#include <algorithm>

namespace snf {

namespace {

// Says where a packet is instead.
std::string Elsewhere(UnitId unit) {
  return unit == kNoUnit
             ? ", but had left before"
             : fmt::format(", but was given to unit {}", value(unit));
}

}  // namespace

Checker::Checker(const NfSpec* nf, FlowName flow_name, bool nf_logs)
    : flow_name_(std::move(flow_name)) {
  if (nf != nullptr) oracle_ = std::make_unique<SingleUnitOracle>(*nf, nf_logs);
}

Checker::Flow& Checker::InSlot(FlowId id) {
  const size_t slot = slot_of(id);
  if (slot >= flows_.size()) flows_.resize(slot + slot / 2 + 64);
  return flows_[slot];
}

Checker::Flow* Checker::Find(Instant now, UnitId unit, const PacketMeta& meta) {
  if (Flow& flow = InSlot(meta.flow); flow.id == meta.flow) return &flow;
  const auto ending = ending_.find(meta.flow);
  if (ending != ending_.end()) return &ending->second;
  Violation(now, unit, meta, "came from nowhere");
  return nullptr;
}

Checker::UnderWay Checker::PacketOf(const PacketMeta& meta) const {
  const auto packet = under_way_.find({meta.flow, meta.clock});
  return packet == under_way_.end() ? UnderWay{} : packet->second;
}

void Checker::on_enqueue(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow& flow = Begin(meta.flow);
  if (lost_.erase({meta.flow, meta.clock}) > 0) {
    return GiveAgain(now, unit, meta, flow);
  }
  if (expects_losses_ && !meta.has_payload()) flow.ended = false;
  if (flow.ended) {
    Violation(now, unit, meta, "was given after the flow's end");
  } else if (value(meta.clock) != flow.given + 1) {
    Violation(now, unit, meta,
              fmt::format("was given after clock {}", flow.given));
  }
  flow.given = value(meta.clock);
  flow.last_unit = unit;
  const UnderWay packet = {.unit = unit, .has_payload = meta.has_payload()};
  if (under_way_.insert_or_assign({meta.flow, meta.clock}, packet).second) {
    ++flow.under_way;
  }
}

// Returns the flow's, which has the slot from now on.
Checker::Flow& Checker::Begin(FlowId id) {
  Flow& flow = InSlot(id);
  if (flow.id == id) return flow;
  flow.ended = true;
  FreePiecesIfOver(flow);
  if (flow.under_way > 0) {
    ending_.emplace(flow.id, flow);
  } else if (oracle_ != nullptr) {
    oracle_->Forget(flow.id);
  }
  flow = {.id = id};
  return flow;
}

Checker::Moved Checker::Read(FlowId flow) const {
  return {.state = oracle_ != nullptr ? oracle_->Read(flow)
                                      : SingleUnitOracle::Moved{},
          .pieces = uniqueness_.PiecesOf(flow)};
}

void Checker::on_moved_here(FlowId id, Clock last, const Moved& moved) {
  Flow& flow = Begin(id);
  flow.given = flow.processed = flow.released = flow.logged = value(last);
  uniqueness_.on_moved_here(id, moved.pieces);
  if (oracle_ != nullptr) oracle_->Begin(id, moved.state);
}

// Called when a lost clock is given to another unit: undoes the effects of the
// first run.
void Checker::GiveAgain(Instant now, UnitId unit, const PacketMeta& meta,
                        Flow& flow) {
  const uint64_t clock = value(meta.clock);
  if (clock <= flow.logged) {
    Violation(now, unit, meta,
              fmt::format("was given again, though clock {} is in a logger",
                          flow.logged));
  }
  if (clock <= flow.processed) {
    flow.processed = clock - 1;
    if (oracle_ != nullptr) oracle_->Undo(flow.id, meta.clock, uniqueness_);
  }
  uniqueness_.on_alias_withdrawn(flow.id, meta.clock);
  if (clock == flow.given) flow.last_unit = unit;
  under_way_[{meta.flow, meta.clock}] = {.unit = unit,
                                         .has_payload = meta.has_payload()};
  ++flow.under_way;
}

void Checker::on_lost(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow* const flow = Find(now, unit, meta);
  if (flow == nullptr) return;
  if (const UnderWay packet = PacketOf(meta); packet.unit != unit) {
    Violation(now, unit, meta, "was lost" + Elsewhere(packet.unit));
  } else if (packet.is_logged) {
    Violation(now, unit, meta, "was lost, though it is in a logger");
  }
  if (flow->in_service == unit && flow->serving == value(meta.clock)) {
    flow->in_service = kNoUnit;
  }
  if (oracle_ != nullptr) {
    oracle_->on_lost(meta.flow, meta.clock, uniqueness_);
  }
  uniqueness_.on_alias_withdrawn(flow->id, meta.clock);
  lost_.emplace(meta.flow, meta.clock);
  Left(*flow, meta.clock);
}

void Checker::on_end_flow(Instant now, UnitId unit, const EndFlow& end) {
  const PacketMeta last = {.flow = end.flow, .clock = end.last, .arrival = now};
  Flow* const flow = Find(now, unit, last);
  if (flow == nullptr) return;
  // A flow that is given up ends at no unit in particular.
  const bool is_other_unit =
      unit != kNoUnit && flow->last_unit != kNoUnit && unit != flow->last_unit;
  if (value(end.last) != flow->given || is_other_unit) {
    Violation(now, unit, last,
              fmt::format("was named as the flow's last; that is clock {} at "
                          "unit {}",
                          flow->given, value(flow->last_unit)));
  }
  flow->ended = true;
  uniqueness_.on_alias_gone(flow->id, end.last);
  FreePiecesIfOver(*flow);
  if (flow->under_way == 0) ForgetRecord(*flow);
}

void Checker::on_payload_dropped(Instant now, UnitId unit,
                                 const PacketMeta& meta) {
  Flow* const flow = Find(now, unit, meta);
  if (flow == nullptr) return;
  const UnderWay packet = PacketOf(meta);
  if (value(meta.clock) <= flow->processed) {
    Violation(now, unit, meta, "was dropped when it was processed already");
  } else if (packet.unit != unit) {
    Violation(now, unit, meta, "was dropped" + Elsewhere(packet.unit));
  } else if (!packet.has_payload) {
    Violation(now, unit, meta, "was dropped a second time");
  } else {
    under_way_[{meta.flow, meta.clock}].has_payload = false;
  }
}

void Checker::on_service_begin(Instant now, UnitId unit, const PacketMeta& meta,
                               Nanos /*wait*/) {
  BeginService(now, unit, meta);
}

void Checker::on_service_again(Instant now, UnitId unit,
                               const PacketMeta& meta) {
  BeginService(now, unit, meta);
}

void Checker::BeginService(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow* const flow = Find(now, unit, meta);
  if (flow == nullptr) return;
  const UnderWay packet = PacketOf(meta);
  if (flow->in_service != kNoUnit) {
    Violation(now, unit, meta,
              fmt::format("began while unit {} was at work",
                          value(flow->in_service)));
  } else if (value(meta.clock) != flow->processed + 1) {
    Violation(now, unit, meta,
              fmt::format("was processed after clock {}", flow->processed));
  } else if (packet.unit != unit) {
    Violation(now, unit, meta, "was processed" + Elsewhere(packet.unit));
  } else if (meta.has_payload() != packet.has_payload) {
    Violation(now, unit, meta,
              meta.has_payload() ? "was processed with a payload that is gone"
                                 : "was taken for one without payload");
  }
  flow->in_service = unit;
  flow->serving = value(meta.clock);
}

void Checker::on_service_end(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow* const flow = Find(now, unit, meta);
  if (flow == nullptr) return;
  if (flow->in_service != unit || flow->serving != value(meta.clock)) {
    Violation(now, unit, meta, "ended without having begun");
  }
  flow->in_service = kNoUnit;
  flow->processed = value(meta.clock);
}

void Checker::on_nf_begin(const PacketInfo& info,
                          std::span<const std::byte> bytes) {
  if (oracle_ != nullptr) oracle_->Before(info, bytes);
}

void Checker::on_nf_end(Instant now, UnitId unit, const PacketMeta& meta,
                        const NfOutcome& outcome) {
  const bool waits =
      std::ranges::any_of(outcome.commands, [](const UnitCommand& command) {
        return command.kind == UnitCommand::Kind::kWait;
      });
  if (waits) {
    Flow* const flow = Find(now, unit, meta);
    if (flow != nullptr) flow->processed = value(meta.clock) - 1;
    return;
  }
  if (oracle_ == nullptr) return;
  std::span<const std::byte> record;
  if (!IsLast(meta)) record = outcome.record();
  const auto [difference, pieces] =
      oracle_->After(now, meta, uniqueness_,
                     {.buffers = outcome.buffers,
                      .packet = outcome.packet,
                      .commands = outcome.commands,
                      .pieces_taken = outcome.pieces_taken,
                      .record = record});
  if (!difference.empty()) {
    Violation(now, unit, meta,
              "was not processed on its own state: " + difference);
  }
  if (!pieces.empty()) Violation(now, unit, meta, pieces);
  const Flow* const flow = Find(now, unit, meta);
  if (flow != nullptr) FreePiecesIfOver(*flow);
}

bool Checker::IsLast(const PacketMeta& meta) const {
  const auto is_last = [&meta](const Flow& flow) {
    return flow.id == meta.flow && flow.ended &&
           flow.given == value(meta.clock);
  };
  const size_t slot = slot_of(meta.flow);
  if (slot < flows_.size() && is_last(flows_[slot])) return true;
  const auto ending = ending_.find(meta.flow);
  return ending != ending_.end() && is_last(ending->second);
}

void Checker::on_logged(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow* const flow = Find(now, unit, meta);
  if (flow == nullptr) return;
  const auto packet = under_way_.find({meta.flow, meta.clock});
  if (packet == under_way_.end() || packet->second.unit != unit) {
    Violation(now, unit, meta, "was logged" + Elsewhere(PacketOf(meta).unit));
  } else if (value(meta.clock) > flow->processed) {
    Violation(
        now, unit, meta,
        fmt::format("was logged when clock {} was processed", flow->processed));
  } else if (packet->second.is_logged) {
    Violation(now, unit, meta, "was logged a second time");
  } else {
    packet->second.is_logged = true;
    flow->logged = std::max(flow->logged, value(meta.clock));
    if (oracle_ != nullptr) oracle_->on_logged(meta.flow, meta.clock);
  }
}

void Checker::on_release(const ReleasedPacket& released) {
  if (!released.route.has_clock()) return;
  const Instant now = released.time;
  const UnitId unit = released.route.unit;
  const PacketMeta meta = {.flow = released.route.flow,
                           .clock = released.route.clock,
                           .arrival = now};
  Flow* const flow = Find(now, unit, meta);
  if (flow == nullptr) return;
  const UnderWay packet = PacketOf(meta);
  if (value(meta.clock) <= flow->released) {
    Violation(now, unit, meta,
              fmt::format("was released after clock {}", flow->released));
  } else if (value(meta.clock) > flow->processed) {
    Violation(now, unit, meta,
              fmt::format("was released when clock {} was processed",
                          flow->processed));
  } else if (packet.unit != unit) {
    Violation(now, unit, meta, "was released" + Elsewhere(packet.unit));
  } else if (!packet.has_payload) {
    Violation(now, unit, meta, "was released without payload");
  } else if (expects_loggers_ && !packet.is_logged) {
    Violation(now, unit, meta, "was released before it was logged");
  }
  flow->released = value(meta.clock);
  Left(*flow, meta.clock);
}

void Checker::on_taken(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow* const flow = Find(now, unit, meta);
  if (flow == nullptr) return;
  const UnderWay packet = PacketOf(meta);
  if (value(meta.clock) > flow->processed) {
    Violation(
        now, unit, meta,
        fmt::format("was taken when clock {} was processed", flow->processed));
  } else if (packet.unit != unit) {
    Violation(now, unit, meta, "was taken" + Elsewhere(packet.unit));
  } else if (!packet.has_payload) {
    Violation(now, unit, meta, "was taken without payload");
  }
  Left(*flow, meta.clock);
}

void Checker::on_advanced(Instant now, UnitId unit, const PacketMeta& meta) {
  Flow* const flow = Find(now, unit, meta);
  if (flow == nullptr) return;
  const UnderWay packet = PacketOf(meta);
  if (value(meta.clock) > flow->processed) {
    Violation(now, unit, meta,
              fmt::format("was advanced when clock {} was processed",
                          flow->processed));
  } else if (packet.unit != unit) {
    Violation(now, unit, meta, "was advanced" + Elsewhere(packet.unit));
  } else if (packet.has_payload) {
    Violation(now, unit, meta, "was advanced, but had a payload");
  }
  FreePiecesIfOver(*flow);
  Left(*flow, meta.clock);
}

void Checker::on_alias(Instant now, const Alias& alias, AliasResult result) {
  if (result != AliasResult::kGranted) return;
  const std::string wrong = uniqueness_.on_alias(alias);
  if (wrong.empty()) return;
  const PacketMeta setter = {
      .flow = alias.flow, .clock = alias.clock, .arrival = now};
  Violation(now, alias.unit, setter, wrong);
}

void Checker::on_alias_refused(Instant now, const AliasAck& ack,
                               BufferPool& buffers) {
  if (oracle_ == nullptr) return;
  oracle_->on_alias_refused(now, ack.flow, ack.result, uniqueness_, buffers);
}

void Checker::on_flow_note(const FlowNote& note) {
  if (note.over) uniqueness_.on_alias_gone(note.flow, note.clock);
}

void Checker::on_pieces_granted(Instant now, const PieceBlock& pieces) {
  const std::string wrong = uniqueness_.on_granted(pieces);
  if (wrong.empty()) return;
  AddMessage(now, fmt::format("unit {} {}", value(pieces.unit), wrong));
}

void Checker::on_pieces_returned(Instant now, const PieceBlock& pieces) {
  const std::string wrong = uniqueness_.on_returned(pieces);
  if (wrong.empty()) return;
  AddMessage(now, fmt::format("unit {} {}", value(pieces.unit), wrong));
}

void Checker::on_grants_sealed(Instant /*now*/, UnitId unit, uint64_t logged) {
  uniqueness_.on_grants_sealed(unit, logged);
}

void Checker::on_process_begins(Instant /*now*/, UnitId unit) {
  uniqueness_.on_process_begins(unit);
}

// From now on the unit may give them to others: it does so when it has applied
// the flow's last clock and knows that it was the last.
void Checker::FreePiecesIfOver(const Flow& flow) {
  if (flow.ended && flow.processed == flow.given) {
    uniqueness_.on_over(flow.id);
  }
}

void Checker::Left(Flow& flow, Clock clock) {
  if (under_way_.erase({flow.id, clock}) == 0) return;
  --flow.under_way;
  if (flow.under_way > 0 || !flow.ended) return;
  ForgetRecord(flow);
  ending_.erase(flow.id);
}

// The flow has ended, and nothing of it is under way. What is lost of it may
// come again as long as it has its slot.
void Checker::ForgetRecord(const Flow& flow) {
  if (oracle_ == nullptr) return;
  if (expects_losses_ && InSlot(flow.id).id == flow.id) return;
  oracle_->Forget(flow.id);
}

void Checker::on_unsent(Instant now, UnitId unit, const PacketMeta& meta) {
  on_lost(now, unit, meta);
}

void Checker::on_end_unsent(Instant now, const EndFlow& end) {
  const PacketMeta last = {.flow = end.flow, .clock = end.last, .arrival = now};
  Flow* const flow = Find(now, kNoUnit, last);
  if (flow == nullptr) return;
  flow->ended = false;
  uniqueness_.on_goes_on(flow->id);
}

void Checker::on_grant_unsent(Instant /*now*/, const PieceBlock& pieces) {
  uniqueness_.on_grant_unsent(pieces);
}

void Checker::on_flow_found(FlowId id, Clock newest) {
  found_.insert_or_assign(id, value(newest));
}

void Checker::on_successor(Instant /*now*/) {
  const auto found = [&](FlowId id) {
    const auto at = found_.find(id);
    return at != found_.end() ? at->second : 0;
  };
  for (auto& [id, flow] : ending_) TakeBack(flow, found(id));
  for (Flow& flow : flows_) TakeBack(flow, found(flow.id));
  found_.clear();
}

// Counts the lost clocks behind `newest` as never given, and undoes their
// effects.
void Checker::TakeBack(Flow& flow, uint64_t newest) {
  while (flow.given > newest && lost_.erase({flow.id, Clock{flow.given}}) > 0) {
    const Clock clock{flow.given--};
    flow.last_unit = kNoUnit;
    uniqueness_.on_alias_withdrawn(flow.id, clock);
    if (flow.processed == value(clock)) {
      flow.processed = flow.given;
      if (oracle_ != nullptr) oracle_->Undo(flow.id, clock, uniqueness_);
    }
  }
}

void Checker::on_end(Instant now) {
  for (const auto& [id, flow] : ending_) CheckAllLeft(now, flow);
  for (const Flow& flow : flows_) CheckAllLeft(now, flow);
}

void Checker::CheckAllLeft(Instant now, const Flow& flow) {
  if (flow.under_way == 0) return;
  PacketMeta first = {.flow = flow.id, .clock = Clock{1}, .arrival = now};
  while (PacketOf(first).unit == kNoUnit) first.clock = first.clock + 1;
  Violation(now, PacketOf(first).unit, first,
            fmt::format("never left, the first of {} such packets; the last "
                        "clock given is {}, the last processed {}",
                        flow.under_way, flow.given, flow.processed));
}

void Checker::Violation(Instant now, UnitId unit, const PacketMeta& meta,
                        const std::string& what) {
  std::string name = flow_name_ ? flow_name_(meta.flow) : "";
  if (name.empty()) {
    name = fmt::format("flow slot {} generation {}", slot_of(meta.flow),
                       generation_of(meta.flow));
  }
  AddMessage(now, fmt::format("{}, unit {}: clock {} {}", name, value(unit),
                              value(meta.clock), what));
}

void Checker::AddMessage(Instant now, const std::string& what) {
  ++violations_;
  if (messages_.size() == kMaxMessages) return;
  const int64_t ns = (now - start_).ns;
  messages_.push_back(
      fmt::format("+{}.{:06} ms, {}", ns / 1'000'000, ns % 1'000'000, what));
}

}  // namespace snf
