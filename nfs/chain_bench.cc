// SPDX-License-Identifier: Apache-2.0
//
// What NFs and a chain of them cost a packet inside a unit, and what the same
// three NFs cost that are written by hand into one loop, each with a hash table
// of its own: the floor (performance.md, rows 2 and 5). Of both this is
// measured: a packet is copied into a buffer and parsed, 32 at a time; then it
// is looked up, processed and, by a NAT, rewritten. Each of `flows` inside
// endpoints has one connection, half of them TCP; packets come in random order,
// as many from the inside as from the outside. Compare within one run:
//   nfs_bench --benchmark_filter='InUnit|Tables|OnlyParse'
//       --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/endpoint.h"
#include "base/headers.h"
#include "base/lazy_array.h"
#include "base/rewrite.h"
#include "base/rng.h"
#include "benchmark/benchmark.h"
#include "nfs/test_nat.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

constexpr size_t kBatch = 32;
constexpr size_t kMaxBytes = 64;
constexpr Nanos kGap{100};  // between packets

struct BenchPacket {
  std::array<std::byte, kMaxBytes> bytes;
  IpAddress far_address;
  be16 far_port;
  uint16_t length = 0;
  uint32_t flow = 0;
  uint32_t number = 0;  // among those of its flow, from 0 on
  Side side{};
};

// Buffers with a batch of packets.
class Buffers {
 public:
  Buffers() {
    for (PacketHandle& handle : handles_) handle = pool_.Allocate(kMaxBytes);
  }
  PacketHandle operator[](size_t i) const { return handles_[i]; }
  BufferPool& pool() { return pool_; }
  PacketInfo& info(size_t i) { return pool_.info(handles_[i]); }
  std::span<std::byte> bytes(size_t i) { return pool_.bytes(handles_[i]); }

  // What ingest does to a packet, but for finding its flow.
  void Put(size_t i, const BenchPacket& packet, Instant now) {
    PacketInfo& info = pool_.info(handles_[i]);
    info = {.arrival = now,
            .length = packet.length,
            .original_length = packet.length,
            .headers = {},
            .link = LinkType::kRawIp,
            .side = packet.side,
            .far_port = packet.far_port,
            .far_address = packet.far_address};
    const std::span<std::byte> room = pool_.room(handles_[i]);
    std::memcpy(room.data(), packet.bytes.data(), kMaxBytes);
    info.headers = Parse(info.link, room.first(packet.length));
  }

 private:
  BufferPool pool_{{.small = kBatch, .medium = 0, .large = 0}};
  std::array<PacketHandle, kBatch> handles_;
};

// What is measured: runs the packets in the first buffers.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void Run(Buffers& buffers, std::span<const PacketMeta> metas) = 0;
};

// A packet each way of all flows, again and again in the same order. The
// runner has had two of each flow, and said what becomes of its ends, when this
// is made.
class Traffic {
 public:
  Traffic(size_t flows, Runner& runner) : runner_(runner) {
    Rng rng(1);
    for (uint32_t i = 0; i < flows; ++i) {
      const uint8_t protocol = i % 2 == 0 ? 6 : 17;
      const TestEnd inside = {
          IpAddress::FromIpv4(be32(0x0a00'0001 + i / 8)),
          static_cast<uint16_t>(20'000 + rng.Below(40'000))};
      const TestEnd far = {
          IpAddress::FromIpv4(
              be32(0xc612'0000 + static_cast<uint32_t>(rng.Below(1'000)))),
          static_cast<uint16_t>(protocol == 6 ? 443 : 53)};
      Add(i, Side::kInside, Between(protocol, inside, far), far);
      constexpr uint8_t kSyn = 2;
      BenchPacket first = packets_.back();
      Fill(first, Between(protocol, inside, far, kSyn));
      Begin(first);
      const Frame sent(buffers_.bytes(0).begin(), buffers_.bytes(0).end());
      Add(i, Side::kOutside, Between(protocol, far, SourceOf(sent)), far);
      packets_.back().number = 1;
      Begin(packets_.back());
    }
    rng.Shuffle(std::span(packets_));
    std::vector<bool> has_one(flows);
    for (BenchPacket& packet : packets_) {
      packet.number = has_one[packet.flow] ? 1 : 0;
      has_one[packet.flow] = true;
    }
  }

  void Measure(benchmark::State& state) {
    std::array<PacketMeta, kBatch> metas;
    while (state.KeepRunningBatch(kBatch)) {
      now_ = now_ + Nanos{kGap.ns * kBatch};
      for (size_t i = 0; i < kBatch; ++i) {
        const BenchPacket& packet = packets_[next_++];
        buffers_.Put(i, packet, now_);
        metas[i] = MetaOf(packet, round_);
        if (next_ == packets_.size()) {
          next_ = 0;
          ++round_;
        }
      }
      runner_.Run(buffers_, metas);
      benchmark::ClobberMemory();
    }
  }

 private:
  static void Fill(BenchPacket& packet, const Frame& frame) {
    SNF_CHECK(frame.size() <= kMaxBytes);
    packet.length = static_cast<uint16_t>(frame.size());
    std::memcpy(packet.bytes.data(), frame.data(), frame.size());
  }
  void Add(uint32_t flow, Side side, const Frame& frame, const TestEnd& far) {
    BenchPacket& packet = packets_.emplace_back();
    packet.flow = flow;
    packet.side = side;
    packet.far_address = far.address;
    packet.far_port = be16(far.port);
    Fill(packet, frame);
  }
  void Begin(const BenchPacket& packet) {
    now_ = now_ + kGap;
    buffers_.Put(0, packet, now_);
    const PacketMeta meta = MetaOf(packet, 0);
    runner_.Run(buffers_, {&meta, 1});
  }
  PacketMeta MetaOf(const BenchPacket& packet, uint64_t round) const {
    PacketMeta meta;
    meta.flow = MakeFlowId(0, packet.flow, 1);
    meta.clock = Clock{2 * round + packet.number + 1};
    meta.arrival = now_;
    meta.original_length = packet.length;
    return meta;
  }

  Runner& runner_;
  Buffers buffers_;
  std::vector<BenchPacket> packets_;
  size_t next_ = 0;
  uint64_t round_ = 1;
  Instant now_;
};

// The runner that `make` makes of a number of flows, kept for repetitions.
template <typename Make>
void MeasureKept(benchmark::State& state, const std::string& name, Make make) {
  struct Kept {
    std::unique_ptr<Runner> runner;
    std::unique_ptr<Traffic> traffic;
  };
  static std::map<std::pair<std::string, int64_t>, Kept> all;
  const auto flows = static_cast<uint32_t>(state.range(0));
  Kept& kept = all[{name, state.range(0)}];
  if (kept.runner == nullptr) {
    kept.runner = make(flows);
    kept.traffic = std::make_unique<Traffic>(flows, *kept.runner);
  }
  kept.traffic->Measure(state);
}

// --- Units ------------------------------------------------------------------

class InUnit final : public Runner {
 public:
  InUnit(const std::string& spec, uint32_t flows)
      : nf_(NfSpec::Parse(spec)->create()),
        unit_(UnitId{0},
              {.max_flows = flows,
               .queue_packets = 2 * kBatch,
               .packets_elsewhere = 0},
              nf_->schema(), nf_->pools()),
        words_(nf_->pools().size()) {}

  void Run(Buffers& buffers, std::span<const PacketMeta> metas) override {
    const Unit::Environment env = {*nf_, buffers.pool()};
    const Instant now = metas[0].arrival;
    for (size_t i = 0; i < metas.size(); ++i) {
      unit_.on_packet(buffers[i], metas[i]);
    }
    while (unit_.begin(now, out_) == Unit::Next::kService) {
      unit_.finish(now, env, out_);
      const auto commands = out_.commands();
      if (commands.size() == 1 && commands[0].kind == Kind::kRelease) {
        out_.clear();
      } else {
        Execute(now, env);
      }
    }
  }

 private:
  using Kind = UnitCommand::Kind;

  // Of a flow's first packet: the controller grants all.
  void Execute(Instant now, Unit::Environment env) {
    const std::vector<UnitCommand> commands(out_.commands().begin(),
                                            out_.commands().end());
    out_.clear();
    for (const UnitCommand& command : commands) {
      if (command.kind == Kind::kSendAlias) {
        const Alias alias = unit_.alias(command.meta.flow);
        unit_.on_alias_ack(now, {.flow = alias.flow, .clock = alias.clock}, env,
                           out_);
      } else if (command.kind == Kind::kRequestPieces) {
        const uint16_t index = command.request.pool;
        const NetworkFunction::Pool& pool = nf_->pools()[index];
        uint32_t& word = words_[index];
        word = std::max(word, pool.first / 64);
        const bool is_empty = word == pool.words();
        unit_.on_pieces(now,
                        {.word = is_empty ? 0 : word,
                         .pool = index,
                         .mask = is_empty ? 0 : ~uint64_t{0}},
                        out_);
        word += is_empty ? 0 : 1;
      } else {
        SNF_CHECK(command.kind == Kind::kRelease ||
                  command.kind == Kind::kSendNote ||
                  command.kind == Kind::kWait);
      }
    }
    if (!out_.empty()) Execute(now, env);
  }

  std::unique_ptr<NetworkFunction> nf_;
  Unit unit_;
  UnitOut out_;
  std::vector<uint32_t> words_;  // of each pool, the next to grant
};

std::string Firewall() {
  std::string rules;
  for (int i = 0; i < 19; ++i) {
    rules += "tcp from 172.16." + std::to_string(i) + ".0/24 to any port " +
             std::to_string(1'000 + i) + ";";
  }
  return "firewall(default=deny,deny=" + rules + ",allow=any from 10.0.0.0/8)";
}
const std::string kNat = "nat(ip=192.0.2.1-192.0.2.8)";

void BM_InUnit(benchmark::State& state, const std::string& spec) {
  MeasureKept(state, spec, [&](uint32_t flows) {
    return std::make_unique<InUnit>(spec, flows);
  });
}
BENCHMARK_CAPTURE(BM_InUnit, passthrough, "passthrough")->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, firewall, Firewall())->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, monitor, "monitor")->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, policer, "policer(rate=1Gbps)")->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, udp_whitelister, "udp_whitelister")->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, nat, kNat)->Arg(10'000);
BENCHMARK_CAPTURE(BM_InUnit, chain, Firewall() + " | monitor | " + kNat)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(200'000);

// --- The floor --------------------------------------------------------------

// Open addressing, at most half full, an entry in a cache line.
template <typename Value>
class Table {
 public:
  explicit Table(size_t max) : entries_(std::bit_ceil(2 * max)) {}

  void Prefetch(uint64_t hash) const {
    __builtin_prefetch(&entries_[hash & (entries_.size() - 1)], 1);
  }
  Value& operator()(const FlowKey& key, uint64_t hash) {
    size_t at = hash & (entries_.size() - 1);
    while (!(entries_[at].key == key)) {
      if (entries_[at].key.form == FlowKeyForm::kNone) {
        entries_[at].key = key;
        break;
      }
      at = (at + 1) & (entries_.size() - 1);
    }
    return entries_[at].value;
  }

 private:
  struct Entry {
    FlowKey key;
    Value value;
  };
  static_assert(sizeof(Entry) == 64);
  LazyArray<Entry> entries_;
};

class Tables final : public Runner {
 public:
  Tables(size_t flows, bool with_hosts)
      : firewall_(flows),
        monitor_(flows),
        nat_(2 * flows),
        hosts_(flows + 1'000),
        with_hosts_(with_hosts) {}

  void Run(Buffers& buffers, std::span<const PacketMeta> metas) override {
    const size_t count = metas.size();
    for (size_t i = 0; i < count; ++i) {
      Pending& pending = pending_[i];
      pending.end = EndOf(buffers.bytes(i), buffers.info(i));
      pending.end_hash = Hash(pending.end, 0);
      nat_.Prefetch(pending.end_hash);
      // From the outside it is known once it is translated.
      if (buffers.info(i).side == Side::kInside) Look(buffers, i);
    }
    for (size_t i = 0; i < count; ++i) {
      Translate(buffers.bytes(i), buffers.info(i), pending_[i]);
      if (buffers.info(i).side == Side::kOutside) Look(buffers, i);
    }
    for (size_t i = 0; i < count; ++i) Count(buffers.info(i), pending_[i]);
  }

 private:
  struct Connection {
    uint64_t state;  // 1: open
    int64_t last_ns;
    uint64_t zero;
  };
  struct Use {
    uint64_t packets;
    uint64_t bytes;
    int64_t last_ns;
  };
  struct Mapping {
    be32 address;
    be16 port;
    uint16_t is_known;
    int64_t last_ns;
    uint64_t zero;
  };
  struct Pending {
    FlowKey end;
    uint64_t end_hash;
    FlowKey connection;
    uint64_t hash;
    std::array<FlowKey, 2> hosts;
    std::array<uint64_t, 2> host_hashes;
  };

  static FlowKey EndOf(std::span<const std::byte> frame,
                       const PacketInfo& info) {
    const ParsedPacket& headers = info.headers;
    const bool source = info.side == Side::kInside;
    const auto ip = Ipv4Header<const std::byte>::At(frame, headers.l3_offset);
    const auto ports = PortsView<const std::byte>::At(frame, headers.l4_offset);
    return EndpointKey(
        IpAddress::FromIpv4(source ? ip.source() : ip.destination()),
        source ? ports.source_port() : ports.destination_port(),
        headers.l4_protocol, FlowKeyForm::kIpv4Endpoint);
  }

  // Between the ends inside and outside.
  void Look(Buffers& buffers, size_t i) {
    Pending& pending = pending_[i];
    ConnectionKey(buffers.bytes(i), buffers.info(i).headers, false,
                  pending.connection);
    pending.hash = Hash(pending.connection, 0);
    firewall_.Prefetch(pending.hash);
    monitor_.Prefetch(pending.hash);
    if (!with_hosts_) return;
    const std::array<IpAddress, 2> hosts = {pending.connection.source,
                                            pending.connection.destination};
    for (size_t h = 0; h < 2; ++h) {
      pending.hosts[h] =
          EndpointKey(hosts[h], be16(0), {}, FlowKeyForm::kIpv4Endpoint);
      pending.host_hashes[h] = Hash(pending.hosts[h], 0);
      hosts_.Prefetch(pending.host_hashes[h]);
    }
  }

  void Translate(std::span<std::byte> frame, const PacketInfo& info,
                 const Pending& pending) {
    Mapping& mapping = nat_(pending.end, pending.end_hash);
    const bool out = info.side == Side::kInside;
    if (mapping.is_known == 0) [[unlikely]] {
      mapping = Add(pending.end, out);
    }
    mapping.last_ns = info.arrival.ns;
    (out ? RewriteSource : RewriteDestination)(frame, info.headers,
                                               mapping.address, mapping.port);
  }
  Mapping Add(const FlowKey& inside, bool out) {
    SNF_CHECK(out);
    const uint32_t number = mappings_++;
    const auto port = be16(static_cast<uint16_t>(1'024 + number % 60'000));
    const be32 address(0xc000'0201 + number / 60'000);
    const FlowKey external =
        EndpointKey(IpAddress::FromIpv4(address), port, inside.protocol,
                    FlowKeyForm::kIpv4Endpoint);
    nat_(external, Hash(external, 0)) = {inside.source.ipv4(),
                                         inside.source_port, 1, 0, 0};
    return {address, port, 1, 0, 0};
  }

  void Count(const PacketInfo& info, const Pending& pending) {
    Connection& connection = firewall_(pending.connection, pending.hash);
    if (connection.state == 0) {
      SNF_CHECK(info.side == Side::kInside);
      connection.state = 1;
    }
    connection.last_ns = info.arrival.ns;
    Add(monitor_(pending.connection, pending.hash), info);
    if (!with_hosts_) return;
    for (size_t h = 0; h < 2; ++h) {
      Add(hosts_(pending.hosts[h], pending.host_hashes[h]), info);
    }
  }
  static void Add(Use& use, const PacketInfo& info) {
    ++use.packets;
    use.bytes += info.original_length;
    use.last_ns = info.arrival.ns;
  }

  Table<Connection> firewall_;
  Table<Use> monitor_;
  Table<Mapping> nat_;
  Table<Use> hosts_;
  bool with_hosts_;
  uint32_t mappings_ = 0;
  std::array<Pending, kBatch> pending_;
};

void BM_Tables(benchmark::State& state, bool with_hosts) {
  MeasureKept(state, with_hosts ? "four" : "three", [&](uint32_t flows) {
    return std::make_unique<Tables>(flows, with_hosts);
  });
}
// A connection of the firewall, a flow of the monitor, a mapping of the NAT.
BENCHMARK_CAPTURE(BM_Tables, three, false)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(200'000);
// With the monitor's hosts too.
BENCHMARK_CAPTURE(BM_Tables, four, true)->Arg(1'000)->Arg(10'000)->Arg(200'000);

class Nothing final : public Runner {
  void Run(Buffers&, std::span<const PacketMeta>) override {}
};
void BM_OnlyParse(benchmark::State& state) {
  MeasureKept(state, "nothing",
              [](uint32_t) { return std::make_unique<Nothing>(); });
}
BENCHMARK(BM_OnlyParse)->Arg(1'000)->Arg(10'000)->Arg(200'000);

}  // namespace
}  // namespace snf
