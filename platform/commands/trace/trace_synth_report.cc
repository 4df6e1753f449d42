// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/trace/trace_synth_report.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/histogram.h"
#include "base/quantity.h"
#include "base/text/page.h"
#include "platform/commands/trace/trace_compose_report.h"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<uint32_t, 5> kQuantiles = {10'000, 50'000, 90'000, 99'000,
                                                100'000};
constexpr std::array kQuantileNames = {"p10", "p50", "p90", "p99", "max"};
constexpr size_t kNameColumns = 25;
constexpr size_t kFigureColumns = 11;

struct Sizes {
  Histogram packet_bytes;
  Histogram flow_bytes;
  Histogram flow_packets;
};

Sizes SizesOf(const FlowModel& model) {
  Sizes sizes;
  const Conversations& conversations = model.conversations();
  for (size_t flow = 0; flow < conversations.size(); ++flow) {
    const size_t count = conversations.CountOf(flow);
    for (size_t i = 0; i < count; ++i) {
      sizes.packet_bytes.Record(conversations.WireBytes(flow, i));
    }
    sizes.flow_bytes.Record(static_cast<int64_t>(conversations.BytesOf(flow)));
    sizes.flow_packets.Record(static_cast<int64_t>(count));
  }
  return sizes;
}

// A quantity of the model and of the result.
struct Pair {
  const char* name;
  const char* key;
  const Histogram& model;
  const Histogram& made;
};

std::array<Pair, 3> PairsOf(const Sizes& model, const OverlayTally& made) {
  return {
      {{"Bytes of a packet", "packet_bytes", model.packet_bytes,
        made.packet_bytes()},
       {"Bytes of a flow", "flow_bytes", model.flow_bytes, made.flow_bytes()},
       {"Packets of a flow", "flow_packets", model.flow_packets,
        made.flow_packets()}}};
}

std::string QuantileTable(const std::array<Pair, 3>& pairs) {
  std::string table = std::string(kNameColumns, ' ');
  for (const char* name : kQuantileNames) {
    table += fmt::format("{:>{}}", name, kFigureColumns);
  }
  table += '\n';
  const auto add = [&table](const std::string& name, const Histogram& values) {
    table += fmt::format("{:<{}}", name, kNameColumns);
    for (const uint32_t quantile : kQuantiles) {
      table += fmt::format(
          "{:>{}}",
          FormatCount(static_cast<uint64_t>(values.Quantile(quantile))),
          kFigureColumns);
    }
    table += '\n';
  };
  for (const Pair& pair : pairs) {
    add(fmt::format("{:<18} model", pair.name), pair.model);
    add(fmt::format("{:<18}  made", ""), pair.made);
  }
  return table;
}

std::vector<FlowletRow> RowsOf(const SynthReport& report) {
  const Conversations& conversations = report.model.conversations();
  return {{"model", WholeFigures(conversations, 0, conversations.size(), {})},
          {"model, in windows of " + FormatDuration(report.window),
           WindowFigures(conversations, report.window, report.period, {})},
          {"made", report.tally.figures()}};
}

int64_t RateOf(const SynthReport& report) {
  return static_cast<int64_t>(static_cast<double>(report.tally.bytes()) * 8e9 /
                              static_cast<double>(report.options.duration.ns));
}

}  // namespace

std::string TextOf(const SynthReport& report) {
  const OverlayTally& tally = report.tally;
  const Conversations& conversations = report.model.conversations();
  Page page({});
  page.set_number_columns(FormatCount(tally.packets()).size());
  page.Raw(fmt::format(
      "{}: {} at {}; {} bytes a packet\n", Printable(report.out),
      FormatDuration(report.options.duration), FormatBitRate(RateOf(report)),
      FormatCount(tally.bytes() / tally.packets())));
  page.Blank();
  page.Count("Packets", tally.packets(),
             fmt::format("{} on the wire",
                         FormatBytes(static_cast<int64_t>(tally.bytes()))));
  if (!report.options.packets.strings.empty()) {
    page.Count(
        "", report.with_string,
        fmt::format("carry one of {}",
                    Plural(report.options.packets.strings.size(), "string")));
  }
  page.Count("Flows", tally.flows(), "each with its own addresses");
  page.Count("", tally.under_way(), "under way when a window begins");
  page.Count(
      "", tally.most_alive(),
      fmt::format(
          "most at one time, {} on average",
          FormatCount(std::llround(tally.MeanAlive(report.options.duration)))));
  page.Count(
      "Model", conversations.size(),
      report.like.empty()
          ? "flows drawn from distributions"
          : fmt::format("flows of {}, which covers {}", Printable(report.like),
                        FormatDuration(report.model.period())));
  page.Blank();
  const Sizes sizes = SizesOf(report.model);
  page.Raw(QuantileTable(PairsOf(sizes, tally)));
  page.Raw(
      "Model flows are complete; the begin and end of the capture cut some "
      "made ones.\n");
  page.Blank();
  page.Raw(FlowletTable(RowsOf(report)));
  return page.Take();
}

std::string JsonOf(const SynthReport& report) {
  const OverlayTally& tally = report.tally;
  Json flowlets = Json::object();
  const std::vector<FlowletRow> rows = RowsOf(report);
  const std::array names = {"model", "model_windowed", "made"};
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
      flowlets[names[i]][std::to_string(kFlowletGaps[t].ns / 1'000) + "us"] =
          rows[i].figures.PerFlow(t);
    }
  }
  Json quantiles = Json::object();
  const Sizes sizes = SizesOf(report.model);
  for (const Pair& pair : PairsOf(sizes, tally)) {
    for (size_t i = 0; i < kQuantiles.size(); ++i) {
      quantiles[pair.key]["model"][kQuantileNames[i]] =
          pair.model.Quantile(kQuantiles[i]);
      quantiles[pair.key]["made"][kQuantileNames[i]] =
          pair.made.Quantile(kQuantiles[i]);
    }
  }
  const Json json = {
      {"out", report.out},
      {"duration_ns", report.options.duration.ns},
      {"seed", report.options.seed},
      {"rate_bps", report.options.rate_bps},
      {"achieved_bps", RateOf(report)},
      {"packets", tally.packets()},
      {"bytes", tally.bytes()},
      {"packets_with_string", report.with_string},
      {"flows", tally.flows()},
      {"flows_under_way", tally.under_way()},
      {"flows_at_most", tally.most_alive()},
      {"flows_on_average", tally.MeanAlive(report.options.duration)},
      {"model_flows", report.model.conversations().size()},
      {"quantiles", quantiles},
      {"flowlets_per_flow", flowlets}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace snf
