// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "controller/core/placement.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

constexpr size_t kPayload = 14 + 20 + 8;

// Returns a hash of a frame without its last two bytes: "scripted" changes
// these after the frame is logged.
uint64_t HashOf(std::span<const std::byte> frame) {
  const size_t bytes = frame.size() - std::min<size_t>(frame.size(), 2);
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(frame.data()), bytes});
}

constexpr LogId kFramesLog{0};
constexpr LogId kEndsLog{1};

class Scripted : public NetworkFunction {
 public:
  Scripted() {
    declare_log("frames", "hashes of frames");
    declare_log("ends", "flows that ended");
  }
  bool has_timer() const override { return true; }
  void on_end(FlowState& flow) override {
    const FlowId id = flow.id();
    flow.log(kEndsLog, std::as_bytes(std::span(&id, 1)));
  }
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::span<std::byte> bytes = packet.bytes();
    const uint64_t hash = HashOf(bytes);
    flow.log(kFramesLog, std::as_bytes(std::span(&hash, 1)));
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

class Chronicle : public Scripted {
 public:
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::span<std::byte> bytes = packet.bytes();
    const uint64_t digest =
        Mix(Mix(Mix(flow.get(digest_), flow.get(recent_)), bytes),
            std::as_bytes(std::span(&kSeed, 1)));
    const uint64_t packets = flow.get(packets_) + 1;
    flow.put(packets_, packets);
    flow.put(digest_, digest + packets);
    const auto used = static_cast<uint32_t>(flow.get(recent_).size());
    flow.patch(recent_, std::min(used, static_cast<uint32_t>(packets % 24)),
               bytes.last(1));
    if (static_cast<Ask>(bytes.back()) == Ask::kDropSecond) flow.erase(recent_);
    if (bytes.size() >= kDigestFromEnd) {
      std::memcpy(&bytes[bytes.size() - kDigestFromEnd], &digest, 6);
    }
    return Scripted::process_packet(packet, flow);
  }

  void on_timer(FlowState& flow) override {
    flow.put(digest_, flow.get(digest_) * 3 + 1);
    Scripted::on_timer(flow);
  }

 private:
  static constexpr uint64_t kSeed = 0x736e66;
  static uint64_t Mix(uint64_t digest, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      digest = (digest ^ std::to_integer<uint64_t>(byte)) * 0x100'0000'01b3;
    }
    return digest;
  }

  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  Blob recent_ = declare_blob("recent", 20);
  Slot<uint64_t> digest_ = declare<uint64_t>("digest");
};

constexpr std::byte ByteOf(Ask ask) { return static_cast<std::byte>(ask); }

class TimelessChronicle final : public Chronicle {
 public:
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    std::byte& last = packet.bytes().back();
    const std::byte asked = last;
    if (asked == ByteOf(Ask::kTimer)) last = ByteOf(Ask::kForward);
    if (asked == ByteOf(Ask::kFlood)) last = ByteOf(Ask::kReply);
    const Verdict verdict = Chronicle::process_packet(packet, flow);
    last = asked;
    return verdict;
  }
};

SNF_REGISTER_NF(Scripted, "test_scripted", "does what a frame asks for");
SNF_REGISTER_NF(Keepalive, "test_keepalive", "emits every 10 ms");
SNF_REGISTER_NF(Forwarding, "test_forwarding", "forwards every packet");
SNF_REGISTER_NF(Chronicle, "test_chronicle", "writes each flow's digest");
SNF_REGISTER_NF(TimelessChronicle, "test_timeless", "the same without timers");

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

class RecordingSink final : public RunObserver {
 public:
  void on_release(const ReleasedPacket& packet) override {
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
const NfRegistration& ChronicleNf() { return registration_of_Chronicle; }
const NfRegistration& TimelessChronicleNf() {
  return registration_of_TimelessChronicle;
}

Frame TimerFrame() {
  return Ethernet(0x0800, Ipv4({.id = 0xbeef}, Udp(9, 9, 30)));
}

std::vector<OfferedFrame> FramesThatAskForAnything(uint32_t count,
                                                   Instant start) {
  Rng rng(1);
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < count; ++i) {
    FrameFields fields = {.flow = i % 20, .sequence = i};
    fields.ask = Ask{static_cast<uint8_t>(rng.Uniform(1, 8))};
    fields.first_payload_byte = static_cast<std::byte>(rng.Below(4));
    frames.push_back(
        {.time = start + Microseconds(i), .bytes = UdpFrame(fields)});
  }
  return frames;
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

void LoggedFrames::Add(const ReleasedPacket& packet) {
  if (packet.route.has_clock()) ++packets_[HashOf(packet.bytes)];
}
void LoggedFrames::on_release(const ReleasedPacket& packet) { Add(packet); }
void LoggedFrames::on_drop(const ReleasedPacket& packet,
                           std::string_view reason) {
  if (reason == "unwanted" || reason == "unloved") Add(packet);
}

void LoggedFrames::on_records(Instant /*arrival*/,
                              std::span<const std::byte> batch) {
  const bool is_sound = LogBatch::Read(
      batch,
      [this](LogId log, std::span<const std::byte> bytes) {
        const auto word = LoadAs<uint64_t>(bytes.data());
        if (log == kEndsLog) {
          EXPECT_EQ(++ends_[FlowId{word}], 1u) << "end of flow " << word;
          return;
        }
        --packets_[word];
        ++records_;
      },
      [](LogId, uint16_t lost) { ADD_FAILURE() << lost << " without room"; });
  EXPECT_TRUE(is_sound);
}

void LoggedFrames::Expect(uint64_t refused) const {
  uint64_t without_record = 0;
  uint64_t without_frame = 0;
  for (const auto& [hash, less] : packets_) {
    (less > 0 ? without_record : without_frame) +=
        static_cast<uint64_t>(std::abs(less));
  }
  EXPECT_LE(without_record, refused) << "packets without a record";
  EXPECT_LE(without_frame, consumed_) << "records without a packet";
  EXPECT_GE(without_frame + refused, consumed_) << "packets that were consumed";
}

void PlaceByDemand(ControllerOptions& options) {
  options.load_signal = LoadSignal::kDemand;
  options.alpha_1024 = 256;
  options.replica_choice = ReplicaChoice::kWeighted;
  options.unit_idle_timeout = Milliseconds(100);
}

RunOptions SmallTables() {
  RunOptions options;
  options.controller.max_flows = 4096;
  PlaceByDemand(options.controller);
  options.flow.fragments.capacity = 256;
  options.buffers = {.small = 4096, .medium = 64, .large = 8};
  return options;
}

Outcome RunFrames(const RunOptions& options, const NfSpec& nf,
                  std::span<const OfferedFrame> packets,
                  std::string_view policy, RunObserver* observer) {
  return RunFrames(options, nf, packets, *FindPlacementPolicy(policy),
                   observer);
}

Outcome RunFrames(const RunOptions& options, const NfSpec& nf,
                  std::span<const OfferedFrame> packets,
                  const PlacementPolicy& policy, RunObserver* observer) {
  RecordingSink sink;
  VirtualDriver driver(options, policy, nf, {&sink, observer});
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
  outcome.replicas_at_units = driver.replicas_at_units();
  outcome.records_on_the_way = driver.records_on_the_way();
  for (uint32_t i = 0; i < options.controller.max_units; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    const UnitPool& pool = driver.controller().units();
    const auto state = pool.state(unit);
    const uint32_t flows = pool.owned_flows(unit);
    outcome.flows_with_a_unit += flows;
    // One that began to stop before the last receiver of its flows was parked
    // waits for another.
    outcome.units_up += state == UnitPool::State::kStarting ||
                        state == UnitPool::State::kActive ||
                        (state == UnitPool::State::kStopping && flows == 0);
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

  // Each flowlet that moved did so once, and each clock went somewhere.
  const StateFigures& state = run.state;
  EXPECT_EQ(state.seamless + state.pulled, run.controller.flowlets_moved);
  EXPECT_EQ(state.wait_ns.count(), run.controller.flowlets_moved);
  EXPECT_EQ(state.null_packets, run.controller.null_packets);
  EXPECT_EQ(state.tombstones,
            run.dropped[static_cast<size_t>(DropReason::kHoldOverflow)]);
  EXPECT_EQ(state.units.takeovers_said_once, 0u);
  EXPECT_EQ(outcome.records_on_the_way, 0u);

  // The epochs hold what the totals hold.
  uint64_t dropped = 0;
  for (const EpochSample& sample : run.epochs) {
    dropped += sample.dropped_packets;
    EXPECT_LE(sample.unit_ns, int64_t{run.units_max} * Provisioning::kEpochNs);
  }
  EXPECT_EQ(dropped, run.packets_dropped());
}

namespace {

void ExpectSame(const StateFigures& a, const StateFigures& b) {
  EXPECT_EQ(a.seamless, b.seamless);
  EXPECT_EQ(a.pulled, b.pulled);
  EXPECT_EQ(a.wait_ns, b.wait_ns);
  EXPECT_EQ(a.worst.key, b.worst.key);
  EXPECT_EQ(a.worst.flow, b.worst.flow);
  EXPECT_EQ(a.worst.clock, b.worst.clock);
  EXPECT_EQ(a.worst.wait, b.worst.wait);
  EXPECT_EQ(a.worst.unit, b.worst.unit);
  EXPECT_EQ(a.pushes, b.pushes);
  EXPECT_EQ(a.pulls, b.pulls);
  EXPECT_EQ(a.answers, b.answers);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.pushed_bytes, b.pushed_bytes);
  EXPECT_EQ(a.tombstones, b.tombstones);
  EXPECT_EQ(a.null_packets, b.null_packets);
  EXPECT_EQ(a.messages_lost, b.messages_lost);
  EXPECT_EQ(a.messages_duplicated, b.messages_duplicated);
  static_assert(std::has_unique_object_representations_v<UnitCounters>);
  EXPECT_EQ(std::memcmp(&a.units, &b.units, sizeof a.units), 0);
}

}  // namespace

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
  ExpectSame(a.state, b.state);
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
