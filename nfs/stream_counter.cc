// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/packet/flow_key.h"
#include "base/packet/l4_headers.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/stream/stream.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

// Theory of operation. Counts the bytes of TCP that its receiver gets, in
// order, each once, of both directions of every connection: an example of
// streams (runtime/sdk/stream/stream.h). It changes and drops nothing.
//
// Example, with bound=100B: a client sends bytes 1 … 50, 81 … 100, 51 … 80, and
// 51 … 80 once more. 50 bytes are in order, then 20 are held, then 50 are in
// order: 100 bytes of the client, though 130 were on the wire.
class StreamCounter final : public NetworkFunction {
 public:
  explicit StreamCounter(NfOptions& options)
      : overlap_(options.Choice("overlap", 0, kOverlaps,
                                "copy that wins of bytes that came twice, out "
                                "of order") == 0
                     ? StreamOverlap::kFirst
                     : StreamOverlap::kLast),
        bound_(static_cast<uint32_t>(options.Bytes(
            "bound", 8'192, 64, 24'576,
            "bytes of each direction that wait for earlier ones, with 8 bytes "
            "for each segment"))) {}

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::optional<TcpSegment> segment = SegmentOf(packet);
    if (!segment.has_value()) {
      count(not_segments_);
      return Verdict::forward();
    }
    const Connection before = flow.get(connection_);
    Connection now = before;
    const bool is_client = IsOfClient(packet, *segment, now);
    const size_t own = is_client ? 0 : 1;
    Stream stream(flow, streams_[own], overlap_);
    stream.Push(*segment, [&](const StreamEvent& event) {
      Count(event, now.directions[own]);
    });
    if (segment->has(Tcp::kAck)) {
      Stream answered(flow, streams_[1 - own], overlap_);
      answered.Acknowledge(segment->acknowledgement,
                           [&](const StreamEvent& event) {
                             Count(event, now.directions[1 - own]);
                           });
    }
    if (now != before) flow.put(connection_, now);
    return Verdict::forward();
  }

  void on_end(FlowState& flow) override {
    for (const StreamSlots& slots : streams_) {
      Direction unused;
      Stream(flow, slots, overlap_).Flush([&](const StreamEvent& event) {
        Count(event, unused);
      });
    }
  }

 private:
  static constexpr std::string_view kOverlaps[] = {"first", "last"};

  struct Direction {
    uint64_t bytes = 0;
    uint64_t gap_bytes = 0;
    friend bool operator==(const Direction&, const Direction&) = default;
  };
  struct Connection {
    std::array<Direction, 2> directions;  // of the client, of the server
    // The client's end: the smaller one, address first, or the greater one.
    enum : uint64_t { kUnknown, kSmaller, kGreater };
    uint64_t client = kUnknown;
    friend bool operator==(const Connection&, const Connection&) = default;
  };

  // The client sends the SYN, or the first packet if that was not seen.
  static bool IsOfClient(const Packet& packet, const TcpSegment& segment,
                         Connection& connection) {
    FlowKey key = FiveTuple(packet.bytes(), packet.headers(), false);
    const bool is_greater = Canonicalize(key);  // the sender's end
    if (connection.client == Connection::kUnknown) {
      const bool is_answer = segment.has(Tcp::kSyn) && segment.has(Tcp::kAck);
      connection.client =
          is_greater != is_answer ? Connection::kGreater : Connection::kSmaller;
    }
    return is_greater == (connection.client == Connection::kGreater);
  }
  void Count(const StreamEvent& event, Direction& direction) {
    switch (event.kind) {
      case StreamEvent::Kind::kBegin:
        return count(begun_);
      case StreamEvent::Kind::kMidstream:
        return count(midstream_);
      case StreamEvent::Kind::kData:
        direction.bytes += event.bytes;
        return count(bytes_, event.bytes);
      case StreamEvent::Kind::kGap:
        direction.gap_bytes += event.bytes;
        count(gaps_);
        return count(gap_bytes_, event.bytes);
      case StreamEvent::Kind::kOverlapDiffers:
        return count(overlaps_differ_);
      case StreamEvent::Kind::kOverBound:
        return count(over_bound_);
      case StreamEvent::Kind::kEnd:
        return count(ended_);
      case StreamEvent::Kind::kReset:
        return count(reset_);
      case StreamEvent::Kind::kIgnored:
        return count(ignored_);
    }
  }

  const StreamOverlap overlap_;
  const uint32_t bound_;
  const Slot<Connection> connection_ = declare<Connection>("connection");
  const std::array<StreamSlots, 2> streams_ = {
      StreamSlots{declare<StreamPlace>("client"),
                  declare_blob("client_held", bound_)},
      StreamSlots{declare<StreamPlace>("server"),
                  declare_blob("server_held", bound_)}};
  const Counter bytes_ = declare_counter("bytes", "in order, each once");
  const Counter gaps_ = declare_counter("gaps", "holes given up in streams");
  const Counter gap_bytes_ = declare_counter("gap_bytes", "missing in them");
  const Counter overlaps_differ_ = declare_counter(
      "overlaps_differ", "copies of waiting bytes that differ from the first");
  const Counter over_bound_ =
      declare_counter("over_bound", "segments that did not fit behind a hole");
  const Counter begun_ = declare_counter("begun", "streams, by a SYN");
  const Counter midstream_ =
      declare_counter("midstream", "streams that began without a SYN");
  const Counter ended_ = declare_counter("ended", "streams, by a FIN");
  const Counter reset_ = declare_counter("reset", "streams, by a reset");
  const Counter ignored_ = declare_counter(
      "ignored", "segments, or parts, that have no place in their stream");
  const Counter not_segments_ = declare_counter(
      "not_segments", "packets without a whole TCP header, and fragments");
};
SNF_REGISTER_NF(StreamCounter, "stream_counter",
                "counts the bytes of TCP streams, in order, each once");

}  // namespace
}  // namespace snf
