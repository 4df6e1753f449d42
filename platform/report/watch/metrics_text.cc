// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/metrics_text.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "platform/run/figures/figures.h"

namespace snf {
namespace {

constexpr uint64_t kPerSecond = 1'000'000'000;

// Escapes a label's value.
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

// Without the rounding of a double.
std::string ValueOf(const MetricSample& sample) {
  if (sample.per_unit == 1) return fmt::to_string(sample.value);
  return fmt::format("{}.{:09}", sample.value / kPerSecond,
                     sample.value % kPerSecond);
}

std::string_view NameOf(MetricFamily::Type type) {
  switch (type) {
    case MetricFamily::Type::kCounter:
      return "counter";
    case MetricFamily::Type::kGauge:
      return "gauge";
    case MetricFamily::Type::kSummary:
      return "summary";
  }
  return "";
}

// Builds families one after the other: a sample belongs to the last one.
class Metrics {
 public:
  using Type = MetricFamily::Type;

  void Begin(std::string_view name, Type type, std::string_view help) {
    families_.push_back(
        {.name = std::string(name), .help = std::string(help), .type = type});
  }
  void Counter(std::string_view name, std::string_view help) {
    Begin(name, Type::kCounter, help);
  }
  void Gauge(std::string_view name, uint64_t value, std::string_view help) {
    Begin(name, Type::kGauge, help);
    Sample(value);
  }
  void Sample(uint64_t value) {
    Add({.suffix = "", .labels = {}, .value = value});
  }
  void Sample(std::string_view label, std::string_view of, uint64_t value) {
    Add({.suffix = "",
         .labels = {{std::string(label), std::string(of)}},
         .value = value});
  }
  void Sample(std::vector<std::pair<std::string, std::string>> labels,
              uint64_t value) {
    Add({.suffix = "", .labels = std::move(labels), .value = value});
  }
  void SampleSeconds(std::vector<std::pair<std::string, std::string>> labels,
                     Nanos time) {
    Add({.suffix = "",
         .labels = std::move(labels),
         .value = Of(time),
         .per_unit = kPerSecond});
  }
  void Seconds(std::string_view name, Nanos time, std::string_view help) {
    Begin(name, Type::kGauge, help);
    SampleSeconds({}, time);
  }
  void Summary(std::string_view name, const LiveFigures::Times& times,
               std::string_view help) {
    Begin(name, Type::kSummary, help);
    const auto quantile = [this](const char* of, Nanos time) {
      Add({.suffix = "",
           .labels = {{"quantile", of}},
           .value = Of(time),
           .per_unit = kPerSecond});
    };
    quantile("0.5", times.all.p50);
    quantile("0.99", times.all.p99);
    quantile("1", times.max);
    Add({.suffix = "_sum",
         .labels = {},
         .value = times.sum_ns,
         .per_unit = kPerSecond});
    Add({.suffix = "_count", .labels = {}, .value = times.count});
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  static uint64_t Of(Nanos time) { return static_cast<uint64_t>(time.ns); }
  void Add(MetricSample sample) {
    families_.back().samples.push_back(std::move(sample));
  }

  std::vector<MetricFamily> families_;
};

// Adds all counts; the counts of a metric with labels are adjacent.
void AddCounts(const LiveFigures& figures, Metrics& to) {
  std::string_view last;
  for (const Figure& figure : Figures()) {
    const FigureMetric& metric = figure.metric;
    if (metric.name.empty()) continue;
    if (metric.name != std::exchange(last, metric.name)) {
      to.Counter(metric.name, metric.help.empty() ? figure.help : metric.help);
    }
    const uint64_t count = figures.counts.of(figure);
    if (metric.label.empty()) {
      to.Sample(count);
    } else {
      to.Sample(metric.label, metric.label_value, count);
    }
  }
}

void AddPackets(const LiveFigures& figures, Metrics& to) {
  to.Counter("snf_packets_dropped_total",
             "Packets dropped, by reason; nf:… are the network function's.");
  for (const DropCount& drop : figures.drops) {
    to.Sample("reason", drop.name, drop.packets);
  }
  to.Gauge("snf_packets_under_way", figures.packets_under_way(),
           "Packets under way: received, and not released, consumed or dropped "
           "yet.");
}

void AddPorts(const PortsFigures& live, Metrics& to) {
  if (live.ports.empty()) return;
  for (const PortCount& count : PortCounts()) {
    to.Counter(count.metric, count.help);
    for (const PortFigures& port : live.ports) {
      to.Sample("port", port.name, port.*count.count);
    }
  }
  if (!live.ports.front().router.empty()) {
    to.Counter("snf_port_router_total",
               "What a port with addresses did with frames and packets.");
    for (const PortFigures& port : live.ports) {
      for (const NamedCount& count : port.router) {
        to.Sample({{"port", port.name}, {"what", count.name}}, count.count);
      }
    }
  }
  to.Begin("snf_port_up", Metrics::Type::kGauge,
           "Whether the interface of the port is up.");
  for (const PortFigures& port : live.ports) {
    to.Sample("port", port.name, port.down.ns == 0 ? 1 : 0);
  }
  to.Counter("snf_packet_copies_total",
             "Copies of packets that left by several ports of a side.");
  to.Sample(live.copies);
}

void AddNfObjects(const LiveFigures& figures, Metrics& to) {
  if (figures.nf_objects.empty()) return;
  to.Begin("snf_nf_object_state", Metrics::Type::kGauge,
           "1 for the state of an object that a network function watches.");
  for (const LiveFigures::NfObject& one : figures.nf_objects) {
    to.Sample({{"nf", one.nf}, {"object", one.object}, {"state", one.state}},
              1);
  }
  to.Begin("snf_nf_object_state_seconds", Metrics::Type::kGauge,
           "Age of the state; absent if it is longer than known.");
  for (const LiveFigures::NfObject& one : figures.nf_objects) {
    if (!one.age.has_value()) continue;
    to.SampleSeconds({{"nf", one.nf}, {"object", one.object}}, *one.age);
  }
}

void AddUnits(const LiveFigures& figures, Metrics& to) {
  to.Gauge("snf_units_up", figures.units_up(), "Units that are up.");
  if (figures.unit_capacity_bps.has_value()) {
    to.Gauge("snf_unit_capacity_bytes_per_second",
             static_cast<uint64_t>(*figures.unit_capacity_bps) / 8,
             "Capacity of a unit.");
  }
  // Units of several chains with rules have their chain's name as well.
  const auto sample = [&](auto count) {
    for (const LiveFigures::Unit& unit : figures.units) {
      to.Sample("unit", fmt::to_string(value(unit.id)), count(unit));
    }
    for (const LiveFigures::Chain& chain : figures.chains) {
      for (const LiveFigures::Unit& unit : chain.units) {
        to.Sample(
            {{"chain", chain.name}, {"unit", fmt::to_string(value(unit.id))}},
            count(unit));
      }
    }
  };
  using Unit = LiveFigures::Unit;
  to.Begin("snf_unit_up", Metrics::Type::kGauge, "Whether the unit is up.");
  sample([](const Unit& unit) -> uint64_t { return unit.is_up ? 1 : 0; });
  to.Counter("snf_unit_packets_total", "Packets that left the unit.");
  sample([](const Unit& unit) { return unit.packets; });
  to.Counter("snf_unit_bytes_total",
             "Lengths on the wire of the packets that left the unit.");
  sample([](const Unit& unit) { return unit.bytes; });
}

void AddHosts(const LiveFigures& figures, Metrics& to) {
  if (figures.hosts.empty()) return;
  to.Begin("snf_host_units_up", Metrics::Type::kGauge,
           "Units that are up on another host.");
  for (const LiveFigures::Host& host : figures.hosts) {
    const auto up = [&host](const std::vector<LiveFigures::Unit>& units) {
      return std::ranges::count_if(units, [&host](const auto& unit) {
        return unit.is_up && unit.host == host.name;
      });
    };
    auto sum = up(figures.units);
    for (const LiveFigures::Chain& chain : figures.chains) {
      sum += up(chain.units);
    }
    to.Sample("host", host.name, static_cast<uint64_t>(sum));
  }
  to.Begin("snf_host_joined", Metrics::Type::kGauge,
           "Whether the host takes new units.");
  for (const LiveFigures::Host& host : figures.hosts) {
    to.Sample("host", host.name, host.state == "joined" ? 1 : 0);
  }
}

void AddGroup(const LiveFigures& figures, Metrics& to) {
  if (!figures.group.has_value()) return;
  const LiveFigures::Group& group = *figures.group;
  to.Gauge("snf_group_epoch", group.epoch,
           "Epoch of the table of live controllers.");
  to.Gauge("snf_group_active", group.state == "active" ? 1 : 0,
           "Whether this controller handles its hosts.");
  to.Begin("snf_group_hosts_thousandths", Metrics::Type::kGauge,
           "A live controller's share of all hosts, in thousandths.");
  for (const LiveFigures::Group::Member& member : group.members) {
    to.Sample("controller", fmt::to_string(member.number), member.hosts_1000);
  }
  to.Counter("snf_group_frames_total", "What became of frames of the group.");
  constexpr std::string_view kOfStates = "states_";
  for (const NamedCount& count : group.counts) {
    if (count.name.starts_with(kOfStates)) continue;
    to.Sample("what", count.name, count.count);
  }
  const auto add_states = [&](bool now) {
    for (const NamedCount& count : group.counts) {
      if (!count.name.starts_with(kOfStates)) continue;
      const std::string what = count.name.substr(kOfStates.size());
      const bool is_now = what == "connected" || what == "behind" ||
                          what == "sweep_us" || what == "kept";
      if (is_now == now) to.Sample("what", what, count.count);
    }
  };
  to.Begin("snf_group_states", Metrics::Type::kGauge,
           "Flows' states for the heir, and from others, as of now.");
  add_states(true);
  to.Counter("snf_group_states_total",
             "Flows' states that were sent to the heir, or came from others.");
  add_states(false);
}

void AddDependencies(const LiveFigures& figures, Metrics& to) {
  if (figures.etcd.has_value()) {
    to.Gauge(
        "snf_etcd_up", figures.etcd->is_away() ? 0 : 1,
        "Whether etcd answers, which the hosts or the group are read from.");
  }
  if (figures.manager.has_value()) {
    to.Gauge("snf_manager_up", figures.manager->is_away() ? 0 : 1,
             "Whether a resource manager leads, and knows this daemon.");
  }
}

void AddChains(const LiveFigures& figures, Metrics& to) {
  const bool has_names = std::ranges::any_of(
      figures.chains,
      [](const LiveFigures::Chain& chain) { return !chain.name.empty(); });
  if (!has_names) return;
  const auto labels = [](const LiveFigures::Chain& chain) {
    return std::vector<std::pair<std::string, std::string>>{
        {"chain", chain.name}, {"number", fmt::to_string(chain.number)}};
  };
  to.Begin("snf_chain_flows", Metrics::Type::kGauge, "Flows of the chain.");
  for (const LiveFigures::Chain& chain : figures.chains) {
    to.Sample(labels(chain), chain.flows);
  }
  to.Counter("snf_chain_packets_total", "Packets that came to the chain.");
  for (const LiveFigures::Chain& chain : figures.chains) {
    to.Sample(labels(chain), chain.packets_in);
  }
  to.Counter("snf_no_chain_packets_total",
             "Packets dropped, for no rule names a chain.");
  to.Sample(figures.live.no_chain);
}

}  // namespace

std::vector<MetricFamily> MetricsOf(const LiveFigures& figures) {
  Metrics to;
  to.Seconds("snf_run_seconds", figures.elapsed,
             "Time since the first packet.");
  AddCounts(figures, to);
  AddPackets(figures, to);
  AddPorts(figures.live, to);
  AddNfObjects(figures, to);
  AddUnits(figures, to);
  AddHosts(figures, to);
  AddGroup(figures, to);
  AddDependencies(figures, to);
  AddChains(figures, to);
  to.Summary("snf_packet_latency_seconds", figures.latency,
             "From arrival to release, of packets that were released, since "
             "the first.");
  if (figures.late.count > 0) {
    to.Summary("snf_schedule_error_seconds", figures.late,
               "How late packets were taken, since the first.");
  }
  return to.Take();
}

std::string MetricsText(const std::vector<MetricFamily>& metrics) {
  std::string text;
  for (const MetricFamily& family : metrics) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", family.name,
                        family.help, NameOf(family.type));
    for (const MetricSample& sample : family.samples) {
      text += fmt::format("{}{}", family.name, sample.suffix);
      for (const auto& [label, of] : sample.labels) {
        text += fmt::format("{}{}=\"{}\"",
                            &label == &sample.labels.front().first ? "{" : ",",
                            label, Escaped(of));
      }
      if (!sample.labels.empty()) text += "}";
      text += fmt::format(" {}\n", ValueOf(sample));
    }
  }
  return text;
}

}  // namespace snf
