// SPDX-License-Identifier: Apache-2.0
//
// Real captures through the NF "nat", on units so small that flows move. Each
// packet that comes out is held against the one that went in: nothing but what
// a translator may change is changed, and what an inside end is called outside
// is one thing for as long as its mapping must live.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/flow_key_text.h"
#include "base/packet/headers.h"
#include "platform/system_test/test_captures.h"
#include "platform/system_test/test_run.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr size_t kNone = ~size_t{0};
const IpAddress kExternal = V4(100, 127, 255, 254);  // in none of them

struct Fields {
  std::vector<size_t> ends;       // of two bytes each
  std::vector<size_t> checksums;  // likewise
};

// Where in a frame stand the source (or the destination) and the checksums of
// an IP packet.
void AddFields(const Frame& frame, const ParsedPacket& ip, bool source,
               Fields& fields) {
  const size_t l3 = ip.l3_offset, l4 = ip.l4_offset;
  const size_t address = l3 + (source ? 12 : 16);
  fields.ends.insert(fields.ends.end(), {address, address + 2});
  fields.checksums.push_back(l3 + 10);
  if (ip.fragment == Fragment::kLater) return;
  if (ip.l4_protocol == IpProtocol::kIcmp) {
    fields.checksums.push_back(l4 + 2);
    const auto icmp = IcmpHeader<const std::byte>::At(
        std::span(frame).subspan(l4), 0, ip.l4_protocol);
    if (icmp && icmp.is_query()) fields.ends.push_back(l4 + 4);
    return;
  }
  fields.ends.push_back(l4 + (source ? 0 : 2));
  fields.checksums.push_back(l4 +
                             (ip.l4_protocol == IpProtocol::kTcp ? 16 : 6));
}

uint16_t At(const Frame& frame, size_t offset) {
  if (offset + 2 > frame.size()) return 0;
  return static_cast<uint16_t>(std::to_integer<unsigned>(frame[offset]) << 8 |
                               std::to_integer<unsigned>(frame[offset + 1]));
}

struct Offered {
  OfferedFrame packet;
  FlowKey inside;  // as the platform says
  std::string_view fate;
};

// Sees what becomes of each packet.
class Watch final : public RunObserver {
 public:
  explicit Watch(std::vector<Offered>& offered) : offered_(offered) {}

  void Next(size_t packet) { current_ = packet; }
  void on_arrival(Instant, const FlowKey& inside, uint32_t) override {
    offered_[current_].inside = inside;
  }
  void on_enqueue(Instant, UnitId, const PacketMeta& meta) override {
    if (meta.has_payload()) by_clock_[{meta.flow, meta.clock}] = current_;
  }
  void on_drop(const ReleasedPacket& dropped,
               std::string_view reason) override {
    const PacketRoute& route = dropped.route;
    const size_t packet = route.flow == kNoFlow
                              ? current_
                              : Take(route.flow, route.clock, "dropped");
    if (packet != kNone) End(packet, reason);
  }
  void on_release(const ReleasedPacket& packet) override {
    const PacketRoute& route = packet.route;
    const size_t from =
        route.has_clock() ? Take(route.flow, route.clock, "released") : kNone;
    const Frame bytes(packet.bytes.begin(), packet.bytes.end());
    if (from == kNone) {
      End(current_, "passed_through");
      EXPECT_EQ(bytes, offered_[current_].packet.bytes);
      return;
    }
    End(from, "released");
    Compare(packet.time, offered_[from], bytes);
  }

  bool found_fault() const { return faults_ > 0; }
  size_t mappings() const { return mappings_.size(); }
  uint64_t renamed() const { return renamed_; }

 private:
  struct Mapping {
    uint16_t port = 0;
    Instant refreshed;
  };

  // As every one of RFC 4787, 5382, 5508 wants at least.
  static Nanos LivesFor(const FlowKey& inside) {
    switch (inside.protocol) {
      case IpProtocol::kTcp:
        return Seconds(240);
      case IpProtocol::kUdp:
        return Seconds(300);
      default:
        return Seconds(60);
    }
  }

  size_t Take(FlowId flow, Clock clock, const char* what) {
    const auto found = by_clock_.find({flow, clock});
    if (found == by_clock_.end()) {
      Fault(fmt::format("{} what was not there", what));
      return kNone;
    }
    const size_t packet = found->second;
    by_clock_.erase(found);
    return packet;
  }
  void End(size_t packet, std::string_view fate) {
    std::string_view& told = offered_[packet].fate;
    if (!told.empty()) Fault(fmt::format("{} and {}", told, fate));
    told = fate;
  }
  void Fault(const std::string& what) {
    if (++faults_ <= 10) ADD_FAILURE() << what;
  }

  // `out` is what `in` came to be.
  void Compare(Instant now, const Offered& in, const Frame& out) {
    const Frame& was = in.packet.bytes;
    const ParsedPacket ip = Parse(in.packet.link, was);
    if (out.size() != was.size() || ip.l3 != L3::kIpv4) {
      return Fault("another length, or no IPv4");
    }
    const bool is_error = ip.icmp_inner_offset != 0;
    const bool is_outbound = IsOutbound(in, ip);
    Fields fields;
    AddFields(was, ip, is_outbound, fields);
    std::optional<uint16_t> port;
    const bool has_port = !is_error && ip.fragment != Fragment::kLater;
    if (has_port) port = At(out, fields.ends.back());
    if (is_error) {
      const ParsedPacket inner = ParseInner(was, ip);
      AddFields(was, inner, !is_outbound, fields);
      if (inner.fragment != Fragment::kLater)
        port = At(out, fields.ends.back());
    }
    // What comes in was renamed by the far side, and here again.
    if (!is_outbound) fields.ends.clear();
    ExpectNothingElseChanged(in, out, fields);
    if (is_outbound) {
      if (Ipv4Header<const std::byte>::At(out, ip.l3_offset).source() !=
          kExternal.ipv4()) {
        Fault("it went out with an address of the inside");
      }
      on_outbound(now, in, port, ip, is_error);
    } else if (!mappings_.contains(in.inside)) {
      Fault("it came in to an end without a mapping");
    }
  }

  // An error goes the other way than what it quotes.
  static bool IsOutbound(const Offered& in, const ParsedPacket& ip) {
    const Frame& was = in.packet.bytes;
    const bool is_error = ip.icmp_inner_offset != 0;
    const size_t l3 = is_error ? ip.icmp_inner_offset : ip.l3_offset;
    const auto header = Ipv4Header<const std::byte>::At(was, l3);
    const bool is_source = header.source() == in.inside.source.ipv4();
    const bool is_destination = header.destination() == in.inside.source.ipv4();
    bool is_from = is_source;
    if (is_source && is_destination) {
      const ParsedPacket it = is_error ? ParseInner(was, ip) : ip;
      is_from = At(was, it.l4_offset) == uint32_t{in.inside.source_port.host()};
    }
    return is_from != is_error;
  }

  void ExpectNothingElseChanged(const Offered& in, const Frame& out,
                                const Fields& fields) {
    const Frame& was = in.packet.bytes;
    Frame back = out;
    const auto restore = [&](size_t at) {
      for (size_t i = at; i < at + 2 && i < was.size(); ++i) back[i] = was[i];
    };
    for (const size_t at : fields.ends) restore(at);
    for (const size_t at : fields.checksums) restore(at);
    if (back != was) Fault("something else was changed: " + Told(in));
  }

  void on_outbound(Instant now, const Offered& in, std::optional<uint16_t> port,
                   const ParsedPacket& ip, bool is_error) {
    const bool is_reset = ip.l4_protocol == IpProtocol::kTcp && !is_error &&
                          ip.fragment != Fragment::kLater &&
                          (in.packet.bytes[ip.l4_offset + size_t{13}] &
                           std::byte{4}) != std::byte{0};
    const auto [entry, is_new] = mappings_.try_emplace(in.inside);
    Mapping& mapping = entry->second;
    if (!port.has_value()) {
      if (is_new) Fault("a fragment came out of nothing");
    } else if (is_new || *port != mapping.port) {
      if (!is_new) ++renamed_;
      if (!is_new &&
          in.packet.time - mapping.refreshed <= LivesFor(in.inside)) {
        Fault(fmt::format("{} was {} and is {}", ToString(in.inside),
                          mapping.port, *port));
      }
      mapping.port = *port;
      TakeOver(now, in.inside, *port);
    }
    if (!is_reset && !is_error) mapping.refreshed = in.packet.time;
  }

  // The external end is nobody else's.
  void TakeOver(Instant now, const FlowKey& inside, uint16_t port) {
    const auto [entry, is_new] =
        owners_.try_emplace({inside.protocol, port}, inside);
    const FlowKey owner = std::exchange(entry->second, inside);
    if (is_new || owner == inside) return;
    const Mapping& other = mappings_.at(owner);
    if (other.port == port && now - other.refreshed < LivesFor(inside)) {
      Fault(fmt::format("{} and {} are both {}", ToString(owner),
                        ToString(inside), port));
    }
  }

  static std::string Told(const Offered& in) {
    return fmt::format("packet of {} at {} ns", ToString(in.inside),
                       in.packet.time.ns);
  }

  std::vector<Offered>& offered_;
  size_t current_ = kNone;
  std::map<std::pair<FlowId, Clock>, size_t> by_clock_;
  std::map<FlowKey, Mapping> mappings_;
  std::map<std::pair<IpProtocol, uint16_t>, FlowKey> owners_;
  uint64_t renamed_ = 0;
  uint64_t faults_ = 0;
};

std::vector<Offered> ReadAll(const std::string& file) {
  std::vector<Offered> packets;
  auto reader = MergedReader::Open({CapturesDir() + "/" + file});
  if (!reader.ok()) {
    ADD_FAILURE() << reader.status();
    return packets;
  }
  CapturedPacket packet;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    packets.push_back(
        {.packet = {.time = packet.time,
                    .bytes = {packet.bytes.begin(), packet.bytes.end()},
                    .original_length = packet.original_bytes,
                    .link = packet.link},
         .inside = {},
         .fate = {}});
  }
  return packets;
}

struct Case {
  const char* file;
  int64_t unit_capacity_bps;
  // At least. A packet that is neither released nor refused for its addresses
  // came before the packet that it answers was out, or is IPv6, or of another
  // protocol, or not IP.
  uint64_t moved;
  uint64_t released_or_refused;
};
constexpr Case kCases[] = {
    {"composite_A_1g_1s_snap96.pcap.gz", 100'000'000, 28'000, 178'000},
    {"PcapPlusPlus__DnsPackets.pcap", 100'000, 120, 440},
    {"PcapPlusPlus__example2.pcap", 500'000, 1'700, 4'200},
    {"StratosphereLinuxIPS__test7-malicious.pcap", 100'000, 800, 1'880},
    {"debian-ndpi-4.2-pcap__WebattackXSS.pcap", 500'000, 5'000, 8'600},
    {"debian-ndpi-4.2-pcap__dnscrypt-v1-and-resolver-pings.pcap", 2'000'000,
     160, 600},
    {"debian-ndpi-4.2-pcap__synscan.pcap", 100'000, 110, 2'000},
    {"mercury__emix.pcap", 500'000, 2'400, 6'450},
    {"nDPI__gnutella.pcap", 200'000, 950, 3'780},
    {"trex-core__asa_exploit.pcap", 100'000, 20, 41},
    // Of one host: its requests are martians (RFC 1122 §3.2.1.3), so nobody
    // waits for the answers.
    {"zeek__echo-connections.pcap.gz", 3'000'000, 19'000, 53'900},
};

RunResult Replay(const std::vector<Offered>& packets, const RunOptions& options,
                 Watch* watch) {
  VirtualDriver driver(options, *FindPlacementPolicy("snf"),
                       *NfSpec::Parse("nat:ip=100.127.255.254"), {watch});
  for (size_t i = 0; i < packets.size(); ++i) {
    const OfferedFrame& packet = packets[i].packet;
    if (watch != nullptr) watch->Next(i);
    driver.Offer({.time = packet.time,
                  .bytes = packet.bytes,
                  .original_bytes = packet.original_length,
                  .link = packet.link});
  }
  return driver.Finish();
}

// Returns the number of packets of each fate.
std::map<std::string, uint64_t> ExpectFates(
    const RunResult& run, const std::vector<Offered>& packets) {
  std::map<std::string, uint64_t> seen, told;
  for (const Offered& packet : packets) ++seen[std::string(packet.fate)];
  const auto tell = [&told](std::string_view what, uint64_t count) {
    if (count > 0) told[std::string(what)] += count;
  };
  tell("released", run.packets_released);
  tell("passed_through", run.packets_passed_through);
  for (size_t i = 0; i < kDropReasons; ++i) {
    tell(ToString(DropReason{static_cast<uint8_t>(i)}), run.dropped[i]);
  }
  for (size_t i = 0; i < run.nf_dropped.size(); ++i) {
    tell(run.nf_drop_names[i], run.nf_dropped[i]);
  }
  EXPECT_EQ(seen, told);
  std::cout << fmt::format("    {}\n", fmt::join(told, ", "));
  return told;
}

void RunCase(const Case& c) {
  std::vector<Offered> packets = ReadAll(c.file);
  RunOptions options;
  PlaceByDemand(options.controller);
  options.controller.unit_capacity_bps = c.unit_capacity_bps;
  Watch watch(packets);
  const RunResult run = Replay(packets, options, &watch);
  std::cout << fmt::format(
      "{}: {} packets, {} flowlets moved, {} of them pulled, {} mappings, "
      "{} of them anew, {} units\n",
      c.file, run.packets_in, run.controller.flowlets_moved, run.state.pulled,
      watch.mappings(), watch.renamed(), run.units_max);
  EXPECT_EQ(run.violations, 0u)
      << fmt::format("{}", fmt::join(run.violation_messages, "\n"));
  EXPECT_TRUE(run.conserved());
  EXPECT_EQ(run.packets_in, packets.size());
  EXPECT_EQ(run.packets_generated, 0u);
  EXPECT_EQ(run.aliases.packets_hairpinned, 0u);
  EXPECT_EQ(run.controller.aliases_conflict, 0u);
  EXPECT_EQ(run.controller.pieces.pieces_out, 0u);
  std::map<std::string, uint64_t> fates = ExpectFates(run, packets);
  EXPECT_GE(run.controller.flowlets_moved, c.moved);
  EXPECT_GE(
      run.packets_released + fates["not_unicast"] + fates["martian_address"],
      c.released_or_refused);
  EXPECT_GE(run.i6_compared, run.packets_released);

  options.check = false;
  EXPECT_EQ(Replay(packets, options, nullptr).digest, run.digest);
}

TEST(NatCaptures, ComeOutRenamedAndOtherwiseAsTheyWentIn) {
  if (!std::filesystem::exists(CapturesDir() + "/MANIFEST.tsv")) {
    GTEST_SKIP() << "no MANIFEST.tsv in " << CapturesDir()
                 << ": the real captures are not here; name their folder "
                    "with SNF_TRACES";
  }
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.file);
    RunCase(c);
  }
}

}  // namespace
}  // namespace snf
