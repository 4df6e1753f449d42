// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ipfix/ipfix_collector.h"
#include "base/ipfix/ipfix_writer.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/l4_headers.h"
#include "nfs/monitor_record.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

// Reads "udp://192.0.2.9:4739", "tcp://[2001:db8::9]".
std::optional<NfReport::Collector> ParseCollector(std::string_view text) {
  const auto parsed = IpfixCollector::Parse(text);
  if (!parsed.has_value()) return std::nullopt;
  return NfReport::Collector{
      .host = parsed->host, .port = parsed->port, .is_udp = parsed->is_udp};
}

// Theory of operation. Counts packets and bytes of each flow, in a slot, and of
// each host, in a table that all units write together (Serpens' example of
// global state with eventual consistency, §III-B): an address has flows on many
// units. Bytes are those on the wire, link header included. It forwards all
// packets.
//
// The report has the hosts that sent and received most. With the option ipfix,
// hosts and flows are also written to an IPFIX file (RFC 7011, 5655), or flows
// are sent to a collector. Each direction of a flow has its own record. The
// record ends with the flow, or at each multiple of `active_timeout` since the
// flow began. An ICMP error about the flow has a record of its own, and so has
// an ICMP message whose type is not that of its direction's record. A shared
// table collects the records that have ended.
class Monitor final : public NetworkFunction {
 public:
  explicit Monitor(NfOptions& options)
      : hosts_of_(PrefixOf(options)),
        top_(static_cast<size_t>(options.Integer(
            "top", 10, 0, 1'000, "most hosts in the report, by bytes"))),
        ipfix_(options.Text(
            "ipfix", "", "FILE|udp://HOST[:PORT]|tcp://HOST[:PORT]",
            "file to write hosts and flows to, as IPFIX, or the collector to "
            "send flows to, at port 4739 by default, when the run ends")),
        active_timeout_(options.Duration(
            "active_timeout", Seconds(300), Milliseconds(1), Seconds(86'400),
            "most time that an IPFIX record of a flow may span")) {
    const int64_t max_hosts =
        options.Integer("max_hosts", 65'536, 1, 1 << 24,
                        "most hosts that are counted one by one; further hosts "
                        "are counted together");
    const int64_t max_flows = options.Integer(
        "max_flows", 65'536, 1, 1 << 24,
        "most IPFIX records of flows; further records are left out");
    hosts_.emplace(declare_shared<IpAddress, HostUse>(
        "hosts", static_cast<uint32_t>(max_hosts), SumOfWords{},
        TableReader::kReport));
    if (ipfix_.empty()) return;
    if (IpfixCollector::IsMeantBy(ipfix_)) {
      collector_ = ParseCollector(ipfix_);
      if (!collector_.has_value()) {
        options.Fail("ipfix",
                     "a file, or a collector such as udp://192.0.2.9:4739, "
                     "tcp://[2001:db8::9] or udp://collector.example");
      }
    }
    records_.emplace(
        declare_shared<MonitorRecordKey, MonitorRecord, MergeMonitorRecords>(
            "records", static_cast<uint32_t>(max_flows), {},
            TableReader::kReport));
    flow_.emplace(declare<Flow>("flow"));
  }

 private:
  struct Use {
    uint64_t packets = 0;
    uint64_t bytes = 0;
  };
  struct HostUse {
    Use sent;
    Use received;
    uint64_t bytes() const { return sent.bytes + received.bytes; }
  };
  struct Flow {
    FlowKey first;  // packet's 5-tuple
    uint64_t begin_ns = 0;
    uint64_t record_ns = 0;  // when the open records began
    MonitorRecord there;     // in the direction of the first packet
    MonitorRecord back;
    uint64_t ends = 0;  // of TCP: a bit for the FIN of each direction, 4: reset
  };
  using Host = std::pair<IpAddress, HostUse>;

  static std::optional<IpPrefix> PrefixOf(NfOptions& options) {
    const std::string text =
        options.Text("hosts", "", "ADDRESS[/LENGTH]",
                     "hosts to count; without this option, all");
    if (text.empty()) return std::nullopt;
    const auto prefixes = ParsePrefixes(text);
    if (prefixes.ok() && prefixes->size() == 1) return prefixes->front();
    options.Fail("hosts", "want an address prefix like 10.0.0.0/8");
    return std::nullopt;
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const FlowKey key =
        FiveTuple(packet.bytes(), packet.headers(), /*with_vlan=*/false);
    const uint64_t packets = packet.wire_packets();
    const uint64_t bytes = packet.wire_bytes();
    const Use use = flow.get(use_);
    flow.put(use_, {use.packets + packets, use.bytes + bytes});
    if (flow_.has_value()) Follow(key, packet, flow);
    if (IsCounted(key.source))
      hosts_->update(key.source, {{packets, bytes}, {}});
    if (IsCounted(key.destination)) {
      hosts_->update(key.destination, {{}, {packets, bytes}});
    }
    count(bytes_, bytes);
    return Verdict::forward();
  }

  void Follow(const FlowKey& key, const Packet& packet, FlowState& flow) {
    const auto now_ns = static_cast<uint64_t>(packet.arrival().ns);
    const MonitorRecord record = MonitorRecord::Of(packet);
    Flow seen = flow.get(*flow_);
    if (!flow.has(*flow_)) {
      seen.first = key;
      seen.begin_ns = seen.record_ns = now_ns;
    }
    const auto timeout_ns = static_cast<uint64_t>(active_timeout_.ns);
    if (now_ns >= seen.record_ns + timeout_ns) {
      Export(seen, FlowEnd::kActiveTimeout);
      seen.record_ns = now_ns - (now_ns - seen.begin_ns) % timeout_ns;
    }
    const bool is_back = IsBack(key, seen.first);
    MonitorRecord& open = is_back ? seen.back : seen.there;
    const bool is_icmp = IsIcmp(key.protocol);
    if (key.protocol != seen.first.protocol ||
        (is_icmp && open.packets > 0 && open.icmp != record.icmp)) {
      Export(key, seen.record_ns, record, FlowEnd::kIdle);
    } else {
      open.Add(record);
      if ((record.tcp_flags & Tcp::kRst) != 0) seen.ends |= 4;
      if ((record.tcp_flags & Tcp::kFin) != 0) seen.ends |= is_back ? 2 : 1;
    }
    flow.put(*flow_, seen);
  }

  bool takes_merged() const override { return true; }

  void on_end(FlowState& flow) override {
    if (!flow.has(use_)) return;
    count(flows_);
    if (!flow_.has_value()) return;
    Flow seen = flow.get(*flow_);
    Export(seen, seen.ends >= 3 ? FlowEnd::kEndSeen : FlowEnd::kIdle);
  }

  void Export(Flow& seen, FlowEnd why) {
    FlowKey back = seen.first;
    std::swap(back.source, back.destination);
    std::swap(back.source_port, back.destination_port);
    Export(seen.first, seen.record_ns, seen.there, why);
    Export(back, seen.record_ns, seen.back, why);
    seen.there = seen.back = {};
  }

  void Export(FlowKey ends, uint64_t begin_ns, MonitorRecord record,
              FlowEnd why) {
    if (record.packets == 0) return;
    if (IsIcmp(ends.protocol)) ends.destination_port = be16(record.icmp);
    record.end = why;
    records_->update({ends, begin_ns}, record);
  }

  // Returns true if the packet goes against the flow's first packet. Addresses
  // decide, since fragments have no ports; ports decide only between equal
  // addresses.
  static bool IsBack(const FlowKey& key, const FlowKey& first) {
    return key.source == first.destination &&
           (key.source != first.source ||
            key.source_port == first.destination_port);
  }

  bool IsCounted(const IpAddress& address) const {
    return !hosts_of_.has_value() || hosts_of_->Contains(address);
  }

  NfReport report() const override {
    std::vector<Host> hosts;
    hosts_->for_each([&](const IpAddress& address, const HostUse& use) {
      hosts.emplace_back(address, use);
    });
    std::ranges::sort(hosts, [](const Host& a, const Host& b) {
      return std::make_tuple(b.second.bytes(), a.first) <
             std::make_tuple(a.second.bytes(), b.first);
    });
    NfReport report;
    report.tables.push_back(TopTalkers(hosts));
    if (!ipfix_.empty()) AddIpfix(hosts, report);
    return report;
  }

  NfReport::Table TopTalkers(const std::vector<Host>& hosts) const {
    NfReport::Table table = {.title = "Top talkers",
                             .columns = {"host", "bytes_sent", "bytes_received",
                                         "packets_sent", "packets_received"},
                             .rows = {}};
    const auto add = [&table](const std::string& name, const HostUse& use) {
      table.rows.push_back({name, use.sent.bytes, use.received.bytes,
                            use.sent.packets, use.received.packets});
    };
    for (size_t i = 0; i < std::min(top_, hosts.size()); ++i) {
      const IpPrefix host = {.address = hosts[i].first, .length = 128};
      add(FormatPrefixes({&host, 1}), hosts[i].second);
    }
    if (hosts_->rest().bytes() > 0) add("(no room for)", hosts_->rest());
    return table;
  }

  static bool IsIpv4(const IpAddress& address) {
    return IpAddress::FromIpv4(address.ipv4()) == address;
  }

  void AddIpfix(const std::vector<Host>& hosts, NfReport& report) const {
    MonitorRecords records;
    uint64_t last_ns = 0;
    records_->for_each(
        [&](const MonitorRecordKey& key, const MonitorRecord& record) {
          records.emplace_back(key, record);
          last_ns = std::max(last_ns, record.last_ns);
        });
    std::ranges::sort(records, {}, [](const auto& of) {
      return std::make_tuple(of.second.first_ns, of.first.ends,
                             of.first.begin_ns);
    });
    // Rounded up, so that no record ends after its export.
    constexpr uint64_t kSecond = 1'000'000'000;
    const auto now_s = static_cast<uint32_t>((last_ns + kSecond - 1) / kSecond);
    IpfixWriter writer(now_s, collector_.has_value() && collector_->is_udp
                                  ? IpfixWriter::kForUdp
                                  : IpfixWriter::Limits{});
    if (!collector_.has_value()) AddHosts(hosts, writer);
    AddMonitorRecords(records, writer);
    if (collector_.has_value()) {
      report.exports.push_back({*collector_, writer.Take()});
      return;
    }
    std::string bytes;
    for (const std::string& message : writer.Take()) bytes += message;
    report.files.push_back({ipfix_, std::move(bytes)});
  }

  static void AddHosts(const std::vector<Host>& hosts, IpfixWriter& writer) {
    for (const bool ipv4 : {true, false}) {
      const uint16_t number = writer.AddTemplate(
          {ipv4 ? kIpfixSource4 : kIpfixSource6, kIpfixTotalPackets,
           kIpfixTotalLinkOctets, Reverse(kIpfixTotalPackets),
           Reverse(kIpfixTotalLinkOctets)});
      for (const auto& [address, use] : hosts) {
        if (IsIpv4(address) != ipv4) continue;
        writer.Begin(number);
        writer.Put(address, ipv4);
        for (const uint64_t n : {use.sent.packets, use.sent.bytes,
                                 use.received.packets, use.received.bytes}) {
          writer.Put(n, 8);
        }
      }
    }
  }

  std::optional<IpPrefix> hosts_of_;
  size_t top_;
  std::string ipfix_;
  std::optional<NfReport::Collector> collector_;
  Nanos active_timeout_;
  Counter bytes_ = declare_counter("bytes", "on the wire");
  Counter flows_ = declare_counter("flows", "that ended");
  Slot<Use> use_ = declare<Use>("use");  // both ways
  std::optional<Slot<Flow>> flow_;       // with ipfix
  std::optional<SharedTable<IpAddress, HostUse>> hosts_;
  std::optional<SharedTable<MonitorRecordKey, MonitorRecord>> records_;
};
SNF_REGISTER_NF(Monitor, "monitor",
                "counts flows and hosts, lists the top talkers, exports IPFIX");

}  // namespace
}  // namespace snf
