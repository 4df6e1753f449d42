// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_CHANNEL_SENDER_H_
#define SNF_PLATFORM_HOSTS_CHANNEL_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"

namespace snf {

// Numbers of datagrams, both included.
struct NumberRange {
  uint64_t first = 0;
  uint64_t last = 0;
  friend bool operator==(const NumberRange&, const NumberRange&) = default;
};

// An acknowledgement: how far the receiver of a channel has come.
struct ChannelAck {
  static constexpr size_t kMostRanges = 6;

  uint64_t received = 0;  // bytes from the channel's first one on
  uint64_t consumed = 0;  // of these, bytes that the receiver has used
  std::vector<NumberRange> ranges{};  // of datagrams, the newest first
};

// Datagram sizes and windows of a channel.
inline constexpr uint64_t kChannelWindow = uint64_t{4} << 20;  // bytes

// Theory of operation. Sends a stream of bytes over a way that loses, doubles
// and reorders datagrams. Each datagram has a number of its own, and a piece of
// the stream by its offset; a piece that was lost is sent again under a new
// number, and may be cut in another way. The receiver acknowledges numbers, by
// ranges (ChannelReceiver). Loss is found as in RFC 9002:
//
//   a datagram is lost  if one sent three or more later has arrived, or
//                       if a later one has, and 9/8 of a round trip is over
//   probe timeout       after srtt + 4 rttvar without an answer the oldest
//                       piece is sent again, though nothing counts as lost
//
// The window is NewReno's (RFC 9002 section 7): it begins with ten datagrams,
// doubles in a round trip, is halved once for the losses of a round trip, and
// grows by a datagram a round trip from then on. After kPersistent probe
// timeouts in a row it is two datagrams. Besides, at most kChannelWindow bytes
// are sent that the receiver has not consumed.
//
// Worked example: datagrams 0 to 4 have bytes 0 to 4,999. 1 is lost. The
// acknowledgement of 0 and 2 to 4 says so, and the next datagram, number 5, has
// bytes 1,000 to 1,999.
//
// Pure; owner-thread only. Times must not run backwards.
class ChannelSender {
 public:
  static constexpr int kPersistent = 3;
  static constexpr int kBlackHole = 3;        // timeouts
  static constexpr size_t kLeastWindow = 2;   // datagrams
  static constexpr size_t kFirstWindow = 10;  // datagrams
  static constexpr uint64_t kReordering = 3;  // datagrams
  static constexpr Nanos kGranularity = Milliseconds(1);
  // The time doubles with each probe, up to here.
  static constexpr Nanos kLongestProbe = Milliseconds(200);
  // An empty piece asks so often how much was consumed, if all has arrived.
  static constexpr Nanos kQuestionTime = Milliseconds(20);

  struct Piece {
    uint64_t number = 0;
    uint64_t offset = 0;
    std::span<const std::byte> bytes{};  // valid until Write and TakeAck
  };
  struct Counts {
    uint64_t datagrams = 0;
    uint64_t lost = 0;
    uint64_t probes = 0;
  };

  // Appends to the stream.
  void Write(std::span<const std::byte> bytes);
  // Returns the next datagram, of at most `most` bytes; none: there is nothing
  // to be sent, or no room in the window.
  std::optional<Piece> Next(Instant now, size_t most);
  // Takes an acknowledgement. Errors: InvalidArgument if no such datagram was
  // sent, naming the value; nothing is changed then.
  absl::Status TakeAck(Instant now, const ChannelAck& ack);
  // Takes back the newest datagrams, from a number on: none of them has left.
  // Next gives their bytes again, under new numbers.
  void TakeBack(uint64_t number);
  // The path became shorter, and the other end answers: counts as progress. The
  // time until the next probe is short again.
  void TakeShorterPath(Instant now);
  // Returns when OnDue is to be called; Instant::max(): not at all.
  Instant due() const;
  void OnDue(Instant now);

  // Bytes that the receiver has not consumed.
  uint64_t waiting() const { return written_ - consumed_; }
  // Probe timeouts since the last acknowledgement of a datagram.
  int timeouts() const { return timeouts_; }
  // When a datagram was acknowledged, the first one sent after that, or the
  // path became shorter.
  Instant last_progress() const { return last_progress_; }
  bool is_unanswered() const { return !open_.empty(); }
  uint64_t window() const { return window_; }
  Nanos round_trip() const { return smooth_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Sent {
    uint64_t number = 0;
    uint64_t offset = 0;
    size_t bytes = 0;
    Instant at;
    bool is_open = true;  // neither acknowledged nor lost
  };

  bool TakeRange(const NumberRange& range, Instant& newest,
                 uint64_t& acknowledged);
  void Close(Sent& sent);
  void DropClosed();
  void TakeRoundTrip(Nanos took);
  void FindLost(Instant now);
  void Lose(Sent& sent);
  void Grow(uint64_t acknowledged);
  Nanos ProbeTime() const;
  Nanos LossTime() const;
  std::optional<Piece> Cut(Instant now, uint64_t offset, size_t bytes);

  std::vector<std::byte> bytes_;  // from offset freed_ - head_ on
  size_t head_ = 0;               // bytes of bytes_ that are not needed
  uint64_t freed_ = 0;            // received by the other end, without a hole
  uint64_t written_ = 0;
  uint64_t sent_ = 0;  // bytes that were sent at least once
  uint64_t consumed_ = 0;
  uint64_t next_number_ = 0;
  std::deque<Sent> open_;              // by number
  std::map<uint64_t, size_t> lost_;    // offset: bytes to be sent again
  uint64_t under_way_ = 0;             // bytes
  std::optional<uint64_t> largest_{};  // number that was acknowledged
  Instant loss_due_ = Instant::max();
  Instant last_sent_;
  Instant last_progress_;
  Nanos smooth_ = Milliseconds(5);  // a guess, until the first round trip
  Nanos variance_ = Milliseconds(2);
  bool has_round_trip_ = false;
  int timeouts_ = 0;
  bool is_probe_due_ = false;
  bool is_question_due_ = false;
  size_t size_ = 1'200;  // bytes of a datagram, as asked last
  uint64_t window_ = kFirstWindow * 1'200;
  uint64_t threshold_ = kChannelWindow;  // up to which the window doubles
  uint64_t recovery_ = 0;  // losses of numbers before that have been counted
  bool was_full_ = false;  // the window has held something back
  Counts counts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_CHANNEL_SENDER_H_
