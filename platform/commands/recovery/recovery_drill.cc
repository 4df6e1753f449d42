// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/recovery/recovery_drill.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "controller/core/placement.h"
#include "platform/run/run_setup.h"

namespace snf {
namespace {

// Packets may wait for a datastore.
constexpr BufferPool::Options kDrillBuffers = {
    .small = 65'536, .medium = 4'096, .large = 64};

// One unit, which stays.
ControllerOptions DrillController(ControllerOptions options,
                                  uint32_t max_flows) {
  options.max_units = 1;
  options.warm_units = 1;
  options.max_flows = max_flows;
  options.replicas = 0;
  options.unit_idle_timeout = Nanos::max();
  return options;
}

bool IsSame(Instant now, const Unit::Change& a, const Unit::Change& b) {
  const bool same_timer =
      a.timer == b.timer || std::max(a.timer, b.timer) <= now;
  return a.clock == b.clock && same_timer && a.link == b.link &&
         std::ranges::equal(a.bytes, b.bytes);
}

}  // namespace

RecoveryDrill::RecoveryDrill(const NfSpec& nf, const RunOptions& options,
                             uint32_t max_flows, RecoveryWay* way,
                             bool compares, RunObserver* observer)
    : options_(options),
      unit_(nf, max_flows, way != nullptr, kDrillBuffers),
      limits_(LimitsOf(unit_.nf())),
      ingress_(options, unit_.nf(), unit_.buffers()),
      controller_(DrillController(options.controller, max_flows),
                  *FindPlacementPolicy("snf")),
      way_(way),
      compares_(compares),
      observer_(observer),
      free_(unit_.nf().pools()) {
  AddPiecePools(unit_.nf(), controller_);
}

// --- Inputs.
// ------------------------------------------------------------------

void RecoveryDrill::Take(const CapturedPacket& captured) {
  const Instant now = std::max(now_, captured.time);
  if (totals_.packets_in == 0) {
    if (observer_ != nullptr) observer_->on_start(now);
    AdvanceWay(now);
  }
  RunDue(now);
  ++totals_.packets_in;
  const Ingress::Taken& taken = ingress_.Take(now, captured);
  using Fate = Ingress::Taken::Fate;
  if (taken.fate == Fate::kPassesThrough) ++totals_.passed_through;
  if (taken.fate == Fate::kDropped) ++totals_.dropped;
  if (taken.fate != Fate::kPacket) return;
  const Arrival arrival = {.key = *taken.key,
                           .time = now,
                           .original_length = captured.original_bytes,
                           .packet = taken.packet,
                           .by_alias = taken.by_alias};
  RunStep(now, [&] {
    CallController([&](ControllerOut& out) {
      controller_.on_packets(now, {&arrival, 1}, out);
    });
  });
  totals_.flows_max = std::max(totals_.flows_max, unit_.unit().flows());
}

void RecoveryDrill::RunDue(Instant until) {
  while (true) {
    const Instant of_controller = controller_.next_wakeup();
    const Instant next = std::min(of_controller, unit_.unit().next_wakeup());
    if (next > until || now_ == Instant::min()) break;
    const Instant now = std::max(next, now_);
    RunStep(now, [&] {
      if (of_controller > now) {
        unit_.RunTimers(now, *this);
      } else {
        CallController(
            [&](ControllerOut& out) { controller_.on_timers(now, out); });
      }
    });
  }
}

void RecoveryDrill::RunStep(Instant now, absl::FunctionRef<void()> begin) {
  now_ = now;
  AdvanceWay(now);
  if (way_ != nullptr) way_->BeginStep();
  begin();
  while (!inputs_.empty()) {
    const UnitInput input = inputs_.front();
    inputs_.pop_front();
    if (way_ != nullptr) way_->on_input(input, unit_.buffers());
    unit_.Apply(input, *this);
    ApplyReleased();
    if (observer_ != nullptr) Observe(input);
  }
  if (drained_.packets > 0) {
    SNF_CHECK(controller_.on_drained(now, drained_));
    drained_.packets = 0;
    drained_.bytes = 0;
  }
  if (way_ != nullptr) way_->EndStep(unit_.entries());
}

void RecoveryDrill::AdvanceWay(Instant now) {
  if (way_ == nullptr) return;
  way_->AdvanceTo(now, unit_.unit(),
                  [this](const LogEntryView& e) { on_released(e); });
  ApplyReleased();
}

void RecoveryDrill::Observe(const UnitInput& input) {
  if (input.kind == UnitInput::Kind::kEnd) {
    observer_->on_end_flow(now_, UnitId{0}, input.end);
  }
  if (input.kind != UnitInput::Kind::kPacket) return;
  observer_->on_enqueue(now_, UnitId{0}, input.meta);
  observer_->on_service_end(now_, UnitId{0}, input.meta);
}

void RecoveryDrill::ApplyReleased() {
  while (!released_.empty()) {
    const Released released = std::move(released_.front());
    released_.pop_front();
    unit_.on_released(now_, released.meta, released.uses, *this);
  }
}

// --- The controller. ---------------------------------------------------------

void RecoveryDrill::CallController(
    absl::FunctionRef<void(ControllerOut&)> call) {
  ControllerOut out;
  call(out);
  for (const ControllerCommand& command : out.commands()) Execute(command);
}

void RecoveryDrill::Execute(const ControllerCommand& command) {
  using Kind = ControllerCommand::Kind;
  UnitInput input = {.now = now_, .meta = {}};
  switch (command.kind) {
    case Kind::kStartUnit:
      SNF_CHECK(controller_.on_unit_ready(now_, command.unit));
      return;
    case Kind::kDrop:
      End(command.packet, totals_.dropped);
      return;
    case Kind::kEnqueue:
      input.kind = UnitInput::Kind::kPacket;
      input.packet = command.packet;
      input.meta = command.meta;
      ++drained_.packets;
      drained_.bytes += controller_.CostOf(command.meta.original_length);
      break;
    case Kind::kEndFlow:
      ingress_.ForgetAlias(command.end.flow, command.end.last);
      input.kind = UnitInput::Kind::kEnd;
      input.end = command.end;
      break;
    case Kind::kAliasAck:
      input.kind = UnitInput::Kind::kAliasAck;
      input.alias_ack = command.alias_ack;
      break;
    case Kind::kPieces:
      input.kind = UnitInput::Kind::kPieces;
      input.pieces = command.pieces;
      break;
    case Kind::kReclaim:
      input.kind = UnitInput::Kind::kReclaim;
      input.pieces = command.pieces;
      break;
    default:
      return;  // is of several units
  }
  inputs_.push_back(input);
}

void RecoveryDrill::TellController(const LogEntry& entry) {
  if (entry.kind == LogEntry::Kind::kReturn) {
    CallController([&](ControllerOut& out) {
      controller_.on_pieces_returned(now_, entry.block, out);
    });
  } else if (entry.is(LogEntry::kOver) || entry.idle_timeout.ns >= 0) {
    on_note({.flow = entry.meta.flow,
             .clock = entry.meta.clock,
             .idle_timeout = entry.idle_timeout,
             .over = entry.is(LogEntry::kOver)});
  }
}

void RecoveryDrill::on_note(const FlowNote& note) {
  if (note.over) ingress_.ForgetAlias(note.flow, note.clock);
  CallController(
      [&](ControllerOut& out) { controller_.on_flow_note(now_, note, out); });
}

// --- What the unit does. -----------------------------------------------------

void RecoveryDrill::on_command(const UnitCommand& command) {
  using Kind = UnitCommand::Kind;
  switch (command.kind) {
    case Kind::kRelease:
      End(command.packet, totals_.released);
      return;
    case Kind::kNfDrop:
      End(command.packet, totals_.nf_dropped);
      return;
    case Kind::kConsume:
      End(command.packet, totals_.consumed);
      return;
    case Kind::kDrop:
    case Kind::kDropPayload:
      End(command.packet, totals_.dropped);
      return;
    case Kind::kEmit:
      unit_.buffers().Free(command.packet);
      return;
    case Kind::kSendNote:
      on_note(command.note);
      return;
    case Kind::kSendAlias: {
      const Alias alias = unit_.unit().alias(command.meta.flow);
      CallController([&](ControllerOut& out) {
        if (controller_.on_alias(alias, out) != AliasResult::kGranted) return;
        ingress_.on_alias(alias,
                          controller_.flows().hot(slot_of(alias.flow)).key);
      });
      return;
    }
    case Kind::kSendTimerDue:
      CallController([&](ControllerOut& out) {
        controller_.on_timer_due(now_, command.timer_due, out);
      });
      return;
    case Kind::kRequestPieces:
      CallController([&](ControllerOut& out) {
        controller_.on_piece_request(now_, command.request, out);
      });
      return;
    case Kind::kReturnPieces:
      CallController([&](ControllerOut& out) {
        controller_.on_pieces_returned(now_, command.pieces, out);
      });
      return;
    default:
      return;
  }
}

void RecoveryDrill::End(PacketHandle packet, uint64_t& counter) {
  if (packet == kNoPacket) return;
  ++counter;
  unit_.buffers().Free(packet);
}

void RecoveryDrill::on_entry(std::span<const std::byte> bytes) {
  const auto entry = LogEntryView::Parse(limits_, bytes);
  SNF_CHECK(entry.has_value());
  if (compares_) {
    free_.Take(*entry);
    if ((*entry)->kind == LogEntry::Kind::kClock) {
      way_->NoteOutput({.flow = (*entry)->meta.flow,
                        .clock = (*entry)->meta.clock,
                        .digest = DigestOf(*entry, unit_.buffers())});
    }
  }
  const LogEntry header = **entry;
  totals_.waiting += header.packet == kNoPacket ? 0 : 1;
  way_->on_entry(now_, *entry, bytes, unit_.unit(),
                 [this](const LogEntryView& e) { on_released(e); });
  TellController(header);
  if (header.is(LogEntry::kEnd)) {
    unit_.NoteEnded(header.meta.flow, header.meta.clock, *this);
  }
}

void RecoveryDrill::on_released(const LogEntryView& entry) {
  if (entry->kind != LogEntry::Kind::kClock) return;
  for (size_t i = 0; i < entry->emitted; ++i) {
    unit_.buffers().Free(entry.emitted(i));
  }
  totals_.waiting -= entry->packet == kNoPacket ? 0 : 1;
  using Outcome = LogEntry::Outcome;
  End(entry->packet, entry->outcome == Outcome::kRelease   ? totals_.released
                     : entry->outcome == Outcome::kNfDrop  ? totals_.nf_dropped
                     : entry->outcome == Outcome::kConsume ? totals_.consumed
                                                           : totals_.dropped);
  Released& released =
      released_.emplace_back(Released{.meta = entry->meta, .uses = {}});
  for (size_t i = 0; i < entry->pieces; ++i) {
    released.uses.push_back(entry.piece(i));
  }
}

// --- Deaths. -----------------------------------------------------------------

Death RecoveryDrill::Die(Instant now) {
  RunDue(now);
  AdvanceWay(now);
  Death death{.recovered = way_->Recover(now)};
  const Recovered& recovered = death.recovered;
  const Unit& heir = recovered.heir->unit();
  const auto is_unreleased = [&](FlowId flow) {
    return std::ranges::find(recovered.unreleased, flow) !=
           recovered.unreleased.end();
  };
  uint32_t at = 0;
  while (const auto own = unit_.unit().NextLogged(at)) {
    ++death.records;
    if (IsSame(now, own->record, heir.whole(own->flow))) continue;
    ++(is_unreleased(own->flow) ? death.records_anew : death.records_wrong);
  }
  // Records of other flows at the heir are wrong, too.
  death.records_wrong +=
      heir.own_copies() > death.records ? heir.own_copies() - death.records : 0;
  if (recovered.free.has_value()) {
    death.pieces_differ =
        recovered.unreleased.empty() && !recovered.free->IsSame(free_);
  } else {
    for (uint16_t pool = 0; pool < unit_.nf().pools().size(); ++pool) {
      death.pieces_differ |= heir.pieces(pool) != unit_.unit().pieces(pool);
    }
  }
  return death;
}

DrillTotals RecoveryDrill::totals() const { return totals_; }

}  // namespace snf
