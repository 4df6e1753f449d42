// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_RUN_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_RUN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/packet/link_type.h"
#include "base/packet/test_packets.h"
#include "base/time.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"

namespace snf {

// A run of the virtual-time driver for tests: packets in, packets out.

// What a frame asks of the NF "scripted", in its last byte.
enum class Ask : uint8_t {
  kForward = 0x5a,
  kDropFirst = 1,   // drop for "unwanted"
  kDropSecond = 2,  // drop for "unloved"
  kConsume = 3,
  kReply = 4,  // emit a copy that ends in kReplied, then forward
  kFlood = 5,  // emit such copies until it is refused, then forward
  kTimer = 6,  // a timer, as many ms as the first payload byte says
  kCancelTimer = 7,
  kRewrite = 8,  // change the byte before the last, then forward
};
inline constexpr std::byte kReplied{0xf0};
// What a timer of "scripted" emits, and what one of "keepalive" does, which
// then sets the next one for 10 ms later.
Frame TimerFrame();

// "scripted": does what the last byte of a frame asks for. Logs each frame, and
// the end of each flow (LoggedFrames).
// "keepalive": the same, but each of its timers sets another one.
const NfRegistration& ScriptedNf();
const NfRegistration& KeepaliveNf();
// Forwards everything.
const NfRegistration& ForwardingNf();
// "chronicle": does what a frame asks for, and writes into each a digest of all
// earlier packets of its flow, into 6 bytes from kDigestFromEnd before the end.
// State that is stale, lost or doubled shows in the next frame. Its timers
// change the state as well.
const NfRegistration& ChronicleNf();
// The same without timers, and for kFlood just a reply: what it makes of a flow
// does not depend on time.
const NfRegistration& TimelessChronicleNf();
inline constexpr size_t kDigestFromEnd = 8;

// A UDP packet of the flow number `flow`; `sequence` stands in its payload.
// At least 60 bytes in all; the direction changes nothing but the addresses.
struct FrameFields {
  uint32_t flow = 0;
  uint32_t sequence = 0;
  uint32_t bytes = 60;
  Ask ask = Ask::kForward;
  std::byte first_payload_byte{0};
  bool from_responder = false;
};
Frame UdpFrame(const FrameFields& fields);
// Read back from a released frame.
bool IsUdpFrame(std::span<const std::byte> frame);
uint32_t FlowOf(std::span<const std::byte> frame);
uint32_t SequenceOf(std::span<const std::byte> frame);

struct OfferedFrame {
  Instant time;
  Frame bytes;
  uint32_t original_length = 0;  // 0: as many as there are bytes
  LinkType link = LinkType::kEthernet;
};

// Returns so many frames of 20 flows, 1 µs apart, that ask for any of what a
// chronicle does: timers and packets of its own among it. Always the same.
std::vector<OfferedFrame> FramesThatAskForAnything(uint32_t count,
                                                   Instant start);

// A copy of a packet that was released.
struct ReleasedFrame {
  Instant time;
  Frame bytes;
  uint32_t original_length = 0;
  LinkType link{};
  friend bool operator==(const ReleasedFrame&, const ReleasedFrame&) = default;
};

// Compares the log records of "scripted" and its relatives with packets. Each
// packet that ran, and left or was dropped or consumed by the NF, has one
// record; no other packet has any.
class LoggedFrames final : public RunObserver {
 public:
  void on_release(const ReleasedPacket& packet) override;
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override;
  void on_consumed(Instant /*now*/, const PacketMeta& /*meta*/) override {
    ++consumed_;
  }
  void on_records(Instant arrival, std::span<const std::byte> batch) override;

  // Called at the end of a run. `refused` counts records for which units had no
  // buffer.
  void Expect(uint64_t refused) const;
  uint64_t records() const { return records_; }
  uint64_t ends() const { return ends_.size(); }

 private:
  void Add(const ReleasedPacket& packet);

  std::map<uint64_t, int64_t> packets_;  // less records, by hash of the frame
  std::map<FlowId, uint64_t> ends_;
  uint64_t consumed_ = 0;
  uint64_t records_ = 0;
};

struct Outcome {
  RunResult run;
  std::vector<ReleasedFrame> released;
  uint64_t events = 0;
  uint32_t buffers_in_use = 0;
  uint32_t flows_at_controller = 0;
  uint64_t flows_with_a_unit = 0;  // of them: not all packets were dropped
  uint64_t flows_at_units = 0;     // replicas apart
  uint64_t replicas_at_units = 0;
  uint32_t records_on_the_way = 0;
  uint32_t units_up = 0;  // starting, active, or stopping without flows
  uint32_t units_stopped = 0;
};

// Buffers for some hundreds of packets, and tables for some thousands of flows:
// cheap to set up. Otherwise the defaults.
// They place by demand, so that a test can say by a flow's rate where it goes.
RunOptions SmallTables();
// The options of controllers that do so.
void PlaceByDemand(ControllerOptions& options);

Outcome RunFrames(const RunOptions& options, const NfSpec& nf,
                  std::span<const OfferedFrame> packets,
                  std::string_view policy = "snf",
                  RunObserver* observer = nullptr);
Outcome RunFrames(const RunOptions& options, const NfSpec& nf,
                  std::span<const OfferedFrame> packets,
                  const PlacementPolicy& policy, RunObserver* observer);

// Expects what holds for every run, whatever was in it.
void ExpectSound(const Outcome& outcome);
// Two runs that ended alike in every figure.
void ExpectSame(const RunResult& a, const RunResult& b);

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_RUN_H_
