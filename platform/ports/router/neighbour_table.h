// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_NEIGHBOUR_TABLE_H_
#define SNF_PLATFORM_PORTS_ROUTER_NEIGHBOUR_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "base/keyed_hash.h"
#include "base/lazy_array.h"
#include "base/packet/ip_address.h"
#include "base/slot_index.h"
#include "base/time.h"
#include "platform/ports/router/router_config.h"

namespace snf {

// Theory of operation. The link addresses of a link's hosts and routers, as far
// as packets go there (RFC 826, RFC 4861 §7). Only a packet to a neighbour
// makes an entry: claims of hosts change known entries, and make none. So
// a flood of claims takes no memory, and evicts no neighbour.
//
//   unknown ─Wait: ask─► asked ─Learn─► known ─kFresh over: ask─► known
//               ▲          │ kMostAsks without an answer            │
//               └──────────┴────────────── forgotten ◄──────────────┘
//
// Two tables of fixed size. In one, the asked: each keeps up to kMostFrames
// frames until it has answered. If all are taken, the oldest is given up: a
// scan of absent hosts delays no host that answers at once. In the other, the
// known: a full one evicts a neighbour to whom nothing was sent lately (second
// chance).
//
//   Worked example: a packet for 10.1.0.9 waits, and a request is sent at 0, 1
//   and 2 s. An answer at 2.1 s sends the packet. Without one, the packet is
//   given up at 3 s.
//
// A known neighbour is asked again, at its own address, when a packet goes
// there and it has said nothing for kFresh; it is forgotten after kMostAsks.
//
// Memory: 4 MB at most with frames of 1,500 bytes; 67 MB with the longest.
//
// Owner-thread only. No allocation after construction.
class NeighbourTable {
 public:
  static constexpr uint32_t kMostKnown = 4'096, kMostAsked = 256;
  static constexpr uint32_t kMostFrames = 4;  // that wait for one neighbour
  static constexpr uint32_t kMostAsks = 3;
  static constexpr Nanos kPause = Seconds(1), kFresh = Seconds(30);
  // The least time between two unsolicited changes.
  static constexpr Nanos kLock = Seconds(1);

  using WithFrame = absl::FunctionRef<void(std::span<const std::byte> frame)>;

  explicit NeighbourTable(uint32_t known = kMostKnown,
                          uint32_t asked = kMostAsked);
  // Takes the seed of the hash, for tests.
  NeighbourTable(uint32_t known, uint32_t asked, uint64_t seed);

  // The neighbour's address, and whether it is time to ask at it whether it is
  // still there. Nothing if it is not known. Budget: ≤ 20 ns.
  struct Found {
    MacAddress mac;
    bool ask = false;
  };
  std::optional<Found> Find(Instant now, const IpAddress& address);

  // Returns true if a neighbour that is not known was asked already.
  bool IsAsked(const IpAddress& address) const;
  // Begins to ask for a neighbour, at `now` for the first time. Gives up the
  // oldest one if the table is full, whose frames `lost` gets.
  void Ask(Instant now, const IpAddress& address, WithFrame lost);
  // Keeps the frame until the neighbour, which is asked, has answered. Returns
  // false if too many wait, or it is longer than any frame.
  bool Keep(const IpAddress& address, std::span<const std::byte> frame);

  // A neighbour says its address. `is_answer`: it was asked to. Returns false
  // if the table has no such entry. Frames that waited for it go to `ready`.
  bool Learn(Instant now, const IpAddress& address, const MacAddress& mac,
             bool is_answer, WithFrame ready);

  // Another process knows the neighbour so, and had it confirmed then. Frames
  // that waited for it go to `ready`.
  void Know(Instant confirmed, const IpAddress& address, const MacAddress& mac,
            WithFrame ready);
  // Gives each known neighbour, and when it was confirmed.
  void ForEachKnown(
      absl::FunctionRef<void(const IpAddress& address, const MacAddress& mac,
                             Instant confirmed)>
          take) const;

  // Gives each neighbour that is to be asked again to `ask`, and the frames of
  // each that has not answered to `lost`.
  void Tick(Instant now, absl::FunctionRef<void(const IpAddress&)> ask,
            WithFrame lost);
  // Gives all frames that wait to `lost`.
  void Clear(WithFrame lost);

  uint32_t known() const { return known_index_.size(); }
  uint32_t asked() const { return asked_index_.size(); }

 private:
  struct Known {
    IpAddress address;
    MacAddress mac;
    bool is_used;
    bool is_recent;
    uint8_t asks;
    Instant confirmed;
    Instant next_ask;
    Instant learned;
    uint64_t hash;
  };
  struct Asked {
    IpAddress address;
    bool is_used;
    uint8_t asks;
    uint8_t frames;
    uint32_t bytes[kMostFrames];
    Instant next_ask;
    uint64_t hash;
  };
  static constexpr size_t kFrameBytes = 65'536 + 64;

  uint64_t HashOf(const IpAddress& address) const;
  uint32_t FindKnown(const IpAddress& address, uint64_t hash) const;
  uint32_t FindAsked(const IpAddress& address, uint64_t hash) const;
  void Add(Instant now, const IpAddress& address, uint64_t hash,
           const MacAddress& mac);
  void Forget(uint32_t known);
  void Free(uint32_t asked, WithFrame with);
  std::byte* RoomOf(uint32_t asked, uint32_t frame) {
    return &frames_[(size_t{asked} * kMostFrames + frame) * kFrameBytes];
  }

  KeyedHash hash_;
  LazyArray<Known> known_;
  SlotIndex known_index_;
  uint32_t known_hand_ = 0;
  LazyArray<Asked> asked_;
  SlotIndex asked_index_;
  uint32_t asked_hand_ = 0;  // the slot of the oldest, or a free one
  LazyArray<std::byte> frames_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_NEIGHBOUR_TABLE_H_
