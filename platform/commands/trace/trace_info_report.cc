// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_info_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/quantity.h"
#include "base/text/page.h"

namespace snf {
namespace {

constexpr std::array<std::string_view, kLinkTypes> kLinkNames = {
    "Ethernet", "raw IP", "Linux cooked (SLL)", "Linux cooked (SLL2)", "null",
    "loopback", "PPP",    "Linux netfilter log"};
constexpr std::array<std::string_view, kFlowKeyKinds> kKindNames = {
    "connection", "5tuple", "3tuple"};
constexpr std::array<std::string_view, kFlowKeyKinds> kKindMeanings = {
    "connections: both directions between two ends", "5-tuples: one direction",
    "3-tuples: both directions between two addresses, by protocol"};

std::string Count(uint64_t count) { return FormatCount(count); }

std::string Bytes(uint64_t bytes) {
  return FormatBytes(static_cast<int64_t>(bytes));
}

std::string Share(uint64_t part, uint64_t whole) {
  const double percent =
      whole == 0 ? 0
                 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  if (part > 0 && percent < 0.1) return "<0.1 %";
  return fmt::format("{:.1f} %", percent);
}

std::string RateOver(uint64_t bytes, Nanos duration) {
  if (duration.ns <= 0) return "";
  return FormatBitRate(static_cast<int64_t>(static_cast<double>(bytes) * 8e9 /
                                            static_cast<double>(duration.ns)));
}

std::string Tick(const CaptureFacts::Interface& interface) {
  if (!interface.tick_is_binary) {
    switch (interface.tick_exponent) {
      case 0:
        return "s";
      case 3:
        return "ms";
      case 6:
        return "µs";
      case 9:
        return "ns";
      default:
        break;
    }
  }
  return fmt::format("{}^-{} s", interface.tick_is_binary ? 2 : 10,
                     interface.tick_exponent);
}

std::string Join(std::vector<std::string> parts) {
  std::vector<std::string> unlike;
  for (std::string& part : parts) {
    if (std::ranges::find(unlike, part) == unlike.end()) {
      unlike.push_back(std::move(part));
    }
  }
  return fmt::format("{}", fmt::join(unlike, ", "));
}

std::string FormatOf(const CaptureInfo& info) {
  std::string text(Name(info.facts.format));
  if (info.facts.compression == Compression::kGzip) text += " in gzip";
  if (info.facts.compression == Compression::kZstd) text += " in zstd";
  if (info.stored_bytes > 0) text += ", " + Bytes(info.stored_bytes);
  std::vector<std::string> ticks, snaps;
  for (const CaptureFacts::Interface& each : info.facts.interfaces) {
    ticks.push_back(Tick(each));
    snaps.push_back(each.snap_bytes == 0 ? "none" : Bytes(each.snap_bytes));
  }
  if (ticks.empty()) return text;
  return fmt::format("{}; timestamps to the {}; snap length {}", text,
                     Join(ticks), Join(snaps));
}

std::string LinksOf(const CaptureFigures& figures) {
  std::vector<std::string> links;
  for (size_t i = 0; i < kLinkTypes; ++i) {
    if (figures.links[i] == 0) continue;
    links.push_back(
        figures.links[i] == figures.packets
            ? std::string(kLinkNames[i])
            : fmt::format("{} {}", kLinkNames[i], Count(figures.links[i])));
  }
  return fmt::format("{}", fmt::join(links, ", "));
}

void AddTraffic(const CaptureFigures& f, Page& page) {
  const Nanos duration = f.duration();
  if (duration.ns == 0) {
    page.Say("Traffic",
             fmt::format("{}, all at the same time", Bytes(f.bytes)));
    return;
  }
  const double per_second =
      static_cast<double>(f.packets) * 1e9 / static_cast<double>(duration.ns);
  page.Say(
      "Traffic",
      fmt::format("{} in {}: {}, {} packets/s on average", Bytes(f.bytes),
                  FormatDuration(duration), RateOver(f.bytes, duration),
                  per_second < 10 ? fmt::format("{:.2f}", per_second)
                                  : Count(static_cast<uint64_t>(per_second))));
  page.Say("", fmt::format("{} in the fullest ms, {} packets in the busiest",
                           RateOver(f.peak_ms_bytes, Milliseconds(1)),
                           Count(f.peak_ms_packets)));
}

void AddPackets(const CaptureFigures& f, Page& page) {
  page.Count("Packets", f.packets, "in all");
  page.Count("", f.usable, "usable: in a flow");
  if (f.usable < f.packets) {
    page.Count("", f.packets - f.usable,
               "pass through untouched: no readable IP header");
  }
  page.Blank();
  const auto row = [&](std::string_view label, uint64_t part,
                       const std::string& what) {
    page.Count(label, part,
               fmt::format("{:>6}  {}", Share(part, f.packets), what));
  };
  row("Of these", f.tcp, "TCP");
  row("", f.udp, "UDP");
  row("", f.icmp, "ICMP");
  if (f.other_protocol > 0) row("", f.other_protocol, "other over IP");
  row("", f.ipv6, "IPv6");
  row("", f.vlan_tagged, "with a VLAN tag");
  row("", f.fragments, "fragments");
  row("", f.truncated, "truncated: captured in part");
  row("", f.out_of_order, "out of order: earlier than a packet before");
}

// "What           p10 …", the numbers to the right.
void AddLine(std::string_view label, std::span<const std::string> cells,
             Page& page) {
  constexpr size_t kLabel = 16;
  constexpr size_t kCell = 9;
  std::string line = fmt::format("  {:<{}}", label, kLabel);
  for (const std::string& cell : cells) {
    line += std::string(cell.size() < kCell ? kCell - ColumnsOf(cell) : 1, ' ');
    line += cell;
  }
  page.Raw(line + "\n");
}

template <typename Format>
void AddQuantiles(std::string_view label, const Histogram& values,
                  const Format& format, Page& page) {
  std::vector<std::string> cells;
  for (const uint32_t per_100000 : {10'000u, 50'000u, 90'000u, 99'000u}) {
    cells.push_back(format(values.Quantile(per_100000)));
  }
  cells.push_back(format(values.max()));
  cells.push_back(format(values.mean()));
  AddLine(label, cells, page);
}

void AddDistributions(const CaptureInfo& info, Page& page) {
  const CaptureFigures& f = info.figures;
  const auto bytes = [](int64_t v) { return FormatBytes(v); };
  const auto count = [](int64_t v) {
    return FormatCount(static_cast<uint64_t>(v));
  };
  const auto time = [](int64_t v) { return FormatDuration(Nanos{v}); };
  page.Heading(fmt::format("Sizes and times, flows by {}",
                           NameOf(info.options.kind, info.options.vlan)));
  const std::array<std::string, 6> quantiles = {"p10", "p50", "p90",
                                                "p99", "max", "mean"};
  AddLine("", quantiles, page);
  AddQuantiles("packet, bytes", f.packet_bytes, bytes, page);
  if (f.kind_flows() == 0) return;
  AddQuantiles("flow, bytes", f.flow_bytes, bytes, page);
  AddQuantiles("flow, packets", f.flow_packets, count, page);
  AddQuantiles("flow lasts", f.flow_ns, time, page);
  if (f.gap_ns.count() > 0) {
    AddQuantiles("gap in a flow", f.gap_ns, time, page);
  }
}

std::string LimitText(uint32_t bytes) {
  return bytes == CaptureStatistics::kNoLimit ? "no limit" : FormatBytes(bytes);
}

void AddFlowlets(const CaptureInfo& info, Page& page) {
  const CaptureFigures& f = info.figures;
  page.Heading("Flowlets per flow: chances to assign");
  std::vector<std::string> cells;
  for (const uint32_t bytes : info.options.flowlet_bytes) {
    cells.push_back(LimitText(bytes));
  }
  AddLine("T \\ B", cells, page);
  size_t cell = 0;
  for (const Nanos timeout : info.options.timeouts) {
    cells.clear();
    for (size_t j = 0; j < info.options.flowlet_bytes.size(); ++j, ++cell) {
      cells.push_back(
          fmt::format("{:.2f}", static_cast<double>(f.flowlets[cell]) /
                                    static_cast<double>(f.kind_flows())));
    }
    AddLine(FormatDuration(timeout), cells, page);
  }
}

void AddFlows(const CaptureInfo& info, Page& page) {
  const CaptureFigures& f = info.figures;
  for (size_t kind = 0; kind < kFlowKeyKinds; ++kind) {
    page.Count(kind == 0 ? "Flows" : "", f.flows[kind],
               std::string(kKindMeanings[kind]) +
                   (info.options.vlan ? ", within one VLAN" : ""));
  }
  page.Count("At once", f.flows_at_once_max,
             fmt::format("at most, {}.{} on average, by {}, each from its "
                         "first packet to its last",
                         Count(f.flows_at_once_mean_1000 / 1'000),
                         f.flows_at_once_mean_1000 % 1'000 / 100,
                         NameOf(info.options.kind, info.options.vlan)));
}

}  // namespace

std::string NameOf(FlowKeyKind kind, bool vlan) {
  return std::string(kKindNames[static_cast<size_t>(kind)]) +
         (vlan ? ",vlan" : "");
}

std::vector<std::string> RemarksOn(const CaptureInfo& info) {
  constexpr std::array<std::string_view, kParseResults> kReasons = {
      "",
      "",
      "cut inside the layer-4 header, so that ports may be missing",
      "a malformed TCP header",
      "too many IPv6 extension headers",
      "another header behind mobility, HIP or shim6",
      "of a type that is not known; no IP was found",
      "no IP inside (ARP, LLDP and the like), passed through",
      "cut inside the link header",
      "too many VLAN tags or MPLS labels",
      "cut inside the IP header",
      "an IP version that is not what the link header says",
      "an IP header of an impossible length"};
  const CaptureFigures& f = info.figures;
  std::vector<std::string> remarks;
  const auto remark = [&](uint64_t packets, std::string_view what) {
    if (packets == 0) return;
    remarks.push_back(fmt::format("{}: {}.", Plural(packets, "packet"), what));
  };
  for (size_t i = 0; i < kParseResults; ++i) {
    if (!kReasons[i].empty()) remark(f.results[i], kReasons[i]);
  }
  remark(f.truncated,
         "captured in part; NFs that read payloads or verify checksums miss "
         "the rest, but sizes and flowlets count the original lengths");
  remark(
      f.out_of_order,
      "out of order; a replay delivers each at the latest time seen before it. "
      "\"snf trace convert --sort\" sorts them");
  if (f.strays > 0) {
    remarks.push_back(
        fmt::format("{}, first packet {}: more than 1 s later than the packets "
                    "before and after; counted here, and replayed, at the time "
                    "of the next packet.",
                    Plural(f.strays, "stray time"), Count(f.first_stray)));
  }
  if (f.vlan_tagged > 0 && !info.options.vlan) {
    remarks.push_back(
        "There are VLAN tags: --flow_key=connection,vlan tells equal flows on "
        "two VLANs apart.");
  }
  if (f.packets > 1 && f.duration().ns == 0) {
    remarks.emplace_back("All packets have the same time: no rate, no gaps.");
  }
  for (const CaptureFacts::Interface& each : info.facts.interfaces) {
    if (each.tick_is_binary || each.tick_exponent >= 6) continue;
    remarks.push_back(
        fmt::format("Timestamps have a resolution of a {}: shorter gaps are "
                    "not visible, and flowlets for shorter T mean nothing.",
                    Tick(each)));
  }
  return remarks;
}

std::string TextOf(const CaptureInfo& info, const Terminal& terminal) {
  const CaptureFigures& f = info.figures;
  Page page(terminal);
  page.set_number_columns(std::max<size_t>(7, Count(f.packets).size()));
  page.Heading(Printable(info.file));
  page.Blank();
  page.Say("Format", FormatOf(info));
  if (f.packets == 0) {
    page.Count("Packets", 0, "in all");
    return page.Take();
  }
  page.Say("Link types", LinksOf(f));
  AddTraffic(f, page);
  page.Blank();
  AddPackets(f, page);
  page.Blank();
  if (f.kind_flows() > 0) {
    AddFlows(info, page);
    page.Blank();
  }
  AddDistributions(info, page);
  if (f.kind_flows() > 0) {
    page.Blank();
    AddFlowlets(info, page);
  }
  const std::vector<std::string> remarks = RemarksOn(info);
  if (!remarks.empty() || !info.warnings.empty()) {
    page.Blank();
    page.Heading("Notes");
    for (const std::string& each : remarks) page.Item(each);
    for (const std::string& each : info.warnings) page.Item(Printable(each));
  }
  return page.Take();
}

}  // namespace snf
