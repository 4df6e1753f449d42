// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_CLASSIFIER_H_
#define SNF_BASE_PACKET_CLASSIFIER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packet/flow_key.h"
#include "base/packet/fragment_table.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_parser.h"
#include "base/packet/unread.h"
#include "base/time.h"

namespace snf {

// The direction in which a packet goes along the key of its flow.
enum class Direction : uint8_t {
  kNone,     // no key: the frame holds no IP packet, or a malformed one
  kForward,  // from the key's source to its destination
  kReverse,  // from the key's destination to its source
};

// Counters of the packets that the classifier has seen. The sum of `results` is
// the number of all packets.
struct ClassifierCounters {
  std::array<uint64_t, kParseResults> results{};  // by ParseResult
  // Fragments are counted for kConnection only.
  uint64_t fragments_first = 0;      // first ones; their flow is remembered
  uint64_t fragments_matched = 0;    // later ones of a remembered packet
  uint64_t fragments_unmatched = 0;  // later ones with a key of their own
  uint64_t icmp_errors_matched = 0;  // keyed by the packet they quote

  uint64_t count(ParseResult result) const {
    return results[static_cast<size_t>(result)];
  }
  uint64_t packets() const;
  // Packets without an IP header that could be read: they pass through.
  uint64_t not_ip() const;
};

// Theory of operation. The classifier finds the name of a frame's flow: it
// parses the frame and forms the key that FlowKeyKind asks for. For kConnection
// the key of a packet is its two ends in canonical order, except that
// - a first fragment's key is remembered, and its later fragments get the same;
// - a later fragment that comes before its first, or whose first was never
//   seen, gets a key of its own, FragmentKey: all such fragments of one packet
//   share it and no connection can have it;
// - an ICMP error gets the key of the packet it quotes, and goes the other way.
//
// Where layer 4 was cut off before its ports (a short capture, an IPv6 chain
// too long), the ports are 0. A frame without IP, and IP whose header is
// malformed (bad version, a header longer than the bytes), has no key: it
// passes through the system untouched, or is dropped, and is counted.
//
// Example: 10.0.0.1:5000 → 192.0.2.9:53 UDP has the key {10.0.0.1:5000,
// 192.0.2.9:53} and goes kForward; the answer has the same key, kReverse, and
// so has the ICMP "port unreachable" that 192.0.2.9, or any router, sends for
// it.
//
// A value; owner-thread only; deterministic: the keys depend only on the
// packets and times so far. Budget: ≤ 25 ns for TCP and UDP; no allocation.
class FlowClassifier {
 public:
  struct Options {
    FlowKeyKind kind = FlowKeyKind::kConnection;
    // If true, the same addresses and ports on two VLANs are two flows.
    bool vlan = false;
    FragmentTable::Options fragments = {};
  };

  explicit FlowClassifier(const Options& options);

  // Parses the frame into `packet` and, unless it returns kNone, fills in
  // `key`. `now` is the packet's arrival time, by which remembered fragments
  // age.
  Direction Classify(Instant now, LinkType link,
                     std::span<const std::byte> frame, ParsedPacket& packet,
                     FlowKey& key);

  // Returns the unread part of the frame that Classify was last called with. A
  // later fragment has the unread part of its first one.
  Unread unread() const { return unread_; }

  const ClassifierCounters& counters() const { return counters_; }
  const FragmentTable& fragments() const { return fragments_; }

 private:
  // Each fills in `key` and returns true if the packet's direction is kReverse.
  bool Connection(Instant now, std::span<const std::byte> frame,
                  const ParsedPacket& packet, FlowKey& key);
  // Sets `unread`, if it is kNothing, to the unread part of the first fragment.
  bool ConnectionOfLaterFragment(Instant now, std::span<const std::byte> frame,
                                 const ParsedPacket& packet, FlowKey& key,
                                 Unread& unread);
  bool ConnectionOfError(Instant now, std::span<const std::byte> frame,
                         const ParsedPacket& quoted, FlowKey& key);
  bool HostPair(std::span<const std::byte> frame, const ParsedPacket& packet,
                FlowKey& key);

  // Is the part of Classify for frames that are not plain connections.
  Direction ClassifyAny(Instant now, LinkType link,
                        std::span<const std::byte> frame, ParsedPacket& packet,
                        FlowKey& key);

  Options options_;
  FragmentTable fragments_;
  Unread unread_ = Unread::kNothing;
  ClassifierCounters counters_;
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_CLASSIFIER_H_
