// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_CALL_MARK_H_
#define SNF_RUNTIME_RING_CALL_MARK_H_

#include <atomic>
#include <cstdint>

#include "base/ids.h"
#include "base/messages/messages.h"

namespace snf {

// Tells other threads which call of an NF is under way, so that they can name a
// call that does not return (proto/protocol.md F12). The thread that calls NFs
// writes, any thread reads. Costs a few stores for each call.
//
// The fields that a reader has read are valid if the call is still under way
// afterwards: count() has not changed.
class alignas(64) CallMark {
 public:
  struct Call {
    UnitId unit = kNoUnit;
    // Valid during the call; null if the call is for no packet.
    const PacketMeta* meta = nullptr;
    PacketHandle packet = kNoPacket;
  };

  // Another process sees in `packet`, from now on, the packet of the call that
  // is under way, else kNoPacket: also after the end of this process, whatever
  // ends it. It must outlive the mark.
  void Show(std::atomic<PacketHandle>& packet) { shown_ = &packet; }

  void Begin(const Call& call) {
    call_ = call;
    count_.store(++own_count_, std::memory_order_release);
    if (shown_ != nullptr) Show(call.packet);
  }
  void End() {
    if (shown_ != nullptr) Show(kNoPacket);
    count_.store(++own_count_, std::memory_order_release);
  }

  // Returns a number that is odd while a call is under way, and another for
  // each.
  uint64_t count() const { return count_.load(std::memory_order_acquire); }
  // Call it only of a call that has been under way for long.
  const Call& call() const { return call_; }

 private:
  // The call must not be moved in front of the store.
  void Show(PacketHandle packet) {
    shown_->store(packet, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  std::atomic<PacketHandle>* shown_ = nullptr;
  Call call_;
  uint64_t own_count_ = 0;
  std::atomic<uint64_t> count_{0};
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_CALL_MARK_H_
