// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_MODEL_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/packet/test_packets.h"
#include "platform/system_test/test_nat_packet.h"

namespace snf {

// What became of a packet that was offered, or brought back (hairpinning).
// Times are Instant::ns.
struct Delivery {
  uint32_t number = 0;  // of the packet
  bool is_again = false;
  int64_t arrival = 0;
  uint64_t order = 0;     // of arrival
  FlowId flow = kNoFlow;  // none where the controller did not take it
  UnitId unit = kNoUnit;
  int64_t done = 0;       // when its unit was done with it
  uint64_t fate = 0;      // the order of release, or of being dropped
  std::string_view drop;  // why it was not released, or ""
  Frame in;               // as it was offered
  Frame out;              // as it was released
};

// What a NAT may do, by the RFCs of nfs/nat.md.
struct NatModelOptions {
  enum class Filtering : uint8_t { kNone, kAddress, kAddressAndPort };

  std::vector<uint32_t> addresses;
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  Filtering filtering = Filtering::kNone;
  uint32_t host_ports = 0;
  uint32_t peers = 16;
  // ns; tcp ≥ tcp_transitory.
  int64_t udp = 0, tcp = 0, tcp_transitory = 0, icmp = 0;
  bool inbound_refreshes = false;
  bool is_paired = true;

  int64_t hop = 0;                 // RunOptions::hop_delay
  bool has_one_unit = false;       // so no port lies idle elsewhere
  bool has_prefix = false;         // RunOptions::inside is 10.0.0.0/8
  bool has_ports_for_all = false;  // whatever units keep unused
  bool has_room_for_all = false;   // in channels and tables
  bool has_buffers_for_all = false;
};

// Theory of operation. A NAT as one table, without units, and shared with
// nothing of SNF's: from what was offered and what became of it, it knows which
// mappings there are, and says what is wrong. Packets from 10.0.0.0/8 are from
// the inside. Where the flow of an endpoint has another name than before, the
// platform has forgotten the flow, and the mapping with it: it must when the
// mapping has been silent for its time, and must not before.
//
// Where timing decides what is right (what one hop does to what a unit knows;
// the ticks in which peers age) it takes both.
//
// Usage: Offer for all in order of arrival; Judge for all in order of `done`
// and `fate`; JudgeGenerated for what the NAT made itself; Finish.
class NatModel {
 public:
  explicit NatModel(const NatModelOptions& options) : options_(options) {}

  void Offer(const Delivery& packet);
  void Judge(const Delivery& packet);
  void JudgeGenerated(const Frame& frame);
  void Finish();

  // What was wrong, if anything; and what was seen.
  const std::vector<std::string>& faults() const { return faults_; }
  const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  // Whom the inside has sent to, and a TCP connection with it.
  struct Peer {
    int64_t sent = 0;
    bool inside = false, outside = false;
    bool inside_fin = false, outside_fin = false;
    bool reset = false;
    bool is_established() const {
      return inside && outside && !reset && !(inside_fin && outside_fin);
    }
    void Follow(const ModelPacket& packet, bool from_inside);
  };
  struct Mapping {
    ModelEnd external;
    int64_t made = 0;       // the latest moment when it can have been
    int64_t announced = 0;  // at the controller
    int64_t refreshed = 0;
    std::map<ModelEnd, Peer> peers;
    ModelEnd last_peer;  // of those sent to
    // There were more than the NAT remembers.
    bool forgot_peers = false;
  };
  // A flow of the platform, which is an inside endpoint for a while.
  struct Life {
    ModelEnd endpoint;
    std::optional<Mapping> mapping;
    std::set<ModelEnd> externals;  // all that it had
    uint32_t mappings = 0;         // it ever had
    int64_t last_arrival = 0;
    int64_t last_done = 0;
    std::optional<int64_t> over;  // no later than then
    uint64_t last_order = 0;
    uint64_t last_fate = 0;
    std::optional<int64_t> refused;  // when the inside was last told
  };
  // A mapping as it was.
  struct Past {
    ModelEnd endpoint;
    int64_t from;
    int64_t until;  // the latest end
  };
  // At that time there were that many mappings of a host, or of all hosts with
  // a protocol.
  struct Claim {
    std::string what;
    int64_t time;
    size_t mappings;
    uint32_t host = 0;     // 0: all
    uint8_t protocol = 0;  // 0: all
  };
  using Fates = std::vector<std::string_view>;  // "" for released

  void Fault(const Delivery& packet, const std::string& what);
  void Expect(const Delivery& packet, const Fates& fates);
  void ExpectFrame(const Delivery& packet, const Frame& expected);
  std::string Where(const Delivery& packet) const;
  bool IsForWantOfRoom(std::string_view drop) const;

  Life& Enter(const Delivery& packet, const ModelEnd& endpoint);
  void Succeed(const Delivery& packet, Life& before);
  void Note(const Delivery& packet, Life& life);
  void Touch(const Delivery& packet, const std::map<ModelEnd, FlowId>& flows,
             const ModelEnd& end);
  void JudgeOutbound(const Delivery& packet);
  void MustComeBack(const Delivery& packet);
  void JudgeUnsent(const Delivery& packet, Life& life);
  void JudgeUnplaced(const Delivery& packet);
  void JudgeInbound(const Delivery& packet);
  Fates InboundFates(const Delivery& packet, const Life& life) const;
  void Map(const Delivery& packet, Life& life, const ModelEnd& external);
  void CheckPort(const Delivery& packet, const Life& life,
                 const ModelEnd& external);
  void CheckHolder(const Delivery& packet, const Life& life,
                   const Mapping& mapping);
  void CheckHostPorts(const Delivery& packet, const Life& life);
  void Unmap(Life& life, int64_t until);
  void Sent(const Delivery& packet, Mapping& mapping) const;
  void Received(const Delivery& packet, Mapping& mapping) const;
  void MayRefuse(const Delivery& packet, Life& life);

  bool MayMap() const;
  static ModelEnd PeerOf(ModelEnd end);
  int64_t MinTimeout(const Mapping& mapping, int64_t now) const;
  int64_t MaxTimeout(const Mapping& mapping) const;
  // Must still be there.
  bool IsSure(const Life& life, int64_t now) const;
  enum class Admits : uint8_t { kNo, kPerhaps, kYes };
  Admits IsKnown(const Mapping& mapping, const ModelEnd& end,
                 const Peer& peer) const;
  Admits AdmitsPeer(const Mapping& mapping, ModelEnd peer, bool any_port,
                    int64_t now) const;
  bool IsExternal(uint32_t address) const;

  NatModelOptions options_;
  ModelPacket in_;  // of the packet that is judged
  std::map<FlowId, Life> lives_;
  std::map<ModelEnd, FlowId> newest_;   // by inside endpoint
  std::map<ModelEnd, FlowId> holders_;  // by external endpoint
  std::map<ModelEnd, std::pair<ModelEnd, UnitId>> last_holders_;
  std::map<uint32_t, uint32_t> addresses_;           // of hosts
  std::map<uint32_t, ModelPacket> first_fragments_;  // by IP id
  std::set<uint32_t> early_;  // numbers of fragments before their first
  std::map<uint32_t, Frame> refusals_due_;  // by number: what was refused
  std::set<uint32_t> due_back_;             // numbers
  std::vector<Past> pasts_;
  std::vector<Claim> claims_;
  std::vector<std::string> faults_;
  std::map<std::string, uint64_t> counts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_MODEL_H_
