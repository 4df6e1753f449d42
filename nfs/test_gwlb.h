// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_TEST_GWLB_H_
#define SNF_NFS_TEST_GWLB_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/packet/packet_info.h"
#include "base/tunnels/gwlb_header.h"
#include "runtime/sdk/nf_test.h"

namespace snf {

inline constexpr char kBalancerAddress[] = "10.0.2.1";
// Returns "gwlb:address=10.0.2.1,appliances=10.0.2.11+10.0.2.12+…,more".
std::string Balancer(int appliances, const std::string& more = "");

// A packet on its way to an appliance.
struct ToAppliance {
  std::string outer;      // "10.0.2.1 > 10.0.2.11:6081", or why there is none
  std::string appliance;  // "10.0.2.11"
  GwlbMetadata metadata;
  std::string inner;  // in prose
  TestPacket packet;  // as sent
};
ToAppliance ReadToAppliance(const TestPacket& packet);
ToAppliance ReadToAppliance(const NfResult& result);

// Returns the packet as the appliance returns it, or another inner packet in
// its place.
TestPacket SentBack(const TestPacket& sent);
TestPacket SentBack(const TestPacket& sent, const std::string& inner);
// Returns it with other bytes behind the headers of IP and UDP, whose lengths
// are right.
TestPacket WithPayload(const TestPacket& packet,
                       const std::vector<std::byte>& payload);
std::vector<std::byte> PayloadOf(const TestPacket& packet);

// Returns the packet, as it comes by that side.
TestPacket From(Side side, const std::string& text);
TestPacket From(Side side, TestPacket packet);

}  // namespace snf

#endif  // SNF_NFS_TEST_GWLB_H_
