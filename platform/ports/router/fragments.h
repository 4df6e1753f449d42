// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_FRAGMENTS_H_
#define SNF_PLATFORM_PORTS_ROUTER_FRAGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace snf {

// Cuts an Ethernet frame with a whole IPv4 packet into fragments of at most
// `mtu` bytes, without the link header (RFC 791 §3.2), and gives each to
// `take`, valid during the call. A packet that is a fragment itself is cut
// further. Of the options, later fragments have the ones to be copied.
// The packet must not have DF, and the MTU must be at least 68 bytes.
void CutIntoFragments(
    std::span<const std::byte> frame, uint32_t mtu,
    absl::FunctionRef<void(std::span<const std::byte> fragment)> take);

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_FRAGMENTS_H_
