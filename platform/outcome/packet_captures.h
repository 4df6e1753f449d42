// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_PACKET_CAPTURES_H_
#define SNF_PLATFORM_OUTCOME_PACKET_CAPTURES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/packet/link_type.h"
#include "base/time.h"
#include "platform/outcome/flow_filter.h"
#include "platform/run/packet_watch.h"
#include "runtime/ring/real_clock.h"

namespace snf {

// Captures of the packets that leave a live run or are dropped there. A client
// begins a capture, takes its packets again and again, and ends the capture.
// A capture whose client is gone ends by itself.
//
// While there is no capture, a packet costs one load. Thread-safe.
class PacketCaptures final : public PacketWatch {
 public:
  static constexpr size_t kMost = 4;  // captures at a time
  // Bytes that wait for a client at most, with kPacketCost for each packet.
  static constexpr size_t kRoomBytes = size_t{2} << 20;
  static constexpr size_t kPacketCost = 128;
  static constexpr Nanos kForgotten = Seconds(10);  // without a word

  struct Packet {
    Instant time;
    uint32_t original_bytes = 0;
    LinkType link = LinkType::kEthernet;
    bool is_dropped = false;
    std::string bytes{};
    std::string comment{};  // CommentOf
  };
  struct Batch {
    std::vector<Packet> packets{};
    // Packets that the filter selected since the capture began; of these, lost
    // ones found no room.
    uint64_t selected = 0;
    uint64_t lost = 0;
  };

  // The clock is monotonic.
  explicit PacketCaptures(std::function<Instant()> clock = RealClock::Monotonic)
      : clock_(std::move(clock)) {}

  // Begins a capture of packets that the filter selects: by their own headers,
  // or by the key of their flow. Keeps at most `snap_bytes` of each; 0: all.
  // Returns the capture's number. Errors: InvalidArgument, of the filter;
  // ResourceExhausted, there are kMost captures.
  absl::StatusOr<uint32_t> Begin(const std::string& filter, uint32_t snap_bytes,
                                 bool drops_alone);
  // Returns the packets since the last call. Error: NotFound.
  absl::StatusOr<Batch> Take(uint32_t capture);
  // Ends the capture, if it has not ended.
  void End(uint32_t capture);

  bool is_active() const override {
    return active_.load(std::memory_order_relaxed) > 0;
  }
  void on_packet(const ReleasedPacket& packet, std::string_view reason,
                 const NfCallNames& flows) override;

 private:
  struct Capture {
    uint32_t number;
    FlowFilter filter;
    uint32_t snap_bytes;
    bool drops_alone;
    Instant heard;  // when its client asked last
    size_t bytes = 0;
    Batch batch{};
  };

  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<Instant()> clock_;
  std::atomic<size_t> active_ = 0;
  std::mutex mutex_;
  std::vector<Capture> captures_ ABSL_GUARDED_BY(mutex_);
  uint32_t newest_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_PACKET_CAPTURES_H_
