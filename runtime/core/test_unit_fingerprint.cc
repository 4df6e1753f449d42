// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/test_unit_fingerprint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "runtime/core/flow_record.h"
#include "runtime/core/flow_store.h"
#include "runtime/core/nf_calls.h"
#include "runtime/core/packet_nodes.h"
#include "runtime/core/pending_lists.h"
#include "runtime/core/unit_pieces.h"

namespace snf {

// A hash of numbers in order (the finaliser of splitmix64 on each).
class UnitFingerprint::Mixer {
 public:
  void Add(uint64_t number) {
    hash_ = (hash_ ^ number) + 0x9e37'79b9'7f4a'7c15;
    hash_ = (hash_ ^ hash_ >> 30) * 0xbf58'476d'1ce4'e5b9;
    hash_ = (hash_ ^ hash_ >> 27) * 0x94d0'49bb'1331'11eb;
    hash_ ^= hash_ >> 31;
  }
  void Add(const PacketMeta& meta) {
    Add(value(meta.flow));
    Add(value(meta.clock));
    Add(value(meta.source) | uint64_t{meta.flags} << 16 |
        uint64_t{static_cast<uint8_t>(meta.source_kind)} << 24);
  }
  void Add(const PacketNodes& nodes, const PacketList& list) {
    for (uint32_t node = list.head; node != PacketList::kNone;
         node = nodes[node].next) {
      Add(nodes[node].meta);
    }
    Add(PacketList::kNone);
  }
  // The order of these numbers does not matter.
  void AddUnordered(std::vector<uint64_t> numbers) {
    std::ranges::sort(numbers);
    Add(numbers.size());
    for (const uint64_t number : numbers) Add(number);
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

void UnitFingerprint::AddPackets(const Unit& unit, Mixer& all) {
  const FlowStore& flows = unit.flows_;
  const PacketNodes& nodes = flows.packets();
  const auto add_waited = [&](uint32_t node) {
    if (!flows[flows.Find(nodes[node].meta.flow)].waited) return;
    const NfCalls::WaitingPacket& waited = unit.nf_.waiting(node);
    all.Add(uint64_t{waited.in_vain} << 16 | waited.pool);
    for (const uint16_t pool : waited.refused) all.Add(pool);
  };
  const auto add_all_waited = [&](const PacketList& list) {
    for (uint32_t node = list.head; node != PacketList::kNone;
         node = nodes[node].next) {
      add_waited(node);
    }
  };
  if (unit.busy()) all.Add(unit.in_service());
  all.Add(nodes, unit.packets_.inbox());
  all.Add(nodes, flows.resumed());
  if (unit.busy()) add_waited(unit.in_service_);
  add_all_waited(flows.resumed());
  const UnitPieces& pieces = unit.nf_.pieces();
  for (uint16_t i = 0; i < pieces.pools(); ++i) {
    const UnitPieces::Pool& pool = pieces.pool(i);
    all.Add(uint64_t{pool.next_word} << 3 | uint64_t{pool.is_ahead} << 2 |
            uint64_t{pool.requested} << 1 | uint64_t{pool.reclaimed});
    for (uint32_t w = 0; w < pool.set.words(); ++w) all.Add(pool.set.word(w));
    all.Add(nodes, pool.waiting);
    add_all_waited(pool.waiting);
  }
}

uint64_t UnitFingerprint::OfFlow(const Unit& unit, uint32_t slot) {
  const FlowStore& flows = unit.flows_;
  const FlowRecord& record = flows[slot];
  Mixer one;
  one.Add(value(record.flow));
  one.Add(value(record.applied));
  one.Add(static_cast<uint64_t>(record.copy) | uint64_t{record.engaged} << 8 |
          uint64_t{record.timer != Instant::max()} << 9 |
          uint64_t{record.due != Instant::max()} << 10 |
          uint64_t{record.has_left} << 11 |
          uint64_t{flows.timers().armed(slot)} << 12 |
          uint64_t{record.waited} << 13 |
          static_cast<uint64_t>(record.link) << 16 |
          uint64_t{flows.announced(slot)} << 32);
  one.Add(flows.begun(slot));
  if (record.parked != FlowStore::kNone) {
    one.Add(flows.packets()[record.parked].meta);
    const NfCalls::WaitingPacket& parked = unit.nf_.waiting(record.parked);
    for (const uint64_t part :
         std::bit_cast<std::array<uint64_t, sizeof(Alias) / 8>>(parked.alias)) {
      one.Add(part);
    }
    one.Add(static_cast<uint64_t>(parked.kind) | uint64_t{parked.nf_reason}
                                                     << 8);
  }
  if (record.copy != CopyKind::kNone) {
    for (const std::byte byte : flows.state(slot)) {
      one.Add(static_cast<uint64_t>(byte));
    }
  }
  if (flows.entries(slot) != 0) one.Add(flows.entries(slot));
  for (const UnitId target : flows.targets(slot)) one.Add(value(target));
  one.Add(flows.packets(), record.held);
  std::vector<uint64_t> all_pending;
  for (uint32_t p = record.pending; p != PendingLists::kNone;
       p = flows.pending()[p].next) {
    const Pending& pending = flows.pending()[p];
    Mixer mixer;
    mixer.Add(value(pending.clock));
    mixer.Add(value(pending.peer) | uint64_t{pending.tries} << 16 |
              static_cast<uint64_t>(pending.kind) << 24 |
              uint64_t{pending.by_bytes} << 32 |
              uint64_t{pending.of_logger} << 33);
    all_pending.push_back(mixer.hash());
  }
  one.AddUnordered(std::move(all_pending));
  return one.hash();
}

uint64_t UnitFingerprint::Of(const Unit& unit) {
  const FlowStore& flows = unit.flows_;
  Mixer all;
  all.Add(value(unit.id_) | uint64_t{unit.stopping_} << 16 |
          uint64_t{unit.stopped_} << 17 | uint64_t{unit.busy()} << 18);
  AddPackets(unit, all);
  for (uint32_t r = flows.oldest_replica(); r != FlowStore::kNone;
       r = flows[r].newer) {
    all.Add(value(flows[r].flow));
  }
  std::vector<uint64_t> records;
  for (uint32_t slot = 0; slot < flows.slots(); ++slot) {
    if (flows[slot].flow == kNoFlow) continue;
    records.push_back(OfFlow(unit, slot));
  }
  all.AddUnordered(std::move(records));
  return all.hash();
}

}  // namespace snf
