// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_PATH_SEARCH_H_
#define SNF_PLATFORM_HOSTS_PATH_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace snf {

// Theory of operation. Finds the longest packet that a path takes, by packets
// of several sizes that the other end answers (RFC 8899). Several channels have
// paths of their own, and one size is for all of them.
//
//   start       each channel asks for a few sizes. The size of a channel is the
//               longest that is answered, of all channels the least
//   later       the kernel learns of a shorter path by ICMP: Limit
//   black hole  a channel gets no acknowledgements: Suspect. The channel asks
//               for the size in use and for shorter ones. If only shorter ones
//               are answered for kAnswerTime, the longest of these is in use
//
// A peer that stands still answers no size, and all of them when it runs again:
// neither makes the size shorter. A size never becomes longer again.
//
// Worked example: the kernel says 9,000 bytes and the path takes 1,450. Of the
// answers the longest is for 1,400 bytes, which is the size 200 ms after Begin.
// Then the path takes 1,300 bytes: 1,280 is answered and 1,400 is not, so the
// size is 1,280 bytes 200 ms later.
//
// Pure; owner-thread only. Times must not run backwards.
class PathSearch {
 public:
  static constexpr size_t kLeast = 576;  // bytes of a packet
  static constexpr size_t kBlackHole = 1'280;
  // UDP has a length of 16 bits.
  static constexpr size_t kMost = 65'000;
  static constexpr Nanos kPause = Milliseconds(20);
  // For the answers of longer packets, once a shorter one is answered.
  static constexpr Nanos kAnswerTime = Milliseconds(200);
  static constexpr Nanos kPatience = Seconds(1);

  explicit PathSearch(size_t channels) : channels_(channels) {}

  // Bytes of the longest packet to be sent.
  size_t bytes() const { return bytes_; }

  // Begins the search of the start.
  void Begin(Instant now);
  enum class Outcome : uint8_t { kPending, kFound, kSilent };
  // Returns whether the search of the start has ended, and sets the size if one
  // was found. kSilent: after kPatience, a channel has no answer.
  Outcome Look(Instant now);

  // Returns true if Ask returns sizes.
  bool is_due(Instant now, size_t channel) const;
  // Returns the sizes of packets that are to be sent now, the longest first.
  // `limit` is the longest packet of that channel that the kernel takes.
  std::vector<size_t> Ask(Instant now, size_t channel, size_t limit);
  // A packet of that size was answered. An answer that was not asked for
  // changes nothing.
  void on_answer(Instant now, size_t channel, size_t bytes);

  // The kernel takes no longer packets any more. Returns true if the size has
  // become shorter.
  bool Limit(size_t bytes);
  // The channel gets no acknowledgements: call again and again. Returns true if
  // the size has become shorter.
  bool Suspect(Instant now, size_t channel);
  // The channel gets acknowledgements.
  void Trust(size_t channel);
  // Returns when the peer of a suspected channel has first answered.
  std::optional<Instant> answered(size_t channel) const {
    return channels_[channel].answered;
  }

  // Returns when Ask or Suspect is to be called; Instant::max(): not at all.
  Instant due() const;

 private:
  struct Channel {
    bool is_suspect = false;
    size_t longest = 0;                 // bytes, asked last
    size_t confirmed = 0;               // bytes, the longest answered
    std::optional<Instant> asked{};     // last
    std::optional<Instant> answered{};  // first
  };

  bool asks(const Channel& of) const { return begun_ || of.is_suspect; }

  std::vector<Channel> channels_;
  size_t bytes_ = kLeast;
  std::optional<Instant> begun_{};  // the search of the start
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_PATH_SEARCH_H_
