// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_INGRESS_H_
#define SNF_PLATFORM_RUN_INGRESS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/byte_order.h"
#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/packet/classifier.h"
#include "base/packet/endpoint.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/packet/packet_info.h"
#include "base/time.h"
#include "platform/run/early_fragments.h"
#include "platform/run/nat_peer_emulator.h"
#include "platform/run/own_keys.h"
#include "platform/run/run.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "traces/capture_reader.h"

namespace snf {

// Is the network of a controller that is one of several: learns which aliases
// it has to know, and which not any more, and gets what is for the others.
class AliasListener {
 public:
  virtual ~AliasListener() = default;
  // A flow, whose key is `inside`, has this alias from now on, and no other.
  virtual void on_alias(const Alias& alias, const FlowKey& inside) = 0;
  // The flow has no alias that was granted up to the clock any more.
  virtual void on_alias_over(FlowId flow, Clock clock) = 0;
  // Returns true if others may have aliases at the address.
  virtual bool IsExternal(const IpAddress& address) const = 0;
  // A packet from the inside left for such an address, and is for none of this
  // controller's flows. The bytes are valid during the call.
  virtual void on_departure(const FlowKey& to, const PacketInfo& info,
                            std::span<const std::byte> bytes) = 0;
};

// Theory of operation. What lies before the controller, whatever the driver:
// from a captured packet to one in a buffer, with the key of its flow.
//
// An NF whose flows are inside endpoints has two sides: then the far side
// (nat_peer_emulator.h) says where a packet comes from, and what comes from the
// outside is rewritten to the alias that it would have been sent to. Where
// there are ports, the packet says its side itself, and nothing is rewritten.
// An NF with flow keys of its own is asked for each packet's key. A
// packet released from the inside to an alias comes back from the outside,
// once.
//
// Before an NF that filters or translates, packets in which something is unread
// (unread.h) are dropped, and neighbour discovery passes through as ARP does.
// Before an NF that needs the first fragment of a packet, later ones that come
// before it can be kept until it comes (early_fragments.h).
//
// Owner-thread only.
class Ingress {
 public:
  // The NF, which says what its flows are and whether it is a barrier, and the
  // pool must outlive it.
  Ingress(const RunOptions& options, const NetworkFunction& nf,
          BufferPool& buffers);

  struct Taken {
    enum class Fate : uint8_t {
      kPacket,         // `packet` is for the controller
      kPassesThrough,  // it has no flow
      kDropped,        // for `reason`; the keys may be null
      kKept,           // it comes again by NextKept(), and did not come yet
    };
    Fate fate = Fate::kPassesThrough;
    DropReason reason{};
    bool by_alias = false;       // `key` is one
    Side side = Side::kUnknown;  // of a packet of an NF with two sides
    PacketHandle packet = kNoPacket;
    const FlowKey* key = nullptr;  // for the controller
    // The flow's key, also if the packet comes by alias.
    const FlowKey* flow = nullptr;
  };
  // Valid until the next call.
  const Taken& Take(Instant arrival, const CapturedPacket& captured);
  // The last packet once more, which was dropped.
  const Taken& TakeAgain(Instant arrival, const CapturedPacket& captured);

  // From now on, at most RunOptions::early_fragments fragments that come before
  // their packet's first one are kept. To be called once, before the first
  // packet, by who asks for them by NextKept().
  void KeepEarlyFragments();
  // Returns a kept fragment that is to be taken now, as a packet that arrives
  // at `now`: its first one has come, or it is too old. Null if there is none.
  // At the end of traffic, pass Instant::max(). Valid until the next call.
  const CapturedPacket* NextKept(Instant now) {
    is_again_ = false;
    return early_.empty() ? nullptr : NextOfKept(now);
  }

  // Returns NetworkFunction::takes_merged().
  bool takes_merged() const { return takes_merged_; }

  // Is told of all aliases from now on, and must outlive the object.
  void set_listener(AliasListener& listener) { listener_ = &listener; }

  // The controller granted the alias, of the flow with the key `flow`.
  void on_alias(const Alias& alias, const FlowKey& flow);
  // Forgets the aliases of the flow that were granted up to the clock.
  void ForgetAlias(FlowId flow, Clock clock);
  // The flow goes on with another id.
  void on_moved(FlowId from, FlowId to);
  // Returns the number of known inside endpoints. If packets name their sides,
  // each of these has an alias.
  size_t inside_ends() const { return peer_emulator_.known(); }
  // Returns how many aliases there were at one time, at the most.
  size_t aliases_max() const { return aliases_max_; }

  // Returns the number in the capture of a packet in a buffer; where packets
  // have none, they are counted.
  uint64_t NumberOf(PacketHandle packet) const {
    return numbers_[buffers_.place(packet)];
  }

  // A packet was released, not one of the NF's own making: the alias, or the
  // inside end, to which it comes back, if it does. Then its info is that of
  // one from outside.
  struct Return {
    FlowKey key;
    bool by_alias = true;  // if false, `key` is an inside end
  };
  std::optional<Return> ComesBack(Instant now, PacketHandle released);
  // The flow that has an alias, or the alias itself if none has.
  const FlowKey& FlowOf(const FlowKey& alias) const {
    const FlowKey* const inside = peer_emulator_.InsideOf(alias);
    return inside != nullptr ? *inside : alias;
  }

  // A fragment that was kept counts when it is taken again.
  ClassifierCounters counters() const;
  // Returns the number of fragments that were kept, and of those whose first
  // one then came.
  uint64_t fragments_kept() const { return fragments_kept_; }
  uint64_t fragments_kept_matched() const { return fragments_kept_matched_; }

 private:
  struct Announced {
    FlowKey inside;
    Clock clock{};
  };

  const CapturedPacket* NextOfKept(Instant now);
  // Returns true if the last packet is a later fragment without a first one.
  bool IsEarly(const CapturedPacket& captured) const;
  // Keeps an early fragment, if it is one, and returns true then.
  bool KeepEarly(Instant arrival, const CapturedPacket& captured);
  // Sets taken_ to the fate of a packet that is not for the NF; returns false
  // for all others.
  bool TakeBeside(const CapturedPacket& captured);
  // Set taken_ to the packet's fate.
  void TakeOfSides(Instant arrival, const CapturedPacket& captured);
  NatPeerEmulator::Placed PlaceBySide(Side side, const Endpoints& ends) const;
  // Asks the NF for the inside end of a packet from the outside.
  void AskForEnd(const CapturedPacket& captured);
  // Copies the packet into a buffer.
  bool Fill(Instant arrival, const CapturedPacket& captured);
  bool MayComeBack(PacketHandle released);

  BufferPool& buffers_;
  OwnKeys own_keys_;
  bool has_sides_;
  bool is_barrier_;
  bool needs_first_;  // fragment
  bool takes_merged_;
  bool drops_unread_;
  bool say_sides_ = false;  // packets name theirs
  FlowClassifier classifier_;
  // These belong to the last packet.
  ParsedPacket headers_;
  FlowKey key_;
  Direction direction_ = Direction::kNone;
  NatPeerEmulator::Placed placed_;
  Taken taken_;

  const uint32_t early_fragments_;  // most that are kept
  const bool with_vlan_;
  EarlyFragments early_{0};
  bool is_again_ = false;  // the next packet was kept
  ClassifierCounters counted_twice_;
  uint64_t fragments_kept_ = 0;
  uint64_t fragments_kept_matched_ = 0;

  std::vector<be32> pool_addresses_;  // of which the NF has ports; sorted
  uint64_t taken_packets_ = 0;
  uint64_t number_ = 0;  // of the last packet, in the capture

  NatPeerEmulator peer_emulator_;
  FlowClassifier released_;      // of what is released from the inside
  LazyArray<uint64_t> numbers_;  // of the packets in buffers, by place
  absl::flat_hash_map<FlowId, Announced> announced_;
  size_t aliases_max_ = 0;
  AliasListener* listener_ = nullptr;  // null: nobody listens
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_INGRESS_H_
