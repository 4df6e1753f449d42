// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_PACKETS_UNDER_WAY_H_
#define SNF_CONTROLLER_LIVE_PACKETS_UNDER_WAY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/controller_commands.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {

// The packets that a controller gave to units and that have not left these. If
// a unit's process dies, the packets that are left here were in it
// (proto/protocol.md U10, F4).
//
// A packet is found by its buffer; a clock without a packet by flow and clock.
// A value; owner-thread only. Nothing is allocated for a packet; takes 64 bytes
// a buffer.
class PacketsUnderWay {
 public:
  // A packet in a unit, with the metadata that were sent with it.
  struct Sent {
    PacketMeta meta;
    PacketHandle packet = kNoPacket;
    UnitId unit = kNoUnit;
  };

  // The pool must outlive the object.
  explicit PacketsUnderWay(const BufferPool& buffers)
      : buffers_(&buffers), sent_(buffers.places()) {
    without_packet_.reserve(kReserve);
  }

  void Add(const ControllerCommand& enqueue) {
    if (enqueue.packet == kNoPacket) [[unlikely]] {
      without_packet_[{enqueue.meta.flow, enqueue.meta.clock}] = {
          .meta = enqueue.meta, .unit = enqueue.unit};
      return;
    }
    Slot& slot = sent_[buffers_->place(enqueue.packet)];
    slot.is_there = true;
    slot.sent = {
        .meta = enqueue.meta, .packet = enqueue.packet, .unit = enqueue.unit};
  }
  // Takes back an Add: the packet was never sent.
  void Remove(const ControllerCommand& enqueue) {
    if (enqueue.packet == kNoPacket) {
      without_packet_.erase({enqueue.meta.flow, enqueue.meta.clock});
    } else {
      sent_[buffers_->place(enqueue.packet)].is_there = false;
    }
  }
  // Takes a word about a packet; its handle is valid. Returns false, and
  // changes nothing, if the unit does not have this packet.
  bool On(const UnitCommand& word) {
    using Kind = UnitCommand::Kind;
    if (word.kind == Kind::kEmit) return true;
    if (word.kind == Kind::kAdvance) return OnAdvance(word);
    Slot& slot = sent_[buffers_->place(word.packet)];
    const PacketMeta& meta = slot.sent.meta;
    if (!slot.is_there || slot.sent.unit != word.unit ||
        meta.flow != word.meta.flow || meta.clock != word.meta.clock)
        [[unlikely]] {
      return false;
    }
    slot.is_there = false;
    if (word.kind != Kind::kDropPayload) [[likely]]
      return true;
    slot.sent.packet = kNoPacket;
    without_packet_[{meta.flow, meta.clock}] = slot.sent;
    return true;
  }
  // Returns true if the unit has this packet, or clock without one.
  bool Has(const Sent& sent) const {
    const Sent* found = nullptr;
    if (sent.packet == kNoPacket) {
      const auto at = without_packet_.find({sent.meta.flow, sent.meta.clock});
      if (at != without_packet_.end()) found = &at->second;
    } else if (buffers_->IsHandle(sent.packet)) {
      const Slot& slot = sent_[buffers_->place(sent.packet)];
      if (slot.is_there) found = &slot.sent;
    }
    return found != nullptr && found->unit == sent.unit &&
           found->meta.flow == sent.meta.flow &&
           found->meta.clock == sent.meta.clock;
  }
  // Returns the packet, if it is in a unit; else null. Any handle will do.
  const Sent* Find(PacketHandle packet) const {
    if (!buffers_->IsHandle(packet)) return nullptr;
    const Slot& slot = sent_[buffers_->place(packet)];
    return slot.is_there ? &slot.sent : nullptr;
  }
  // Calls visit(Sent) for each packet or clock in a unit.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (size_t i = 0; i < sent_.size(); ++i) {
      if (sent_[i].is_there) visit(sent_[i].sent);
    }
    for (const auto& each : without_packet_) visit(each.second);
  }
  // Takes out what is in units for which `is_lost(UnitId)` holds, and calls
  // found(Sent) for each.
  template <typename IsLost, typename Found>
  void TakeOut(const IsLost& is_lost, const Found& found) {
    for (size_t i = 0; i < sent_.size(); ++i) {
      Slot& slot = sent_[i];
      if (!slot.is_there || !is_lost(slot.sent.unit)) continue;
      slot.is_there = false;
      found(slot.sent);
    }
    absl::erase_if(without_packet_, [&](const auto& each) {
      if (!is_lost(each.second.unit)) return false;
      found(each.second);
      return true;
    });
  }

 private:
  // A logger's word may overtake the kDropPayload of its unit; the words of a
  // unit come in order.
  bool OnAdvance(const UnitCommand& word) {
    const auto found = without_packet_.find({word.meta.flow, word.meta.clock});
    if (found == without_packet_.end()) {
      return word.reason != DropReason::kDuplicateClock &&
             word.reason != DropReason::kUnitFailed;
    }
    if (found->second.unit != word.unit) return false;
    without_packet_.erase(found);
    return true;
  }

  static constexpr size_t kReserve = 4'096;
  struct Slot {
    Sent sent;
    bool is_there;
  };

  const BufferPool* buffers_;
  LazyArray<Slot> sent_;  // by BufferPool::place
  absl::flat_hash_map<std::pair<FlowId, Clock>, Sent> without_packet_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_PACKETS_UNDER_WAY_H_
