// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/flow_moves.h"

#include "platform/run/flow_keys.h"

namespace snf {

FlowMoves::FlowMoves(Controller& controller,
                     ControllerRunner& controller_runner,
                     UnitRunner& unit_runner, VirtualUnits& units,
                     VirtualNetwork& network, ArrivingFlows& arriving,
                     Ingress& ingress, Observers& observers,
                     RunDigests& digests, Checker& checker)
    : controller_(controller),
      controller_runner_(controller_runner),
      unit_runner_(unit_runner),
      units_(units),
      network_(network),
      arriving_(arriving),
      ingress_(ingress),
      observers_(observers),
      digests_(digests),
      checker_(checker) {}

bool FlowMoves::Has(const FlowKey& key) const {
  const FlowTable& flows = controller_.flows();
  return flows.Find(key, flows.HashOf(key)) != FlowTable::kNone;
}

bool FlowMoves::Has(FlowId flow) const {
  return KeyOf(controller_.flows(), flow) != FlowKey{};
}

bool FlowMoves::HasAlias(const FlowKey& alias) const {
  const uint64_t hash = controller_.flows().HashOf(alias);
  return controller_.aliases().Find(alias, hash) != AliasTable::kNone;
}

bool FlowMoves::AwaitsEnd(FlowId flow) const {
  const FlowTable& flows = controller_.flows();
  const uint32_t slot = slot_of(flow);
  return slot < flows.used() &&
         flows.numbers(slot).generation == generation_of(flow) &&
         flows.cold(slot).owner != kNoUnit &&
         (flows.hot(slot).flags & FlowHot::kEnding) != 0;
}

std::optional<MovedFlow> FlowMoves::Read(FlowId flow) {
  const auto handed = FlowHandOver::Read(controller_, flow);
  if (!handed.has_value()) return std::nullopt;
  const UnitId owner = controller_.flows().cold(slot_of(flow)).owner;
  const Unit& unit = units_.of(owner).unit;
  const auto state = unit.StateToHandOver(flow, handed->last);
  if (!state.has_value()) return std::nullopt;
  const auto record = unit.state_bytes(flow).first(state->bytes);
  return MovedFlow{.flow = *handed,
                   .state = *state,
                   .record = {record.begin(), record.end()},
                   .digests = digests_.Of(flow),
                   .checked = checker_.Read(flow)};
}

void FlowMoves::Give(Instant time, FlowId flow, bool again) {
  network_.AdvanceTo(time);
  const uint32_t slot = slot_of(flow);
  const EndFlow end = {flow, controller_.flows().hot(slot).clock};
  if (!again) {
    observers_.on_end_flow(network_.now(), controller_.flows().cold(slot).owner,
                           end);
  }
  FlowHandOver::Give(controller_, network_.now(), flow);
}

// The unit forsakes the flow at once, as after a Takeover of the other
// controller's unit: an order of the controller here may be lost with it.
void FlowMoves::Forget(Instant time, FlowId flow) {
  network_.AdvanceTo(time);
  const UnitId owner = controller_.flows().cold(slot_of(flow)).owner;
  if (controller_.on_ended(flow)) unit_runner_.Forsake(owner, flow);
}

std::optional<FlowId> FlowMoves::Take(Instant time, const MovedFlow& moved) {
  network_.AdvanceTo(time);
  std::optional<FlowId> id;
  controller_runner_.Call([&](ControllerOut& out) {
    id = FlowHandOver::Take(controller_, network_.now(), moved.flow, out);
    if (id.has_value()) Continue(*id, moved);
  });
  return id;
}

// The flow continues here by that id.
void FlowMoves::Continue(FlowId id, const MovedFlow& moved) {
  const FlowName& name = moved.flow.name;
  digests_.Continue(id, moved.digests);
  if (name.alias != FlowKey{}) digests_.on_granted(name.alias, name.key);
  ingress_.on_moved(name.flow, id);
  checker_.on_moved_here(id, moved.flow.last, moved.checked);
  if (name.alias != FlowKey{}) {
    // A controller that failed may have had the alias before.
    checker_.on_flow_note(
        {.flow = name.flow, .clock = name.alias_clock, .over = true});
    checker_.on_alias(network_.now(),
                      {.key = name.alias,
                       .flow = id,
                       .clock = name.alias_clock,
                       .group = name.alias_group},
                      AliasResult::kGranted);
  }
  arriving_.Add(id, moved.state, moved.record);
}

}  // namespace snf
