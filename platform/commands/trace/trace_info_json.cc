// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "base/packet/packet_parser.h"
#include "nlohmann/json.hpp"
#include "platform/commands/trace/trace_info_report.h"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, kLinkTypes> kLinkKeys = {
    "ethernet", "raw_ip", "linux_sll", "linux_sll2",
    "null",     "loop",   "ppp",       "nflog"};
constexpr std::array<std::string_view, 3> kCompressions = {"none", "gzip",
                                                           "zstd"};

Json Quantiles(const Histogram& values) {
  Json percentiles = Json::array();
  for (uint32_t i = 0; i <= 100; ++i) {
    percentiles.push_back(values.Quantile(1'000 * i));
  }
  return {{"count", values.count()},
          {"min", values.min()},
          {"p1", values.Quantile(1'000)},
          {"p10", values.Quantile(10'000)},
          {"p25", values.Quantile(25'000)},
          {"p50", values.Quantile(50'000)},
          {"p75", values.Quantile(75'000)},
          {"p90", values.Quantile(90'000)},
          {"p99", values.Quantile(99'000)},
          {"p999", values.Quantile(99'900)},
          {"max", values.max()},
          {"mean", values.mean()},
          {"percentiles", percentiles}};  // from 0 to 100
}

Json Interfaces(const CaptureFacts& facts) {
  Json json = Json::array();
  for (const CaptureFacts::Interface& each : facts.interfaces) {
    json.push_back({{"linktype", each.link_number},
                    {"snap_bytes", each.snap_bytes},
                    {"tick_base", each.tick_is_binary ? 2 : 10},
                    {"tick_exponent", -int{each.tick_exponent}}});
  }
  return json;
}

Json Rates(const CaptureFigures& f) {
  const double seconds = static_cast<double>(f.duration().ns) / 1e9;
  Json json = {{"mean_bps", nullptr},
               {"mean_pps", nullptr},
               {"peak_ms_bps", f.peak_ms_bytes * 8'000},
               {"peak_ms_packets", f.peak_ms_packets}};
  if (seconds > 0) {
    json["mean_bps"] = static_cast<double>(f.bytes) * 8 / seconds;
    json["mean_pps"] = static_cast<double>(f.packets) / seconds;
  }
  return json;
}

Json Flowlets(const CaptureInfo& info) {
  Json json = Json::array();
  size_t cell = 0;
  const CaptureFigures& f = info.figures;
  for (const Nanos timeout : info.options.timeouts) {
    for (const uint32_t bytes : info.options.flowlet_bytes) {
      const uint64_t flowlets = f.flowlets[cell++];
      Json& one = json.emplace_back(Json::object());
      one["timeout_ns"] = nullptr;
      one["bytes"] = nullptr;
      if (timeout != CaptureStatistics::kNoTimeout) {
        one["timeout_ns"] = timeout.ns;
      }
      if (bytes != CaptureStatistics::kNoLimit) one["bytes"] = bytes;
      one["flowlets"] = flowlets;
      one["per_flow"] = nullptr;
      if (f.kind_flows() > 0) {
        one["per_flow"] =
            static_cast<double>(flowlets) / static_cast<double>(f.kind_flows());
      }
    }
  }
  return json;
}

Json PacketsOf(const CaptureFigures& f) {
  Json parse_results = Json::object();
  for (size_t i = 0; i < kParseResults; ++i) {
    parse_results[std::string(Name(static_cast<ParseResult>(i)))] =
        f.results[i];
  }
  Json links = Json::object();
  for (size_t i = 0; i < kLinkTypes; ++i) {
    if (f.links[i] > 0) links[std::string(kLinkKeys[i])] = f.links[i];
  }
  return {{"packets", f.packets},
          {"bytes", f.bytes},
          {"captured_bytes", f.captured_bytes},
          {"links", links},
          {"usable", f.usable},
          {"tcp", f.tcp},
          {"udp", f.udp},
          {"icmp", f.icmp},
          {"other_ip", f.other_protocol},
          {"ipv6", f.ipv6},
          {"vlan", f.vlan_tagged},
          {"fragments", f.fragments},
          {"truncated", f.truncated},
          {"out_of_order", f.out_of_order},
          {"strays", f.strays},
          {"first_stray", f.first_stray},
          {"parse_results", parse_results}};
}

Json One(const CaptureInfo& info) {
  const CaptureFigures& f = info.figures;
  Json json = {{"file", info.file},
               {"format", Name(info.facts.format)},
               {"compression",
                kCompressions[static_cast<size_t>(info.facts.compression)]},
               {"stored_bytes", info.stored_bytes},
               {"interfaces", Interfaces(info.facts)}};
  json.update(PacketsOf(f));
  json["first_ns"] = f.first.ns;
  json["last_ns"] = f.last.ns;
  json["duration_ns"] = f.duration().ns;
  json["rate"] = Rates(f);
  Json& flows = json["flows"] = Json::object();
  for (size_t kind = 0; kind < kFlowKeyKinds; ++kind) {
    flows[NameOf(static_cast<FlowKeyKind>(kind), info.options.vlan)] =
        f.flows[kind];
  }
  json["flow_key"] = NameOf(info.options.kind, info.options.vlan);
  json["flows_at_once"] = {
      {"max", f.flows_at_once_max},
      {"mean", static_cast<double>(f.flows_at_once_mean_1000) / 1'000}};
  json["packet_bytes"] = Quantiles(f.packet_bytes);
  json["flow_bytes"] = Quantiles(f.flow_bytes);
  json["flow_packets"] = Quantiles(f.flow_packets);
  json["flow_ns"] = Quantiles(f.flow_ns);
  json["gap_ns"] = Quantiles(f.gap_ns);
  json["flowlets"] = Flowlets(info);
  json["series"] = {{"bin_ns", info.series.width().ns},
                    {"bytes", info.series.bins()}};
  json["notes"] = RemarksOn(info);
  json["warnings"] = info.warnings;
  return json;
}

}  // namespace

std::string JsonOf(std::span<const CaptureInfo> infos) {
  Json json = {{"captures", Json::array()}};
  for (const CaptureInfo& info : infos) json["captures"].push_back(One(info));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace snf
