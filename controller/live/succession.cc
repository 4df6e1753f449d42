// SPDX-License-Identifier: Apache-2.0
#include "controller/live/succession.h"

#include <algorithm>
#include <utility>

#include "base/byte_order.h"

namespace snf {

void Succession::Fail(Controller former) {
  former_.emplace(std::move(former));
  // What it had just heard it may have been about to act on.
  kept_.insert(kept_.begin(), unsure_.begin(), unsure_.end());
  unsure_.clear();
  Restart();
}

void Succession::Restart() {
  phase_ = Phase::kDead;
  rebuild_.emplace(max_units_, max_flows_);
  for (OfLoop& loop : of_loops_) loop.units_said = loop.loggers_said = false;
  of_units_.assign(max_units_, {});
  for (uint32_t i = 0; i < max_units_; ++i) {
    of_units_[i].standing.unit = UnitId{static_cast<uint16_t>(i)};
  }
  // A loop without units says nothing.
  for (uint32_t i = max_units_; i < loops_; ++i) {
    of_loops_[i].units_said = of_loops_[i].loggers_said = true;
  }
  packets_.clear();
}

uint32_t Succession::Succeed() {
  phase_ = Phase::kGathering;
  return ++epoch_;
}

bool Succession::has_all() const {
  return std::ranges::all_of(of_loops_, [](const OfLoop& loop) {
    return loop.units_said && loop.loggers_said;
  });
}

bool Succession::on_word(size_t loop, bool of_logger, const UnitCommand& word,
                         std::span<const std::byte> payload) {
  OfLoop& of_loop = of_loops_[loop];
  Said& said = of_logger ? of_loop.of_loggers : of_loop.of_units;
  if (said.words.size() >= kMaxWords) return false;
  if (word.kind != UnitCommand::Kind::kReported) {
    if (word.kind == UnitCommand::Kind::kReportName) {
      said.names.push_back(LoadAs<FlowName>(payload.data()));
    }
    said.words.push_back(word);
    return true;
  }
  const Said whole = std::exchange(said, {});
  if (phase_ != Phase::kGathering || word.epoch != epoch_) {
    return word.epoch <= epoch_;
  }
  for (const FlowName& name : whole.names) rebuild_->on_name(name);
  for (const UnitCommand& each : whole.words) Take(of_logger, each);
  (of_logger ? of_loop.loggers_said : of_loop.units_said) = true;
  return true;
}

void Succession::Take(bool of_logger, const UnitCommand& word) {
  using Kind = UnitCommand::Kind;
  OfUnit& unit = of_units_[value(word.unit)];
  switch (word.kind) {
    case Kind::kReportFlow:
      rebuild_->on_flow(word.report);
      return;
    case Kind::kReportPacket:
      rebuild_->on_packet({.meta = word.meta, .unit = word.unit});
      [[fallthrough]];
    case Kind::kReportParked:
      ++unit.slots;
      unit.bytes += former_->CostOf(word.meta.original_length);
      packets_.push_back(
          {.meta = word.meta, .packet = word.packet, .unit = word.unit});
      return;
    case Kind::kReportWord:
      rebuild_->on_word(word.pieces);
      return;
    case Kind::kReportUnit:
      if (of_logger) {
        unit.standing.was_sealed = word.standing.was_sealed;
        unit.standing.grants = word.standing.grants;
      } else {
        unit.standing.state = word.standing.state;
        unit.standing.incarnation = word.standing.incarnation;
      }
      return;
    default:
      return;
  }
}

std::vector<ControllerCommand> Succession::StartsOfWaiting() {
  uint32_t incarnation = incarnation_;
  for (const OfUnit& unit : of_units_) {
    incarnation = std::max(incarnation, unit.standing.incarnation);
  }
  std::vector<ControllerCommand> starts;
  for (OfUnit& unit : of_units_) {
    UnitReport& standing = unit.standing;
    if (unit.slots == 0 || standing.state == UnitReport::State::kActive) {
      continue;
    }
    const bool is_warm = standing.incarnation > 0;
    if (!is_warm) standing.incarnation = ++incarnation;
    starts.push_back(
        ControllerCommand::Start(standing.unit, is_warm, standing.incarnation));
  }
  return starts;
}

bool Succession::Begin(Controller& controller, Instant now,
                       std::span<const UnitId> starting, uint64_t in_channels) {
  for (OfUnit& unit : of_units_) {
    UnitReport& standing = unit.standing;
    if (std::ranges::count(starting, standing.unit) > 0) {
      standing.state = UnitReport::State::kStarting;
    } else if (standing.incarnation == 0 &&
               value(standing.unit) < warm_units_) {
      standing.state = UnitReport::State::kWarm;
    }
    standing.has_failed =
        std::exchange(has_failed_[value(standing.unit)], 0) != 0;
    standing.slots = unit.slots;
    standing.bytes = unit.bytes;
    rebuild_->on_unit(standing);
  }
  rebuild_->set_incarnation(incarnation_);
  rebuild_->Begin(controller, now, *former_);
  former_.reset();
  phase_ = Phase::kMending;
  is_heir_ = false;
  return in_channels == packets_.size();
}

std::vector<UnitCommand> Succession::TakeKept() {
  return std::exchange(kept_, {});
}

bool Succession::Mend(Controller& controller, Instant now, ControllerOut& out) {
  return rebuild_->Advance(controller, now, out);
}

void Succession::Finish() {
  const Rebuild::Figures& made = rebuild_->figures();
  figures_.made.flows += made.flows;
  figures_.made.flows_ending += made.flows_ending;
  figures_.made.flows_unnamed += made.flows_unnamed;
  figures_.made.flows_superseded += made.flows_superseded;
  figures_.made.tombstones += made.tombstones;
  figures_.made.refused += made.refused;
  phase_ = Phase::kUp;
}

bool Succession::Hold(const Arrival& arrival) {
  if (phase_ == Phase::kDead || waiting_.size() == kMaxWaiting) {
    ++figures_.packets_lost;
    return false;
  }
  ++figures_.packets_waited;
  waiting_.push_back(arrival);
  // What the controller before knew of its flow.
  waiting_.back().slot = Arrival{}.slot;
  waiting_.back().hash = 0;
  return true;
}

std::vector<Arrival> Succession::TakeWaiting() {
  return std::exchange(waiting_, {});
}

}  // namespace snf
