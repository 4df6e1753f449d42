// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/sdk/nf.h"

namespace snf {
namespace {

__extension__ using Wide = unsigned __int128;

// Theory of operation. A token bucket for each connection (SNF §8), which both
// directions share. It holds at most `burst` bytes, is full at first, and fills
// at `rate`. A packet conforms if the bucket holds its length, which it takes
// out; any other packet is over the rate and takes nothing. So in any span of
// time t no more than burst + rate × t bytes conform. Lengths are those on the
// wire, link header included, however little was captured.
//
// Tokens are counted in 1/8,000,000,000 of a byte: at r bit/s, r of them come
// in a nanosecond, and nothing is rounded.
// Example: at 1 Mbit/s a frame of 1,500 bytes needs 12·10¹² tokens, which come
// in 12 ms, at 10⁶ a nanosecond. At 1 Gbit/s the default burst is 12.5 MB.
class Policer final : public NetworkFunction {
 public:
  explicit Policer(NfOptions& options)
      : rate_(static_cast<uint64_t>(
            options.BitRate("rate", 1'000'000, 1'000, 1'000'000'000'000,
                            "committed rate of a connection, both ways "
                            "together"))),
        burst_(kByte * static_cast<uint64_t>(options.Bytes(
                           "burst", DefaultBurst(rate_), 64, kMaxBurst,
                           "bytes that a connection may send at once after a "
                           "pause; a longer packet is always over the rate; by "
                           "default 100 ms at the rate, but 15 KB or more"))),
        marks_(options.Choice("action", 0, kActions,
                              "action for packets over the rate: drop them, or "
                              "forward them with the label \"over\"") == 1) {}

 private:
  static constexpr std::string_view kActions[] = {"drop", "mark"};
  static constexpr uint64_t kByte = 8'000'000'000;  // in tokens

  static constexpr uint64_t kMinDefaultBurst = 15'000;  // bytes
  static constexpr int64_t kMaxBurst = 1'000'000'000;

  // Returns bytes. A fixed burst lasts the shorter the higher the rate is, so
  // TCP, which sends a window at once, would never reach a high rate.
  static int64_t DefaultBurst(uint64_t rate_bps) {
    const uint64_t bytes = rate_bps / 8 / 10;
    return std::min(static_cast<int64_t>(std::max(bytes, kMinDefaultBurst)),
                    kMaxBurst);
  }

  struct Bucket {
    int64_t filled_ns = 0;  // the time of the last filling
    uint64_t tokens = 0;    // the tokens at that time
  };

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    Bucket bucket = flow.has(bucket_) ? Filled(flow.get(bucket_), packet)
                                      : Bucket{packet.arrival().ns, burst_};
    const uint64_t bytes = packet.original_length();
    const bool conforms = Wide{bytes} * kByte <= bucket.tokens;
    if (conforms) bucket.tokens -= bytes * kByte;
    flow.put(bucket_, bucket);
    count(conforms ? conforming_bytes_ : over_bytes_, bytes);
    if (conforms) return Verdict::forward();
    count(over_);
    return marks_ ? Verdict::forward(1) : Verdict::drop(0);
  }

  // Returns the bucket filled up to the packet's arrival, or unchanged if time
  // ran backwards.
  Bucket Filled(const Bucket& bucket, const Packet& packet) const {
    const int64_t now_ns = std::max(packet.arrival().ns, bucket.filled_ns);
    const uint64_t elapsed_ns =
        static_cast<uint64_t>(now_ns) - static_cast<uint64_t>(bucket.filled_ns);
    const Wide tokens = bucket.tokens + Wide{rate_} * elapsed_ns;
    return {now_ns, static_cast<uint64_t>(std::min<Wide>(tokens, burst_))};
  }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"over_rate"};
    return kReasons;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"conforming", "over"};
    return kLabels;
  }

  uint64_t rate_;   // tokens that come in a nanosecond
  uint64_t burst_;  // in tokens
  bool marks_;
  Slot<Bucket> bucket_ = declare<Bucket>("bucket");
  Counter over_ = declare_counter("over", "packets over the rate");
  Counter over_bytes_ =
      declare_counter("over_bytes", "bytes of the packets over the rate");
  Counter conforming_bytes_ =
      declare_counter("conforming_bytes", "bytes within the rate");
};
SNF_REGISTER_NF(Policer, "policer",
                "holds each connection to a rate, by a token bucket");

}  // namespace
}  // namespace snf
