// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_compose_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/quantity.h"
#include "base/text/page.h"
#include "traces/synthesis/composer.h"

namespace snf {
namespace {

constexpr size_t kNameColumns = 34;
constexpr size_t kFigureColumns = 10;

int64_t RateOf(uint64_t bytes, Nanos duration) {
  return static_cast<int64_t>(static_cast<double>(bytes) * 8e9 /
                              static_cast<double>(duration.ns));
}

std::vector<FlowletRow> RowsOf(const ComposeReport& report) {
  const Conversations& conversations = report.sources.conversations();
  const auto& weights = report.options.weights;
  return {{"sources, in windows of " + FormatDuration(report.options.duration),
           WindowFigures(conversations, report.options.duration,
                         report.options.period, weights)},
          {"composed", report.tally.figures()},
          {"sources, whole",
           WholeFigures(conversations, 0, conversations.size(), weights)},
          {"sources, squeezed to " + FormatBitRate(report.options.rate_bps),
           SqueezedFigures(report.sources, report.options.rate_bps, weights)}};
}

// Returns the layer 3 protocols of the conversations.
std::vector<L3> L3sOf(const SourceCaptures& sources) {
  bool has_ipv4 = false;
  bool has_ipv6 = false;
  for (size_t i = 0; i < sources.conversations().size(); ++i) {
    (sources.EndsOf(i).l3 == L3::kIpv6 ? has_ipv6 : has_ipv4) = true;
  }
  std::vector<L3> l3s;
  if (has_ipv4) l3s.push_back(L3::kIpv4);
  if (has_ipv6) l3s.push_back(L3::kIpv6);
  return l3s;
}

std::vector<std::string_view> PrefixesUsed(
    const SourceCaptures& sources, std::string_view EndPrefixes::*ends) {
  std::vector<std::string_view> prefixes;
  for (const L3 l3 : L3sOf(sources)) prefixes.push_back(PrefixesOf(l3).*ends);
  return prefixes;
}

}  // namespace

FlowletFigures SqueezedFigures(const SourceCaptures& sources, int64_t rate_bps,
                               const std::vector<double>& weights) {
  FlowletFigures figures;
  for (const SourceCaptures::File& file : sources.files()) {
    const double bits = static_cast<double>(file.wire_bytes) * 8;
    const double native_bps =
        bits / std::max(1e-9, static_cast<double>(file.duration.ns) / 1e9);
    const double divisor =
        std::max(1.0, static_cast<double>(rate_bps) / native_bps);
    figures.Add(WholeFigures(sources.conversations(), file.first, file.end,
                             weights, divisor));
  }
  return figures;
}

std::string FlowletTable(const std::vector<FlowletRow>& rows) {
  std::string table = fmt::format("{:<{}}", "Flowlets per flow", kNameColumns);
  for (const Nanos gap : kFlowletGaps) {
    const std::string head = "T " + FormatDuration(gap);
    table += std::string(kFigureColumns - ColumnsOf(head), ' ') + head;
  }
  table += '\n';
  for (const FlowletRow& row : rows) {
    table += fmt::format("  {:<{}}", row.name, kNameColumns - 2);
    for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
      table += fmt::format("{:>{}.2f}", row.figures.PerFlow(t), kFigureColumns);
    }
    table += '\n';
  }
  return table;
}

std::string TextOf(const ComposeReport& report) {
  const OverlayTally& tally = report.tally;
  const Nanos duration = report.options.duration;
  Page page({});
  page.set_number_columns(FormatCount(tally.packets()).size());
  page.Raw(fmt::format("{}: {} at {}; {} bytes a packet\n",
                       Printable(report.out), FormatDuration(duration),
                       FormatBitRate(RateOf(tally.bytes(), duration)),
                       FormatCount(tally.bytes() / tally.packets())));
  page.Blank();
  page.Count("Packets", tally.packets(),
             fmt::format("{} on the wire",
                         FormatBytes(static_cast<int64_t>(tally.bytes()))));
  page.Count("Flows", tally.flows(), "each with its own addresses");
  page.Row(
      "", "", "",
      fmt::format(
          "clients in {} (--inside of a replay), servers in {}",
          fmt::join(PrefixesUsed(report.sources, &EndPrefixes::clients), ", "),
          fmt::join(PrefixesUsed(report.sources, &EndPrefixes::servers),
                    ", ")));
  page.Count("", tally.under_way(), "under way when the capture begins");
  page.Count("", tally.most_alive(), "most at one time");
  const auto& files = report.sources.files();
  uint64_t without = 0;
  for (const auto& file : files) without += file.packets_without;
  page.Count(
      "Sources", report.sources.conversations().size(),
      fmt::format("conversations from {} with {}",
                  Plural(files.size(), "capture"),
                  Plural(report.sources.conversations().packets(), "packet")));
  if (without > 0) {
    page.Count("", without, "packets left out, without a readable IP header");
  }
  if (!report.left_out.empty()) {
    page.Count("", report.left_out.size(),
               fmt::format("{} left out, of a link type that is not "
                           "supported: {}",
                           report.left_out.size() == 1 ? "capture" : "captures",
                           FileList(report.left_out)));
  }
  page.Blank();
  page.Raw(FlowletTable(RowsOf(report)));
  return page.Take();
}

std::string JsonOf(const ComposeReport& report) {
  using Json = nlohmann::ordered_json;
  Json flowlets = Json::object();
  const std::vector<FlowletRow> rows = RowsOf(report);
  const std::array names = {"sources_windowed", "composed", "sources_whole",
                            "sources_squeezed"};
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
      flowlets[names[i]][std::to_string(kFlowletGaps[t].ns / 1'000) + "us"] =
          rows[i].figures.PerFlow(t);
    }
  }
  const OverlayTally& tally = report.tally;
  const Json json = {
      {"out", report.out},
      {"duration_ns", report.options.duration.ns},
      {"seed", report.options.seed},
      {"rate_bps", report.options.rate_bps},
      {"achieved_bps", RateOf(tally.bytes(), report.options.duration)},
      {"packets", tally.packets()},
      {"bytes", tally.bytes()},
      {"flows", tally.flows()},
      {"flows_under_way", tally.under_way()},
      {"flows_at_most", tally.most_alive()},
      {"client_prefixes", PrefixesUsed(report.sources, &EndPrefixes::clients)},
      {"server_prefixes", PrefixesUsed(report.sources, &EndPrefixes::servers)},
      {"source_captures", report.sources.files().size()},
      {"captures_left_out", report.left_out},
      {"source_conversations", report.sources.conversations().size()},
      {"source_packets", report.sources.conversations().packets()},
      {"flowlets_per_flow", flowlets}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace snf
