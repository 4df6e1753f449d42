// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/recovery/drilled_unit.h"

#include <utility>

namespace snf {
namespace {

UnitOptions DrilledOptions(uint32_t max_flows, bool has_logger) {
  UnitOptions options;
  options.max_flows = max_flows;
  options.packets_elsewhere = 0;
  options.replicas = 0;
  options.max_replicas = 64;
  options.has_logger = has_logger;
  return options;
}

}  // namespace

DrilledUnit::DrilledUnit(const NfSpec& nf, uint32_t max_flows,
                         bool makes_entries, const BufferPool::Options& buffers)
    : nf_(nf.create()),
      unit_(UnitId{0}, DrilledOptions(max_flows, makes_entries), nf_->schema(),
            nf_->pools()),
      buffers_(buffers) {
  if (makes_entries) maker_.emplace(kIncarnation, nf_->schema());
}

DrilledUnit::DrilledUnit(const NfSpec& nf, Unit copy,
                         const BufferPool::Options& buffers)
    : nf_(nf.create()), unit_(std::move(copy)), buffers_(buffers) {
  maker_.emplace(kIncarnation, nf_->schema());
}

void DrilledUnit::Apply(const UnitInput& input, Host& host) {
  switch (input.kind) {
    case UnitInput::Kind::kPacket:
      unit_.on_packet(input.packet, input.meta);
      break;
    case UnitInput::Kind::kAliasAck:
      if (maker_.has_value()) maker_->on_alias_ack(input.alias_ack);
      unit_.on_alias_ack(input.now, input.alias_ack, env(), out_);
      break;
    case UnitInput::Kind::kPieces:
      unit_.on_pieces(input.now, input.pieces, out_);
      break;
    case UnitInput::Kind::kReclaim:
      unit_.on_reclaim(input.pieces.pool, out_);
      break;
    case UnitInput::Kind::kEnd:
      unit_.on_end_flow(input.now, input.end, env(), out_);
      break;
  }
  Serve(input.now, host);
}

void DrilledUnit::on_released(Instant now, const PacketMeta& meta,
                              std::span<const PieceUse> uses, Host& host) {
  for (const PieceUse& use : uses) {
    if (use.gives == 0) continue;
    unit_.on_pieces_released({.word = use.piece / 64,
                              .pool = use.pool,
                              .unit = unit_.id(),
                              .mask = uint64_t{1} << use.piece % 64},
                             out_);
    Drain(host);
  }
  unit_.on_released(now, meta, env(), out_);
  Serve(now, host);
}

void DrilledUnit::RunTimers(Instant now, Host& host) {
  unit_.on_timers(now, out_);
  Serve(now, host);
}

void DrilledUnit::NoteEnded(FlowId flow, Clock clock, Host& host) {
  if (!maker_.has_value()) return;
  maker_->MakeEnded(flow, clock);
  host.on_entry(maker_->entry());
}

void DrilledUnit::Serve(Instant now, Host& host) {
  Drain(host);
  bool serves = unit_.begin(now, out_);
  while (true) {
    Drain(host);
    if (serves) {
      unit_.finish(now, env(), out_);
      Drain(host);
      serves = unit_.begin(now, out_);
    } else if (unit_.has_more()) {
      serves = unit_.Resume(now, out_);
    } else {
      return;
    }
  }
}

void DrilledUnit::Drain(Host& host) {
  for (const UnitCommand& command : out_.commands()) {
    const auto taken = maker_.has_value() ? maker_->Take(command, unit_)
                                          : EntryMaker::Taken::kNot;
    if (taken == EntryMaker::Taken::kEntry) host.on_entry(maker_->entry());
    if (taken == EntryMaker::Taken::kNot) host.on_command(command);
  }
  if (maker_.has_value()) maker_->EndCall();
  out_.clear();
}

}  // namespace snf
