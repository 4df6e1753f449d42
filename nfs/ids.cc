// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/l4_headers.h"
#include "nfs/ids_eve.h"
#include "nfs/ids_options.h"
#include "nfs/ids_stream.h"
#include "nfs/snort/http_tracker.h"
#include "nfs/snort/matcher.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/stream/stream.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;
using snort::Inspector;

// A connection, as its flow keeps it.
struct IdsConnection {
  enum Seen : uint64_t {
    kSyn = 1,
    kEstablished = 2,
    kServerSpoke = 4,
    kIsUnseen = 8,  // begun before, and passed
  };
  FlowKey client;  // ends of the packets to the server
  uint64_t begin_ns = 0;
  uint64_t packets = 0;
  uint64_t seen = 0;  // a sum of Seen
};
static_assert(sizeof(IdsConnection) == 64);

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Theory of operation. Looks for what the rules of Snort 2.9 describe
// (nfs/snort/matcher.h), in each packet and over the borders of packets
// (ids_stream.h). The flow of a connection holds its whole state: who began
// it, the last bytes of each direction, where its HTTP messages are, and its
// flowbits. Alerts are updates of a shared table; thresholds, which count over
// flows, are applied to all alerts of a run in the order of time, when the
// report is made. Alerts are log records as well; to these, thresholds are
// applied in the order in which packets leave.
class Ids final : public NetworkFunction {
 public:
  explicit Ids(NfOptions& options)
      : options_(options),
        tracker_(options_.max_body_bytes),
        directions_{DeclareDirection("to_server"),
                    DeclareDirection("to_client")},
        flowbits_(declare_blob("flowbits", FlowbitBytes(options_))) {
    if (options_.max_alerts > 0) {
      alerts_.emplace(declare_shared<IdsAlertKey, IdsAlert>(
          "alerts", options_.max_alerts, SumOfWords{}, TableReader::kReport));
    }
    bits_.resize(FlowbitBytes(options_));
    if (options_.matcher == nullptr) return;
    auto made = Inspector::Create(*options_.matcher, options_.limits);
    if (!made.ok()) {
      options.Fail("rules", std::string(made.status().message()));
      return;
    }
    inspector_ = *std::move(made);
  }

  bool is_barrier() const override {
    return options_.action != IdsAction::kAlert;
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::array<std::string_view, 1> kNames = {"rule"};
    return kNames;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::array<std::string_view, 2> kNames = {"clean",
                                                               "alerted"};
    return kNames;
  }

 private:
  enum : uint8_t { kDropByRule };
  enum : uint8_t { kClean, kAlerted };

  static uint32_t FlowbitBytes(const IdsOptions& options) {
    const size_t bits =
        options.matcher == nullptr ? 0 : options.matcher->set().flowbits;
    return static_cast<uint32_t>(bits / 8 + 1);
  }

  // One direction of a connection.
  struct Direction {
    StreamSlots stream;
    Slot<IdsStream> state;
    Blob window;
  };
  // A direction while its bytes are put in order: its slots, and the run of
  // bytes that is not inspected yet.
  struct Run {
    const Direction& slots;
    IdsStream state;
    std::string& joined;       // window, and bytes that came into order
    size_t kept = 0;           // bytes of the window among them
    uint64_t end = 0;          // offset behind them in the stream
    bool has_ignored = false;  // bytes that have no place in it
    bool has_changed = false;
  };
  // The packet that is processed.
  struct Job {
    const Packet& packet;
    FlowState& flow;
    IdsConnection connection;
    FlowKey ends;
    snort::PacketFacts facts;
    bool is_own_done = false;    // the packet itself was inspected
    std::string_view payload{};  // its own, without bytes that came before
    bool is_dropped = false;
    bool has_alerts = false;
  };

  Verdict process_packet(Packet& packet, FlowState& flow) override;
  void on_end(FlowState& flow) override {
    for (const Direction& direction : directions_) {
      if (!flow.get(direction.stream.held).empty()) count(never_in_order_);
    }
  }
  NfReport report() const override;
  void write_record(const LogRecord& record, std::string& lines) override;

  Direction DeclareDirection(const std::string& name) {
    return {{declare<StreamPlace>(name + "_place"),
             declare_blob(name + "_held", options_.reorder_bytes)},
            declare<IdsStream>(name + "_state"),
            declare_blob(name + "_window", options_.window_bytes)};
  }

  Job Begin(const Packet& packet, FlowState& flow) const;
  // Notes what the segment's flags say of its connection. Returns false if the
  // packet is to be passed unseen.
  bool NoteFlags(const TcpSegment& segment, Job& job) const;
  void ProcessSegment(const TcpSegment& segment, Job& job);
  Run RunOf(const Direction& direction, std::string& joined,
            const FlowState& flow) const;
  void Note(const StreamEvent& event, bool is_own, Run& run, Job& job);
  void InspectRun(bool is_own, Run& run, Job& job);
  void Keep(const Run& run, Job& job) const;
  void InspectPacket(snort::Inspected::View view, std::string_view payload,
                     Job& job);
  void Inspect(const snort::Inspected& inspected, Job& job);
  void CountLimits();

  const IdsOptions options_;
  std::unique_ptr<Inspector> inspector_;
  snort::HttpTracker tracker_;
  // Memory for one packet.
  std::array<std::string, 2> joined_;
  std::vector<std::byte> bits_;
  std::vector<std::pair<bool, uint32_t>> told_;  // of the other end, rule

  const Slot<IdsConnection> connection_ = declare<IdsConnection>("connection");
  const std::array<Direction, 2> directions_;  // to the server, to the client
  const Blob flowbits_;
  std::optional<SharedTable<IdsAlertKey, IdsAlert>> alerts_;
  const LogId log_ = declare_log("alerts", "alerts, as lines of EVE JSON");
  IdsAlertFilter log_filter_;

  const Counter scanned_ =
      declare_counter("scanned", "searches of a payload or a stream window");
  const Counter evaluated_ = declare_counter(
      "evaluated", "searches in which the pattern of a rule was found");
  const Counter rules_ =
      declare_counter("rules_evaluated", "tests of a rule's options");
  const Counter alerted_ =
      declare_counter("alerts", "matches of rules, before thresholds");
  const Counter limits_ = declare_counter(
      "limits", "tests that were given up at max_steps or max_pcre_steps");
  const Counter holes_ =
      declare_counter("holes", "parts of streams that were missing");
  const Counter never_in_order_ =
      declare_counter("never_in_order",
                      "streams that ended while bytes waited for earlier ones");
  const Counter repeated_ =
      declare_counter("repeated", "segments that had been looked at before");
  const Counter overlaps_ = declare_counter(
      "overlaps", "segments that differ from the bytes that came before");
  const Counter fragments_ =
      declare_counter("fragments", "fragments, looked at one by one");
  const Counter unseen_ = declare_counter(
      "midstream", "packets of connections whose begin was not seen");
  const Counter long_headers_ = declare_counter(
      "http_headers_too_long", "HTTP headers longer than window and packet");
  const Counter cut_bodies_ =
      declare_counter("http_bodies_cut", "HTTP bodies beyond max_body");
  const Counter malformed_ = declare_counter(
      "http_malformed", "HTTP bodies with wrong chunks or compression");

  uint64_t limits_before_ = 0;
  uint64_t rules_before_ = 0;
  uint64_t long_before_ = 0;
  uint64_t cut_before_ = 0;
  uint64_t malformed_before_ = 0;
};
SNF_REGISTER_NF(Ids, "ids", "finds intrusions by Snort's rules");

Ids::Job Ids::Begin(const Packet& packet, FlowState& flow) const {
  const ParsedPacket& headers = packet.headers();
  Job job = {.packet = packet,
             .flow = flow,
             .connection = flow.get(connection_),
             .ends = FiveTuple(packet.bytes(), headers, /*with_vlan=*/false),
             .facts = snort::PacketFacts::Of(packet.bytes(), headers)};
  job.payload = TextOf(
      packet.bytes().subspan(headers.payload_offset, headers.payload_bytes()));
  IdsConnection& connection = job.connection;
  const FlowKey& ends = job.ends;
  if (connection.packets == 0) {
    connection.begin_ns = static_cast<uint64_t>(packet.arrival().ns);
    // The first packet goes to the server, unless its ports say otherwise.
    const auto segment = SegmentOf(packet);
    const bool is_answer =
        segment.has_value() &&
        (segment->has(Tcp::kSyn) ? segment->has(Tcp::kAck)
                                 : ends.source_port.host() < 1'024 &&
                                       ends.destination_port.host() >= 1'024);
    connection.client = is_answer ? Reversed(ends) : ends;
  }
  ++connection.packets;
  const FlowKey& client = connection.client;
  job.facts.to_server =
      ends.source == client.source && (client.source != client.destination ||
                                       ends.source_port == client.source_port);
  if (!job.facts.to_server) connection.seen |= IdsConnection::kServerSpoke;
  return job;
}

bool Ids::NoteFlags(const TcpSegment& segment, Job& job) const {
  uint64_t& seen = job.connection.seen;
  if (segment.has(Tcp::kSyn)) {
    seen |= IdsConnection::kSyn;
    seen &= ~uint64_t{IdsConnection::kIsUnseen};
  } else if ((seen & (IdsConnection::kSyn | IdsConnection::kEstablished)) ==
             0) {
    if (!options_.inspects_midstream) seen |= IdsConnection::kIsUnseen;
    seen |= IdsConnection::kEstablished;
  }
  if (!segment.has(Tcp::kSyn | Tcp::kRst) && segment.has(Tcp::kAck)) {
    seen |= IdsConnection::kEstablished;
  }
  return (seen & IdsConnection::kIsUnseen) == 0;
}

Verdict Ids::process_packet(Packet& packet, FlowState& flow) {
  Job job = Begin(packet, flow);
  told_.clear();
  const std::optional<TcpSegment> segment = SegmentOf(packet);
  if (packet.headers().fragment != Fragment::kNone) count(fragments_);
  if (segment.has_value()) {
    if (!NoteFlags(*segment, job)) {
      count(unseen_);
      flow.put(connection_, job.connection);
      return Verdict::forward(kClean);
    }
    job.facts.is_established =
        (job.connection.seen & IdsConnection::kEstablished) != 0;
    ProcessSegment(*segment, job);
  } else {
    job.facts.is_established =
        (job.connection.seen & IdsConnection::kServerSpoke) != 0;
    InspectPacket(snort::Inspected::View::kBoth, job.payload, job);
  }
  CountLimits();
  flow.put(connection_, job.connection);
  if (job.is_dropped) return Verdict::drop(kDropByRule);
  return Verdict::forward(job.has_alerts ? kAlerted : kClean);
}

Ids::Run Ids::RunOf(const Direction& direction, std::string& joined,
                    const FlowState& flow) const {
  joined.assign(TextOf(flow.get(direction.window)));
  return {.slots = direction,
          .state = flow.get(direction.state),
          .joined = joined,
          .kept = joined.size()};
}

void Ids::ProcessSegment(const TcpSegment& segment, Job& job) {
  using View = snort::Inspected::View;
  FlowState& flow = job.flow;
  job.payload = TextOf(segment.data);
  const size_t own = job.facts.to_server ? 0 : 1;
  const Direction& direction = directions_[own];
  const StreamPlace before = flow.get(direction.stream.place);
  const size_t held_before = flow.get(direction.stream.held).size();
  // A dropped segment was not received: the stream must not have it either.
  std::vector<std::byte> held;
  if (is_barrier()) {
    const auto bytes = flow.get(direction.stream.held);
    held.assign(bytes.begin(), bytes.end());
  }
  Run run = RunOf(direction, joined_[own], flow);
  Stream stream(flow, direction.stream);
  OldPart old;
  if (stream.has_begun() && !segment.has(Tcp::kSyn)) {
    old = CompareOld(segment.sequence, TextOf(segment.data), before.next,
                     run.joined);
  }
  if (old.differs) count(overlaps_);
  if (!old.differs) job.payload.remove_prefix(old.bytes);
  stream.Push(segment, [&](const StreamEvent& event) {
    Note(event, /*is_own=*/true, run, job);
  });
  InspectRun(/*is_own=*/true, run, job);

  const bool is_old = old.bytes == segment.data.size() && !segment.data.empty();
  if (job.is_own_done) {
    // The run was about this packet.
  } else if (is_old && old.is_known) {
    count(repeated_);
    InspectPacket(View::kPacket, "", job);
  } else if (is_old || run.has_ignored || old.differs) {
    job.payload = TextOf(segment.data);
    InspectPacket(View::kBoth, job.payload, job);
  } else {
    const bool is_held = flow.get(direction.stream.held).size() > held_before;
    InspectPacket(is_held ? View::kPacket : View::kBoth, job.payload, job);
  }
  if (job.is_dropped) {
    flow.put(direction.stream.place, before);
    if (flow.has(direction.stream.held)) {
      flow.put(direction.stream.held, held);
    }
    return;
  }
  Keep(run, job);
  if (!segment.has(Tcp::kAck)) return;
  // Bytes that the receiver has, though they were not seen, are waited for no
  // longer.
  const Direction& answered = directions_[1 - own];
  Run other = RunOf(answered, joined_[1 - own], flow);
  Stream(flow, answered.stream)
      .Acknowledge(segment.acknowledgement, [&](const StreamEvent& event) {
        Note(event, /*is_own=*/false, other, job);
      });
  InspectRun(/*is_own=*/false, other, job);
  Keep(other, job);
}

void Ids::Note(const StreamEvent& event, bool is_own, Run& run, Job& job) {
  const auto forget = [&run] {
    run.joined.clear();
    run.kept = 0;
    run.has_changed = true;
  };
  switch (event.kind) {
    case StreamEvent::Kind::kBegin:
    case StreamEvent::Kind::kMidstream: {
      const bool is_whole = event.kind == StreamEvent::Kind::kBegin;
      forget();
      run.state = {};
      run.state.flags = is_whole ? uint64_t{IdsStream::kWhole} : 0;
      // Earlier bytes are not known.
      if (!is_whole) run.state.http.phase = snort::HttpState::kLost;
      if (is_whole && job.facts.to_server && job.flow.has(flowbits_)) {
        job.flow.erase(flowbits_);
      }
      return;
    }
    case StreamEvent::Kind::kData:
      run.joined.append(TextOf(event.data));
      run.end = event.offset + event.bytes;
      run.has_changed = true;
      return;
    case StreamEvent::Kind::kGap:
      InspectRun(is_own, run, job);
      count(holes_);
      forget();
      run.state.flags &= ~uint64_t{IdsStream::kWhole};
      if (run.state.http.phase != snort::HttpState::kNotHttp) {
        run.state.http.phase = snort::HttpState::kLost;
      }
      return;
    case StreamEvent::Kind::kOverlapDiffers:
      return count(overlaps_);
    case StreamEvent::Kind::kIgnored:
      run.has_ignored |= event.bytes > 0;
      return;
    default:
      return;
  }
}

// Inspects the bytes that came into order since the run was inspected last.
void Ids::InspectRun(bool is_own, Run& run, Job& job) {
  using View = snort::Inspected::View;
  if (run.kept == run.joined.size()) return;
  snort::Inspected inspected;
  inspected.facts = job.facts;
  if (!is_own) {
    snort::PacketFacts& facts = inspected.facts;
    std::swap(facts.source, facts.destination);
    std::swap(facts.source_port, facts.destination_port);
    facts.to_server = !facts.to_server;
    facts.has_headers = false;
  }
  inspected.view = is_own && !job.is_own_done ? View::kBoth : View::kStream;
  inspected.payload = job.payload;
  inspected.stream = run.joined;
  inspected.kept = run.kept;
  inspected.stream_is_whole = (run.state.flags & IdsStream::kWhole) != 0 &&
                              run.end == run.joined.size();
  inspected.messages =
      tracker_.Follow({.bytes = run.joined,
                       .begin = run.end - run.joined.size(),
                       .kept = run.kept,
                       .is_request = inspected.facts.to_server},
                      run.state.http);
  inspected.is_http = run.state.http.phase == snort::HttpState::kStart ||
                      run.state.http.phase == snort::HttpState::kBody;
  if (is_own) job.is_own_done = true;
  Inspect(inspected, job);
  run.kept = run.joined.size();
}

void Ids::Keep(const Run& run, Job& job) const {
  if (!run.has_changed) return;
  job.flow.put(run.slots.state, run.state);
  const std::string_view bytes = run.joined;
  const size_t kept = std::min<size_t>(options_.window_bytes, bytes.size());
  job.flow.put(run.slots.window, BytesOf(bytes.substr(bytes.size() - kept)));
}

void Ids::InspectPacket(snort::Inspected::View view, std::string_view payload,
                        Job& job) {
  snort::Inspected inspected;
  inspected.view = view;
  inspected.facts = job.facts;
  inspected.payload = inspected.stream = payload;
  job.is_own_done = true;
  Inspect(inspected, job);
}

void Ids::Inspect(const snort::Inspected& inspected, Job& job) {
  std::ranges::fill(bits_, std::byte{0});
  std::ranges::copy(job.flow.get(flowbits_), bits_.begin());
  snort::Flowbits bits(bits_);
  const std::span<const uint32_t> alerts = inspector_->Inspect(inspected, bits);
  count(scanned_);
  if (inspector_->was_evaluated()) count(evaluated_);
  if (bits.has_changed()) job.flow.put(flowbits_, bits_);

  const std::vector<snort::Rule>& rules = options_.matcher->rules();
  const snort::PacketFacts& facts = inspected.facts;
  const bool is_dropped =
      facts.has_headers && std::ranges::any_of(alerts, [&](uint32_t alert) {
        const auto& threshold = rules[alert].threshold;
        const bool is_filtered =
            threshold.has_value() &&
            threshold->kind == snort::Threshold::Kind::kDetectionFilter;
        return options_.action == IdsAction::kDrop ||
               (options_.action == IdsAction::kRule && !is_filtered &&
                rules[alert].action == snort::Rule::Action::kDrop);
      });
  job.is_dropped |= is_dropped;
  job.has_alerts |= !alerts.empty();
  const ParsedPacket& headers = job.packet.headers();
  const bool has_icmp =
      facts.protocol == snort::Rule::Protocol::kIcmp && headers.l4_bytes() >= 2;
  const auto byte = [&](size_t at) {
    return static_cast<uint64_t>(job.packet.bytes()[headers.l4_offset + at]);
  };
  for (const uint32_t alert : alerts) {
    // A packet may complete two parts of a stream; a rule alerts once.
    const std::pair<bool, uint32_t> telling(!facts.has_headers, alert);
    if (std::ranges::find(told_, telling) != told_.end()) continue;
    told_.push_back(telling);
    count(alerted_);
    const IdsAlertRecord record = {
        {.ends = facts.has_headers ? job.ends : Reversed(job.ends),
         .time_ns = static_cast<uint64_t>(job.packet.arrival().ns),
         .packet = static_cast<uint32_t>(job.connection.packets),
         .rule = alert},
        {.times = 1,
         .begin_ns = job.connection.begin_ns,
         .what = (facts.to_server ? uint64_t{IdsAlert::kToServer} : 0) |
                 (is_dropped ? uint64_t{IdsAlert::kDropped} : 0) |
                 (inspected.messages.empty() ? 0 : uint64_t{IdsAlert::kHttp}),
         .icmp = has_icmp ? byte(0) * 256 + byte(1) : 0}};
    job.flow.log(log_, std::as_bytes(std::span(&record, 1)));
    if (alerts_.has_value()) alerts_->update(record.key, record.alert);
  }
}

void Ids::CountLimits() {
  const auto add = [this](Counter counter, uint64_t now, uint64_t& before) {
    if (now == before) return;
    count(counter, now - before);
    before = now;
  };
  add(limits_, inspector_->limits_reached(), limits_before_);
  add(rules_, inspector_->rules_evaluated(), rules_before_);
  add(long_headers_, tracker_.headers_too_long(), long_before_);
  add(cut_bodies_, tracker_.bodies_cut(), cut_before_);
  add(malformed_, tracker_.malformed(), malformed_before_);
}

void Ids::write_record(const LogRecord& record, std::string& lines) {
  IdsAlertRecord alert;
  if (record.bytes.size() != sizeof alert) return;
  std::memcpy(&alert, record.bytes.data(), sizeof alert);
  const snort::RuleSet& set = options_.matcher->set();
  if (alert.key.rule >= set.rules.size()) return;
  if (!log_filter_.Passes(set, alert.key)) return;
  lines += EveLine(set, alert.key, alert.alert);
}

NfReport Ids::report() const {
  const snort::RuleSet& set = options_.matcher->set();
  IdsAlerts alerts;
  uint64_t without_room = 0;
  if (alerts_.has_value()) {
    alerts_->for_each([&](const IdsAlertKey& key, const IdsAlert& alert) {
      alerts.emplace_back(key, alert);
    });
    without_room = alerts_->rest().times;
  }
  FilterAlerts(set, alerts);
  std::map<uint32_t, uint64_t> counts;
  for (const auto& [key, alert] : alerts) ++counts[key.rule];
  std::vector<std::pair<uint32_t, uint64_t>> top(counts.begin(), counts.end());
  std::ranges::stable_sort(
      top, [](const auto& a, const auto& b) { return a.second > b.second; });

  NfReport report;
  NfReport::Table table = {.title = "Alerts",
                           .columns = {"rule", "message", "priority", "alerts"},
                           .rows = {}};
  for (size_t i = 0; i < std::min<size_t>(options_.top, top.size()); ++i) {
    const snort::Rule& rule = set.rules[top[i].first];
    table.rows.push_back(
        {std::to_string(rule.gid) + ":" + std::to_string(rule.sid) + ":" +
             std::to_string(rule.revision),
         rule.message, uint64_t{rule.priority}, top[i].second});
  }
  if (without_room > 0) {
    table.rows.push_back({"(no room for)", "", uint64_t{0}, without_room});
  }
  report.tables.push_back(std::move(table));
  using Outcome = snort::RuleParser::Outcome;
  report.tables.push_back(
      {.title = "Rules",
       .columns = {"supported", "partly", "not_supported", "wrong", "patterns",
                   "without_pattern"},
       .rows = {{set.CountOf(Outcome::kSupported),
                 set.CountOf(Outcome::kPartly),
                 set.CountOf(Outcome::kUnsupported),
                 set.CountOf(Outcome::kWrong), options_.matcher->patterns(),
                 options_.matcher->rules_without_pattern()}}});
  if (options_.eve.empty()) return report;
  std::string lines;
  for (const auto& [key, alert] : alerts) lines += EveLine(set, key, alert);
  report.files.push_back({options_.eve, std::move(lines)});
  return report;
}

}  // namespace
}  // namespace snf
