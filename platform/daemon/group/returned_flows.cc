// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/returned_flows.h"

#include <algorithm>
#include <utility>

#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

// The part of a returned flow that the member has.
enum class Present : uint8_t { kNothing, kFlow, kAlias };

Present PresentOf(const RealDriver& driver, const FlowName& name) {
  const Controller& c = driver.controller();
  const FlowTable& flows = c.flows();
  if (flows.Find(name.key, flows.HashOf(name.key)) != FlowTable::kNone) {
    return Present::kFlow;
  }
  const bool has_alias =
      name.alias != FlowKey{} &&
      c.aliases().Find(name.alias, flows.HashOf(name.alias)) !=
          AliasTable::kNone;
  return has_alias ? Present::kAlias : Present::kNothing;
}

}  // namespace

void ReturnedFlows::Put(uint32_t from, uint64_t round, Instant now,
                        StandbyFlow flow) {
  waiting_.Put(from, round, now, std::move(flow));
}

void ReturnedFlows::OnWhole(uint32_t from, uint64_t round) {
  waiting_.OnWhole(from, round);
  is_whole_ = true;
}

void ReturnedFlows::Turn(RealDriver& driver) {
  if (is_done()) {
    nf_.reset();
    is_whole_ = false;
    return;
  }
  if (!driver.has_controller()) return;
  if (is_whole_ && reserving_.empty() && taking_.empty()) {
    auto flows = waiting_.TakeAll(~MemberSet{0}, ~MemberSet{0});
    std::ranges::move(flows, std::back_inserter(reserving_));
    is_whole_ = false;
  }
  if (!reserving_.empty()) return Reserve(driver);
  if (!taking_.empty()) TakeSome(driver);
}

void ReturnedFlows::Reserve(RealDriver& driver) {
  constexpr size_t kMostPerTurn = 1'024;
  if (nf_ == nullptr) nf_ = driver.nf().create();
  PieceTaking pieces(driver.pieces());
  for (size_t i = 0; i < kMostPerTurn && !reserving_.empty(); ++i) {
    Taking taking = {.flow = std::move(reserving_.front()), .pieces = {}};
    reserving_.pop_front();
    const StandbyFlow& flow = taking.flow;
    const Present present = PresentOf(driver, flow.flow.name);
    if (present == Present::kFlow) {
      ++had_;
      continue;
    }
    bool can_take = present == Present::kNothing &&
                    driver.IsRecord(flow.state, flow.record);
    if (can_take) taking.pieces = PiecesOf(*nf_, flow.record);
    can_take = can_take && pieces.Take(taking.pieces);
    if (can_take) {
      taking_.push_back(std::move(taking));
    } else {
      ++untaken_;
    }
  }
  pieces.Finish();
  give_up_ = RealClock::Monotonic() + kPatience;
}

// A packet may have begun the flow meanwhile, if not all flows came in time.
void ReturnedFlows::TakeSome(RealDriver& driver) {
  constexpr size_t kMostPerTurn = 128;
  for (size_t i = 0; i < kMostPerTurn && !taking_.empty(); ++i) {
    const auto& [flow, pieces] = taking_.front();
    if (PresentOf(driver, flow.flow.name) != Present::kNothing) {
      ++untaken_;
      PieceTaking::PutBack(driver.pieces(), pieces);
    } else if (driver.TakeFlow(flow.flow, flow.state, flow.record)) {
      ++taken_;
      give_up_ = RealClock::Monotonic() + kPatience;
    } else {
      if (RealClock::Monotonic() >= give_up_) GiveUp(driver);
      return;
    }
    taking_.pop_front();
  }
}

// The pieces go with the earlier driver.
void ReturnedFlows::OnOtherDriver() {
  untaken_ += taking_.size();
  taking_.clear();
  nf_.reset();
}

void ReturnedFlows::GiveUp(RealDriver& driver) {
  untaken_ += taking_.size();
  for (const Taking& one : taking_) {
    PieceTaking::PutBack(driver.pieces(), one.pieces);
  }
  taking_.clear();
}

void ReturnedFlows::AppendTo(std::vector<NamedCount>& counts) const {
  counts.push_back({"states_returned", taken_});
  counts.push_back({"states_had", had_});
  counts.push_back(
      {"states_unreturned", untaken_ + waiting_.counters().evicted});
}

}  // namespace snf
