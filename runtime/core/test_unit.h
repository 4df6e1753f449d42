// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_TEST_UNIT_H_
#define SNF_RUNTIME_CORE_TEST_UNIT_H_

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/core/unit.h"

namespace snf {

// Metadata of a packet within a flowlet, of clock 1 of a new flow, and of the
// first packet of a flowlet after one that ran at unit `source`.
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

// An NF that does what the test says.
class ScriptedNf final : public NetworkFunction {
 public:
  std::function<Verdict(Packet&, FlowState&)> packet = [](Packet&, FlowState&) {
    return Verdict::forward();
  };
  std::function<void(FlowState&)> timer = [](FlowState&) {};

  Verdict process_packet(Packet& p, FlowState& flow) override {
    return packet(p, flow);
  }
  void on_timer(FlowState& flow) override { timer(flow); }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"blocked", "malformed"};
    return kReasons;
  }
};

// A unit with its NF and its buffers: packets in, commands out, as text. Flow
// and clock of a packet are "3/7"; buffers of packets that leave are freed.
class TestUnit {
 public:
  using Lines = std::vector<std::string>;

  explicit TestUnit(uint16_t id,
                    const UnitOptions& options = {.max_flows = 16,
                                                  .queue_packets = 16,
                                                  .packets_elsewhere = 0})
      : unit(UnitId{id}, options) {}

  void Send(const PacketMeta& meta, std::string_view bytes = "packet") {
    const PacketHandle packet =
        pool.Allocate(static_cast<uint32_t>(bytes.size()));
    std::memcpy(pool.room(packet).data(), bytes.data(), bytes.size());
    pool.info(packet).length = static_cast<uint32_t>(bytes.size());
    pool.info(packet).link = link;
    unit.on_packet(packet, meta);
  }

  // One call of begin; "service 3/7", "again" or nothing ends the lines.
  Lines Begin() {
    const Unit::Next next = unit.begin(out_);
    Lines lines = Drain();
    if (next == Unit::Next::kService) {
      lines.push_back("service " + Name(unit.in_service()));
    } else if (next == Unit::Next::kAgain) {
      lines.push_back("again");
    }
    return lines;
  }
  Lines Finish(Instant now = {}) {
    unit.finish(now, {nf, pool}, out_);
    return Drain();
  }
  // Serves packets until none can run.
  Lines Serve(Instant now = {}) {
    Lines lines;
    const auto add = [&](const Lines& more) {
      lines.insert(lines.end(), more.begin(), more.end());
    };
    for (Unit::Next next = Unit::Next::kAgain; next != Unit::Next::kIdle;) {
      next = unit.begin(out_);
      add(Drain());
      if (next == Unit::Next::kService) add(Finish(now));
    }
    return lines;
  }

  Lines OnPull(uint64_t flow, uint64_t need, uint16_t requester) {
    unit.on_pull({FlowId{flow}, Clock{need}, UnitId{requester}}, out_);
    return Drain();
  }
  Lines OnState(uint64_t flow, uint64_t applied, Instant timer = Instant::max(),
                LinkType framing = LinkType::kEthernet) {
    unit.on_state({.flow = FlowId{flow},
                   .applied = Clock{applied},
                   .timer = timer,
                   .link = framing},
                  out_);
    return Drain();
  }
  Lines OnEndFlow(uint64_t flow, uint64_t last) {
    unit.on_end_flow({FlowId{flow}, Clock{last}}, out_);
    return Drain();
  }
  Lines OnStop() {
    unit.on_stop(out_);
    return Drain();
  }
  Lines OnTimers(Instant now) {
    unit.on_timers(now, {nf, pool}, out_);
    return Drain();
  }

  Unit unit;
  ScriptedNf nf;
  BufferPool pool{{.small = 128, .medium = 1, .large = 1}};
  LinkType link = LinkType::kEthernet;  // of packets sent
  std::vector<std::string> released;    // bytes of released and emitted packets
  std::vector<State> states;            // sent

 private:
  static std::string Name(const PacketMeta& meta) {
    return std::to_string(value(meta.flow)) + "/" +
           std::to_string(value(meta.clock));
  }

  void Leave(PacketHandle packet, bool is_kept) {
    if (is_kept) {
      const std::span<std::byte> bytes = pool.bytes(packet);
      released.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                            bytes.size());
    }
    pool.Free(packet);
  }

  std::string Execute(const UnitCommand& command) {
    using Kind = UnitCommand::Kind;
    const std::string unit_name = std::to_string(value(command.unit));
    switch (command.kind) {
      case Kind::kRelease:
        Leave(command.packet, true);
        return "release " + Name(command.meta);
      case Kind::kNfDrop:
        Leave(command.packet, false);
        return "nf_drop " + Name(command.meta) + " for " +
               std::string(nf.drop_reasons()[command.nf_reason]);
      case Kind::kDrop:
        Leave(command.packet, false);
        return "drop " + Name(command.meta) + " for " +
               std::string(ToString(command.reason));
      case Kind::kConsume:
        Leave(command.packet, false);
        return "consume " + Name(command.meta);
      case Kind::kEmit:
        Leave(command.packet, true);
        return "emit at " + Name(command.meta);
      case Kind::kSendPull:
        return "pull " + std::to_string(value(command.pull.flow)) + " need " +
               std::to_string(value(command.pull.need)) + " from " + unit_name;
      case Kind::kSendState:
        states.push_back(command.state);
        return "state " + std::to_string(value(command.state.flow)) +
               " applied " + std::to_string(value(command.state.applied)) +
               " to " + unit_name;
      case Kind::kStopped:
        return "stopped";
    }
    return "?";
  }

  Lines Drain() {
    Lines lines;
    for (const UnitCommand& command : out_.commands()) {
      lines.push_back(Execute(command));
    }
    out_.clear();
    return lines;
  }

  UnitOut out_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_UNIT_H_
