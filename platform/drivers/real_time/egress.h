// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_EGRESS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_EGRESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/real_time/release_order.h"
#include "platform/run/digest.h"
#include "platform/run/ingress.h"
#include "platform/run/observers.h"
#include "platform/run/packet_exits.h"
#include "platform/run/provisioning.h"
#include "platform/run/renaming_digest.h"
#include "platform/run/run.h"
#include "runtime/ring/buffer_pool.h"
#include "traces/capture_reader.h"

namespace snf {

// Puts the packets that leave units, in a run in real time, into the order of
// their flows, and ends them (PacketExits). A packet that would come back from
// the network (Ingress) arrives at the controller once more.
//
// The network learns an alias with the packet that set it. If that packet is
// lost with its unit, the network never learns the alias.
//
// Called by the controller's loop for each packet. Owner-thread only; allocates
// nothing for a packet.
class Egress final : public ControllerEvents {
 public:
  // All references must outlive the object.
  Egress(const RunOptions& options, Observers observers, Ingress& ingress,
         BufferPool& buffers, ControllerLoop& loop, RunResult& result);

  // Begins the run's time.
  void on_start(Instant first_packet) {
    provisioning_.on_start(first_packet);
    observers_.on_start(first_packet);
  }
  // Tells for how long units were busy since the last call.
  void on_busy(Instant now, Nanos time) { observers_.on_busy(now, time); }
  // Counts a packet that came to the ingress and begins with an IP header.
  void on_offered(Instant now, uint32_t bytes) {
    provisioning_.on_offered(now, bytes);
  }
  // Releases a packet that has no flow.
  void PassThrough(Instant now, const CapturedPacket& captured);
  // Drops a packet before it got a buffer.
  void Drop(Instant now, const CapturedPacket& captured, DropReason reason) {
    exits_.Drop(now, captured, reason);
  }

  [[gnu::always_inline]] void on_enqueue(const PacketMeta& meta) {
    order_.Enqueue(meta);
  }
  void on_packet(Instant now, const UnitCommand& command);
  void on_drop(Instant now, PacketHandle packet, DropReason reason) override;
  void on_unit_up(Instant now, UnitId unit) override;
  void on_unit_down(Instant now, UnitId unit) override;
  void on_drained(Instant now, const DrainReport& with_payload) override;
  void on_end_flow(const EndFlow& end) override;
  void on_alias_granted(const Alias& alias, const FlowKey& inside) override;
  void on_alias_over(FlowId flow, Clock clock) override;
  void on_forsake(Instant now, const EndFlow& end) override;
  void on_successor(Instant now, const Controller& controller) override;
  void on_inherited(const PacketMeta& meta, PacketHandle packet) override;
  void on_flow_taken(FlowId flow, Clock last) override {
    order_.Take(flow, last);
  }
  void on_state(const State& state,
                std::span<const std::byte> record) override {
    if (on_state_) on_state_(state, record);
  }
  // Gets the states that are asked for (ControllerLoop::AskState).
  using OnState =
      std::function<void(const State& state, std::span<const std::byte>)>;
  void set_on_state(OnState on_state) { on_state_ = std::move(on_state); }
  bool has_on_state() const { return on_state_ != nullptr; }

  // Adds a violation to the result.
  void Violate(std::string what);
  // Adds a violation if packets still wait for others of their flow.
  void CheckNoneWaits();
  // Ends the provisioning and adds the digest to the result.
  void Finish(Instant now);
  const Provisioning& provisioning() const { return provisioning_; }

 private:
  void EndPacket(Instant now, const UnitCommand& command);
  // Out of line: packets do not pay for what few of them need.
  [[gnu::noinline]] bool HandleOther(Instant now, const UnitCommand& command);
  [[gnu::noinline]] void Refuse(const UnitCommand& command);
  [[gnu::noinline]] void BringBack(Instant now, PacketHandle packet,
                                   const Ingress::Return& to);
  [[gnu::noinline]] void ShowAlias(const PacketMeta& meta);
  void ForgetAlias(FlowId flow, Clock clock);
  [[gnu::noinline]] void AddToDigests(Instant now, const UnitCommand& command);
  [[gnu::noinline]] void ReturnBuffer(PacketHandle packet);
  void Release(Instant now, const UnitCommand& command);

  const uint8_t controller_id_;
  const bool has_digest_;
  const bool has_sides_;
  Observers observers_;
  Ingress& ingress_;
  BufferPool& buffers_;
  ControllerLoop& loop_;
  RunResult& result_;
  ReleaseDigest digest_;
  std::unique_ptr<RenamingDigest> renaming_digest_;  // of an NF with two sides
  // Aliases whose clocks have not ended yet, with the keys of their flows.
  struct Granted {
    Alias alias;
    FlowKey inside;
    bool is_over = false;  // ended before its packet was released
  };
  absl::flat_hash_map<std::pair<FlowId, Clock>, Granted> granted_;
  ReleaseOrder order_;
  Provisioning provisioning_;
  PacketExits exits_;
  OnState on_state_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_EGRESS_H_
