// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace snf {
namespace {

uint64_t HashOf(FlowId flow) {
  // The index looks at the upper half only, which this multiplication fills.
  return value(flow) * 0x9e37'79b9'7f4a'7c15;
}

// Lets an NF emit packets while it handles one flow.
class Services final : public FlowServices {
 public:
  Services(BufferPool& pool, LinkType link, const PacketMeta& meta,
           UnitOut& out)
      : pool_(pool), link_(link), meta_(meta), out_(out) {}

  bool Emit(std::span<const std::byte> frame) override {
    if (emitted_ == FlowState::kMaxEmits) return false;
    if (frame.empty() || frame.size() > BufferPool::kMaxPacketBytes) {
      return false;
    }
    const auto length = static_cast<uint32_t>(frame.size());
    const PacketHandle packet = pool_.Allocate(length);
    if (packet == kNoPacket) return false;
    std::memcpy(pool_.room(packet).data(), frame.data(), frame.size());
    PacketInfo& info = pool_.info(packet);
    info.arrival = meta_.arrival;
    info.length = info.original_length = length;
    info.link = link_;
    info.headers = Parse(link_, frame);
    ++emitted_;
    out_.push(UnitCommand::OfPacket(UnitCommand::Kind::kEmit, packet, meta_));
    return true;
  }

 private:
  BufferPool& pool_;
  LinkType link_;
  PacketMeta meta_;
  UnitOut& out_;
  int emitted_ = 0;
};

// What one call of the NF, and what follows from it, may push.
constexpr size_t kMaxCommandsPerCall = FlowState::kMaxEmits + 8;

}  // namespace

Unit::Unit(UnitId id, const UnitOptions& options)
    : id_(id),
      nodes_(options.queue_packets),
      // A pull waits here for a packet that is here: at most one for each slot.
      // One more may come that is answered at once.
      pulls_(size_t{options.queue_packets} + 1),
      // Flows that are over stay until their last packets are done, be they
      // here or in a unit that has not pulled the state yet.
      index_(options.max_flows + options.queue_packets +
             options.packets_elsewhere),
      records_(size_t{options.max_flows} + options.queue_packets +
               options.packets_elsewhere),
      timers_(options.max_flows + options.queue_packets +
              options.packets_elsewhere) {}

void Unit::on_packet(PacketHandle packet, const PacketMeta& meta) {
  uint32_t node = free_node_;
  if (node != kNone) {
    free_node_ = nodes_[node].next;
  } else {
    SNF_CHECK(nodes_used_ < nodes_.size());
    node = nodes_used_++;
  }
  nodes_[node] = {.meta = meta, .packet = packet, .next = kNone};
  ++packets_;
  Append(inbox_, node);
  index_.Prefetch(HashOf(meta.flow));
}

Unit::Next Unit::begin(UnitOut& out) {
  SNF_CHECK(!busy());
  while (true) {
    if (out.room() < kMaxCommandsPerCall) return Next::kAgain;
    uint32_t node = PopFront(resumed_);
    if (node == kNone) node = PopFront(inbox_);
    if (node == kNone) return Next::kIdle;
    const PacketMeta& meta = nodes_[node].meta;
    const uint32_t slot = FindOrAdd(meta.flow);
    const Record& record = records_[slot];
    if (meta.clock <= record.applied) {
      DropDuplicate(node, out);
      ForgetIfEmpty(slot);
      continue;
    }
    const bool is_next =
        record.has_state
            ? meta.clock == record.applied + 1
            : meta.clock == Clock{1} && meta.source_kind == StateSource::kNone;
    if (is_next) {
      in_service_ = node;
      in_service_slot_ = slot;
      return Next::kService;
    }
    Hold(slot, node, out);
  }
}

void Unit::DropDuplicate(uint32_t node, UnitOut& out) {
  UnitCommand drop = UnitCommand::OfPacket(
      UnitCommand::Kind::kDrop, nodes_[node].packet, nodes_[node].meta);
  drop.reason = DropReason::kDuplicateClock;
  out.push(drop);
  FreeNode(node);
}

void Unit::Hold(uint32_t slot, uint32_t node, UnitOut& out) {
  List& held = records_[slot].held;
  const Clock clock = nodes_[node].meta.clock;
  if (held.tail == kNone || nodes_[held.tail].meta.clock < clock) {
    // The rule, since clocks of one flow come through the channel in order.
    Append(held, node);
  } else {
    uint32_t* link = &held.head;
    while (nodes_[*link].meta.clock < clock) link = &nodes_[*link].next;
    if (nodes_[*link].meta.clock == clock) {
      DropDuplicate(node, out);
      return;
    }
    nodes_[node].next = *link;
    *link = node;
  }
  ++held_;
  AfterChange(slot, out);
}

void Unit::finish(Instant now, Environment env, UnitOut& out) {
  SNF_CHECK(busy() && out.empty());
  const uint32_t node = in_service_;
  const PacketMeta meta = nodes_[node].meta;
  const PacketHandle packet = nodes_[node].packet;
  const uint32_t slot = in_service_slot_;
  Record& record = records_[slot];
  const PacketInfo& info = env.pool.info(packet);

  Services services(env.pool, info.link, meta, out);
  FlowState flow(meta.flow, now, record.timer, services);
  Packet view(info, env.pool.bytes(packet));
  const Verdict verdict = env.nf.process_packet(view, flow);

  in_service_ = kNone;
  FreeNode(node);
  record.applied = meta.clock;
  record.has_state = true;
  record.timer = flow.timer();
  record.link = info.link;
  timers_.Arm(slot, record.timer);

  using Kind = UnitCommand::Kind;
  UnitCommand done = UnitCommand::OfPacket(Kind::kRelease, packet, meta);
  if (verdict.kind() == Verdict::Kind::kDrop) {
    SNF_CHECK(verdict.reason() < env.nf.drop_reasons().size());
    done.kind = Kind::kNfDrop;
    done.nf_reason = verdict.reason();
  } else if (verdict.kind() == Verdict::Kind::kConsume) {
    done.kind = Kind::kConsume;
  }
  out.push(done);
  AfterChange(slot, out);
  PushStoppedIfDone(out);
}

void Unit::AfterChange(uint32_t slot, UnitOut& out) {
  Record& record = records_[slot];
  if (const uint32_t first = record.held.head; first != kNone) {
    const PacketMeta& meta = nodes_[first].meta;
    if (record.has_state && meta.clock == record.applied + 1) {
      PopFront(record.held);
      --held_;
      Append(resumed_, first);
    } else if (meta.source_kind == StateSource::kUnit && meta.source != id_ &&
               record.pulled_need != meta.clock - 1) {
      record.pulled_need = meta.clock - 1;
      out.push(UnitCommand::Send(
          meta.source,
          Pull{.flow = meta.flow, .need = meta.clock - 1, .requester = id_}));
    }
  }
  for (uint32_t* link = &record.pulls; record.has_state && *link != kNone;) {
    const uint32_t p = *link;
    const Pull& pull = pulls_[p].pull;
    if (pull.need > record.applied) {
      link = &pulls_[p].next;
      continue;
    }
    out.push(UnitCommand::Send(pull.requester, State{.flow = record.flow,
                                                     .applied = record.applied,
                                                     .timer = record.timer,
                                                     .link = record.link}));
    record.has_state = false;
    *link = pulls_[p].next;
    pulls_[p].next = free_pull_;
    free_pull_ = p;
  }
  if (record.last != Clock{} && record.has_state &&
      record.applied >= record.last) {
    record.has_state = false;
  }
  if (!record.has_state) timers_.Disarm(slot);
  ForgetIfEmpty(slot);
}

void Unit::on_pull(const Pull& pull, UnitOut& out) {
  const uint32_t slot = FindOrAdd(pull.flow);
  uint32_t p = free_pull_;
  if (p != kNone) {
    free_pull_ = pulls_[p].next;
  } else {
    SNF_CHECK(pulls_used_ < pulls_.size());
    p = pulls_used_++;
  }
  pulls_[p] = {.pull = pull, .next = records_[slot].pulls};
  records_[slot].pulls = p;
  AfterChange(slot, out);
  PushStoppedIfDone(out);
}

void Unit::on_state(const State& state, UnitOut& out) {
  // Only what a held packet waits for: a late or repeated State must not bring
  // back, with its timer, a copy of a flow that has gone on elsewhere.
  const uint32_t slot = Find(state.flow);
  if (slot == SlotIndex::kNotFound) return;
  Record& record = records_[slot];
  const uint32_t first = record.held.head;
  if (first == kNone || state.applied <= record.applied ||
      state.applied + 1 < nodes_[first].meta.clock) {
    return;
  }
  record.applied = state.applied;
  record.has_state = true;
  record.timer = state.timer;
  record.link = state.link;
  timers_.Arm(slot, record.timer);
  AfterChange(slot, out);
}

void Unit::on_end_flow(const EndFlow& end, UnitOut& out) {
  const uint32_t slot = FindOrAdd(end.flow);
  records_[slot].last = end.last;
  AfterChange(slot, out);
  PushStoppedIfDone(out);
}

void Unit::on_stop(UnitOut& out) {
  stopping_ = true;
  PushStoppedIfDone(out);
}

void Unit::PushStoppedIfDone(UnitOut& out) {
  if (!stopping_ || packets_ > 0 || flows() > 0) return;
  stopping_ = false;
  out.push(UnitCommand::Stopped());
}

void Unit::on_timers(Instant now, Environment env, UnitOut& out) {
  while (out.room() >= kMaxCommandsPerCall) {
    const uint32_t slot = timers_.PopDue(now);
    if (slot == TimingWheel::kNone) return;
    Record& record = records_[slot];
    const PacketMeta meta = {
        .flow = record.flow, .clock = record.applied, .arrival = record.timer};
    Services services(env.pool, record.link, meta, out);
    FlowState flow(record.flow, record.timer, Instant::max(), services);
    env.nf.on_timer(flow);
    record.timer = std::max(flow.timer(), record.timer + FlowState::kMinPeriod);
    timers_.Arm(slot, record.timer);
  }
}

uint32_t Unit::Find(FlowId flow) const {
  return index_.Find(
      HashOf(flow), [&](uint32_t slot) { return records_[slot].flow == flow; });
}

uint32_t Unit::FindOrAdd(FlowId flow) {
  uint32_t slot = Find(flow);
  if (slot != SlotIndex::kNotFound) return slot;
  slot = free_record_;
  if (slot != kNone) {
    free_record_ = records_[slot].pulls;
  } else {
    SNF_CHECK(records_used_ < records_.size());
    slot = records_used_++;
  }
  records_[slot] = {.flow = flow,
                    .applied = {},
                    .last = {},
                    .pulled_need = {},
                    .timer = Instant::max(),
                    .held = {},
                    .pulls = kNone,
                    .has_state = false,
                    .link = LinkType::kEthernet};
  index_.Insert(HashOf(flow), slot);
  return slot;
}

void Unit::ForgetIfEmpty(uint32_t slot) {
  Record& record = records_[slot];
  const bool ending = record.last > record.applied;
  if (record.has_state || record.held.head != kNone || record.pulls != kNone ||
      ending) {
    return;
  }
  index_.Erase(HashOf(record.flow), slot);
  record.pulls = free_record_;
  free_record_ = slot;
}

void Unit::Append(List& list, uint32_t node) {
  nodes_[node].next = kNone;
  (list.tail == kNone ? list.head : nodes_[list.tail].next) = node;
  list.tail = node;
}

uint32_t Unit::PopFront(List& list) {
  const uint32_t node = list.head;
  if (node == kNone) return kNone;
  list.head = nodes_[node].next;
  if (list.head == kNone) list.tail = kNone;
  return node;
}

void Unit::FreeNode(uint32_t node) {
  nodes_[node].next = free_node_;
  free_node_ = node;
  --packets_;
}

}  // namespace snf
