// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_GWLB_OUTER_TABLE_H_
#define SNF_PLATFORM_PORTS_GWLB_OUTER_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_order.h"
#include "base/keyed_hash.h"
#include "base/lazy_array.h"
#include "base/packet/link_headers.h"
#include "base/slot_index.h"
#include "base/tunnels/geneve.h"

namespace snf {

// An outer header as it came: IPv4, UDP and GENEVE. Its destination port is
// kGenevePort.
struct OuterHeader {
  be32 source{};
  be32 destination{};
  be16 source_port{};
  uint8_t traffic_class = 0;
  std::span<const std::byte> geneve{};  // at most kMaxGeneveBytes
};

// Theory of operation. An inner packet goes through the chain as an Ethernet
// frame whose link header names its outer header: so the name goes wherever the
// packet goes, through rings, units and processes, and into packets that an NF
// makes as answers, which have the same link header the other way round.
//
//   source       02, slot (3 bytes) and generation (2 bytes)
//   destination  06, the table's number (5 bytes), random in each process
//
// Each outer header that differs in a byte has a slot. The headers of a flow
// are the same, so a flow has one slot, or one for each direction. A full table
// evicts a header that has not come recently: a hand goes round, spares slots
// that were used since its last turn, and takes the first other (second
// chance). The slot's generation then grows, so that an old name finds nothing.
// It counts to 65,536, and so an old name finds a wrong header only after as
// many evictions from the same slot while the packet is under way.
//
// A name of another process, or of nothing, finds nothing.
//
// Memory: 296 bytes for each header so far, up to the capacity.
//
// Owner-thread only. No allocation after construction.
class OuterTable {
 public:
  static constexpr uint32_t kCapacity = 262'144;
  using LinkHeader = std::array<std::byte, EthernetHeader<std::byte>::kBytes>;

  explicit OuterTable(uint32_t capacity = kCapacity);
  // Takes the seed of the hash and of the table's number, for tests.
  OuterTable(uint32_t capacity, uint64_t seed);

  // Writes the addresses of the link header that names this outer header; the
  // Ethernet type stays. Budget: ≤ 60 ns for a header of 40 bytes.
  void Name(const OuterHeader& outer, std::span<std::byte> link);

  // Returns the outer header that the frame's link header names; nothing if the
  // table has it no more. Budget: ≤ 20 ns.
  std::optional<OuterHeader> Find(std::span<const std::byte> frame) const;

  uint32_t size() const { return used_; }
  // Returns how often a header was forgotten because the table was full.
  uint64_t evicted() const { return evicted_; }

 private:
  struct Slot {
    be32 source;
    be32 destination;
    uint64_t hash;
    be16 source_port;
    uint16_t geneve_bytes;
    uint16_t generation;
    uint8_t traffic_class;
    bool is_recent;
    std::array<std::byte, kMaxGeneveBytes> geneve;
  };

  static OuterHeader HeaderOf(const Slot& slot);
  uint64_t HashOf(const OuterHeader& outer) const;
  uint32_t SlotFor(const OuterHeader& outer);
  uint32_t FreeSlot();

  KeyedHash hash_;
  std::array<std::byte, 5> number_;
  LazyArray<Slot> slots_;
  SlotIndex index_;
  uint32_t used_ = 0;
  uint32_t hand_ = 0;
  uint64_t evicted_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_GWLB_OUTER_TABLE_H_
