// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_TINY_NAT_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_TINY_NAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/packet/ip_address.h"
#include "platform/system_test/test_run.h"

namespace snf {

// "tiny_nat": translates each inside endpoint of UdpFrames to a port of one
// address, and writes into each frame how many its flow had. Its options:
// first, last (ports); limit (of aliases); one_alias (all flows want the same);
// forwards_inbound (as it came).
const NfRegistration& TinyNat();
inline constexpr size_t kNumberAt = 52;  // in the frame
inline const IpAddress kExternal = V4(198, 51, 100, 1);

// What a frame may ask of it in its last byte, besides nothing.
inline constexpr Ask kEnd{0x11};    // the flow is over
inline constexpr Ask kBrief{0x12};  // … after 3 ms without packets

// How to run it.
struct TinyNatOptions : RunOptions {
  NfSpec nf = TinyNat();
};
TinyNatOptions TinyNatTables(const std::string& nf_options = "");

// RunFrames with all that holds for each run: it is sound, and in the end the
// controller has all pieces again. Flows must end.
Outcome ReplayTiny(const TinyNatOptions& options,
                   const std::vector<OfferedFrame>& packets,
                   std::string_view policy = "snf");

// The same with output loggers after `delay`, as sound. Where neither run lost
// a packet and both saw the same flows, what leaves is the same, but for ports;
// returns whether that was so. What the NF does must not depend on time.
bool ExpectSameWithLoggers(TinyNatOptions options, Nanos delay,
                           const std::vector<OfferedFrame>& packets,
                           std::string_view policy, const Outcome& plain);

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_TINY_NAT_H_
