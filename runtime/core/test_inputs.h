// SPDX-License-Identifier: Apache-2.0
// Tests give a unit metadata, an NF and messages about state; they are here.
#ifndef SNF_RUNTIME_CORE_TEST_INPUTS_H_
#define SNF_RUNTIME_CORE_TEST_INPUTS_H_

#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/messages/messages.h"
#include "base/timing_wheel.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/nf.h"

namespace snf {

// These return the metadata of a packet within a flowlet, of clock 1 of a new
// flow, and of the first packet of a flowlet after one that ran at `source`.
inline PacketMeta Within(uint64_t flow, uint64_t clock) {
  PacketMeta meta;
  meta.flow = FlowId{flow};
  meta.clock = Clock{clock};
  return meta;
}
inline PacketMeta New(uint64_t flow) {
  PacketMeta meta = Within(flow, 1);
  meta.flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kNewFlow;
  return meta;
}
inline PacketMeta First(uint64_t flow, uint64_t clock, uint16_t source) {
  PacketMeta meta = Within(flow, clock);
  meta.source_kind = StateSource::kUnit;
  meta.source = UnitId{source};
  meta.flags = PacketMeta::kFirstOfFlowlet;
  return meta;
}

// Returns the metadata of the same packet without payload.
inline PacketMeta Null(PacketMeta meta) {
  meta.flags |= PacketMeta::kNull;
  return meta;
}
// Returns the metadata of a timer packet to the unit that ran the clock before.
inline PacketMeta TimerPacket(uint64_t flow, uint64_t clock, Instant arrival) {
  PacketMeta meta = Within(flow, clock);
  meta.arrival = arrival;
  meta.flags = PacketMeta::kNull | PacketMeta::kTimer;
  return meta;
}
inline PacketMeta Tombstone(PacketMeta meta) {
  meta.flags |= PacketMeta::kTombstone;
  return meta;
}

// ScriptedNf does what the test says, and counts the packets of each flow.
class ScriptedNf final : public NetworkFunction {
 public:
  std::function<Verdict(Packet&, FlowState&)> packet = [](Packet&, FlowState&) {
    return Verdict::forward();
  };
  std::function<void(FlowState&)> timer = [](FlowState&) {};
  std::function<void(FlowState&)> end = [](FlowState&) {};
  std::function<void(FlowState&, AliasResult)> refused = [](FlowState&,
                                                            AliasResult) {};
  // Is called before all else. Returns the pool that the packet has to wait
  // for.
  std::function<std::optional<PoolId>(FlowState&)> missing = [](FlowState&) {
    return std::nullopt;
  };

  Verdict process_packet(Packet& p, FlowState& flow) override {
    const std::optional<PoolId> pool = missing(flow);
    if (pool.has_value()) return Verdict::wait(*pool);
    flow.put(count, flow.get(count) + 1);
    return packet(p, flow);
  }
  bool has_timer() const override { return true; }
  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }
  bool may_wait(const FlowState&) const override { return true; }
  void on_timer(FlowState& flow) override { timer(flow); }
  void on_end(FlowState& flow) override { end(flow); }
  void on_alias_refused(FlowState& flow, AliasResult why) override {
    refused(flow, why);
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"blocked", "malformed"};
    return kReasons;
  }

  const Slot<uint64_t> count = declare<uint64_t>("count");
  const Blob note = declare_blob("note", 12);

  static const StateSchema& Schema() {
    static const ScriptedNf nf;
    return nf.schema();
  }
};

inline constexpr UnitOptions kSmallUnit = {.max_flows = 16,
                                           .queue_packets = 16,
                                           .packets_elsewhere = 0,
                                           .max_replicas = 8,
                                           .guard_every = 1};

// SentState is a State message with its record, on its way.
struct SentState {
  State state;
  std::vector<std::byte> record;
};

// Returns what a unit sends after `applied` packets of a flow: their number,
// without the zeros behind it.
inline SentState StateOf(uint64_t flow, uint64_t applied) {
  SentState sent;
  sent.record.resize(16);
  sent.record[0] = std::byte{1};  // there is a count
  std::memcpy(&sent.record[8], &applied, sizeof applied);
  sent.state = {.flow = FlowId{flow},
                .applied = Clock{applied},
                .schema = ScriptedNf::Schema().hash(),
                .bytes = static_cast<uint32_t>(sent.record.size())};
  return sent;
}
inline SentState PushOf(uint64_t flow, uint64_t applied) {
  SentState sent = StateOf(flow, applied);
  sent.state.pushed = true;
  return sent;
}

inline Instant Ms(int64_t ms) { return Instant{} + Milliseconds(ms); }
// Returns how late a timer may run.
inline Nanos TimerTick() { return {int64_t{1} << TimingWheel::kTickShift}; }
inline Instant Us(int64_t us) { return Instant{} + Microseconds(us); }

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_INPUTS_H_
