// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_FIXTURE_PARSE_LOOKUP_H_
#define SNF_BASE_PACKET_FIXTURE_PARSE_LOOKUP_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/lazy_array.h"
#include "base/packet/flow_key.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_parser.h"

namespace snf {

// The least work that anything which keeps state per flow must do to a packet:
// parse it, find its entry in an open-addressing table of 64-byte entries, and
// update the entry. Benchmarks print their own figure beside this one
// (platform/commands/bench/budgets.md). The table exists only for them: it
// counts packets and bytes, never grows and never forgets a flow.
class ParseLookupFloor {
 public:
  static constexpr size_t kBatch = 32;

  struct Entry {
    FlowKey key;
    uint64_t packets;
    uint64_t bytes;
    int64_t last_ns;
  };
  static_assert(sizeof(Entry) == 64);

  // Holds at most `max_flows` flows, in a table that is at most half full.
  explicit ParseLookupFloor(size_t max_flows)
      : entries_(std::bit_ceil(2 * max_flows)), max_flows_(max_flows) {}

  size_t flows() const { return flows_; }

  void One(LinkType link, std::span<const std::byte> frame, int64_t now_ns) {
    const ParsedPacket packet = Parse(link, frame);
    if (!packet.has_ip()) return;
    const FlowKey key = FiveTuple(frame, packet, false);
    Update(key, hash_(key), frame.size(), now_ns);
  }

  // Handles at most kBatch frames: it parses all and prefetches their entries
  // before it looks up the first.
  void Batch(LinkType link, std::span<const std::span<const std::byte>> frames,
             int64_t now_ns) {
    size_t count = 0;
    for (const std::span<const std::byte> frame : frames) {
      const ParsedPacket packet = Parse(link, frame);
      if (!packet.has_ip()) continue;
      Pending& pending = pending_[count++];
      FiveTuple(frame, packet, false, pending.key);
      pending.hash = hash_(pending.key);
      pending.bytes = frame.size();
      __builtin_prefetch(&entries_[Home(pending.hash)], 1);
    }
    for (size_t i = 0; i < count; ++i) {
      Update(pending_[i].key, pending_[i].hash, pending_[i].bytes, now_ns);
    }
  }

 private:
  // A packet of the batch between its two passes.
  struct Pending {
    FlowKey key;
    uint64_t hash;
    size_t bytes;
  };

  size_t Home(uint64_t hash) const { return hash & (entries_.size() - 1); }

  void Update(const FlowKey& key, uint64_t hash, size_t bytes, int64_t now_ns) {
    size_t at = Home(hash);
    while (entries_[at].packets != 0 && !(entries_[at].key == key)) {
      at = (at + 1) & (entries_.size() - 1);
    }
    Entry& entry = entries_[at];
    if (entry.packets++ == 0) {
      SNF_CHECK(flows_ < max_flows_);
      ++flows_;
      entry.key = key;
    }
    entry.bytes += bytes;
    entry.last_ns = now_ns;
  }

  FlowKeyHash hash_{1};
  LazyArray<Entry> entries_;
  std::array<Pending, kBatch> pending_{};
  size_t max_flows_;
  size_t flows_ = 0;
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_FIXTURE_PARSE_LOOKUP_H_
