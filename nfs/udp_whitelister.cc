// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/ip_prefix.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// Theory of operation. Keeps floods of UDP out of a network (SNF §8), also
// reflected ones: answers to queries that somebody else sent in its name. An
// inside client that sends a request puts its connection on the list: from then
// on the other end's packets are let in, for `timeout`, and for
// `stream_timeout` as soon as it has answered. Requests renew that, answers do
// not, so a flooder cannot keep a connection open. All other UDP from outside
// to inside is dropped.
//
// Example: 10.0.0.1:5000 asks 192.0.2.9:53 at 0 s. An answer may come until 30
// s; it comes at 1 s, and the next one may come until 120 s. A packet from
// 192.0.2.9:123 is not let in.
//
// Packets that are not UDP, or that do not cross the border of the network, are
// forwarded. UDP packets that do not cross it are counted, which reveals a
// wrong `inside`.
class UdpWhitelister final : public NetworkFunction {
 public:
  explicit UdpWhitelister(NfOptions& options)
      : inside_(Inside(options)),
        timeout_(options.Duration(
            "timeout", Seconds(30), Milliseconds(1), Seconds(86'400),
            "time in which the first answer must arrive")),
        stream_timeout_(options.Duration(
            "stream_timeout", Seconds(120), Milliseconds(1), Seconds(86'400),
            "time after a request in which further answers may arrive")) {}

 private:
  enum Phase : uint64_t { kNew, kUnlisted, kListed, kAnswered };
  struct Entry {
    int64_t request_ns;  // the last one
    uint64_t phase;
  };
  enum Drop : uint8_t { kUnsolicited, kLate };
  // The time for which a flow is kept that is not on the list, or no longer: a
  // flood consists of many such flows.
  static constexpr Nanos kForgetAfter = Seconds(1);

  static std::vector<IpPrefix> Inside(NfOptions& options) {
    constexpr std::string_view kPrivate =
        "10.0.0.0/8+172.16.0.0/12+192.168.0.0/16+fc00::/7";
    std::string text = options.Text("inside", kPrivate, "PREFIX[+PREFIX…]",
                                    "the network that is protected");
    std::replace(text.begin(), text.end(), '+', ',');
    absl::StatusOr<std::vector<IpPrefix>> prefixes = ParsePrefixes(text);
    if (prefixes.ok()) return *std::move(prefixes);
    options.Fail("inside", "prefixes joined by +, such as 10.0.0.0/8+fc00::/7");
    return {};
  }

  bool IsInside(const IpAddress& address) const {
    return std::ranges::any_of(inside_, [&](const IpPrefix& prefix) {
      return prefix.Contains(address);
    });
  }

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    if (packet.headers().l4_protocol != IpProtocol::kUdp) {
      return Verdict::forward();
    }
    const FlowKey ends = FiveTuple(packet.bytes(), packet.headers(), false);
    const bool from_inside = IsInside(ends.source);
    if (from_inside == IsInside(ends.destination)) {
      count(not_crossing_);
      return Verdict::forward();
    }
    const Entry entry = flow.get(entry_);
    return from_inside ? LetOut(packet.arrival(), entry, flow)
                       : LetIn(packet.arrival(), entry, flow);
  }

  bool IsListed(Instant now, const Entry& entry) const {
    if (entry.phase < kListed) return false;
    const Nanos age = now - Instant{entry.request_ns};
    return age <= (entry.phase == kListed ? timeout_ : stream_timeout_);
  }

  Verdict LetOut(Instant now, const Entry& entry, FlowState& flow) {
    if (entry.phase < kListed) {
      count(connections_);
      flow.set_idle_timeout(
          {std::max(timeout_, stream_timeout_).ns + kForgetAfter.ns});
    }
    flow.put(entry_,
             {now.ns, IsListed(now, entry) ? entry.phase : uint64_t{kListed}});
    return Verdict::forward();
  }

  Verdict LetIn(Instant now, const Entry& entry, FlowState& flow) {
    if (!IsListed(now, entry)) {
      if (entry.phase >= kListed) return Verdict::drop(kLate);
      if (entry.phase == kNew) {
        flow.set_idle_timeout(kForgetAfter);
        flow.put(entry_, {0, kUnlisted});
      }
      return Verdict::drop(kUnsolicited);
    }
    if (entry.phase == kListed) {
      flow.put(entry_, {entry.request_ns, kAnswered});
    }
    count(answers_);
    return Verdict::forward();
  }

  bool is_barrier() const override { return true; }

  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"unsolicited", "late"};
    return kReasons;
  }

  std::vector<IpPrefix> inside_;
  Nanos timeout_;
  Nanos stream_timeout_;
  Slot<Entry> entry_ = declare<Entry>("entry");
  Counter connections_ = declare_counter(
      "connections", "flows that a client inside put on the list");
  Counter answers_ = declare_counter("answers", "packets let in");
  Counter not_crossing_ = declare_counter(
      "not_crossing", "UDP packets with both ends inside, or neither");
};
SNF_REGISTER_NF(UdpWhitelister, "udp_whitelister",
                "lets in UDP packets only as answers to outgoing ones");

}  // namespace
}  // namespace snf
