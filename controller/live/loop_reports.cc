// SPDX-License-Identifier: Apache-2.0
#include "controller/live/loop_reports.h"

#include <algorithm>

#include "base/byte_order.h"

namespace snf {

LoopReports::LoopReports(const ControllerOptions& options, size_t loops,
                         Succession& succession)
    : succession_(succession),
      loops_(std::min<size_t>(loops, options.max_units)),
      warm_units_(options.leased ? 0 : options.warm_units),
      of_loops_(Sources(loops)),
      of_units_(options.max_units),
      has_failed_(options.max_units) {}

void LoopReports::Restart() {
  for (size_t loop = 0; loop < loops_; ++loop) {
    for (const bool of_logger : {false, true}) {
      succession_.Await(SourceOf(loop, of_logger));
    }
  }
  for (size_t i = 0; i < of_units_.size(); ++i) {
    of_units_[i] = {};
    of_units_[i].standing.unit = UnitId{static_cast<uint16_t>(i)};
  }
  packets_.clear();
  // The controller may not have acted on the last words that it heard.
  kept_.insert(kept_.begin(), unsure_.begin(), unsure_.end());
  unsure_.clear();
}

bool LoopReports::on_word(size_t loop, bool of_logger, const UnitCommand& word,
                          std::span<const std::byte> payload) {
  const size_t source = SourceOf(loop, of_logger);
  Said& said = of_loops_[source];
  if (said.words.size() >= kMaxWords) return false;
  if (word.kind != UnitCommand::Kind::kReported) {
    if (word.kind == UnitCommand::Kind::kReportName) {
      said.names.push_back(LoadAs<FlowName>(payload.data()));
    }
    said.words.push_back(word);
    return true;
  }
  const Said whole = std::exchange(said, {});
  const uint32_t epoch = succession_.epoch();
  if (succession_.phase() != Succession::Phase::kGathering ||
      word.epoch != epoch || !succession_.awaits(source)) {
    return word.epoch <= epoch;
  }
  for (const FlowName& name : whole.names) succession_.rebuild().on_name(name);
  for (const UnitCommand& each : whole.words) Take(of_logger, each);
  succession_.on_reported(source);
  return true;
}

void LoopReports::Take(bool of_logger, const UnitCommand& word) {
  using Kind = UnitCommand::Kind;
  OfUnit& unit = of_units_[value(word.unit)];
  switch (word.kind) {
    case Kind::kReportFlow:
      succession_.rebuild().on_flow(word.report);
      return;
    case Kind::kReportPacket:
      succession_.rebuild().on_packet({.meta = word.meta, .unit = word.unit});
      [[fallthrough]];
    case Kind::kReportParked:
      ++unit.slots;
      unit.bytes += succession_.former().CostOf(word.meta.original_length);
      packets_.push_back(
          {.meta = word.meta, .packet = word.packet, .unit = word.unit});
      return;
    case Kind::kReportWord:
      succession_.rebuild().on_word(word.pieces);
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

std::vector<ControllerCommand> LoopReports::StartsOfWaiting() {
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

void LoopReports::Begin(std::span<const UnitId> starting) {
  Rebuild& rebuild = succession_.rebuild();
  for (const OfUnit& unit : of_units_) {
    UnitReport standing = unit.standing;
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
    rebuild.on_unit(standing);
  }
  rebuild.set_incarnation(incarnation_);
  is_heir_ = false;
}

}  // namespace snf
