// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/sdk/nf_call.h"

namespace snf {
namespace {

// A timer in state from another unit is taken to be at most this far in the
// past; else a timer that sets itself again could run for years in one go.
constexpr Nanos kMaxTimerLag = Seconds(20);

}  // namespace

// The connection of one call: its record as the NFs see it.
struct Chain::Connection {
  Connection(const FlowState& of, uint32_t number, std::span<std::byte> record)
      : entry(number),
        state(record),
        services(of.services_),
        flow(of.id_, of.now_, Instant::max(), state, services) {}
  uint32_t entry;
  StateView state;
  ConnectionServices services;
  FlowState flow;
};

// The state that the NFs share during one call of the chain.
struct Chain::Call {
  // `of` is the packet, or null if the call is not for a packet.
  Call(FlowState& state, const Packet* of, bool can_be_undone)
      : flow(state),
        packet(of),
        begin_timer(state.timer_),
        timer(state.timer_),
        can_undo(can_be_undone) {}
  FlowState& flow;
  const Packet* packet;
  Instant begin_timer;
  Instant timer;  // the flow's new timer, unless timers_changed
  bool timers_changed = false;
  bool can_undo;
  std::optional<Connection> connection;
};

// Ends a call: stores the connection and sets the flow's timer.
inline void Chain::Finish(Call& call) {
  if (call.connection.has_value()) CloseConnection(call);
  FlowState& flow = call.flow;
  // FlowState::set_timer has seen to it.
  SNF_CHECK(flow.timer_ == call.begin_timer);
  flow.timer_ = call.timers_changed ? Earliest(flow) : call.timer;
  flow.part_ = {};
}

// --- Packets ----------------------------------------------------------------

inline Verdict Chain::Run(const Step& step, Packet& packet, Call& call) {
  nf_call.nf = step.nf;
  FlowState* flow = &call.flow;
  if (step.in_connection) {
    if (!call.connection.has_value()) OpenConnection(call);
    flow = &call.connection->flow;
  }
  if (step.has_timer) [[unlikely]]
    return RunWithTimer(step, packet, call, *flow);
  flow->part_ = step.place;
  const Verdict found = step.nf->process_packet(packet, *flow);
  if (nf_call.guard != nullptr) [[unlikely]]
    nf_call.guard->Check();
  return found;
}

Verdict Chain::RunWithTimer(const Step& step, Packet& packet, Call& call,
                            FlowState& flow) {
  Verdict found = Verdict::forward();
  With(step, call, flow,
       [&] { found = step.nf->process_packet(packet, flow); });
  if (nf_call.guard != nullptr) nf_call.guard->Check();
  return found;
}

inline uint8_t Chain::NextOf(const Way& way, const Step& step, uint8_t index,
                             Verdict found) {
  if (!found.forwards_below(step.labels)) return kOut;
  const uint8_t next = way.next[index];
  // If the label decides nothing, the CPU need not wait for it.
  return next != kByLabel ? next : way.by_label[index][found.label()];
}

// Returns true if the NF has changed its own state in this call.
bool Chain::HasChanged(const Step& step, const Call& call) {
  const uint32_t slots = step.nf->schema().slots();
  if (slots == 0) return false;
  const StateView& state =
      step.in_connection ? call.connection->state : call.flow.state_;
  const uint64_t own = ~uint64_t{0} >> (StateSchema::kMaxSlots - slots);
  return (state.dirty() >> step.place.first_slot & own) != 0;
}

// Returns the chain's verdict, given that of the packet's last NF.
Verdict Chain::Last(const Way& way, const Step& step, Verdict found,
                    const Call& call) const {
  switch (found.kind()) {
    case Verdict::Kind::kDrop:
      CheckDropReason(*step.nf, found);
      return Verdict::drop(
          static_cast<uint8_t>(step.first_reason + found.reason()));
    case Verdict::Kind::kWait:
      if (!call.can_undo &&
          (&step != &steps_[way.order[0]] || call.connection.has_value())) {
        FailNf("returned Verdict::wait, but may_wait() is false");
      }
      if (HasChanged(step, call)) {
        FailNf("returned Verdict::wait, but changed the state");
      }
      return Verdict::wait(PoolId{static_cast<uint16_t>(
          step.place.first_pool + static_cast<uint16_t>(found.pool()))});
    case Verdict::Kind::kForward:
      CheckLabel(*step.nf, found);
      return Verdict::forward();
    default:
      return found;
  }
}

Verdict Chain::GoThrough(const Way& way, Packet& packet, Call& call) {
  uint8_t index = way.order[0];
  while (true) {
    const Step& step = steps_[index];
    const Verdict found = Run(step, packet, call);
    index = NextOf(way, step, index, found);
    if (index != kOut) continue;
    const bool goes_on = found.forwards_below(step.labels);
    const Verdict verdict =
        goes_on ? Verdict::forward() : Last(way, step, found, call);
    Finish(call);
    return verdict;
  }
}

Verdict Chain::process_packet(Packet& packet, FlowState& flow) {
  const Way& way = WayOf(packet);
  if (!way.may_wait.empty() && MayWait(way, packet, flow)) [[unlikely]] {
    return Try(way, packet, flow);
  }
  Call call(flow, &packet, false);
  return GoThrough(way, packet, call);
}

// Returns true if an NF may make the packet wait after others changed state.
bool Chain::MayWait(const Way& way, const Packet& packet, FlowState& flow) {
  return std::ranges::any_of(way.may_wait, [&](uint8_t index) {
    const Step& step = steps_[index];
    nf_call.nf = step.nf;
    if (step.in_connection) {
      if (!connections_.has_value()) return true;
      const uint32_t entry = connections_->Find(
          flow.state_, packet.far_address(), packet.far_port());
      if (entry == ConnectionTable::kNone) return true;
      Connection connection(flow, entry,
                            connections_->RecordOf(flow.state_, entry));
      connection.flow.part_ = step.place;
      return step.nf->may_wait(connection.flow);
    }
    flow.part_ = step.place;
    const bool may_wait = step.nf->may_wait(flow);
    flow.part_ = {};
    return may_wait;
  });
}

Verdict Chain::Try(const Way& way, Packet& packet, FlowState& flow) {
  for (Step& step : steps_) step.nf->BeginTentative();
  BeginTentative();
  undo_->Begin(flow.services_, packet, flow.state_);
  FlowState tried(flow.id_, flow.now_, flow.timer_, flow.state_, *undo_);
  Call call(tried, &packet, true);
  const Verdict verdict = GoThrough(way, packet, call);
  const bool waits = verdict.kind() == Verdict::Kind::kWait;
  if (waits) {
    undo_->Undo(packet, flow.state_);
  } else {
    undo_->Do();
    flow.timer_ = tried.timer_;
  }
  for (Step& step : steps_) step.nf->EndTentative(!waits);
  EndTentative(!waits);
  return verdict;
}

OwnFlow Chain::flow_key(const KeyedPacket& packet) const {
  const NetworkFunction& nf = *steps_[*turn()].nf;
  nf_call.nf = &nf;
  return nf.flow_key(packet);
}

Side Chain::OwnSideOf(const Packet& packet) const {
  return flow_key(KeyedPacket::Of(packet.bytes(), packet.headers())).side;
}

// --- Timers -----------------------------------------------------------------

template <typename Hook>
void Chain::With(const Step& step, Call& call, FlowState& flow, Hook hook) {
  nf_call.nf = step.nf;
  flow.part_ = step.place;
  if (!step.has_timer) return hook();
  const Instant others = flow.timer_;
  const Instant before =
      step.timer.exists() ? step.timer.Get(flow.state_) : call.timer;
  flow.timer_ = before;
  hook();
  const Instant after = std::exchange(flow.timer_, others);
  if (!step.timer.exists()) {
    call.timer = after;
  } else if (after != before) {
    step.timer.Put(flow.state_, after);
    call.timers_changed = true;
  }
}

Instant Chain::Earliest(const FlowState& flow) const {
  Instant earliest = Instant::max();
  for (const Step& step : steps_) {
    if (!step.timer.exists() || step.in_connection) continue;
    earliest = std::min(earliest, step.timer.Get(flow.state_));
  }
  if (connections_have_timers_) {
    for (uint32_t i = 0; i < connections_->size(flow.state_); ++i) {
      const StateView state(connections_->RecordOf(flow.state_, i));
      for (const Step& step : steps_) {
        if (!step.timer.exists() || !step.in_connection) continue;
        earliest = std::min(earliest, step.timer.Get(state));
      }
    }
  }
  return std::max(earliest, flow.now_ + Nanos{-kMaxTimerLag.ns});
}

// Runs the NF's timer if it is due.
void Chain::RunTimer(const Step& step, Call& call, FlowState& flow) {
  if (step.timer.exists()) {
    if (step.timer.Get(flow.state_) > flow.now_) return;
    step.timer.Put(flow.state_, Instant::max());
    call.timers_changed = true;
  }
  With(step, call, flow, [&] { step.nf->on_timer(flow); });
}

void Chain::on_timer(FlowState& flow) {
  Call call(flow, nullptr, false);
  for (const Step& step : steps_) {
    if (step.has_timer && !step.in_connection) RunTimer(step, call, flow);
  }
  if (connections_have_timers_) {
    // Go backwards: a connection that ends gives its number to one already
    // handled.
    for (uint32_t i = connections_->size(flow.state_); i-- > 0;) {
      call.connection.emplace(flow, i, connections_->RecordOf(flow.state_, i));
      for (const Step& step : steps_) {
        if (!step.has_timer || !step.in_connection) continue;
        RunTimer(step, call, call.connection->flow);
      }
      CloseConnection(call);
    }
  }
  Finish(call);
}

// --- The flow ---------------------------------------------------------------

void Chain::on_end(FlowState& flow) {
  Call call(flow, nullptr, false);
  while (connections_.has_value() && connections_->size(flow.state_) > 0) {
    EndConnection(call, connections_->size(flow.state_) - 1);
  }
  for (const Step& step : steps_) {
    if (step.in_connection) continue;
    With(step, call, flow, [&] { step.nf->on_end(flow); });
  }
  Finish(call);
}

// In a chain with two sides the alias is that of the NF that has them.
void Chain::on_alias_refused(FlowState& flow, AliasResult why) {
  Call call(flow, nullptr, false);
  for (const Step& step : steps_) {
    if (step.in_connection) continue;
    With(step, call, flow, [&] { step.nf->on_alias_refused(flow, why); });
  }
  Finish(call);
}

// --- Connections of an inside endpoint --------------------------------------

// Finds the packet's connection, or adds it to the flow's.
void Chain::OpenConnection(Call& call) {
  StateView& state = call.flow.state_;
  uint32_t entry = 0;
  std::span<std::byte> record;
  if (connections_.has_value()) {
    const IpAddress& address = call.packet->far_address();
    const be16 port = call.packet->far_port();
    entry = connections_->Find(state, address, port);
    if (entry != ConnectionTable::kNone) {
      connections_->Use(state, entry);
    } else {
      if (connections_->size(state) == connections_->max()) {
        EndConnection(call, connections_->Oldest(state));
        count(*forgotten_);
      }
      entry = connections_->Add(state, address, port);
    }
    record = connections_->RecordOf(state, entry);
  }
  call.connection.emplace(call.flow, entry, record);
}

void Chain::CloseConnection(Call& call) {
  const Connection& connection = *call.connection;
  SNF_CHECK(connection.flow.timer_ == Instant::max());
  const uint32_t entry = connection.entry;
  const bool has_changed = connection.state.dirty() != 0;
  const bool is_over = connection.services.is_over();
  call.connection.reset();
  if (!connections_.has_value()) return;
  if (has_changed) connections_->Mark(call.flow.state_, entry);
  if (is_over) EndConnection(call, entry);
}

void Chain::EndConnection(Call& call, uint32_t entry) {
  StateView& state = call.flow.state_;
  Connection connection(call.flow, entry, connections_->RecordOf(state, entry));
  for (const Step& step : steps_) {
    if (!step.in_connection) continue;
    With(step, call, connection.flow,
         [&] { step.nf->on_end(connection.flow); });
  }
  connections_->Remove(state, entry);
  call.timers_changed |= connections_have_timers_;
}

}  // namespace snf
