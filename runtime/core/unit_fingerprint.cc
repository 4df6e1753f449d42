// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "runtime/core/unit.h"

namespace snf {
namespace {

// A hash of numbers in order (the finaliser of splitmix64 on each).
class Mixer {
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
  // Numbers of which the order does not matter.
  void AddUnordered(std::vector<uint64_t> numbers) {
    std::ranges::sort(numbers);
    Add(numbers.size());
    for (const uint64_t number : numbers) Add(number);
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace

uint64_t Unit::Fingerprint() const {
  Mixer all;
  const auto add_list = [&](Mixer& mixer, const PacketList& list) {
    for (uint32_t node = list.head; node != kNone; node = nodes_[node].next) {
      mixer.Add(nodes_[node].meta);
    }
    mixer.Add(kNone);
  };
  all.Add(value(id_) | uint64_t{stopping_} << 16 | uint64_t{stopped_} << 17 |
          uint64_t{busy()} << 18);
  if (busy()) all.Add(nodes_[in_service_].meta);
  add_list(all, inbox_);
  add_list(all, resumed_);
  const auto add_waited = [&](uint32_t node) {
    if (!records_[Find(nodes_[node].meta.flow)].waited) return;
    const WaitingPacket& waited = waiting_packets_[node];
    all.Add(uint64_t{waited.in_vain} << 16 | waited.pool);
    for (const uint16_t pool : waited.refused) all.Add(pool);
  };
  const auto add_all_waited = [&](const PacketList& list) {
    for (uint32_t node = list.head; node != kNone; node = nodes_[node].next) {
      add_waited(node);
    }
  };
  if (busy()) add_waited(in_service_);
  add_all_waited(resumed_);
  pieces_.Describe([&](uint64_t number) { all.Add(number); },
                   [&](const PacketList& list) {
                     add_list(all, list);
                     add_all_waited(list);
                   });
  for (uint32_t r = oldest_replica_; r != kNone; r = records_[r].newer) {
    all.Add(value(records_[r].flow));
  }

  std::vector<uint64_t> records;
  for (uint32_t slot = 0; slot < records_used_; ++slot) {
    const Record& record = records_[slot];
    if (record.flow == kNoFlow) continue;
    Mixer one;
    one.Add(value(record.flow));
    one.Add(value(record.applied));
    one.Add(static_cast<uint64_t>(record.copy) | uint64_t{record.resumed} << 8 |
            uint64_t{record.timer != Instant::max()} << 9 |
            uint64_t{record.due != Instant::max()} << 10 |
            uint64_t{record.has_left} << 11 |
            uint64_t{timers_.armed(slot)} << 12 |
            uint64_t{record.waited} << 13 |
            static_cast<uint64_t>(record.link) << 16 |
            uint64_t{IsAnnounced(slot) ? announced_[slot] : 0} << 32);
    if (record.parked != kNone) {
      one.Add(nodes_[record.parked].meta);
      const WaitingPacket& parked = waiting_packets_[record.parked];
      for (const uint64_t part :
           std::bit_cast<std::array<uint64_t, sizeof(Alias) / 8>>(
               parked.alias)) {
        one.Add(part);
      }
      one.Add(static_cast<uint64_t>(parked.kind) | uint64_t{parked.nf_reason}
                                                       << 8);
    }
    if (record.copy != Copy::kNone) {
      for (const std::byte byte : StateOf(slot)) {
        one.Add(static_cast<uint64_t>(byte));
      }
    }
    for (uint32_t i = 0; i < record.replicas; ++i) {
      one.Add(value(sets_[size_t{slot} * max_set_ + i]));
    }
    add_list(one, record.held);
    std::vector<uint64_t> pending;
    for (uint32_t p = record.pending; p != kNone; p = pending_[p].next) {
      Mixer mixer;
      mixer.Add(value(pending_[p].clock));
      mixer.Add(value(pending_[p].peer) | uint64_t{pending_[p].tries} << 16 |
                static_cast<uint64_t>(pending_[p].kind) << 24);
      pending.push_back(mixer.hash());
    }
    one.AddUnordered(std::move(pending));
    records.push_back(one.hash());
  }
  all.AddUnordered(std::move(records));
  return all.hash();
}

}  // namespace snf
