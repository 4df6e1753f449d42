// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_CALL_MARK_H_
#define SNF_RUNTIME_RING_CALL_MARK_H_

#include <atomic>
#include <cstdint>

#include "base/ids.h"
#include "base/messages/messages.h"

namespace snf {

// Tells other threads which call of an NF is under way, so that they can name
// one that does not return (proto/protocol.md F12). The thread that calls NFs
// writes, any thread reads. Costs a few stores for each call.
//
// What a reader sees of a call is true if the call is still under way when it
// has read it: count() has not changed.
class alignas(64) CallMark {
 public:
  struct Call {
    UnitId unit = kNoUnit;
    // Is valid during the call; null where it is for no packet.
    const PacketMeta* meta = nullptr;
    PacketHandle packet = kNoPacket;
  };

  void Begin(const Call& call) {
    call_ = call;
    count_.store(++own_count_, std::memory_order_release);
  }
  void End() { count_.store(++own_count_, std::memory_order_release); }

  // Returns a number that is odd while a call is under way, and another for
  // each.
  uint64_t count() const { return count_.load(std::memory_order_acquire); }
  // Call it only of a call that has been under way for long.
  const Call& call() const { return call_; }

 private:
  Call call_;
  uint64_t own_count_ = 0;
  std::atomic<uint64_t> count_{0};
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_CALL_MARK_H_
