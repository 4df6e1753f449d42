// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/flow_moves.h"

#include "base/check.h"
#include "platform/drivers/virtual_time/virtual_driver.h"

namespace snf {

bool FlowMoves::Has(const FlowKey& key) const {
  const FlowTable& flows = driver_.controller_.flows();
  return flows.Find(key, flows.HashOf(key)) != FlowTable::kNone;
}

bool FlowMoves::Has(FlowId flow) const {
  return driver_.KeyOf(flow) != FlowKey{};
}

bool FlowMoves::HasAlias(const FlowKey& alias) const {
  const Controller& controller = driver_.controller_;
  const uint64_t hash = controller.flows().HashOf(alias);
  return controller.aliases().Find(alias, hash) != AliasTable::kNone;
}

bool FlowMoves::AwaitsEnd(FlowId flow) const {
  const FlowTable& flows = driver_.controller_.flows();
  const uint32_t slot = slot_of(flow);
  return slot < flows.used() &&
         flows.numbers(slot).generation == generation_of(flow) &&
         flows.cold(slot).owner != kNoUnit &&
         (flows.hot(slot).flags & FlowHot::kEnding) != 0;
}

std::optional<MovedFlow> FlowMoves::Read(FlowId flow) {
  VirtualDriver& d = driver_;
  const auto handed = FlowHandOver::Read(d.controller_, flow);
  if (!handed.has_value()) return std::nullopt;
  const UnitId owner = d.controller_.flows().cold(slot_of(flow)).owner;
  const Unit& unit = d.units_.of(owner).unit;
  const auto state = unit.StateToHandOver(flow, handed->last);
  if (!state.has_value()) return std::nullopt;
  const auto record = unit.state_bytes(flow).first(state->bytes);
  return MovedFlow{
      .flow = *handed,
      .state = *state,
      .record = {record.begin(), record.end()},
      .digest = d.digest_.OfFlow(flow),
      .digest_up_to_renaming =
          d.renaming_digest_ != nullptr ? d.renaming_digest_->OfFlow(flow) : 0,
      .checked = d.checker_.Read(flow)};
}

void FlowMoves::Give(Instant time, FlowId flow, bool again) {
  VirtualDriver& d = driver_;
  d.network_.AdvanceTo(time);
  const uint32_t slot = slot_of(flow);
  const EndFlow end = {flow, d.controller_.flows().hot(slot).clock};
  if (!again) {
    d.observers_.on_end_flow(d.now(), d.controller_.flows().cold(slot).owner,
                             end);
  }
  FlowHandOver::Give(d.controller_, d.now(), flow);
}

// The unit forsakes the flow at once, as after a Takeover of the other
// controller's unit: an order of the controller here may be lost with it.
void FlowMoves::Forget(Instant time, FlowId flow) {
  VirtualDriver& d = driver_;
  d.network_.AdvanceTo(time);
  VirtualUnit& shell =
      d.units_.of(d.controller_.flows().cold(slot_of(flow)).owner);
  if (!d.controller_.on_ended(flow)) return;
  d.Forsake(shell, flow);
  d.Serve(shell);
  d.ScheduleTimer(shell);
}

std::optional<FlowId> FlowMoves::Take(Instant time, const MovedFlow& moved) {
  VirtualDriver& d = driver_;
  d.network_.AdvanceTo(time);
  d.controller_out_.clear();
  const auto id =
      FlowHandOver::Take(d.controller_, d.now(), moved.flow, d.controller_out_);
  if (id.has_value()) {
    d.digest_.Continue(*id, moved.digest);
    const FlowName& name = moved.flow.name;
    if (d.renaming_digest_ != nullptr) {
      d.renaming_digest_->Continue(*id, moved.digest_up_to_renaming);
      if (name.alias != FlowKey{}) {
        d.renaming_digest_->on_granted(name.alias, name.key);
      }
    }
    d.ingress_.on_moved(name.flow, *id);
    d.checker_.on_moved_here(*id, moved.flow.last, moved.checked);
    if (name.alias != FlowKey{}) {
      // A controller that failed may have had the alias before.
      d.checker_.on_flow_note(
          {.flow = name.flow, .clock = name.alias_clock, .over = true});
      d.checker_.on_alias(d.now(),
                          {.key = name.alias,
                           .flow = *id,
                           .clock = name.alias_clock,
                           .group = name.alias_group},
                          AliasResult::kGranted);
    }
    const auto [arriving, is_new] =
        arriving_.try_emplace(*id, Arriving{moved.state, moved.record});
    SNF_CHECK(is_new);
    arriving->second.state.flow = *id;
    arriving->second.state.pushed = true;
  }
  d.ExecuteAll();
  return id;
}

void FlowMoves::on_packet(const PacketMeta& meta, VirtualUnit& shell) {
  if (arriving_.empty()) return;
  const auto arriving = arriving_.find(meta.flow);
  if (arriving == arriving_.end()) return;
  const Arriving& came = arriving->second;
  SNF_CHECK(shell.unit.on_handed_over(driver_.now(), came.state, came.record));
  arriving_.erase(arriving);
}

}  // namespace snf
