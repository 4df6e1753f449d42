// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_TEST_NAT_H_
#define SNF_NFS_TEST_NAT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/test_packets.h"
#include "runtime/sdk/nf.h"

// For tests and benchmarks: the NF "nat" on a platform of one unit that records
// the NF's requests.

namespace snf {

class TestNat final : public FlowServices {
 public:
  // `options` has the form of --nf nat:… . The unit has all pieces of all
  // pools.
  explicit TestNat(std::string_view options = "");

  struct Flow {
    std::vector<std::byte> record;
  };
  Flow NewFlow() const;

  struct Sent {
    Verdict verdict = Verdict::forward();
    Frame frame;       // as it left
    std::string drop;  // the NF's reason, or ""
  };
  // Hands a packet of that flow to the NF. `original_length` 0 means that all
  // of it was captured.
  Sent Send(Flow& flow, Side side, const Frame& frame, Nanos at = {},
            LinkType link = LinkType::kRawIp, uint32_t original_length = 0);
  Sent FromInside(Flow& flow, const Frame& frame, Nanos at = {}) {
    return Send(flow, Side::kInside, frame, at);
  }
  Sent FromOutside(Flow& flow, const Frame& frame, Nanos at = {}) {
    return Send(flow, Side::kOutside, frame, at);
  }
  // Refuses the alias that the last packet set.
  void RefuseAlias(Flow& flow, AliasResult why);
  void End(Flow& flow);

  // The number of pieces of all pools that the unit has.
  size_t pieces() const;
  std::vector<PieceSet>& pools() { return pools_; }
  NetworkFunction& nf() { return *nf_; }

  // The NF's requests, of all flows together.
  struct NamedAlias {
    FlowKey key;
    uint64_t group = 0;
    uint32_t limit = 0;
  };
  std::vector<NamedAlias> aliases;
  struct Noted {
    Nanos idle_timeout;
    bool over = false;
  };
  std::vector<Noted> notes;
  std::vector<Frame> emitted;
  std::set<uint16_t> exhausted;  // pools that the platform found empty

  bool Emit(std::span<const std::byte> frame) override;
  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference& wish) override;
  void GivePiece(PoolId pool, uint32_t piece) override;
  bool IsExhausted(PoolId pool) const override;
  void SetAlias(const FlowKey& key, uint64_t group,
                uint32_t group_limit) override;
  void Note(Nanos idle_timeout, bool over) override;

 private:
  std::unique_ptr<NetworkFunction> nf_;
  std::vector<PieceSet> pools_;
};

struct TestEnd {
  IpAddress address;
  uint16_t port = 0;
};
// Builds a packet of a connection, with correct checksums. In ICMP the
// identifier is the port of `from` in a request and that of `to` in an answer.
Frame Between(uint8_t protocol, TestEnd from, TestEnd to,
              uint8_t tcp_flags = 0x10, uint8_t icmp_type = 8);
// Fills in the checksum of layer 4.
Frame WithChecksum(Frame ip_packet);
// An ICMP error that quotes 28 bytes of a packet.
Frame ErrorAbout(const Frame& ip_packet, const IpAddress& from,
                 const IpAddress& to);
// Returns true if all checksums of an IPv4 packet are correct, also of a packet
// that it quotes. They are computed over all bytes.
bool HasGoodChecksums(const Frame& ip_packet);
// Return the ends of a packet.
TestEnd SourceOf(const Frame& ip_packet);
TestEnd DestinationOf(const Frame& ip_packet);

}  // namespace snf

#endif  // SNF_NFS_TEST_NAT_H_
