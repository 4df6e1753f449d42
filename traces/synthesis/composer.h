// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_COMPOSER_H_
#define SNF_TRACES_SYNTHESIS_COMPOSER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "traces/capture_reader.h"
#include "traces/synthesis/overlay.h"
#include "traces/synthesis/overlay_tally.h"
#include "traces/synthesis/readdress.h"
#include "traces/synthesis/source_captures.h"

namespace snf {

// The time at which made traffic begins. Any time from 1970 on would do.
inline constexpr Instant kWindowStart = {1'000'000'000'000'000'000};

// The two addresses of a copy of a conversation.
struct FreshEnds {
  IpAddress client;
  IpAddress server;
};

// Returns a pair of addresses that no other copy has. The client's is from
// 10.0.0.0/8, by the number of the copy, the server's from 198.18.0.0/15, the
// range for benchmarks (RFC 2544 C.2.2); with IPv6 both are from 2001:2::/48
// (RFC 5180 §8).
FreshEnds FreshEndsOf(uint64_t copy, L3 l3);

// The prefixes that all of these are from, as the flag --inside takes them.
struct EndPrefixes {
  std::string_view clients;
  std::string_view servers;
};
constexpr EndPrefixes PrefixesOf(L3 l3) {
  return l3 == L3::kIpv6 ? EndPrefixes{"2001:2:0:1::/64", "2001:2:0:2::/64"}
                         : EndPrefixes{"10.0.0.0/8", "198.18.0.0/15"};
}

// Makes packets of the conversations of captures, at the times that an Overlay
// gives them; each copy of a conversation has two addresses of its own.
// Owner-thread only.
class Composer {
 public:
  // Draws from `sources`, which has conversations and must stay unchanged as
  // long as this object.
  Composer(const SourceCaptures& sources, const Overlay::Options& options)
      : sources_(sources), overlay_(sources.conversations(), options) {}

  // Makes the next packet, whose bytes are valid until the next call. Returns
  // false at the end.
  bool Next(CapturedPacket& packet);

  const OverlayTally& tally() const { return tally_; }
  uint64_t expected_bytes() const { return overlay_.total_bytes(); }

 private:
  const SourceCaptures& sources_;
  Overlay overlay_;
  OverlayTally tally_;
  std::vector<std::byte> frame_;
};

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_COMPOSER_H_
