// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/source_captures.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "base/packet/classifier.h"
#include "base/packet/headers.h"
#include "traces/synthesis/readdress.h"

namespace snf {
namespace {

constexpr uint64_t kPacketsPerProgress = 8'192;

bool IsAnswerToSyn(std::span<const std::byte> frame,
                   const ParsedPacket& headers) {
  using Tcp = TcpHeader<const std::byte>;
  if (headers.l4_protocol != IpProtocol::kTcp ||
      headers.result != ParseResult::kComplete) {
    return false;
  }
  const auto tcp = Tcp::At(frame, headers.l4_offset);
  return tcp && (tcp.flags() & Tcp::kSyn) != 0 &&
         (tcp.flags() & Tcp::kAck) != 0;
}

}  // namespace

struct SourceCaptures::Gathered {
  FlowKey key;
  std::vector<TimedFrame> packets;
};

SourceCaptures::Frame SourceCaptures::Keep(CapturedPacket packet) {
  to_ethernet_.Change(packet);
  const size_t bytes = packet.bytes.size();
  if (bytes > left_) {
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBlockBytes));
    left_ = kBlockBytes;
  }
  std::byte* const at = blocks_.back().get() + kBlockBytes - left_;
  std::memcpy(at, packet.bytes.data(), bytes);
  const std::span<std::byte> frame(at, bytes);
  FillChecksums(frame, Parse(LinkType::kEthernet, frame));
  const auto captured =
      static_cast<uint32_t>(std::min<size_t>(bytes, snap_bytes_));
  left_ -= captured;
  return {at, captured, packet.original_bytes};
}

absl::Status SourceCaptures::Add(const std::string& path,
                                 const Progress& progress) {
  auto opened = CaptureReader::Open(path);
  if (!opened.ok()) return opened.status();
  CaptureReader& reader = **opened;
  FlowClassifier classifier({});
  std::vector<Gathered> all;
  absl::flat_hash_map<FlowKey, size_t, FlowKeyHash> index;
  File file = {.path = path, .first = conversations_.size()};
  Instant first = Instant::max();
  Instant last = Instant::min();
  CapturedPacket packet;
  ParsedPacket headers;
  FlowKey key;
  while (reader.Next(packet) == ReadResult::kPacket) {
    if (progress && reader.packets_read() % kPacketsPerProgress == 0) {
      progress(reader);
    }
    const Direction direction = classifier.Classify(packet.time, packet.link,
                                                    packet.bytes, headers, key);
    if (direction == Direction::kNone) {
      ++file.packets_without;
      continue;
    }
    const auto [entry, is_new] = index.try_emplace(key, all.size());
    if (is_new) all.push_back({.key = key, .packets = {}});
    all[entry->second].packets.push_back(
        {.time = packet.time,
         .frame = Keep(packet),
         .from_second_end = direction == Direction::kReverse,
         .is_answer = IsAnswerToSyn(packet.bytes, headers)});
    first = std::min(first, packet.time);
    last = std::max(last, packet.time);
  }
  if (!reader.status().ok()) return reader.status();
  file.warnings = reader.warnings();
  for (Gathered& gathered : all) AddConversation(gathered, file);
  if (!all.empty()) file.duration = last - first;
  file.end = conversations_.size();
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

void SourceCaptures::AddConversation(Gathered& gathered, File& file) {
  std::vector<TimedFrame>& packets = gathered.packets;
  std::ranges::stable_sort(packets, {}, &TimedFrame::time);
  shapes_.clear();
  for (const TimedFrame& packet : packets) {
    shapes_.push_back({packet.time - packets[0].time, packet.frame.wire_bytes});
    frames_.push_back(packet.frame);
    file.wire_bytes += packet.frame.wire_bytes;
  }
  file.packets += packets.size();
  conversations_.Add(shapes_);
  const FlowKey& key = gathered.key;
  const bool is_second = packets[0].from_second_end != packets[0].is_answer;
  const bool is_ipv6 = (static_cast<uint8_t>(key.form) & 15) == 6;
  ends_.push_back({.client = is_second ? key.destination : key.source,
                   .server = is_second ? key.source : key.destination,
                   .l3 = is_ipv6 ? L3::kIpv6 : L3::kIpv4});
  packets = {};
}

}  // namespace snf
