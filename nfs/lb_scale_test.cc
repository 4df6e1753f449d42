// SPDX-License-Identifier: Apache-2.0
// A million connections through changes of the servers.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "base/packet/headers.h"
#include "base/packet/test_packets.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/no_services.h"

namespace snf {
namespace {

constexpr uint32_t kConnections = 1'000'000;
constexpr uint8_t kSyn = 0x02, kAck = 0x10;

// The NF on flows that are kept here.
class Balancer {
 public:
  explicit Balancer(const char* options)
      : nf_(FindNf("lb")->create(*NfOptions::Parse(options))),
        bytes_(nf_->schema().record_bytes()) {}

  // Sends a packet of client `i`, and returns the last byte of the server's
  // address; 0 if it was dropped.
  uint8_t Send(uint32_t i, std::vector<std::byte>& records, uint8_t tcp_flags,
               Nanos at) {
    packet_[12 + 1] = static_cast<std::byte>(i >> 24);
    packet_[12 + 2] = static_cast<std::byte>(i >> 16);
    packet_[12 + 3] = static_cast<std::byte>(i >> 8);
    Store(&packet_[20], be16(static_cast<uint16_t>(1'024 + (i & 0xff))));
    packet_[33] = std::byte{tcp_flags};
    Frame frame = packet_;
    PacketInfo info;
    info.arrival = Instant{} + at;
    info.length = info.original_length = static_cast<uint32_t>(frame.size());
    info.headers = Parse(LinkType::kRawIp, frame);
    info.link = LinkType::kRawIp;
    info.side = Side::kInside;
    Packet packet(info, frame);
    StateView view(std::span<std::byte>(records).subspan(i * bytes_, bytes_));
    FlowState flow(FlowId{1}, info.arrival, Instant::max(), view, services_);
    const Verdict verdict = nf_->process_packet(packet, flow);
    if (verdict.kind() != Verdict::Kind::kForward) return 0;
    return std::to_integer<uint8_t>(frame[19]);
  }
  std::vector<std::byte> Records() const {
    return std::vector<std::byte>(kConnections * bytes_);
  }
  std::vector<uint8_t> All(std::vector<std::byte>& records, uint8_t tcp_flags,
                           Nanos at) {
    std::vector<uint8_t> servers;
    for (uint32_t i = 0; i < kConnections; ++i) {
      servers.push_back(Send(i, records, tcp_flags, at));
    }
    return servers;
  }

 private:
  std::unique_ptr<NetworkFunction> nf_;
  size_t bytes_;
  NoServices services_;
  Frame packet_ = Ipv4({.source = V4(100, 0, 0, 0),
                        .destination = V4(192, 0, 2, 10),
                        .protocol = 6},
                       Tcp(1024, 80, 1, 0));
};

// Server 1 is drained, 11 comes, and 5 goes.
TEST(LbScale, BreaksNoConnectionButThoseOfTheRemovedServer) {
  Balancer lb(
      "virtual=192.0.2.10:80,"
      "servers=10.0.0.1:80+10.0.0.2:80+10.0.0.3:80+10.0.0.4:80+10.0.0.5:80+"
      "10.0.0.6:80+10.0.0.7:80+10.0.0.8:80+10.0.0.9:80+10.0.0.10:80,"
      "drain@10s=10.0.0.1,"
      "servers@20s=10.0.0.1:80+10.0.0.2:80+10.0.0.3:80+10.0.0.4:80+10.0.0.5:80+"
      "10.0.0.6:80+10.0.0.7:80+10.0.0.8:80+10.0.0.9:80+10.0.0.10:80+"
      "10.0.0.11:80,"
      "servers@30s=10.0.0.1:80+10.0.0.2:80+10.0.0.3:80+10.0.0.4:80+"
      "10.0.0.6:80+10.0.0.7:80+10.0.0.8:80+10.0.0.9:80+10.0.0.10:80+"
      "10.0.0.11:80");
  std::vector<std::byte> records = lb.Records();
  const std::vector<uint8_t> begun = lb.All(records, kSyn, Seconds(1));
  for (const int64_t at : {2, 11, 21, 31}) {
    const std::vector<uint8_t> servers = lb.All(records, kAck, Seconds(at));
    size_t broken = 0, of_removed = 0;
    for (uint32_t i = 0; i < kConnections; ++i) {
      const bool is_removed = at > 30 && begun[i] == 5;
      of_removed += is_removed ? 1 : 0;
      broken += servers[i] != (is_removed ? 0 : begun[i]) ? 1 : 0;
    }
    EXPECT_EQ(broken, 0u) << at;
    EXPECT_EQ(of_removed > 0, at > 30);
  }

  // New connections with the same ends: how many go elsewhere needlessly.
  std::vector<uint8_t> before = begun;
  for (const int64_t at : {12, 22, 32}) {
    std::vector<std::byte> others = lb.Records();
    const std::vector<uint8_t> after = lb.All(others, kSyn, Seconds(at));
    std::map<uint8_t, double> shares;
    size_t needless = 0;
    const uint8_t gone = at == 12 ? 1 : at == 32 ? 5 : 0;
    for (uint32_t i = 0; i < kConnections; ++i) {
      shares[after[i]] += 1.0 / kConnections;
      const bool must = before[i] == gone || (at == 22 && after[i] == 11);
      needless += after[i] != before[i] && !must ? 1 : 0;
    }
    const double share = static_cast<double>(needless) / kConnections;
    std::printf("as of %lld s: %zu servers, %.4f of new ones needlessly\n",
                static_cast<long long>(at), shares.size(), share);
    EXPECT_LE(share, 0.02) << at;
    EXPECT_EQ(shares.count(gone), 0u);
    for (const auto& [server, part] : shares) {
      EXPECT_LE(part * static_cast<double>(shares.size()), 1.05) << int{server};
    }
    before = after;
  }
}

}  // namespace
}  // namespace snf
