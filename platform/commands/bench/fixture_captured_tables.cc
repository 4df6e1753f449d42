// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/fixture_captured_tables.h"

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/packet/classifier.h"
#include "base/packet/endpoint.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"
#include "base/packet/rewrite.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr size_t kMostBytes = 1'600;  // fits into small buffers of both sides

// The ends of a packet, and its headers.
struct Plain {
  ParsedPacket headers;
  FlowKey connection;
  Endpoints ends;
};

std::optional<Plain> PlainOf(FlowClassifier& classifier,
                             const CapturedPacket& packet) {
  Plain plain;
  if (packet.bytes.size() > kMostBytes) return std::nullopt;
  const Direction direction = classifier.Classify(
      packet.time, packet.link, packet.bytes, plain.headers, plain.connection);
  const ParsedPacket& headers = plain.headers;
  const bool is_plain = direction != Direction::kNone &&
                        headers.l3 == L3::kIpv4 &&
                        headers.fragment == Fragment::kNone &&
                        (headers.l4_protocol == IpProtocol::kTcp ||
                         headers.l4_protocol == IpProtocol::kUdp) &&
                        HasEnds(plain.connection);
  if (!is_plain) return std::nullopt;
  plain.ends = EndpointsOf(plain.connection, direction);
  return plain;
}

struct Endpoint {
  be32 address;
  be16 port;
};

struct ByBytes {
  bool operator()(const FlowKey& a, const FlowKey& b) const {
    return std::memcmp(&a, &b, sizeof a) < 0;
  }
};

}  // namespace

absl::StatusOr<PlainCapture> PlainCapture::Read(const std::string& path) {
  auto reader = MergedReader::Open({path});
  if (!reader.ok()) return reader.status();
  PlainCapture read;
  FlowClassifier classifier({});
  std::set<FlowKey, ByBytes> inside, begun;
  for (CapturedPacket packet; (*reader)->Next(packet) == ReadResult::kPacket;) {
    const std::optional<Plain> plain = PlainOf(classifier, packet);
    if (!plain.has_value()) continue;
    const bool comes_in =
        !inside.contains(plain->ends.from) && inside.contains(plain->ends.to);
    if (comes_in && !begun.contains(plain->connection)) continue;
    if (!comes_in) {
      inside.insert(plain->ends.from);
      begun.insert(plain->connection);
    }
    packet.time = Instant{1'000'000'000};
    if (absl::Status s = read.packets.Add(packet); !s.ok()) return s;
    read.sides.push_back(comes_in ? Side::kOutside : Side::kInside);
  }
  if (!(*reader)->status().ok()) return (*reader)->status();
  read.connections = static_cast<uint32_t>(begun.size());
  if (!begun.empty()) return read;
  return absl::NotFoundError(
      absl::StrCat(path, ": no packet of IPv4 with TCP or UDP"));
}

CapturedTables::CapturedTables(const PlainCapture& capture, bool with_hosts)
    : capture_(capture), floor_(capture.packets.size(), with_hosts) {
  FlowClassifier classifier({});
  std::map<FlowKey, Endpoint, ByBytes> external;
  for (size_t i = 0; i < capture.packets.size(); ++i) {
    CapturedPacket packet = capture.packets.Packet(i, 0);
    const std::optional<Plain> plain = PlainOf(classifier, packet);
    SNF_CHECK(plain.has_value());
    const bool comes_in = capture.sides[i] == Side::kOutside;
    Buffer& buffer = buffers_.front();
    ThreeTableFloor::Item item = Take(packet, capture.sides[i], buffer);
    if (comes_in) {
      const Endpoint to = external.at(plain->ends.to);
      RewriteDestination(item.frame, plain->headers, to.address, to.port);
      packet.bytes = item.frame;
    }
    SNF_CHECK(translated_.Add(packet).ok());
    floor_.Batch({&item, 1});
    if (comes_in) continue;
    const auto ip =
        Ipv4Header<std::byte>::At(item.frame, plain->headers.l3_offset);
    const auto ports =
        PortsView<std::byte>::At(item.frame, plain->headers.l4_offset);
    external.insert_or_assign(plain->ends.from,
                              Endpoint{ip.source(), ports.source_port()});
  }
}

ThreeTableFloor::Item CapturedTables::Take(const CapturedPacket& packet,
                                           Side side, Buffer& to) {
  const auto length = static_cast<uint32_t>(packet.bytes.size());
  std::memcpy(to.bytes.data(), packet.bytes.data(), length);
  const std::span<std::byte> frame = std::span(to.bytes).first(length);
  to.info = {.arrival = packet.time,
             .length = length,
             .original_length = packet.original_bytes,
             .headers = Parse(packet.link, frame),
             .link = packet.link,
             .side = side};
  return {frame, &to.info};
}

uint64_t CapturedTables::Run(uint64_t packets) {
  constexpr size_t kAhead = 8;  // as a replay
  std::array<ThreeTableFloor::Item, kBatch> items;
  uint64_t done = 0;
  while (done < packets) {
    for (size_t i = 0; i < kBatch; ++i) {
      translated_.Prefetch(next_ + kAhead);
      items[i] = Take(translated_.Packet(next_, 0), capture_.sides[next_],
                      buffers_[i]);
      next_ = next_ + 1 == translated_.size() ? 0 : next_ + 1;
    }
    floor_.Batch(items);
    done += kBatch;
  }
  return done;
}

}  // namespace snf
