// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_GROUP_COUNTS_H_
#define SNF_PLATFORM_DAEMON_GROUP_GROUP_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/run/run.h"

namespace snf {

// Counts frames that a group sends on, takes or drops. The first ones are of
// frames that the chains did not get.
enum class GroupCount : uint8_t {
  kForwarded,   // handed to the link, for the member whose hosts they are
  kOut,         // dropped: this process was not in the table
  kNotYetOwn,   // dropped: own hosts, before this one may handle them
  kNoOwner,     // dropped: the owner, or every member, does not live
  kNoFirst,     // dropped: fragments whose first one was not seen
  kUnsendable,  // dropped: longer than a datagram, or an address is wrong
  kMoved,       // dropped: waited at a port while its hosts became another's
  kAside,       // handed to the link, for the member that has the flow, or back
  kTaken,       // from other members, for the chains
  kNotOwn,      // from other members, dropped: this one may not handle them
  kNoPort,      // from other members, dropped: no port of that name
  kStranger,    // refused: of who is no member, or without the key
  kMalformed,   // refused: bytes that cannot be
  kLinkDropped,   // of kForwarded: the kernel did not take them
  kLinkOverflow,  // from other members, lost: the socket's buffer was full
  kCut,  // of frames of several packets that were sent: packets but the first
};
inline constexpr size_t kGroupCounts = 16;
inline constexpr size_t kGroupAwayCounts = 8;  // the first ones

class GroupCounts {
 public:
  void Add(GroupCount count, uint64_t by = 1) {
    counts_[static_cast<size_t>(count)] += by;
  }
  uint64_t of(GroupCount count) const {
    return counts_[static_cast<size_t>(count)];
  }
  // Frames at own ports, and frames set aside from any way, that the chains did
  // not get.
  uint64_t away() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kGroupAwayCounts; ++i) sum += counts_[i];
    return sum;
  }
  std::vector<NamedCount> named() const {
    static constexpr std::array<const char*, kGroupCounts> kNames = {
        "forwarded", "out",          "not_yet_own",   "no_owner",
        "no_first",  "unsendable",   "moved",         "aside",
        "taken",     "not_own",      "no_port",       "stranger",
        "malformed", "link_dropped", "link_overflow", "cut"};
    std::vector<NamedCount> named;
    for (size_t i = 0; i < kGroupCounts; ++i) {
      named.push_back({kNames[i], counts_[i]});
    }
    return named;
  }

 private:
  std::array<uint64_t, kGroupCounts> counts_{};
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_GROUP_COUNTS_H_
