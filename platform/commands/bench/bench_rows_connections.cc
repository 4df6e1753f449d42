// SPDX-License-Identifier: Apache-2.0
//
// Row 21: connections that the load balancer sets up and tears down while its
// flow table is full, against one written by hand around a hash table.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/packet_parser.h"
#include "base/packet/rewrite.h"
#include "controller/core/placement.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/commands/bench/fixture_driven_chain.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/run/observers.h"
#include "runtime/core/fixture_traffic.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;
using Tcp = TcpHeader<std::byte>;

constexpr uint32_t kServers = 10;
constexpr char kLb[] =
    "lb(virtual=192.0.2.10:80,protocol=tcp,servers=172.16.0.1:8080+"
    "172.16.0.2:8080+172.16.0.3:8080+172.16.0.4:8080+172.16.0.5:8080+"
    "172.16.0.6:8080+172.16.0.7:8080+172.16.0.8:8080+172.16.0.9:8080+"
    "172.16.0.10:8080)";
const MadeEnd kVirtual = {be32(0xc000'020a), be16(80)};

MadeEnd Server(uint32_t number) {
  return {be32(0xac10'0001 + number), be16(8'080)};
}
MadeEnd Client(uint32_t number) {
  return MadeConnection::Number(number).inside;
}

// The packets of connections, 64 of which go on at a time: three that open it,
// three that close it. A connection stays with the server of its SYN.
class ConnectionPackets {
 public:
  static constexpr uint32_t kPackets = 6;
  static constexpr uint32_t kAtATime = 64;

  explicit ConnectionPackets(uint32_t connections)
      : servers_(connections), numbers_(connections) {
    for (uint32_t i = 0; i < connections; ++i) {
      numbers_.emplace(KeyOf(Client(i)), i);
    }
  }

  uint32_t connections() const {
    return static_cast<uint32_t>(servers_.size());
  }
  MadeFrame Syn(uint32_t number) const { return FromClient(number, Tcp::kSyn); }
  // Notes the server to which a SYN went.
  void Learn(std::span<const std::byte> frame) {
    const auto ip = Ipv4Header<const std::byte>::At(frame, 14);
    const auto ports = PortsView<const std::byte>::At(frame, 34);
    const auto client =
        numbers_.find(KeyOf({ip.source(), ports.source_port()}));
    if (client == numbers_.end()) return;
    servers_[client->second] = ip.destination().host() - 0xac10'0001;
  }
  // All packets, in their order.
  std::vector<MadeFrame> Make() const {
    std::vector<MadeFrame> frames;
    frames.reserve(size_t{kPackets} * connections());
    for (uint32_t i = 0; i < connections(); i += kAtATime) {
      const uint32_t end = std::min(i + kAtATime, connections());
      for (uint32_t k = 0; k < kPackets; ++k) {
        for (uint32_t n = i; n < end; ++n) frames.push_back(Packet(n, k));
      }
    }
    return frames;
  }

 private:
  static uint64_t KeyOf(const MadeEnd& end) {
    return uint64_t{end.address.host()} << 16 | end.port.host();
  }
  static MadeFrame FromClient(uint32_t number, uint8_t flags) {
    return MakeFrame(IpProtocol::kTcp, Client(number), kVirtual, flags);
  }
  MadeFrame Packet(uint32_t number, uint32_t k) const {
    const bool opens = k < kPackets / 2;
    if (k % 3 == 1) {  // the server's
      return MakeFrame(
          IpProtocol::kTcp, Server(servers_[number]), Client(number),
          static_cast<uint8_t>((opens ? Tcp::kSyn : Tcp::kFin) | Tcp::kAck));
    }
    if (k == 0) return Syn(number);
    const bool is_fin = k == kPackets / 2;
    return FromClient(
        number, static_cast<uint8_t>(Tcp::kAck | (is_fin ? Tcp::kFin : 0)));
  }

  std::vector<uint32_t> servers_;  // by connection
  absl::flat_hash_map<uint64_t, uint32_t> numbers_;
};

// Offers made frames to a driver with the load balancer.
class LbDriver {
 public:
  static absl::StatusOr<LbDriver> Start(uint32_t max_flows,
                                        Observers observers) {
    auto nf = NfSpec::Parse(kLb);
    SNF_CHECK(nf.ok());
    RunOptions run;
    run.controller.max_flows = max_flows;
    run.controller.evict_after = Milliseconds(1);
    run.controller.first_demand_bps = 500'000'000 / max_flows;
    run.inside = *ParsePrefixes("10.0.0.0/8");
    run.check = false;
    auto driver = RealDriver::Start(
        run,
        {.speed = {.kind = Speed::Kind::kMax, .value = 0},
         .threads = 1,
         .buffers = {.small = 4'096, .medium = 4, .large = 1},
         .unpaced = true,
         .wait_for_room = true},
        *FindPlacementPolicy("snf"), *nf, std::move(observers));
    if (!driver.ok()) return driver.status();
    return LbDriver(*std::move(driver));
  }
  void Offer(const MadeFrame& frame) {
    driver_->Offer({.time = Instant{1'000'000'000},
                    .bytes = std::span(frame).first(kMadeBytes),
                    .original_bytes = kMadeBytes});
  }
  RunResult Finish() { return driver_->Finish(); }

 private:
  explicit LbDriver(std::unique_ptr<RealDriver> driver)
      : driver_(std::move(driver)) {}
  std::unique_ptr<RealDriver> driver_;
};

// Servers depend on nothing but the ends, so a run of SYNs tells them.
absl::Status LearnServers(ConnectionPackets& packets) {
  class Learner final : public RunObserver {
   public:
    explicit Learner(ConnectionPackets& packets) : packets_(packets) {}
    void on_release(const ReleasedPacket& packet) override {
      packets_.Learn(packet.bytes);
    }

   private:
    ConnectionPackets& packets_;
  };
  Learner learner(packets);
  auto driver = LbDriver::Start(2 * packets.connections(), {&learner});
  if (!driver.ok()) return driver.status();
  for (uint32_t i = 0; i < packets.connections(); ++i) {
    driver->Offer(packets.Syn(i));
  }
  return DrivenChain::Check(driver->Finish());
}

// The whole path, with room for half of the connections.
class ChurnedLb {
 public:
  ChurnedLb(const ConnectionPackets& packets, LbDriver driver)
      : room_(packets.connections() / 2),
        frames_(packets.Make()),
        driver_(std::move(driver)) {
    Run(packets.connections());  // fills the table
  }

  // Returns how many connections were set up and torn down.
  uint64_t Run(uint64_t connections) {
    uint64_t done = 0;
    for (; done < connections; done += ConnectionPackets::kAtATime) {
      for (uint32_t i = 0; i < kGroup; ++i) {
        driver_.Offer(frames_[next_]);
        next_ = next_ + 1 == frames_.size() ? 0 : next_ + 1;
      }
    }
    begun_ += done;
    return done;
  }
  // Returns an error unless packets left and flows beyond the room made way for
  // others. Of kDropped packets, one may be dropped for want of an idle flow.
  absl::Status Finish() {
    const RunResult result = driver_.Finish();
    const uint64_t full =
        result.dropped[static_cast<size_t>(DropReason::kFlowTableFull)];
    if (full == 0 || full != result.packets_dropped() ||
        full > result.packets_in / kDropped) {
      const absl::Status status = DrivenChain::Check(result);
      if (!status.ok()) return status;
    }
    if (result.controller.flows_evicted + room_ + full >= begun_) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        fmt::format("{} connections began, but {} flows made way for others",
                    begun_, result.controller.flows_evicted));
  }

 private:
  static constexpr uint64_t kDropped = 1'000;
  static constexpr uint32_t kGroup =
      ConnectionPackets::kPackets * ConnectionPackets::kAtATime;

  const uint64_t room_;
  std::vector<MadeFrame> frames_;
  size_t next_ = 0;
  uint64_t begun_ = 0;
  LbDriver driver_;
};

// Packets are copied, parsed, looked up by the connection's ends as its client
// sees them, 32 at a time, and rewritten. A SYN takes the place of the oldest
// connection.
class HashMapConnections {
 public:
  explicit HashMapConnections(uint32_t connections) : oldest_(connections / 2) {
    ConnectionPackets made(connections);
    for (uint32_t i = 0; i < connections; ++i) {
      MadeFrame syn = made.Syn(i);
      const std::span<std::byte> bytes = std::span(syn).first(kMadeBytes);
      const ParsedPacket headers = Parse(LinkType::kEthernet, bytes);
      const MadeEnd server = ServerOf(FiveTuple(bytes, headers, false));
      RewriteDestination(bytes, headers, server.address, server.port);
      made.Learn(bytes);
    }
    for (const MadeFrame& frame : made.Make()) {
      packets_.emplace_back().bytes = frame;
    }
    servers_.reserve(connections);
    Run(connections);
  }

  uint64_t Run(uint64_t connections) {
    const uint64_t packets = connections * ConnectionPackets::kPackets;
    for (uint64_t i = 0; i < packets; i += buffers_.size()) RunBatch();
    return connections;
  }

 private:
  struct Connection {
    MadeEnd server;
    uint8_t flags = 0;  // seen so far
  };

  static MadeEnd ServerOf(const FlowKey& key) {
    return Server(static_cast<uint32_t>(Hash(key) % kServers));
  }
  void RunBatch() {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      buffers_.Put(i, packets_[next_], {});
      next_ = next_ + 1 == packets_.size() ? 0 : next_ + 1;
      const ParsedPacket& headers = buffers_.info(i).headers;
      FlowKey& key = keys_[i] = FiveTuple(buffers_.bytes(i), headers, false);
      is_answer_[i] = key.source_port == be16(8'080);
      if (is_answer_[i]) {
        key.source = key.destination;
        key.source_port = key.destination_port;
        key.destination = IpAddress::FromIpv4(kVirtual.address);
        key.destination_port = kVirtual.port;
      }
      servers_.prefetch(key);
    }
    for (size_t i = 0; i < buffers_.size(); ++i) Forward(i);
  }
  void Forward(size_t i) {
    const std::span<std::byte> bytes = buffers_.bytes(i);
    const ParsedPacket& headers = buffers_.info(i).headers;
    const uint8_t flags = Tcp::At(bytes, headers.l4_offset).flags();
    const auto [at, is_new] = servers_.try_emplace(keys_[i]);
    Connection& connection = at->second;
    if (is_new) {
      connection.server = ServerOf(keys_[i]);
      FlowKey& place = oldest_[begun_++ % oldest_.size()];
      const FlowKey gone = std::exchange(place, keys_[i]);
      connection.flags |= flags;
      if (begun_ > oldest_.size()) servers_.erase(gone);
    } else {
      connection.flags |= flags;
    }
    if (is_answer_[i]) {
      RewriteSource(bytes, headers, kVirtual.address, kVirtual.port);
    } else {
      const MadeEnd server = ServerOf(keys_[i]);
      RewriteDestination(bytes, headers, server.address, server.port);
    }
  }

  BatchBuffers buffers_;
  std::array<FlowKey, BatchBuffers::kBatch> keys_{};
  std::array<bool, BatchBuffers::kBatch> is_answer_{};
  std::vector<MadePacket> packets_;
  size_t next_ = 0;
  std::vector<FlowKey> oldest_;  // a ring, by the order of their SYNs
  uint64_t begun_ = 0;
  absl::flat_hash_map<FlowKey, Connection, FlowKeyHash> servers_;
};

}  // namespace

void AddConnectionsRow(const BenchSizes& sizes, BenchSuite& suite,
                       std::vector<BenchRow>& rows) {
  // Turns of the table are long, beside the time for which flows are kept.
  const uint32_t connections = std::max(sizes.many_flows, 65'536u) / 64 * 64;
  const auto ours = [connections]() -> absl::StatusOr<BenchCase> {
    ConnectionPackets packets(connections);
    if (const auto status = LearnServers(packets); !status.ok()) return status;
    auto driver = LbDriver::Start(connections / 2, {});
    if (!driver.ok()) return driver.status();
    const auto lb = std::make_shared<ChurnedLb>(packets, *std::move(driver));
    return BenchCase{.sample =
                         [lb](uint64_t operations) {
                           return CpuNsOf(operations / 4, [&](uint64_t n) {
                             return lb->Run(n);
                           });
                         },
                     .check = [lb] { return lb->Finish(); }};
  };
  const auto base = [connections]() -> absl::StatusOr<BenchCase> {
    auto floor = std::make_shared<HashMapConnections>(connections);
    return BenchCase{.sample = [floor](uint64_t operations) {
      return CpuNsOf(operations / 4, [&](uint64_t n) { return floor->Run(n); });
    }};
  };
  rows.push_back(
      {.number = 21,
       .what = "lb sets connections up and tears them down, table full",
       .variant = fmt::format("{} K flows", connections / 2'000),
       .of = BenchRow::Of::kInverseRatio,
       .must = {{.limit = 0.2, .is_least = true}},
       .aim = {{.limit = 0.4, .is_least = true}},
       .ours = {{"the whole path with lb", suite.Add("churned lb", ours)}},
       .base = {{"one table, by hand",
                 suite.Add("hash-map connections", base)}},
       .notes = {"A connection is six packets."}});
}

}  // namespace snf
