// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/l4_headers.h"
#include "nfs/ids_connection.h"
#include "nfs/ids_eve.h"
#include "nfs/ids_event_log.h"
#include "nfs/ids_events.h"
#include "nfs/ids_options.h"
#include "nfs/ids_report.h"
#include "nfs/ids_stream.h"
#include "nfs/snort/fragments.h"
#include "nfs/snort/http_tracker.h"
#include "nfs/snort/matcher.h"
#include "nfs/snort/option_text.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/stream/stream.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;
using snort::BytesOf;
using snort::Inspector;
using snort::TextOf;

// Theory of operation. Looks for what the rules of Snort 2.9 describe
// (nfs/snort/matcher.h), in each packet and over the borders of packets
// (ids_stream.h). The flow of a connection holds its whole state: who began
// it, the last bytes of each direction, where its HTTP messages are, and its
// flowbits. Alerts are updates of a shared table; thresholds, which count over
// flows, are applied to all alerts of a run in the order of time, when the
// report is made. Alerts are log records as well; to these, thresholds are
// applied in the order in which packets leave. Flows, HTTP transactions and
// anomalies are log records only (ids_events.h).
//
// Fragments are put together first (snort/fragments.h), and the packet is
// inspected with the fragment that completes it. Its first fragment is also
// inspected alone.
//
// At an exception (a gap, no room, a connection from its midst) an option says
// whether the connection is inspected further, passed or dropped from there on.
class Ids final : public NetworkFunction {
 public:
  explicit Ids(NfOptions& options)
      : options_(options), tracker_(options_.max_body_bytes) {
    if (options_.max_alerts > 0) {
      alerts_.emplace(declare_shared<IdsAlertKey, IdsAlert>(
          "alerts", options_.max_alerts, SumOfWords{}, TableReader::kReport));
    }
    const IdsEventTypes& events = options_.events;
    if (events.flow || events.http || events.anomaly) {
      event_log_.emplace(
          events, declare_log("events", "other events, as lines of EVE JSON"),
          requests_);
    }
    for (size_t i = 0; i < kIdsAnomalies; ++i) {
      const IdsAnomalyText& text = snf::TextOf(static_cast<IdsAnomaly>(i));
      anomalies_.push_back(
          declare_counter(std::string(text.counter), std::string(text.help)));
    }
    bits_.resize(options_.flowbit_bytes());
    if (events.flowbits) told_bit_bytes_ = bits_.size();
    if (options_.matcher == nullptr) return;
    auto made = Inspector::Create(*options_.matcher, options_.limits);
    if (!made.ok()) {
      options.Fail("rules", std::string(made.status().message()));
      return;
    }
    inspector_ = *std::move(made);
  }

  bool is_barrier() const override { return options_.drops(); }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::array<std::string_view, 4> kNames = {
        "rule", "midstream", "gap", "memcap"};
    return kNames;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::array<std::string_view, 2> kNames = {"clean",
                                                               "alerted"};
    return kNames;
  }

 private:
  enum : uint8_t { kDropByRule, kDropMidstream, kDropAtGap, kDropAtMemcap };
  enum : uint8_t { kClean, kAlerted };

  // The packet that is processed.
  struct Job {
    std::span<const std::byte> frame;
    const ParsedPacket* headers;
    uint32_t original_length;
    uint64_t arrival_ns;
    FlowState& flow;
    IdsConnection connection;
    FlowKey ends;
    snort::PacketFacts facts;
    bool is_own_done = false;    // the packet itself was inspected
    std::string_view payload{};  // its own, without bytes that came before
    bool is_repeated = false;    // only notes alerts that were told
    bool is_dropped = false;     // by a rule
    bool has_alerts = false;
    bool has_no_room = false;  // a fragment that is dropped for it
    uint32_t anomalies = 0;    // a bit for each IdsAnomaly

    bool is_lost() const {
      return is_dropped || has_no_room || IsDrop(connection.fate);
    }
  };

  Verdict process_packet(Packet& packet, FlowState& flow) override;
  void on_end(FlowState& flow) override {
    for (const IdsDirection& direction : directions_) {
      if (!flow.get(direction.stream.held).empty()) count(never_in_order_);
    }
    count(never_whole_,
          snort::Fragments::PacketsIn(TextOf(flow.get(fragments_held_))));
    if (event_log_.has_value()) {
      event_log_->EndFlow(flow.get(connection_), flow.get(flowbits_), flow);
    }
  }
  std::vector<std::string> warnings() const override {
    return options_.matcher->warnings();
  }
  NfReport report() const override;
  void write_record(const LogRecord& record, std::string& lines) override;

  Job Begin(const Packet& packet, FlowState& flow) const;
  // Notes the segment's flags in its connection.
  void NoteFlags(const TcpSegment& segment, Job& job);
  // Counts an anomaly, which is logged with the packet.
  void Tell(IdsAnomaly anomaly, Job& job);
  // Tells it, and lets the policy decide about the connection.
  void Except(IdsAnomaly anomaly, IdsPolicy policy, IdsFate drop, Job& job);
  Verdict End(Job& job);
  // Inspects the packet, or passes or drops it by its connection's fate.
  void Process(Job& job);
  void ProcessFragment(LinkType link, Job& job);
  void ProcessWhole(std::span<const std::byte> frame,
                    const ParsedPacket& headers, Job& job);
  void ProcessSegment(const TcpSegment& segment, Job& job);
  IdsRun RunOf(const IdsDirection& direction, std::string& joined,
               const FlowState& flow) const;
  void Note(const StreamEvent& event, bool is_own, IdsRun& run, Job& job);
  void InspectRun(bool is_own, IdsRun& run, Job& job);
  void Keep(const IdsRun& run, Job& job) const;
  void InspectPacket(snort::Inspected::View view, std::string_view payload,
                     Job& job);
  void Inspect(const snort::Inspected& inspected, Job& job);
  void CountLimits(Job& job);

  const IdsOptions options_;
  std::unique_ptr<Inspector> inspector_;
  snort::HttpTracker tracker_;
  snort::Fragments fragments_;
  // Memory for one packet.
  std::array<std::string, 2> joined_;
  std::vector<std::byte> bits_;
  size_t told_bit_bytes_ = 0;  // of bits_, in log records of alerts
  std::vector<std::pair<bool, uint32_t>> told_;  // of the other end, rule

  // Seldom used ones come last, where zeros cost nothing (state_schema.h).
  const Slot<IdsConnection> connection_ = declare<IdsConnection>("connection");
  const std::array<Slot<StreamPlace>, 2> places_ = {
      declare<StreamPlace>("to_server_place"),
      declare<StreamPlace>("to_client_place")};
  const std::array<Slot<IdsStream>, 2> states_ = {
      declare<IdsStream>("to_server_state"),
      declare<IdsStream>("to_client_state")};
  const Blob flowbits_ = declare_blob("flowbits", options_.flowbit_bytes());
  // HTTP requests without an answer.
  const std::optional<Blob> requests_ =
      options_.events.http
          ? std::optional(declare_blob("http_requests", IdsHttpLog::kMaxBytes))
          : std::nullopt;
  const std::array<Blob, 2> windows_ = {
      declare_blob("to_server_window", options_.window_bytes),
      declare_blob("to_client_window", options_.window_bytes)};
  const std::array<Blob, 2> held_ = {
      declare_blob("to_server_held", options_.reorder_bytes, BlobUse::kSeldom),
      declare_blob("to_client_held", options_.reorder_bytes, BlobUse::kSeldom)};
  const Blob fragments_held_ =
      declare_blob("fragments", options_.fragment_bytes, BlobUse::kSeldom);
  const std::array<IdsDirection, 2> directions_ = {
      {{{places_[0], held_[0]}, states_[0], windows_[0]},
       {{places_[1], held_[1]}, states_[1], windows_[1]}}};
  std::optional<SharedTable<IdsAlertKey, IdsAlert>> alerts_;
  const LogId log_ = declare_log("alerts", "alerts, as lines of EVE JSON");
  std::optional<IdsEventLog> event_log_;
  IdsAlertFilter log_filter_;

  const Counter scanned_ =
      declare_counter("scanned", "searches of a payload or a stream window");
  const Counter evaluated_ = declare_counter(
      "evaluated", "searches in which a rule with a pattern was evaluated");
  const Counter rules_ =
      declare_counter("rules_evaluated", "rules whose payload was tested");
  const Counter alerted_ =
      declare_counter("alerts", "matches of rules, before thresholds");
  const Counter limits_ = declare_counter(
      "limits", "tests that were given up at max_steps or max_pcre_steps");
  const Counter passed_ =
      declare_counter("passed",
                      "packets passed without a look, by midstream, on_gap or "
                      "on_memcap");
  const Counter never_in_order_ =
      declare_counter("never_in_order",
                      "streams that ended while bytes waited for earlier ones");
  const Counter repeated_ =
      declare_counter("repeated", "segments that had been looked at before");
  const Counter all_fragments_ =
      declare_counter("fragments", "fragments of IP packets");
  const Counter whole_ = declare_counter(
      "fragments_joined", "packets put together of their fragments");
  const Counter alone_ =
      declare_counter("fragments_alone", "fragments looked at by themselves");
  const Counter never_whole_ = declare_counter(
      "fragments_never_whole", "packets some fragments of which never came");
  std::vector<Counter> anomalies_;  // by IdsAnomaly

  uint64_t limits_before_ = 0;
  uint64_t rules_before_ = 0;
  uint64_t long_before_ = 0;
  uint64_t cut_before_ = 0;
  uint64_t malformed_before_ = 0;
};
SNF_REGISTER_NF(Ids, "ids", "finds intrusions by Snort's rules");

Ids::Job Ids::Begin(const Packet& packet, FlowState& flow) const {
  const ParsedPacket& headers = packet.headers();
  Job job = {.frame = packet.bytes(),
             .headers = &headers,
             .original_length = packet.original_length(),
             .arrival_ns = static_cast<uint64_t>(packet.arrival().ns),
             .flow = flow,
             .connection = flow.get(connection_),
             .ends = FiveTuple(packet.bytes(), headers, /*with_vlan=*/false),
             .facts = snort::PacketFacts::Of(packet.bytes(), headers)};
  job.payload = TextOf(
      packet.bytes().subspan(headers.payload_offset, headers.payload_bytes()));
  job.facts.to_server = job.connection.Add({.ends = job.ends,
                                            .time_ns = job.arrival_ns,
                                            .bytes = packet.original_length(),
                                            .segment = SegmentOf(packet)});
  return job;
}

void Ids::Tell(IdsAnomaly anomaly, Job& job) {
  const auto number = static_cast<size_t>(anomaly);
  count(anomalies_[number]);
  job.anomalies |= uint32_t{1} << number;
}

void Ids::Except(IdsAnomaly anomaly, IdsPolicy policy, IdsFate drop, Job& job) {
  Tell(anomaly, job);
  IdsFate& fate = job.connection.fate;
  if (fate != IdsFate::kInspected || policy == IdsPolicy::kAlert) return;
  fate = policy == IdsPolicy::kPass ? IdsFate::kPassed : drop;
}

void Ids::NoteFlags(const TcpSegment& segment, Job& job) {
  IdsConnection& connection = job.connection;
  connection.tcp_flags[job.facts.to_server ? 0 : 1] |= segment.flags;
  if (segment.has(Tcp::kSyn)) {
    connection.seen |= IdsConnection::kSyn;
    // Another connection may begin, but not where a gap was dropped: then the
    // same one could go on behind it.
    if (connection.fate == IdsFate::kPassed ||
        connection.fate == IdsFate::kDroppedMidstream) {
      connection.fate = IdsFate::kInspected;
      for (const IdsDirection& direction : directions_) {
        job.flow.erase(direction.stream.place);
        job.flow.erase(direction.stream.held);
        job.flow.erase(direction.state);
        job.flow.erase(direction.window);
      }
    }
  } else if (!connection.has(IdsConnection::kSyn |
                             IdsConnection::kEstablished)) {
    connection.seen |= IdsConnection::kEstablished;
    Except(IdsAnomaly::kMidstream, options_.midstream,
           IdsFate::kDroppedMidstream, job);
  }
  if (!segment.has(Tcp::kSyn | Tcp::kRst) && segment.has(Tcp::kAck)) {
    connection.seen |= IdsConnection::kEstablished;
  }
}

Verdict Ids::process_packet(Packet& packet, FlowState& flow) {
  Job job = Begin(packet, flow);
  told_.clear();
  if (event_log_.has_value()) event_log_->Begin();
  if (packet.headers().fragment == Fragment::kNone) {
    Process(job);
  } else {
    ProcessFragment(packet.link(), job);
  }
  return End(job);
}

void Ids::Process(Job& job) {
  if (job.headers->result == ParseResult::kTooManyExtensions) {
    Tell(IdsAnomaly::kTooManyExtensions, job);
  }
  const std::optional<TcpSegment> segment =
      TcpSegmentOf(job.frame, *job.headers, job.original_length);
  if (segment.has_value()) NoteFlags(*segment, job);
  const uint16_t established = segment.has_value()
                                   ? IdsConnection::kEstablished
                                   : IdsConnection::kServerSpoke;
  job.facts.is_established = job.connection.has(established);
  if (job.connection.fate == IdsFate::kPassed) return count(passed_);
  if (job.connection.fate != IdsFate::kInspected) return;
  if (segment.has_value()) {
    ProcessSegment(*segment, job);
  } else {
    InspectPacket(snort::Inspected::View::kBoth, job.payload, job);
  }
}

void Ids::ProcessFragment(LinkType link, Job& job) {
  using View = snort::Inspected::View;
  count(all_fragments_);
  if (job.connection.fate == IdsFate::kPassed) return count(passed_);
  if (job.connection.fate != IdsFate::kInspected) return;
  const auto before = job.flow.get(fragments_held_);
  std::string held(TextOf(before));
  const snort::Fragments::Result result = fragments_.Take(
      {.frame = job.frame,
       .headers = *job.headers,
       .original_length = job.original_length,
       .second = static_cast<uint32_t>(job.arrival_ns / 1'000'000'000),
       .to_server = job.facts.to_server},
      options_.fragment_bytes, held);
  count(never_whole_, result.given_up);
  if (result.overlaps) Tell(IdsAnomaly::kFragmentOverlap, job);
  if (result.is_too_large) Tell(IdsAnomaly::kFragmentTooLarge, job);
  if (result.has_no_room) {
    Tell(IdsAnomaly::kFragmentMemcap, job);
    if (options_.on_memcap == IdsPolicy::kPass) return count(passed_);
    job.has_no_room = options_.on_memcap == IdsPolicy::kDrop;
    if (job.has_no_room) return;
  }
  job.facts.is_established = job.connection.has(IdsConnection::kServerSpoke);
  if (result.is_alone) {
    count(alone_);
    InspectPacket(View::kBoth, job.payload, job);
  } else {
    // Payload and ports are looked at when the packet is whole.
    snort::PacketFacts facts = job.facts;
    std::swap(facts, job.facts);
    job.facts.protocol = snort::Rule::Protocol::kIp;
    job.facts.has_ports = false;
    InspectPacket(View::kPacket, "", job);
    job.facts = facts;
  }
  if (result.is_whole && !job.is_lost()) {
    count(whole_);
    const std::span<const std::byte> frame = fragments_.whole();
    const ParsedPacket headers = Parse(link, frame);
    ProcessWhole(frame, headers, job);
  }
  if (!job.is_lost() && held != TextOf(before)) {
    job.flow.put(fragments_held_, BytesOf(held));
  }
}

// Inspects a packet that the fragment has completed.
void Ids::ProcessWhole(std::span<const std::byte> frame,
                       const ParsedPacket& headers, Job& job) {
  const ParsedPacket* const of_fragment = job.headers;
  const bool to_server = job.facts.to_server;
  job.frame = frame;
  job.headers = &headers;
  job.original_length = static_cast<uint32_t>(frame.size());
  job.ends = FiveTuple(frame, headers, /*with_vlan=*/false);
  job.facts = snort::PacketFacts::Of(frame, headers);
  job.facts.to_server = to_server;
  job.payload =
      TextOf(frame.subspan(headers.payload_offset, headers.payload_bytes()));
  // Rules that the first fragment told already.
  const size_t first =
      std::max<size_t>(fragments_.first_bytes(), headers.payload_offset) -
      headers.payload_offset;
  job.is_repeated = true;
  InspectPacket(snort::Inspected::View::kBoth, job.payload.substr(0, first),
                job);
  job.is_repeated = job.is_own_done = false;
  Process(job);
  job.headers = of_fragment;
}

Verdict Ids::End(Job& job) {
  CountLimits(job);
  IdsConnection& connection = job.connection;
  if (event_log_.has_value()) {
    event_log_->End({.ends = job.ends,
                     .to_client = !job.facts.to_server,
                     .is_lost = job.is_lost(),
                     .anomalies = job.anomalies},
                    connection, job.flow);
  }
  if (job.has_alerts) connection.seen |= IdsConnection::kAlerted;
  job.flow.put(connection_, connection);
  if (job.is_dropped) return Verdict::drop(kDropByRule);
  if (job.has_no_room) return Verdict::drop(kDropAtMemcap);
  switch (connection.fate) {
    case IdsFate::kDroppedMidstream:
      return Verdict::drop(kDropMidstream);
    case IdsFate::kDroppedAtGap:
      return Verdict::drop(kDropAtGap);
    case IdsFate::kDroppedAtMemcap:
      return Verdict::drop(kDropAtMemcap);
    default:
      return Verdict::forward(job.has_alerts ? kAlerted : kClean);
  }
}

IdsRun Ids::RunOf(const IdsDirection& direction, std::string& joined,
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
  const IdsDirection& direction = directions_[own];
  const StreamPlace before = flow.get(direction.stream.place);
  const size_t held_before = flow.get(direction.stream.held).size();
  // A dropped segment was not received: the stream must not have it either.
  std::vector<std::byte> held;
  if (is_barrier()) {
    const auto bytes = flow.get(direction.stream.held);
    held.assign(bytes.begin(), bytes.end());
  }
  IdsRun run = RunOf(direction, joined_[own], flow);
  Stream stream(flow, direction.stream);
  OldPart old;
  if (stream.has_begun() && !segment.has(Tcp::kSyn)) {
    old = CompareOld(segment.sequence, TextOf(segment.data), before.next,
                     run.joined);
  }
  if (old.differs) Tell(IdsAnomaly::kOverlap, job);
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
  if (job.is_lost()) {
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
  const IdsDirection& answered = directions_[1 - own];
  IdsRun other = RunOf(answered, joined_[1 - own], flow);
  Stream(flow, answered.stream)
      .Acknowledge(segment.acknowledgement, [&](const StreamEvent& event) {
        Note(event, /*is_own=*/false, other, job);
      });
  InspectRun(/*is_own=*/false, other, job);
  Keep(other, job);
}

void Ids::Note(const StreamEvent& event, bool is_own, IdsRun& run, Job& job) {
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
      Except(IdsAnomaly::kGap, options_.on_gap, IdsFate::kDroppedAtGap, job);
      forget();
      run.state.hits = {};
      run.state.flags &= ~uint64_t{IdsStream::kWhole};
      if (run.state.http.phase != snort::HttpState::kNotHttp) {
        run.state.http.phase = snort::HttpState::kLost;
      }
      return;
    case StreamEvent::Kind::kOverlapDiffers:
      return Tell(IdsAnomaly::kOverlap, job);
    case StreamEvent::Kind::kOverBound:
      return Except(IdsAnomaly::kMemcap, options_.on_memcap,
                    IdsFate::kDroppedAtMemcap, job);
    case StreamEvent::Kind::kIgnored:
      run.has_ignored |= event.bytes > 0;
      return;
    default:
      return;
  }
}

// Inspects the bytes that came into order since the run was inspected last.
void Ids::InspectRun(bool is_own, IdsRun& run, Job& job) {
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
  inspected.stream_end = run.end;
  inspected.hits = &run.state.hits;
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
  for (const snort::TrackedMessage& message : inspected.messages) {
    if (message.header == nullptr) continue;
    job.connection.seen |= IdsConnection::kHttp;
    if (event_log_.has_value()) event_log_->Note(*message.header);
  }
  if (is_own) job.is_own_done = true;
  Inspect(inspected, job);
  run.kept = run.joined.size();
}

void Ids::Keep(const IdsRun& run, Job& job) const {
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
  if (job.is_repeated) {
    for (const uint32_t alert : alerts) told_.emplace_back(false, alert);
    return;
  }
  count(scanned_);
  if (inspector_->was_evaluated()) count(evaluated_);
  if (bits.has_changed()) job.flow.put(flowbits_, bits_);

  const std::vector<snort::Rule>& rules = options_.matcher->rules();
  const snort::PacketFacts& facts = inspected.facts;
  const bool is_dropped =
      facts.has_headers && std::ranges::any_of(alerts, [&](uint32_t alert) {
        return options_.DropsFor(rules[alert]);
      });
  job.is_dropped |= is_dropped;
  job.has_alerts |= !alerts.empty();
  const ParsedPacket& headers = *job.headers;
  const bool has_icmp =
      facts.protocol == snort::Rule::Protocol::kIcmp && headers.l4_bytes() >= 2;
  const auto byte = [&](size_t at) {
    return static_cast<uint64_t>(job.frame[headers.l4_offset + at]);
  };
  for (const uint32_t alert : alerts) {
    // A packet may complete two parts of a stream; a rule alerts once.
    const std::pair<bool, uint32_t> telling(!facts.has_headers, alert);
    if (std::ranges::find(told_, telling) != told_.end()) continue;
    told_.push_back(telling);
    count(alerted_);
    const IdsAlertRecord record = {
        {.ends = facts.has_headers ? job.ends : Reversed(job.ends),
         .time_ns = job.arrival_ns,
         .packet = static_cast<uint32_t>(job.connection.all_packets()),
         .rule = alert},
        {.times = 1,
         .begin_ns = job.connection.begin_ns,
         .what = (facts.to_server ? uint64_t{IdsAlert::kToServer} : 0) |
                 (is_dropped ? uint64_t{IdsAlert::kDropped} : 0) |
                 (inspected.messages.empty() ? 0 : uint64_t{IdsAlert::kHttp}),
         .icmp = has_icmp ? byte(0) * 256 + byte(1) : 0}};
    const auto bits_told =
        std::span<const std::byte>(bits_).first(told_bit_bytes_);
    job.flow.log(log_, RecordBytes(record, bits_told));
    if (alerts_.has_value()) alerts_->update(record.key, record.alert);
  }
}

void Ids::CountLimits(Job& job) {
  const auto more = [](uint64_t now, uint64_t& before) {
    return now - std::exchange(before, now);
  };
  count(limits_, more(inspector_->limits_reached(), limits_before_));
  count(rules_, more(inspector_->rules_evaluated(), rules_before_));
  const auto tell = [&](IdsAnomaly anomaly, uint64_t times) {
    for (; times > 0; --times) Tell(anomaly, job);
  };
  tell(IdsAnomaly::kHttpHeaderTooLong,
       more(tracker_.headers_too_long(), long_before_));
  tell(IdsAnomaly::kHttpBodyCut, more(tracker_.bodies_cut(), cut_before_));
  tell(IdsAnomaly::kHttpMalformed,
       more(tracker_.malformed(), malformed_before_));
}

void Ids::write_record(const LogRecord& record, std::string& lines) {
  const snort::RuleSet& set = options_.matcher->set();
  if (record.log != log_) return WriteIdsEvent(set, record, lines);
  IdsAlertRecord alert;
  if (record.bytes.size() < sizeof alert) return;
  std::memcpy(&alert, record.bytes.data(), sizeof alert);
  if (alert.key.rule >= set.rules.size()) return;
  if (!log_filter_.Passes(set, alert.key)) return;
  lines +=
      EveLine(set, alert.key, alert.alert, record.bytes.subspan(sizeof alert));
}

NfReport Ids::report() const {
  IdsAlerts alerts;
  uint64_t without_room = 0;
  if (alerts_.has_value()) {
    alerts_->for_each([&](const IdsAlertKey& key, const IdsAlert& alert) {
      alerts.emplace_back(key, alert);
    });
    without_room = alerts_->rest().times;
  }
  return IdsReport(options_, std::move(alerts), without_room);
}

}  // namespace
}  // namespace snf
