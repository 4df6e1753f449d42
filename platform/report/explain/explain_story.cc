// SPDX-License-Identifier: Apache-2.0
#include "platform/report/explain/explain_story.h"

#include <algorithm>

#include "base/packet/flow_key_text.h"
#include "base/quantity.h"
#include "base/text/wrapping.h"
#include "controller/units/load_meter.h"
#include "fmt/format.h"

namespace snf {
namespace {

constexpr size_t kUnitsListed = 6;

// Adds "  label    piece; piece …", wrapped between pieces, the first of which
// begins in column `indent`.
void AddLines(std::string_view label, size_t indent,
              const std::vector<std::string>& pieces,
              std::string_view separator, std::string& out) {
  out += Wrap(fmt::format("  {:<{}}", label, indent - 2), pieces,
              {.indent = indent, .separator = separator});
}

constexpr size_t kHeaderIndent = 12;
constexpr size_t kFlowletIndent = 11;
using Clauses = std::vector<std::string>;

std::string Count(uint64_t n, std::string_view noun) {
  const std::string_view plural = n == 1                 ? ""
                                  : noun.ends_with("sh") ? "es"
                                                         : "s";
  return fmt::format("{} {}{}", FormatCount(n), noun, plural);
}

// Quanta in percent of a unit.
std::string Percent(int64_t quanta) {
  return fmt::format("{:.1f}", static_cast<double>(quanta) * 100 / kFullLoad);
}

// The time since `start`: "+1,234.567 ms".
std::string Offset(Instant time, Instant start) {
  const auto us = static_cast<uint64_t>((time - start).ns / 1000);
  return fmt::format("+{}.{:03} ms", FormatCount(us / 1000), us % 1000);
}

// As one would ask for it: "<>" where the flow is both directions.
std::string NameOf(const FlowKey& key, FlowKeyKind kind) {
  std::string name = ToString(key);
  const size_t arrow = name.find(" > ");
  if (kind != FlowKeyKind::k5Tuple && arrow != std::string::npos) {
    name.replace(arrow, 3, " <> ");
  }
  return name;
}

// Adds the unusual outcomes of the packets.
void AddFates(const PacketFates& packets, Clauses& clauses) {
  if (packets.consumed > 0) {
    clauses.push_back(FormatCount(packets.consumed) + " consumed by the NF");
  }
  std::string reasons;
  uint64_t dropped = 0;
  for (const auto& [reason, n] : packets.dropped) {
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason,
                           FormatCount(n));
    dropped += n;
  }
  if (dropped > 0) {
    clauses.push_back(FormatCount(dropped) + " dropped (" + reasons + ")");
  }
  const uint64_t left =
      packets.released + packets.consumed + packets.dropped_at_unit;
  if (packets.enqueued > left) {
    clauses.push_back(FormatCount(packets.enqueued - left) + " under way");
  }
}

std::string NameOf(const PacketName& packet, uint32_t lives) {
  return fmt::format("flowlet {}, clock {}{}", FormatCount(packet.flowlet),
                     FormatCount(value(packet.clock)),
                     lives > 1 ? fmt::format(" in life {}", packet.life) : "");
}

// The units that got most of the flow's flowlets.
Clauses UnitsUsed(const FlowStory& story) {
  const std::vector<uint64_t>& flowlets = story.flowlets_on_unit;
  std::vector<size_t> units;
  for (size_t i = 0; i < flowlets.size(); ++i) {
    if (flowlets[i] > 0) units.push_back(i);
  }
  const size_t used = units.size();
  std::ranges::stable_sort(units, std::ranges::greater{},
                           [&](size_t i) { return flowlets[i]; });
  units.resize(std::min(used, kUnitsListed));
  Clauses clauses = {FormatCount(used) + " used"};
  for (const size_t i : units) {
    clauses.push_back(
        fmt::format("unit {} for {}", i, Count(flowlets[i], "flowlet")));
  }
  if (used > units.size()) {
    clauses.push_back("and " + FormatCount(used - units.size()) + " more");
  }
  return clauses;
}

// "longest wait 1.21 ms (WHOSE)".
std::string LongestWait(const PacketFates& packets, const std::string& whose) {
  if (packets.longest_wait.ns <= 0) return "no wait";
  return fmt::format("longest wait {} ({})",
                     FormatDuration(packets.longest_wait), whose);
}

// Adds the waits of packets for state; `whose` names the packet that waited
// longest.
void AddHolds(const PacketFates& packets, const std::string& whose,
              Clauses& clauses) {
  if (packets.held == 0) return;
  const std::string_view form =
      packets.held == 1 ? "held {} for {} ({})" : "held {}, {} at most ({})";
  clauses.push_back(fmt::format(fmt::runtime(form),
                                Count(packets.held, "packet"),
                                FormatDuration(packets.longest_hold), whose));
}

// The first drops, one by one.
void AddDrops(const FlowStory& story, std::string& out) {
  if (story.drops.empty()) return;
  uint64_t more = 0;
  for (const auto& [reason, n] : story.packets.dropped) more += n;
  more -= story.drops.size();
  Clauses line;
  for (const DropStory& drop : story.drops) {
    const bool has_clock = drop.clock != Clock{};
    line.push_back(fmt::format(
        "{} {}{}", Offset(drop.time, story.first_packet), drop.reason,
        has_clock ? fmt::format(" (clock {})", FormatCount(value(drop.clock)))
                  : ""));
  }
  if (more > 0) line.push_back("and " + FormatCount(more) + " more");
  AddLines("drops", kHeaderIndent, line, "; ", out);
}

void AddHeader(const FlowStory& story, const RunOptions& options,
               std::string& out) {
  const PacketFates& packets = story.packets;
  const Nanos lasted = story.last_packet - story.first_packet;
  const auto add = [&](std::string_view label, const Clauses& clauses) {
    AddLines(label, kHeaderIndent, clauses, "; ", out);
  };
  out += "Flow " + NameOf(story.key, options.flow.kind) + "\n";
  Clauses line = {Count(packets.arrived, "packet") + ", " +
                  Count(packets.bytes, "byte")};
  if (packets.arrived > 1) line.push_back("lasted " + FormatDuration(lasted));
  line.push_back("first seen " +
                 FormatDuration(story.first_packet - story.capture_start) +
                 " after the run's first packet");
  add("traffic", line);
  line = {Count(story.flowlets, "flowlet"),
          FormatCount(story.moved) + " moved to another unit"};
  if (story.seamless > 0) {
    line.back() += ", " + FormatCount(story.seamless) + " of them seamless";
  }
  line.push_back(FormatCount(story.overcommitted) + " overcommitted");
  if (story.late > 0) {
    line.push_back(FormatCount(story.late) + " placed twice");
  }
  add("decisions", line);
  if (story.lives > 1) {
    add("lives",
        {FormatCount(story.lives),
         "it is forgotten when silent for " +
             FormatDuration(options.controller.flow_timeout, Precision::kExact),
         "flowlets and clocks then begin at 1 again"});
  }
  if (story.flowlets > 0) add("units", UnitsUsed(story));
  line.clear();
  if (story.pushes > 0) line.push_back(Count(story.pushes, "push"));
  if (story.pulls > 0) line.push_back(Count(story.pulls, "pull"));
  AddHolds(packets, NameOf(packets.longest_hold_of, story.lives), line);
  if (story.hand_overs > 0) {
    line.push_back(FormatCount(story.hand_overs) +
                   " handed over by a unit that was to stop");
  }
  if (!line.empty()) add("state", line);
  line = {FormatCount(packets.released) + " released"};
  AddFates(packets, line);
  add("packets", line);
  AddDrops(story, out);
  line.clear();
  if (packets.released > 0) {
    line.push_back(
        fmt::format("p50 {}, p99 {}, max {}",
                    FormatDuration({story.latency_ns.Quantile(50'000)}),
                    FormatDuration({story.latency_ns.Quantile(99'000)}),
                    FormatDuration(packets.longest_latency)));
  }
  if (packets.longest_wait_of.life > 0) {
    line.push_back(
        LongestWait(packets, NameOf(packets.longest_wait_of, story.lives)));
  }
  if (!line.empty()) add("latency", line);
}

std::string CauseOf(const FlowletStory& flowlet, const FlowStory& story,
                    const RunOptions& options) {
  const Decision& decision = flowlet.decision;
  switch (decision.cause) {
    case FlowletCause::kNewFlow:
      if (flowlet.life <= 1) return "new flow";
      return "forgotten, new again after " +
             FormatDuration(decision.gap, Precision::kExact);
    case FlowletCause::kGap:
      return "gap of " + FormatDuration(decision.gap, Precision::kExact) +
             " > " +
             FormatDuration(options.controller.flowlet_timeout,
                            Precision::kExact);
    case FlowletCause::kBytes:
      if (story.per_packet) return "the next packet";
      return fmt::format("{} + {} bytes > {}", FormatCount(decision.bytes),
                         FormatCount(flowlet.cause_bytes),
                         FormatCount(options.controller.flowlet_bytes));
    case FlowletCause::kLate:
      return "it had no unit, or no more";
  }
  return "";
}

std::string PlaceOf(const Decision& decision) {
  const UnitId from = decision.request.owner;
  const UnitId unit = decision.placement.unit;
  if (unit == kNoUnit) return "there is no unit for it";
  if (from == kNoUnit) return fmt::format("starts on unit {}", value(unit));
  if (from == unit) return fmt::format("stays on unit {}", value(unit));
  return fmt::format("moves from unit {} to {}", value(from), value(unit));
}

void AddDemand(const FlowletStory& flowlet, std::string& out) {
  const Decision& decision = flowlet.decision;
  const UnitId owner = decision.request.owner;
  const std::string units = Count(flowlet.placeable_units, "unit");
  Clauses line = {fmt::format("{} = {} %", FormatBitRate(decision.demand_bps),
                              Percent(decision.request.demand))};
  const bool overcommitted = decision.placement.overcommitted;
  if (overcommitted && flowlet.units_with_room == 0) {
    line.push_back("OVERCOMMITTED: no room on " + units);
  } else {
    line.push_back(
        fmt::format("{}room on {} of {}",
                    overcommitted ? "OVERCOMMITTED: stays in line; " : "",
                    FormatCount(flowlet.units_with_room), units));
  }
  if (flowlet.unit_starting) {
    line.push_back(fmt::format("unit {} is not ready yet",
                               value(decision.placement.unit)));
  }
  if (flowlet.starting_units > 0) {
    line.push_back(FormatCount(flowlet.starting_units) + " starting");
  }
  if (owner != kNoUnit && flowlet.owner_state != UnitPool::State::kActive &&
      flowlet.owner_state != UnitPool::State::kStarting) {
    line.push_back(fmt::format("the state's unit {} is parked", value(owner)));
  }
  AddLines("demand", kFlowletIndent, line, "; ", out);
}

void AddCandidates(const FlowletStory& flowlet, bool by_score, uint32_t alpha,
                   std::string& out) {
  const Decision& decision = flowlet.decision;
  std::vector<std::string> cells;
  size_t width = 0;
  for (const CandidateUnit& unit : flowlet.candidates) {
    const bool is_chosen = unit.unit == decision.placement.unit;
    std::string cell = fmt::format("{}{}: {}", is_chosen ? ">" : " ",
                                   value(unit.unit), Percent(unit.load));
    if (by_score && unit.has_state) {
      const PlacementRequest& request = decision.request;
      cell +=
          "+" + Percent(unit.unit == request.owner ? alpha + request.owner_alpha
                                                   : alpha);
      if (unit.score >= 0) cell += "=" + Percent(unit.score);
    }
    if (unit.score < 0) cell += " no room";
    width = std::max(width, cell.size());
    cells.push_back(std::move(cell));
  }
  for (std::string& cell : cells) cell.resize(width, ' ');
  if (flowlet.placeable_units > cells.size()) {
    cells.push_back(fmt::format(
        " {} others", FormatCount(flowlet.placeable_units - cells.size())));
  }
  if (cells.empty()) return;
  AddLines("units", kFlowletIndent - 1, cells, "  ", out);
}

// Adds where the flowlet found its state, and where it left copies.
void AddState(const FlowletStory& flowlet, Instant start, std::string& out) {
  Clauses line;
  if (flowlet.seamless) {
    line.push_back(flowlet.there_since == Instant::max()
                       ? "there already"
                       : "there since " + Offset(flowlet.there_since, start));
  }
  if (flowlet.state.has_value()) {
    const StateTransfer& state = *flowlet.state;
    line.push_back(fmt::format(
        "asked of unit {} as of clock {} at {}", value(state.from),
        FormatCount(value(state.need)), Offset(state.asked, start)));
    line.push_back(state.came == Instant::max()
                       ? "it did not come"
                       : "came " + FormatDuration(state.came - state.asked) +
                             " later");
  }
  const Clock longest = flowlet.packets.longest_hold_of.clock;
  AddHolds(flowlet.packets, "clock " + FormatCount(value(longest)), line);
  if (!line.empty()) AddLines("state", kFlowletIndent, line, "; ", out);
}

void AddDeparture(const FlowletStory& flowlet, Instant start,
                  std::string& out) {
  if (const StatePushes& pushes = flowlet.pushes; pushes.times > 0) {
    std::string units;
    for (const UnitId unit : pushes.units) {
      units += fmt::format("{}{}", units.empty() ? "" : ", ", value(unit));
    }
    Clauses line;
    if (pushes.times > 1) {
      line.push_back(FormatCount(pushes.times) + " times; the last time");
    }
    line.push_back(fmt::format("as of clock {} at {}",
                               FormatCount(value(pushes.clock)),
                               Offset(pushes.last, start)));
    line.push_back(fmt::format("to unit{} {}",
                               pushes.units.size() == 1 ? "" : "s", units));
    AddLines("pushed", kFlowletIndent, line, " ", out);
  }
  if (flowlet.hand_over.has_value()) {
    const HandOver& hand_over = *flowlet.hand_over;
    AddLines("handed", kFlowletIndent,
             {fmt::format("over from unit {}, which is to stop, to {}",
                          value(hand_over.from), value(hand_over.to)),
              fmt::format("at {} (clock {})", Offset(hand_over.time, start),
                          FormatCount(value(hand_over.clock)))},
             " ", out);
  }
}

void AddPackets(const FlowletStory& flowlet, std::string& out) {
  const PacketFates& packets = flowlet.packets;
  Clauses line = {FormatCount(packets.arrived) + " with " +
                  Count(packets.bytes, "byte")};
  if (flowlet.first == flowlet.last) {
    line.push_back(flowlet.first == Clock{}
                       ? "no packet got a clock"
                       : "clock " + FormatCount(value(flowlet.first)));
  } else {
    line.push_back(fmt::format("clocks {} to {}",
                               FormatCount(value(flowlet.first)),
                               FormatCount(value(flowlet.last))));
  }
  AddFates(packets, line);
  AddLines("packets", kFlowletIndent, line, "; ", out);

  line.clear();
  if (std::vector<int64_t> sorted = flowlet.latencies_ns; !sorted.empty()) {
    const auto middle =
        sorted.begin() + static_cast<int64_t>((sorted.size() - 1) / 2);
    std::ranges::nth_element(sorted, middle);
    const std::string max = FormatDuration(packets.longest_latency);
    line.push_back(
        packets.released == 1
            ? max
            : fmt::format(
                  "p50 {}{}, max {}", FormatDuration({*middle}),
                  packets.released > sorted.size() ? " (of the first 256)" : "",
                  max));
  }
  if (packets.longest_wait_of.life > 0) {
    line.push_back(LongestWait(
        packets, "clock " + FormatCount(value(packets.longest_wait_of.clock))));
  }
  if (!line.empty()) AddLines("latency", kFlowletIndent, line, "; ", out);
}

void AddFlowlet(const FlowletStory& flowlet, const FlowStory& story,
                const RunOptions& options, std::string& out) {
  const Decision& decision = flowlet.decision;
  out += fmt::format(
      "{} {}  {}  {}; {}\n",
      decision.cause == FlowletCause::kLate ? "rest of flowlet" : "flowlet",
      FormatCount(decision.flowlet), Offset(decision.time, story.first_packet),
      CauseOf(flowlet, story, options), PlaceOf(decision));
  AddDemand(flowlet, out);
  AddCandidates(flowlet, story.by_score, options.controller.alpha_1024, out);
  AddState(flowlet, story.first_packet, out);
  AddPackets(flowlet, out);
  AddDeparture(flowlet, story.first_packet, out);
}

void AddBetween(const FlowStory& story, std::string& out) {
  const PacketFates& packets = story.between_packets;
  const size_t moved = story.moved_flowlets.size();
  out += fmt::format("… {} between are not shown one by one{}\n",
                     Count(story.between, "flowlet"),
                     moved == 0   ? ""
                     : moved == 1 ? "; one that moved is"
                                  : fmt::format("; {} that moved are", moved));
  AddLines("decisions", kHeaderIndent,
           {FormatCount(story.between_moved) + " moved to another unit",
            FormatCount(story.between_overcommitted) + " overcommitted"},
           "; ", out);
  Clauses line = {FormatCount(packets.arrived) + " with " +
                  Count(packets.bytes, "byte")};
  AddFates(packets, line);
  AddLines("packets", kHeaderIndent, line, "; ", out);
  line = {"max " + FormatDuration(packets.longest_latency)};
  if (packets.longest_wait_of.life > 0) {
    line.push_back(
        LongestWait(packets, NameOf(packets.longest_wait_of, story.lives)));
  }
  AddLines("latency", kHeaderIndent, line, "; ", out);
}

}  // namespace

std::string FormatStory(const FlowStory& story, const RunOptions& options) {
  const std::string name = NameOf(story.key, options.flow.kind);
  if (story.packets.arrived == 0) {
    return "Flow " + name + " did not come up in this run.\n";
  }
  std::string out;
  AddHeader(story, options, out);
  if (story.flowlets == 0) return out;
  out += FormatLegend(story, options);
  for (const FlowletStory& flowlet : story.first_flowlets) {
    AddFlowlet(flowlet, story, options, out);
  }
  if (story.between > 0) AddBetween(story, out);
  for (const FlowletStory& flowlet : story.moved_flowlets) {
    AddFlowlet(flowlet, story, options, out);
  }
  for (const FlowletStory& flowlet : story.last_flowlets) {
    AddFlowlet(flowlet, story, options, out);
  }
  return out;
}

}  // namespace snf
