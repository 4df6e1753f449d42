// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/ip_prefix.h"
#include "nfs/monitor_ipfix.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// Theory of operation. Counts packets and bytes of each flow, in a slot, and of
// each host, in a table that all units write together (Serpens' example of
// global state with eventual consistency, §III-B): an address has flows on many
// units. Bytes are those on the wire, link header included. It forwards all
// packets.
//
// The report has the hosts that sent and received most. With the option ipfix,
// hosts and flows that ended are also written to an IPFIX file (RFC 7011, 5655;
// both directions of a flow in one record, RFC 5103). Ended flows too are
// collected in a shared table, by their key and begin.
class Monitor final : public NetworkFunction {
 public:
  explicit Monitor(NfOptions& options)
      : hosts_of_(PrefixOf(options)),
        top_(static_cast<size_t>(options.Integer(
            "top", 10, 0, 1'000, "hosts in the report, those of most bytes"))),
        ipfix_(options.Text("ipfix", "", "FILE",
                            "write hosts and ended flows there, as IPFIX")) {
    const int64_t max_hosts =
        options.Integer("max_hosts", 65'536, 1, 1 << 24,
                        "hosts told apart; others are counted together");
    const int64_t max_flows =
        options.Integer("max_flows", 65'536, 1, 1 << 24,
                        "ended flows for ipfix; others are left out");
    hosts_.emplace(declare_shared<IpAddress, HostUse>(
        "hosts", static_cast<uint32_t>(max_hosts), SumOfWords{},
        TableReader::kReport));
    if (ipfix_.empty()) return;
    ended_.emplace(declare_shared<EndedKey, FlowUse>(
        "ended_flows", static_cast<uint32_t>(max_flows), SumOfWords{},
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
  struct FlowUse {
    uint64_t last_ns = 0;
    Use there;  // in the direction of the first packet
    Use back;
  };
  struct EndedKey {
    FlowKey first;  // packet's 5-tuple
    uint64_t first_ns = 0;
  };
  struct Flow {
    EndedKey key;
    FlowUse use;
  };
  using Host = std::pair<IpAddress, HostUse>;

  static std::optional<IpPrefix> PrefixOf(NfOptions& options) {
    const std::string text = options.Text("hosts", "", "ADDRESS[/LENGTH]",
                                          "count these hosts only; else all");
    if (text.empty()) return std::nullopt;
    const auto prefixes = ParsePrefixes(text);
    if (prefixes.ok() && prefixes->size() == 1) return prefixes->front();
    options.Fail("hosts", "want an address prefix like 10.0.0.0/8");
    return std::nullopt;
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const FlowKey key =
        FiveTuple(packet.bytes(), packet.headers(), /*with_vlan=*/false);
    const uint64_t bytes = packet.original_length();
    const Use use = flow.get(use_);
    flow.put(use_, {use.packets + 1, use.bytes + bytes});
    if (flow_.has_value()) Follow(key, packet, flow);
    if (IsCounted(key.source)) hosts_->update(key.source, {{1, bytes}, {}});
    if (IsCounted(key.destination)) {
      hosts_->update(key.destination, {{}, {1, bytes}});
    }
    count(bytes_, bytes);
    return Verdict::forward();
  }

  void Follow(const FlowKey& key, const Packet& packet, FlowState& flow) const {
    const auto now_ns = static_cast<uint64_t>(packet.arrival().ns);
    Flow seen = flow.get(*flow_);
    if (!flow.has(*flow_)) seen.key = {key, now_ns};
    seen.use.last_ns = std::max(seen.use.last_ns, now_ns);
    Use& use = IsBack(key, seen.key.first) ? seen.use.back : seen.use.there;
    ++use.packets;
    use.bytes += packet.original_length();
    flow.put(*flow_, seen);
  }

  void on_end(FlowState& flow) override {
    if (!flow.has(use_)) return;
    count(flows_);
    if (!ended_.has_value()) return;
    const Flow seen = flow.get(*flow_);
    ended_->update(seen.key, seen.use);
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
    if (!ipfix_.empty()) report.files.push_back({ipfix_, Ipfix(hosts)});
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

  std::string Ipfix(const std::vector<Host>& hosts) const {
    std::vector<std::pair<EndedKey, FlowUse>> flows;
    ended_->for_each([&](const EndedKey& key, const FlowUse& use) {
      flows.emplace_back(key, use);
    });
    std::ranges::sort(flows, {}, [](const auto& flow) {
      return std::make_tuple(flow.first.first_ns, flow.first.first);
    });
    uint64_t last_ns = 0;
    for (const auto& flow : flows) {
      last_ns = std::max(last_ns, flow.second.last_ns);
    }
    IpfixFile file(static_cast<uint32_t>(last_ns / 1'000'000'000));
    AddHosts(hosts, file);
    AddFlows(flows, file);
    return file.Take();
  }

  static void AddHosts(const std::vector<Host>& hosts, IpfixFile& file) {
    for (const bool ipv4 : {true, false}) {
      const uint16_t number = file.AddTemplate(
          {ipv4 ? kIpfixSource4 : kIpfixSource6, kIpfixPackets, kIpfixBytes,
           Reverse(kIpfixPackets), Reverse(kIpfixBytes)});
      for (const auto& [address, use] : hosts) {
        if (IsIpv4(address) != ipv4) continue;
        file.Begin(number);
        file.Put(address, ipv4);
        for (const uint64_t n : {use.sent.packets, use.sent.bytes,
                                 use.received.packets, use.received.bytes}) {
          file.Put(n, 8);
        }
      }
    }
  }

  static void AddFlows(const std::vector<std::pair<EndedKey, FlowUse>>& flows,
                       IpfixFile& file) {
    for (const bool ipv4 : {true, false}) {
      const uint16_t number =
          file.AddTemplate({{152, 8},
                            {153, 8},  // flowStartMilliseconds, …End…
                            ipv4 ? kIpfixSource4 : kIpfixSource6,
                            ipv4 ? kIpfixDestination4 : kIpfixDestination6,
                            {4, 1},
                            {7, 2},
                            {11, 2},  // protocol, ports
                            kIpfixPackets,
                            kIpfixBytes,
                            Reverse(kIpfixPackets),
                            Reverse(kIpfixBytes)});
      for (const auto& [key, use] : flows) {
        if (IsIpv4(key.first.source) != ipv4) continue;
        file.Begin(number);
        file.Put(key.first_ns / 1'000'000, 8);
        file.Put(use.last_ns / 1'000'000, 8);
        file.Put(key.first.source, ipv4);
        file.Put(key.first.destination, ipv4);
        file.Put(static_cast<uint64_t>(key.first.protocol), 1);
        file.Put(key.first.source_port.host(), 2);
        file.Put(key.first.destination_port.host(), 2);
        for (const uint64_t n : {use.there.packets, use.there.bytes,
                                 use.back.packets, use.back.bytes}) {
          file.Put(n, 8);
        }
      }
    }
  }

  std::optional<IpPrefix> hosts_of_;
  size_t top_;
  std::string ipfix_;
  Counter bytes_ = declare_counter("bytes", "on the wire");
  Counter flows_ = declare_counter("flows", "that ended");
  Slot<Use> use_ = declare<Use>("use");  // both ways
  std::optional<Slot<Flow>> flow_;       // with ipfix
  std::optional<SharedTable<IpAddress, HostUse>> hosts_;
  std::optional<SharedTable<EndedKey, FlowUse>> ended_;
};
SNF_REGISTER_NF(Monitor, "monitor",
                "counts flows and hosts, tells the top talkers, exports IPFIX");

}  // namespace
}  // namespace snf
