// SPDX-License-Identifier: Apache-2.0
#include "platform/watch/metrics_text.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace snf {
namespace {

// Of a label's value.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// To the nanosecond, without the rounding of a double.
std::string InSeconds(uint64_t ns) {
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}
std::string InSeconds(Nanos time) {
  return InSeconds(static_cast<uint64_t>(time.ns));
}

class Metrics {
 public:
  // What follows are samples of that name.
  void Name(std::string_view name, std::string_view type,
            std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  void Counter(std::string_view name, std::string_view help) {
    Name(name, "counter", help);
  }
  void Counter(std::string_view name, uint64_t value, std::string_view help) {
    Counter(name, help);
    Sample(value);
  }
  void Gauge(std::string_view name, uint64_t value, std::string_view help) {
    Name(name, "gauge", help);
    Sample(value);
  }
  void Sample(uint64_t value) { text_ += fmt::format("{} {}\n", name_, value); }
  void Sample(std::string_view label, std::string_view of, uint64_t value) {
    text_ +=
        fmt::format("{}{{{}=\"{}\"}} {}\n", name_, label, Escaped(of), value);
  }
  void Summary(std::string_view name, const LiveFigures::Times& times,
               std::string_view help) {
    Name(name, "summary", help);
    text_ += fmt::format(
        "{0}{{quantile=\"0.5\"}} {1}\n"
        "{0}{{quantile=\"0.99\"}} {2}\n"
        "{0}{{quantile=\"1\"}} {3}\n"
        "{0}_sum {4}\n"
        "{0}_count {5}\n",
        name, InSeconds(times.all.p50), InSeconds(times.all.p99),
        InSeconds(times.max), InSeconds(times.sum_ns), times.count);
  }
  void Text(std::string_view text) { text_ += text; }

  std::string text_;

 private:
  std::string name_;
};

void AddPackets(const LiveFigures& figures, Metrics& to) {
  to.Counter("snf_packets_in_total", figures.packets_in,
             "Packets taken from the capture.");
  to.Counter("snf_packets_generated_total", figures.packets_generated,
             "Packets that the network function made.");
  to.Counter("snf_packets_hairpinned_total", figures.packets_hairpinned,
             "Packets released to an alias, which came in once more.");
  to.Counter("snf_packets_released_total", figures.packets_released,
             "Packets that left.");
  to.Counter("snf_packets_passed_through_total", figures.packets_passed_through,
             "Packets without a readable IP header, which left untouched.");
  to.Counter("snf_packets_consumed_total", figures.packets_consumed,
             "Packets that the network function took.");
  to.Counter("snf_packets_dropped_total",
             "Packets dropped, by reason; nf:… are the network function's.");
  for (const DropCount& drop : figures.drops) {
    to.Sample("reason", drop.name, drop.packets);
  }
  to.Gauge("snf_packets_under_way", figures.packets_under_way(),
           "Packets that are in, and not at an end yet.");
  to.Counter("snf_received_bytes_total", figures.bytes_in,
             "Lengths on the wire of the packets taken from the capture.");
}

void AddFlows(const LiveFigures& figures, Metrics& to) {
  to.Counter("snf_flows_begun_total", figures.flows, "Flows that began.");
  to.Counter("snf_flows_ended_total", figures.flows_ended,
             "Flows that are over.");
  to.Counter("snf_flowlets_total", figures.flowlets, "Flowlets that began.");
  to.Counter("snf_flowlets_moved_total", figures.flowlets_moved,
             "Flowlets sent to another unit than the one before.");
  to.Counter("snf_flowlets_handed_over_total",
             "Flowlets that moved and have begun: seamless, or their state "
             "was pulled.");
  to.Sample("how", "seamless", figures.seamless);
  to.Sample("how", "pulled", figures.pulled);
}

void AddUnits(const LiveFigures& figures, Metrics& to) {
  to.Counter("snf_unit_starts_total", "Units started, cold or warm.");
  to.Sample("how", "cold", figures.cold_starts);
  to.Sample("how", "warm", figures.warm_starts);
  to.Gauge("snf_units_up", figures.units_up(), "Units that are up.");
  if (figures.unit_capacity_bps.has_value()) {
    to.Gauge("snf_unit_capacity_bytes_per_second",
             static_cast<uint64_t>(*figures.unit_capacity_bps) / 8,
             "What a unit can take.");
  }
  to.Name("snf_unit_up", "gauge", "Whether the unit is up.");
  for (const LiveFigures::Unit& unit : figures.units) {
    to.Sample("unit", fmt::to_string(value(unit.id)), unit.is_up ? 1 : 0);
  }
  to.Counter("snf_unit_packets_total", "Packets that left the unit.");
  for (const LiveFigures::Unit& unit : figures.units) {
    to.Sample("unit", fmt::to_string(value(unit.id)), unit.packets);
  }
  to.Counter("snf_unit_bytes_total",
             "Lengths on the wire of the packets that left the unit.");
  for (const LiveFigures::Unit& unit : figures.units) {
    to.Sample("unit", fmt::to_string(value(unit.id)), unit.bytes);
  }
}

}  // namespace

std::string MetricsText(const LiveFigures& figures) {
  Metrics to;
  to.Name("snf_run_seconds", "gauge", "Time since the first packet.");
  to.Text(fmt::format("snf_run_seconds {}\n", InSeconds(figures.elapsed)));
  AddPackets(figures, to);
  AddFlows(figures, to);
  AddUnits(figures, to);
  to.Summary("snf_packet_latency_seconds", figures.latency,
             "From arrival to release, of packets that were released, since "
             "the first.");
  if (figures.late.count > 0) {
    to.Summary("snf_schedule_error_seconds", figures.late,
               "How late packets were taken, since the first.");
  }
  return std::move(to.text_);
}

}  // namespace snf
