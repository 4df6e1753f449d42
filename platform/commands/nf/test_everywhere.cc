// SPDX-License-Identifier: Apache-2.0
//
// RunEverywhere of nf_test.h.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/packet/classifier.h"
#include "base/packet/endpoint.h"
#include "base/packet/flow_key_text.h"
#include "controller/core/placement.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/process/nf_guard.h"
#include "platform/run/own_keys.h"
#include "platform/run/run.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/sdk/nf_test.h"
#include "traces/capture_writer.h"
#include "traces/merged_reader.h"

extern "C" {
// The files of the program and of the module under test, which a test of
// snf_add_nf_test has (nf_module.cmake).
extern const char snf_program[] __attribute__((weak));
extern const char snf_tested_module[] __attribute__((weak));
}

namespace snf {
namespace {

constexpr Instant kStart = Instant{} + Seconds(1'000);
// Units that have to fetch a piece of a pool have it by then.
constexpr Nanos kAliasIsKnown = Milliseconds(20);
// After a longer one, an inside end may have another alias.
constexpr Nanos kPause = Seconds(1);

// What became of a packet.
struct Fate {
  std::string other;  // "drop …", "consume"; or else it left:
  TestPacket packet;
  friend bool operator==(const Fate&, const Fate&) = default;
};

std::string ToText(const Fate& fate) {
  return fate.other.empty() ? ToText(fate.packet) : fate.other;
}

struct Everything {
  RunResult run;
  std::vector<bool> sent;  // by packet
  // The fates of a flow's packets, in the order of arrival. Of packets that the
  // NF emits, whose key is that of their own addresses, the order may vary.
  std::map<FlowKey, std::vector<Fate>> flows;
  std::map<FlowKey, std::vector<Fate>> emitted;
};

// Finds the flows of packets, as a controller does.
class FlowFinder {
 public:
  explicit FlowFinder(const NetworkFunction& nf) : own_keys_(nf) {}
  FlowKey Find(Instant now, LinkType link, std::span<const std::byte> bytes) {
    ParsedPacket headers;
    FlowKey key;
    const Direction direction =
        classifier_.Classify(now, link, bytes, headers, key);
    if (own_keys_.any() && direction != Direction::kNone) {
      own_keys_.Apply(bytes, headers, direction, key);
    }
    return key;
  }

 private:
  FlowClassifier classifier_{{}};
  OwnKeys own_keys_;
};

// Notes the fates of a run's packets.
class Watcher final : public RunObserver {
 public:
  explicit Watcher(const NetworkFunction& nf)
      : finder_(nf), has_ends_(nf.flow_scope() == FlowScope::kInsideEndpoint) {}

  // Returns true if a packet of the flow was dropped; if a flow has several
  // connections, a packet of the same connection.
  bool HasDropped(Instant now, const TestPacket& packet) {
    return dropped_.contains(finder_.Find(now, packet.link, packet.bytes));
  }
  void on_arrival(Instant, const FlowKey& key, uint32_t) override {
    arrived_ = key;
    ++arrivals_[key];
  }
  void on_enqueue(Instant, UnitId, const PacketMeta& meta) override {
    if (!meta.has_payload()) return;
    lives_.try_emplace(meta.flow, arrived_, lives_.size());
  }
  void on_release(const ReleasedPacket& packet) override {
    Fate fate = {.other = "",
                 .packet = {.bytes = {packet.bytes.begin(), packet.bytes.end()},
                            .original_length = packet.original_length,
                            .link = packet.link}};
    if (packet.route.has_clock()) {
      FateOf(packet.route.flow, packet.route.clock) = std::move(fate);
      return;
    }
    const ParsedPacket headers = Parse(packet.link, packet.bytes);
    if (!headers.has_ip()) return;  // it passed through
    FlowKey key;
    ConnectionKey(packet.bytes, headers, false, key);
    emitted_[key].push_back(std::move(fate));
  }
  void on_consumed(Instant, const PacketMeta& meta) override {
    FateOf(meta.flow, meta.clock) = {.other = "consume", .packet = {}};
  }
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override {
    Fate fate = {.other = "drop " + std::string(reason), .packet = {}};
    const auto life = lives_.find(packet.route.flow);
    dropped_.insert(has_ends_ || life == lives_.end()
                        ? finder_.Find(packet.time, packet.link, packet.bytes)
                        : life->second.first);
    if (packet.route.flow != kNoFlow) {
      FateOf(packet.route.flow, packet.route.clock) = std::move(fate);
    } else {
      before_[arrived_].emplace_back(arrivals_[arrived_] - 1, std::move(fate));
    }
  }

  Everything Take(RunResult run) {
    Everything all = {.run = std::move(run),
                      .sent = {},
                      .flows = {},
                      .emitted = std::move(emitted_)};
    // A flow that ended and began again has two lives.
    for (auto& [place, fate] : fates_) {
      all.flows[place.key].push_back(std::move(fate));
    }
    for (auto& [key, fates] : before_) {
      std::vector<Fate>& of_flow = all.flows[key];
      for (auto& [place, fate] : fates) {
        const size_t at = std::min(place, of_flow.size());
        of_flow.insert(of_flow.begin() + static_cast<ptrdiff_t>(at),
                       std::move(fate));
      }
    }
    for (auto& [key, fates] : all.emitted) {
      std::ranges::sort(fates, {},
                        [](const Fate& fate) { return fate.packet.bytes; });
    }
    return all;
  }

 private:
  struct Place {
    FlowKey key;
    size_t life;
    Clock clock;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  Fate& FateOf(FlowId flow, Clock clock) {
    const auto& [key, life] = lives_.at(flow);
    return fates_[{.key = key, .life = life, .clock = clock}];
  }

  FlowFinder finder_;
  const bool has_ends_;
  std::set<FlowKey> dropped_;
  FlowKey arrived_;
  std::map<FlowId, std::pair<FlowKey, size_t>> lives_;
  std::map<Place, Fate> fates_;
  std::map<FlowKey, size_t> arrivals_;
  // Packets that were dropped before they had a flow, each with the number of
  // packets with the same key that came before.
  std::map<FlowKey, std::vector<std::pair<size_t, Fate>>> before_;
  std::map<FlowKey, std::vector<Fate>> emitted_;
};

// Delays packets so that the alias of an inside end is known when the first
// packet to it comes: in a real network no answer could come before.
std::vector<TestPacket> WithLateAnswers(std::vector<TestPacket> packets) {
  struct Sender {
    Instant since;  // of the first packet, or the first after a pause
    Instant last;
  };
  std::map<FlowKey, Sender> senders;
  FlowClassifier classifier{{}};
  Instant now = kStart;
  for (TestPacket& packet : packets) {
    const Instant before = now;
    now = now + packet.gap;
    ParsedPacket headers;
    FlowKey key;
    const Direction direction =
        classifier.Classify(now, packet.link, packet.bytes, headers, key);
    if (direction == Direction::kNone || !HasEnds(key)) continue;
    const Endpoints ends = EndpointsOf(key, direction);
    if (const auto to = senders.find(ends.to); to != senders.end()) {
      now = std::max(now, to->second.since + kAliasIsKnown);
      packet.gap = now - before;
    }
    Sender& sender =
        senders.try_emplace(ends.from, Sender{.since = now, .last = now})
            .first->second;
    if (now - sender.last > kPause) sender.since = now;
    sender.last = now;
  }
  return packets;
}

RunOptions OptionsOf(uint32_t units, const std::vector<IpPrefix>& inside) {
  RunOptions options;
  options.inside = inside;
  options.nf_logs = true;
  options.controller.load_signal = LoadSignal::kDemand;
  options.controller.alpha_1024 = 256;
  options.controller.replica_choice = ReplicaChoice::kWeighted;
  options.controller.unit_idle_timeout = Milliseconds(100);
  ControllerOptions& c = options.controller;
  c.max_flows = 1 << 16;
  c.max_units = c.warm_units = units;
  // Queues that hold whatever packets have to wait for a state.
  c.unit_capacity_bps = 1'000'000'000'000;
  c.unit_queue_packets = c.start_buffer_packets = options.hold_packets = 8'192;
  options.state_delay = Microseconds(1);
  // Both ways for a state to move.
  c.replicas = units % 2 == 0 ? 0 : std::min(3u, units - 1);
  if (c.replicas == 0) c.replica_choice = ReplicaChoice::kNone;
  options.buffers = {.small = 1 << 14, .medium = 1 << 12, .large = 1 << 9};
  return options;
}

Everything Run(const NfSpec& nf, const std::vector<TestPacket>& packets,
               const NetworkFunction& example,
               const std::vector<IpPrefix>& inside, uint32_t units,
               std::string_view policy, bool closed_loop) {
  Watcher watcher(example);
  VirtualDriver driver(OptionsOf(units, inside), *FindPlacementPolicy(policy),
                       nf, {&watcher});
  Instant now = kStart;
  std::vector<bool> sent;
  for (const TestPacket& packet : packets) {
    const auto captured = static_cast<uint32_t>(packet.bytes.size());
    now = now + packet.gap;
    if (closed_loop && !sent.empty()) driver.AdvanceTo(now);
    sent.push_back(!closed_loop || !watcher.HasDropped(now, packet));
    if (!sent.back()) continue;
    driver.Offer({.time = now,
                  .bytes = packet.bytes,
                  .original_bytes = std::max(packet.original_length, captured),
                  .link = packet.link});
  }
  Everything all = watcher.Take(driver.Finish());
  all.sent = std::move(sent);
  return all;
}

using Flows = std::map<FlowKey, std::vector<Fate>>;

bool MayVary(const Fate& fate, const EverywhereOptions& options) {
  return std::ranges::any_of(options.drops_that_vary,
                             [&](const VaryingDrops& drops) {
                               return fate.other == "drop " + drops.reason;
                             });
}

// The first difference, in words; empty for none. Sets `varied` if drops that
// may vary did so.
std::string Difference(const Flows& expected, const Flows& found,
                       std::string_view of, bool compares_packets,
                       const EverywhereOptions& options, bool& varied) {
  const auto differ = [&](const FlowKey& key, size_t i, const std::string& a,
                          const std::string& b) {
    return "packet " + std::to_string(i + 1) + std::string(of) + ToString(key) +
           " became\n  " + b + "\nbut on one unit\n  " + a;
  };
  const auto fates_in = [](const Flows& flows, const FlowKey& key) {
    const auto entry = flows.find(key);
    return entry == flows.end() ? std::vector<Fate>() : entry->second;
  };
  Flows all = expected;
  all.insert(found.begin(), found.end());
  for (const auto& [key, unused] : all) {
    const std::vector<Fate> a = fates_in(expected, key);
    const std::vector<Fate> b = fates_in(found, key);
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size() && i < b.size() && a[i] != b[i] &&
          (MayVary(a[i], options) || MayVary(b[i], options))) {
        varied = true;
        break;
      }
      if (i >= a.size()) return differ(key, i, "nothing", ToText(b[i]));
      if (i >= b.size()) return differ(key, i, ToText(a[i]), "nothing");
      const bool same =
          compares_packets ? a[i] == b[i] : a[i].other == b[i].other;
      if (!same) return differ(key, i, ToText(a[i]), ToText(b[i]));
    }
  }
  return "";
}

// Returns how often packets were dropped for the NF's reason; nothing if it has
// no such reason.
std::optional<uint64_t> DropsFor(std::string_view reason,
                                 const Everything& all) {
  const auto& names = all.run.nf_drop_names;
  const auto name = std::ranges::find(names, reason);
  if (name == names.end()) return std::nullopt;
  return all.run.nf_dropped[static_cast<size_t>(name - names.begin())];
}

std::string DropDifference(const Everything& expected, const Everything& found,
                           uint32_t units, const EverywhereOptions& options) {
  for (const VaryingDrops& drops : options.drops_that_vary) {
    const std::optional<uint64_t> a = DropsFor(drops.reason, expected);
    if (!a.has_value()) {
      return "the NF has no reason \"" + drops.reason + "\" to drop a packet";
    }
    const uint64_t b = DropsFor(drops.reason, found).value_or(0);
    const uint64_t fewer = (units - 1) * drops.fewer;
    const uint64_t more = (units - 1) * drops.more;
    if (b + fewer >= *a && b <= *a + more) continue;
    return std::to_string(b) + " packets became \"drop " + drops.reason +
           "\", but on one unit " + std::to_string(*a) + ": at most " +
           std::to_string(fewer) + " less and " + std::to_string(more) +
           " more are allowed";
  }
  return "";
}

std::string CounterDifference(const Everything& expected,
                              const Everything& found,
                              const std::vector<std::string>& vary) {
  for (size_t i = 0; i < expected.run.nf_counters.size(); ++i) {
    const RunResult::NfCounter& a = expected.run.nf_counters[i];
    const RunResult::NfCounter& b = found.run.nf_counters[i];
    const std::string name = a.nf + (a.nf.empty() ? "" : ".") + a.name;
    if (a.value == b.value || std::ranges::find(vary, name) != vary.end()) {
      continue;
    }
    return "counter " + name + " is " + std::to_string(b.value) +
           ", but on one unit " + std::to_string(a.value);
  }
  return "";
}

std::string LogDifference(const Everything& expected, const Everything& found) {
  for (size_t i = 0; i < expected.run.nf_logs.size(); ++i) {
    const NfLogCount& a = expected.run.nf_logs[i];
    const NfLogCount& b = found.run.nf_logs[i];
    if (a.released == b.released && a.no_room == b.no_room) continue;
    return "log " + a.name + " has " + std::to_string(b.released) +
           " records, but on one unit " + std::to_string(a.released);
  }
  return "";
}

bool Same(const NfReport::Table& a, const NfReport::Table& b) {
  return a.title == b.title && a.columns == b.columns && a.rows == b.rows;
}

// Of what the NFs tell at the end, all updates of shared tables being merged.
// Tables that are full keep what came first.
std::string ReportDifference(const Everything& expected,
                             const Everything& found) {
  for (const TableFigures& table : found.run.tables) {
    if (table.refused > 0) return "";
  }
  for (size_t i = 0; i < expected.run.nf_reports.size(); ++i) {
    const NfReport& a = expected.run.nf_reports[i].report;
    const NfReport& b = found.run.nf_reports.at(i).report;
    for (size_t t = 0; t < a.tables.size(); ++t) {
      if (t >= b.tables.size() || !Same(a.tables[t], b.tables[t])) {
        return "it reports another table \"" + a.tables[t].title +
               "\" than on one unit";
      }
    }
    for (size_t f = 0; f < a.files.size(); ++f) {
      if (f >= b.files.size() || a.files[f].bytes != b.files[f].bytes) {
        return "it writes another file " + a.files[f].path +
               " than on one unit";
      }
    }
    for (size_t e = 0; e < a.exports.size(); ++e) {
      if (e >= b.exports.size() ||
          a.exports[e].messages != b.exports[e].messages) {
        return "it exports something else than on one unit";
      }
    }
  }
  return "";
}

// Empty if all is well.
std::string WhatIsWrong(const Everything& expected, const Everything& found,
                        uint32_t units, bool has_pools,
                        const EverywhereOptions& options) {
  bool varied = false;
  std::string wrong = Difference(expected.flows, found.flows, " of flow ",
                                 !has_pools, options, varied);
  if (wrong.empty()) wrong = DropDifference(expected, found, units, options);
  if (wrong.empty() && !has_pools && !varied) {
    wrong = Difference(expected.emitted, found.emitted, " emitted in ", true,
                       options, varied);
  }
  if (wrong.empty()) {
    wrong = CounterDifference(expected, found, options.counters_that_vary);
  }
  if (wrong.empty() && !varied) wrong = LogDifference(expected, found);
  if (wrong.empty() && !has_pools && !varied) {
    wrong = ReportDifference(expected, found);
  }
  if (found.run.violations > 0) {
    wrong += (wrong.empty() ? "" : "\n") + std::string("the checker found: ") +
             found.run.violation_messages.front();
  }
  return wrong;
}

// Returns the NF as the program can load it.
std::string Loadable(const std::string& nf) {
  if (snf_tested_module == nullptr) return nf;
  const std::string file = snf_tested_module;
  return WithNfFiles(nf, {{std::filesystem::path(file).stem(), file}});
}

// The packets that were sent as a capture, and the command that runs them like
// this.
std::string ReplayLine(const std::string& nf,
                       const std::vector<TestPacket>& packets,
                       const std::vector<bool>& sent, const std::string& inside,
                       uint32_t units) {
  static int number = 0;  // of the failure
  const std::string file = testing::TempDir() + "everywhere_" +
                           std::to_string(::getpid()) + "_" +
                           std::to_string(++number) + ".pcapng";
  auto writer = CaptureWriter::Open(file, {});
  if (!writer.ok()) return std::string(writer.status().message());
  Instant now = kStart;
  for (size_t i = 0; i < packets.size(); ++i) {
    const TestPacket& packet = packets[i];
    const auto captured = static_cast<uint32_t>(packet.bytes.size());
    now = now + packet.gap;
    if (!sent[i]) continue;
    (*writer)->Write(
        {.time = now,
         .bytes = packet.bytes,
         .original_bytes = std::max(packet.original_length, captured),
         .link = packet.link});
  }
  if (const absl::Status status = (*writer)->Close(); !status.ok()) {
    return std::string(status.message());
  }
  const std::string program = snf_program == nullptr ? "./snf" : snf_program;
  return "to see it: " + program + " replay " + file + " --nf='" +
         Loadable(nf) +
         "' --policy=rotate --max_units=" + std::to_string(units) +
         " --warm_units=" + std::to_string(units) +
         " --unit_capacity=1Tbps --state_delay=1us" +
         (inside.empty() ? "" : " --inside=" + inside) +
         "\n";  // GoogleTest writes a parenthesis after it
}

}  // namespace

testing::AssertionResult RunEverywhere(const std::string& nf,
                                       const std::vector<TestPacket>& given,
                                       const EverywhereOptions& options) {
  GuardNfCalls("RunEverywhere");
  const absl::StatusOr<NfSpec> spec = NfSpec::Parse(nf);
  const absl::Status status = spec.ok() ? spec->check() : spec.status();
  if (!status.ok()) {
    return testing::AssertionFailure() << std::string(status.message());
  }
  std::vector<IpPrefix> inside;
  if (!options.inside.empty()) {
    auto prefixes = ParsePrefixes(options.inside);
    if (!prefixes.ok()) {
      return testing::AssertionFailure()
             << std::string(prefixes.status().message());
    }
    inside = *std::move(prefixes);
  }
  const std::unique_ptr<NetworkFunction> example = spec->create();
  const bool has_pools = !example->pools().empty();
  const bool has_sides = example->flow_scope() == FlowScope::kInsideEndpoint;
  const std::vector<TestPacket> packets =
      has_sides ? WithLateAnswers(given) : given;
  const Everything expected =
      Run(*spec, packets, *example, inside, 1, "snf", options.closed_loop);
  for (const uint32_t units : options.units) {
    const Everything found = Run(*spec, packets, *example, inside, units,
                                 "rotate", options.closed_loop);
    const std::string wrong =
        WhatIsWrong(expected, found, units, has_pools, options);
    if (!wrong.empty()) {
      return testing::AssertionFailure()
             << "on " << units << " units, each packet on the next one, "
             << wrong << "\n"
             << ReplayLine(nf, packets, found.sent,
                           has_sides ? options.inside : "", units);
    }
    if (units > 1 && found.run.controller.flowlets_moved == 0) {
      return testing::AssertionFailure()
             << "no packet ran on another unit than the one before it: some "
                "flow needs two packets, and, where the NF has two sides, from "
                "the inside, which is " +
                    options.inside;
    }
  }
  return testing::AssertionSuccess();
}

std::vector<TestPacket> Packets(const std::vector<std::string>& texts) {
  std::vector<TestPacket> packets;
  for (const std::string& text : texts) {
    absl::StatusOr<TestPacket> packet = ParsePacket(text);
    if (packet.ok()) {
      packets.push_back(*std::move(packet));
    } else {
      ADD_FAILURE() << packet.status().message();
    }
  }
  return packets;
}

std::vector<TestPacket> PacketsOf(const std::string& capture,
                                  const std::string& flow) {
  std::vector<TestPacket> packets;
  std::optional<FlowKey> wanted;
  if (!flow.empty()) {
    const absl::StatusOr<FlowKey> key = ParseFlowKey(flow);
    if (key.ok()) {
      wanted = *key;
    } else {
      ADD_FAILURE() << key.status().message();
      return packets;
    }
  }
  const bool both_ways = flow.find("<>") != std::string::npos;
  auto reader = MergedReader::Open({capture});
  CapturedPacket packet;
  Instant before = Instant::max();
  while (reader.ok() && (*reader)->Next(packet) == ReadResult::kPacket) {
    const ParsedPacket headers = Parse(packet.link, packet.bytes);
    FlowKey key;
    if (headers.has_ip()) {
      FiveTuple(packet.bytes, headers, false, key);
      if (both_ways) Canonicalize(key);
    }
    if (wanted.has_value() && key != *wanted) continue;
    packets.push_back({.bytes = {packet.bytes.begin(), packet.bytes.end()},
                       .original_length = packet.original_bytes,
                       .link = packet.link,
                       .gap = std::max(packet.time - before, Nanos{})});
    before = packet.time;
  }
  const absl::Status status =
      reader.ok() ? (*reader)->status() : reader.status();
  if (!status.ok()) {
    ADD_FAILURE() << status.message();
  } else if (packets.empty()) {
    ADD_FAILURE() << capture << " has no packet of " << flow;
  }
  return packets;
}

}  // namespace snf
