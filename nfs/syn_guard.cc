// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/packet/flow_key.h"
#include "base/packet/l4_headers.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using Tcp = TcpHeader<const std::byte>;

// Theory of operation. Keeps floods of SYNs from servers (RFC 4987): of each
// destination, an address and port, at most `limit` connections are half-open
// at a time. Further SYNs are dropped, and their flows are forgotten at once.
//
// A connection is half-open from its SYN until the client acknowledges the
// server's SYN, by its number, which a client with a forged address does not
// see. A reset by either end, or `timeout` without packets, ends it too.
//
// The half-open connections of a destination are counted in a table that all
// units share (shared_table.h). A unit knows its own counts at once and the
// counts of others a little later, so together they may exceed the limit by the
// connections begun meanwhile (SharedTable::add_if_below).
//
// Example: limit=2. A and B send SYNs to 10.0.0.1:80, and the SYN of C is
// dropped. The server answers A, A acknowledges, and the next SYN of C passes.
class SynGuard final : public NetworkFunction {
 public:
  explicit SynGuard(NfOptions& options)
      : limit_(options.Integer(
            "limit", 1'024, 1, 1'000'000'000,
            "half-open connections of a destination address and port")),
        timeout_(options.Duration(
            "timeout", Seconds(10), Milliseconds(1), Seconds(3'600),
            "time without packets after which a half-open connection counts "
            "no longer")),
        open_timeout_(options.Duration(
            "open_timeout", Seconds(300), Milliseconds(1), Seconds(86'400),
            "life of other connections without packets")),
        half_open_(declare_shared<Destination, int64_t>(
            "half_open",
            static_cast<uint32_t>(options.Integer(
                "destinations", 4'096, 1, 1'048'576,
                "destinations that are counted; others are not guarded")))) {}

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const ParsedPacket& headers = packet.headers();
    // A first fragment may hold a SYN.
    if (headers.l4_protocol != IpProtocol::kTcp ||
        headers.fragment == Fragment::kLater) {
      return Verdict::forward();
    }
    const auto segment =
        Tcp::At(packet.bytes().first(headers.end_offset), headers.l4_offset);
    if (!segment) return Verdict::forward();
    const FlowKey ends = FiveTuple(packet.bytes(), headers, false);
    const Connection before = flow.get(connection_);
    const bool is_half_open = before.phase == Connection::kBegun ||
                              before.phase == Connection::kAnswered;
    if (!is_half_open) {
      return IsSyn(segment) && !IsRepeated(segment, before)
                 ? Begin(segment, ends, flow)
                 : Verdict::forward();
    }
    const bool is_client = ends.source != before.server.address ||
                           ends.source_port != before.server.port;
    Connection now = before;
    if (is_client) {
      FollowClient(segment, now);
    } else {
      FollowServer(segment, now);
    }
    if (now == before) return Verdict::forward();
    flow.put(connection_, now);
    if (now.phase == Connection::kDone) {
      half_open_.update(now.server, -1);
      flow.set_idle_timeout(open_timeout_);
    }
    return Verdict::forward();
  }

  void on_end(FlowState& flow) override {
    const Connection connection = flow.get(connection_);
    if (connection.phase != Connection::kBegun &&
        connection.phase != Connection::kAnswered) {
      return;
    }
    half_open_.update(connection.server, -1);
    count(timed_out_);
  }

  bool is_barrier() const override { return true; }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"half_open_limit"};
    return kReasons;
  }

 private:
  struct Destination {
    IpAddress address;
    be16 port;
    friend bool operator==(const Destination&, const Destination&) = default;
  };
  struct Connection {
    enum : uint16_t { kNone, kBegun, kAnswered, kDone };
    uint32_t client_sequence = 0;  // of its SYN
    uint32_t server_sequence = 0;  // of its SYN, if kAnswered
    Destination server;
    uint16_t phase = kNone;
    friend bool operator==(const Connection&, const Connection&) = default;
  };

  static bool Has(const Tcp& segment, uint8_t flag) {
    return (segment.flags() & flag) != 0;
  }
  static bool IsSyn(const Tcp& segment) {
    return (segment.flags() & (Tcp::kSyn | Tcp::kAck | Tcp::kRst)) == Tcp::kSyn;
  }
  static bool IsRepeated(const Tcp& syn, const Connection& connection) {
    return connection.phase != Connection::kNone &&
           connection.client_sequence == syn.sequence();
  }

  Verdict Begin(const Tcp& syn, const FlowKey& ends, FlowState& flow) {
    const Destination server = {ends.destination, ends.destination_port};
    if (!half_open_.add_if_below(server, limit_)) {
      flow.end();
      return Verdict::drop(0);
    }
    count(begun_);
    flow.put(connection_, {.client_sequence = syn.sequence(),
                           .server_sequence = 0,
                           .server = server,
                           .phase = Connection::kBegun});
    flow.set_idle_timeout(timeout_);
    return Verdict::forward();
  }

  void FollowClient(const Tcp& segment, Connection& connection) {
    if (Has(segment, Tcp::kRst)) {
      if (segment.sequence() != connection.client_sequence + 1) return;
      count(reset_);
      connection.phase = Connection::kDone;
    } else if (connection.phase == Connection::kAnswered &&
               Has(segment, Tcp::kAck) && !Has(segment, Tcp::kSyn) &&
               segment.acknowledgement() == connection.server_sequence + 1) {
      count(opened_);
      connection.phase = Connection::kDone;
    } else if (IsSyn(segment) && !IsRepeated(segment, connection)) {
      connection.client_sequence = segment.sequence();
      connection.phase = Connection::kBegun;
    }
  }

  void FollowServer(const Tcp& segment, Connection& connection) {
    if (!Has(segment, Tcp::kAck) ||
        segment.acknowledgement() != connection.client_sequence + 1) {
      return;
    }
    if (Has(segment, Tcp::kRst)) {
      count(reset_);
      connection.phase = Connection::kDone;
    } else if (Has(segment, Tcp::kSyn)) {
      connection.server_sequence = segment.sequence();
      connection.phase = Connection::kAnswered;
    }
  }

  const int64_t limit_;
  const Nanos timeout_;
  const Nanos open_timeout_;
  // Below zero for a moment where an end is heard of before its beginning.
  SharedTable<Destination, int64_t> half_open_;
  const Slot<Connection> connection_ = declare<Connection>("connection");
  const Counter begun_ =
      declare_counter("begun", "connections that became half-open");
  const Counter opened_ =
      declare_counter("opened", "of them, acknowledged by their clients");
  const Counter reset_ = declare_counter("reset", "of them, reset");
  const Counter timed_out_ =
      declare_counter("timed_out", "of them, forgotten while half-open");
};
SNF_REGISTER_NF(SynGuard, "syn_guard",
                "bounds the half-open connections of each destination");

}  // namespace
}  // namespace snf
