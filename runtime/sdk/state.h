// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_STATE_H_
#define SNF_RUNTIME_SDK_STATE_H_

#include <cstddef>
#include <span>

#include "base/ids.h"
#include "base/time.h"

namespace snf {

// What a unit does for an NF while it handles a packet or a timer.
class FlowServices {
 public:
  virtual bool Emit(std::span<const std::byte> frame) = 0;

 protected:
  ~FlowServices() = default;
};

// The flow that a packet belongs to, for the length of one call. It is the same
// flow on whichever unit the packet is processed.
class FlowState {
 public:
  FlowState(FlowId id, Instant now, Instant timer, FlowServices& services)
      : id_(id), now_(now), timer_(timer), services_(services) {}
  FlowState(const FlowState&) = delete;
  FlowState& operator=(const FlowState&) = delete;

  FlowId id() const { return id_; }

  // The most packets that one call may emit.
  static constexpr int kMaxEmits = 16;

  // Sends a packet of the NF's own making, framed as the capture's link type.
  // It leaves before the packet being processed. False when the frame is
  // empty or too large, when there is no buffer, or when the call has emitted
  // kMaxEmits: nothing was sent.
  bool emit(std::span<const std::byte> frame) { return services_.Emit(frame); }

  // Asks for NetworkFunction::on_timer once, `after` from now, in place of the
  // flow's timer so far; from on_timer itself at least kMinPeriod, so that time
  // passes. The timer moves with the flow.
  static constexpr Nanos kMinPeriod = Microseconds(1);
  void set_timer(Nanos after) { timer_ = now_ + after; }
  void cancel_timer() { timer_ = Instant::max(); }
  Instant timer() const { return timer_; }  // Instant::max() for none

 private:
  FlowId id_;
  Instant now_;
  Instant timer_;
  FlowServices& services_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_STATE_H_
