// SPDX-License-Identifier: Apache-2.0
#include "platform/test_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "controller/core/placement.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

constexpr size_t kPayload = 14 + 20 + 8;

class Scripted : public NetworkFunction {
 public:
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::span<std::byte> bytes = packet.bytes();
    Frame reply(bytes.begin(), bytes.end());
    reply.back() = kReplied;
    switch (static_cast<Ask>(bytes.back())) {
      case Ask::kDropFirst:
        return Verdict::drop(0);
      case Ask::kDropSecond:
        return Verdict::drop(1);
      case Ask::kConsume:
        return Verdict::consume();
      case Ask::kReply:
        flow.emit(reply);
        break;
      case Ask::kFlood:
        while (flow.emit(reply)) {
        }
        break;
      case Ask::kTimer:
        flow.set_timer(Milliseconds(std::to_integer<int64_t>(
            bytes[std::min(kPayload, bytes.size() - 1)])));
        break;
      case Ask::kCancelTimer:
        flow.cancel_timer();
        break;
      case Ask::kRewrite:
        bytes[bytes.size() - 2] ^= std::byte{0xff};
        break;
      case Ask::kForward:
        break;
    }
    return Verdict::forward();
  }

  void on_timer(FlowState& flow) override { flow.emit(TimerFrame()); }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"unwanted", "unloved"};
    return kReasons;
  }
};

class Keepalive final : public Scripted {
 public:
  void on_timer(FlowState& flow) override {
    Scripted::on_timer(flow);
    flow.set_timer(Milliseconds(10));
  }
};

class Forwarding final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

SNF_REGISTER_NF(Scripted, "test_scripted", "does what a frame asks for");
SNF_REGISTER_NF(Keepalive, "test_keepalive", "emits every 10 ms");
SNF_REGISTER_NF(Forwarding, "test_forwarding", "forwards every packet");

uint32_t Read32(std::span<const std::byte> bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | std::to_integer<uint32_t>(bytes[offset + i]);
  }
  return value;
}

void Write32(Frame& bytes, size_t offset, uint32_t value) {
  for (size_t i = 4; i-- > 0; value >>= 8) {
    bytes[offset + i] = static_cast<std::byte>(value);
  }
}

class RecordingSink final : public ReleaseSink {
 public:
  void OnRelease(const ReleasedPacket& packet) override {
    released.push_back({.time = packet.time,
                        .bytes = {packet.bytes.begin(), packet.bytes.end()},
                        .original_length = packet.original_length,
                        .link = packet.link});
  }
  std::vector<ReleasedFrame> released;
};

}  // namespace

const NfRegistration& ScriptedNf() { return registration_of_Scripted; }
const NfRegistration& KeepaliveNf() { return registration_of_Keepalive; }
const NfRegistration& ForwardingNf() { return registration_of_Forwarding; }

Frame TimerFrame() {
  return Ethernet(0x0800, Ipv4({.id = 0xbeef}, Udp(9, 9, 30)));
}

Frame UdpFrame(const FrameFields& fields) {
  const uint32_t low = fields.flow & 0xff;
  const IpAddress inside =
      V4(10, static_cast<uint8_t>(fields.flow >> 16),
         static_cast<uint8_t>(fields.flow >> 8), static_cast<uint8_t>(low));
  const IpAddress outside = V4(192, 0, 2, 9);
  const bool back = fields.from_responder;
  Frame frame =
      Ethernet(0x0800, Ipv4({.source = back ? outside : inside,
                             .destination = back ? inside : outside},
                            Udp(back ? 53 : 5000, back ? 5000 : 53,
                                std::max(fields.bytes, 60u) - kPayload)));
  frame[kPayload] = fields.first_payload_byte;
  frame[kPayload + 1] = std::byte{0xa5};
  Write32(frame, kPayload + 2, fields.flow);
  Write32(frame, kPayload + 6, fields.sequence);
  frame.back() = static_cast<std::byte>(fields.ask);
  return frame;
}

bool IsUdpFrame(std::span<const std::byte> frame) {
  return frame.size() >= 60 && frame[kPayload + 1] == std::byte{0xa5} &&
         frame.back() != kReplied;
}
uint32_t FlowOf(std::span<const std::byte> frame) {
  return Read32(frame, kPayload + 2);
}
uint32_t SequenceOf(std::span<const std::byte> frame) {
  return Read32(frame, kPayload + 6);
}

RunOptions SmallTables() {
  RunOptions options;
  options.controller.max_flows = 4096;
  options.flow.fragments.capacity = 256;
  options.buffers = {.small = 4096, .medium = 64, .large = 8};
  return options;
}

Outcome RunFrames(const RunOptions& options, const NfRegistration& nf,
                  std::span<const OfferedFrame> packets) {
  RecordingSink sink;
  VirtualDriver driver(options, *FindPlacementPolicy("snf"), nf, &sink,
                       nullptr);
  for (const OfferedFrame& packet : packets) {
    const auto captured = static_cast<uint32_t>(packet.bytes.size());
    driver.Offer({.time = packet.time,
                  .bytes = packet.bytes,
                  .original_bytes = std::max(packet.original_length, captured),
                  .link = packet.link});
  }
  Outcome outcome{.run = driver.Finish(), .released = {}};
  outcome.released = std::move(sink.released);
  outcome.events = driver.events();
  outcome.buffers_in_use = driver.buffers_in_use();
  outcome.flows_at_controller = driver.controller().flows().size();
  outcome.flows_at_units = driver.flows_at_units();
  for (uint32_t i = 0; i < options.controller.max_units; ++i) {
    const auto state =
        driver.controller().pool().state(UnitId{static_cast<uint16_t>(i)});
    outcome.units_up += state == UnitPool::State::kStarting ||
                        state == UnitPool::State::kActive ||
                        state == UnitPool::State::kStopping;
    outcome.units_stopped += state == UnitPool::State::kStopped;
  }
  return outcome;
}

void ExpectSound(const Outcome& outcome) {
  const RunResult& run = outcome.run;
  EXPECT_TRUE(run.conserved())
      << run.packets_in << " in, " << run.packets_generated << " generated, "
      << run.packets_released << " released, " << run.packets_passed_through
      << " passed through, " << run.packets_consumed << " consumed, "
      << run.packets_dropped() << " dropped";
  EXPECT_EQ(run.violations, 0u) << run.violation_messages.front();
  EXPECT_EQ(outcome.buffers_in_use, 0u);
  EXPECT_EQ(outcome.units_up, 0u);
  EXPECT_EQ(outcome.released.size(),
            run.packets_released + run.packets_passed_through);
  EXPECT_EQ(run.latency_ns.count() + run.packets_generated,
            run.packets_released);
  EXPECT_TRUE(std::is_sorted(
      outcome.released.begin(), outcome.released.end(),
      [](const auto& a, const auto& b) { return a.time < b.time; }));

  // The epochs hold what the totals hold.
  uint64_t dropped = 0;
  for (const EpochSample& sample : run.epochs) {
    dropped += sample.dropped_packets;
    EXPECT_LE(sample.unit_ns, int64_t{run.units_max} * Provisioning::kEpochNs);
  }
  EXPECT_EQ(dropped, run.packets_dropped());
}

void ExpectSame(const RunResult& a, const RunResult& b) {
  EXPECT_EQ(a.packets_in, b.packets_in);
  EXPECT_EQ(a.bytes_in, b.bytes_in);
  EXPECT_EQ(a.packets_generated, b.packets_generated);
  EXPECT_EQ(a.packets_released, b.packets_released);
  EXPECT_EQ(a.packets_passed_through, b.packets_passed_through);
  EXPECT_EQ(a.packets_consumed, b.packets_consumed);
  EXPECT_EQ(a.dropped, b.dropped);
  EXPECT_EQ(a.nf_dropped, b.nf_dropped);
  EXPECT_EQ(a.nf_drop_names, b.nf_drop_names);
  EXPECT_EQ(a.first_packet, b.first_packet);
  EXPECT_EQ(a.last_packet, b.last_packet);
  EXPECT_EQ(a.late_packets, b.late_packets);
  // All their members are 64-bit counters.
  static_assert(std::has_unique_object_representations_v<ControllerCounters>);
  static_assert(std::has_unique_object_representations_v<ClassifierCounters>);
  EXPECT_EQ(std::memcmp(&a.controller, &b.controller, sizeof a.controller), 0);
  EXPECT_EQ(std::memcmp(&a.classifier, &b.classifier, sizeof a.classifier), 0);
  EXPECT_EQ(a.cold_starts, b.cold_starts);
  EXPECT_EQ(a.warm_starts, b.warm_starts);
  EXPECT_EQ(a.state_pulls, b.state_pulls);
  EXPECT_EQ(a.held_packets_max, b.held_packets_max);
  EXPECT_EQ(a.latency_ns, b.latency_ns);
  EXPECT_EQ(a.units_max, b.units_max);
  EXPECT_EQ(a.units_mean_1000, b.units_mean_1000);
  EXPECT_EQ(a.utilisation_1000, b.utilisation_1000);
  EXPECT_TRUE(std::equal(a.epochs.begin(), a.epochs.end(), b.epochs.begin(),
                         b.epochs.end(), [](const auto& x, const auto& y) {
                           return std::memcmp(&x, &y, sizeof x) == 0;
                         }));
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(a.violations, b.violations);
  EXPECT_EQ(a.violation_messages, b.violation_messages);
}

}  // namespace snf
