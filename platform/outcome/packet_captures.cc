// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/packet_captures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "platform/outcome/packet_comment.h"

namespace snf {

absl::StatusOr<uint32_t> PacketCaptures::Begin(const std::string& filter,
                                               uint32_t snap_bytes,
                                               bool drops_alone) {
  auto compiled = FlowFilter::Compile(filter);
  if (!compiled.ok()) return compiled.status();
  const std::scoped_lock lock(mutex_);
  Forget();
  if (captures_.size() == kMost) {
    return absl::ResourceExhaustedError(
        fmt::format("{} captures are under way already", kMost));
  }
  captures_.push_back({.number = ++newest_,
                       .filter = *std::move(compiled),
                       .snap_bytes = snap_bytes,
                       .drops_alone = drops_alone,
                       .heard = clock_()});
  active_ = captures_.size();
  return newest_;
}

absl::StatusOr<PacketCaptures::Batch> PacketCaptures::Take(uint32_t capture) {
  const std::scoped_lock lock(mutex_);
  Forget();
  const auto found = std::ranges::find(captures_, capture, &Capture::number);
  if (found == captures_.end()) {
    return absl::NotFoundError(
        fmt::format("there is no capture {}: a capture ends {} s after its "
                    "client asked last",
                    capture, kForgotten.ns / Seconds(1).ns));
  }
  found->heard = clock_();
  found->bytes = 0;
  Batch batch = std::move(found->batch);
  found->batch = {.selected = batch.selected, .lost = batch.lost};
  return batch;
}

void PacketCaptures::End(uint32_t capture) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(captures_,
                [capture](const Capture& c) { return c.number == capture; });
  active_ = captures_.size();
}

void PacketCaptures::Forget() {
  const Instant now = clock_();
  std::erase_if(captures_, [now](const Capture& capture) {
    return now - capture.heard >= kForgotten;
  });
  active_ = captures_.size();
}

void PacketCaptures::on_packet(const ReleasedPacket& packet,
                               std::string_view reason,
                               const NfCallNames& flows) {
  const CapturedPacket captured = {.time = packet.time,
                                   .bytes = packet.bytes,
                                   .original_bytes = packet.original_length,
                                   .link = packet.link};
  const std::scoped_lock lock(mutex_);
  bool is_late = false;
  for (Capture& capture : captures_) {
    if (capture.drops_alone && reason.empty()) continue;
    const FlowId flow = packet.route.flow;
    if (!capture.filter.SelectsPacket(captured) &&
        (flow == kNoFlow || !capture.filter.SelectsFlow(flows.FlowOf(flow)))) {
      continue;
    }
    Batch& batch = capture.batch;
    ++batch.selected;
    const size_t kept =
        capture.snap_bytes == 0
            ? packet.bytes.size()
            : std::min<size_t>(packet.bytes.size(), capture.snap_bytes);
    if (capture.bytes + kept + kPacketCost > kRoomBytes) {
      ++batch.lost;
      is_late = true;
      continue;
    }
    capture.bytes += kept + kPacketCost;
    CommentRoom room;
    batch.packets.push_back(
        {.time = packet.time,
         .original_bytes = packet.original_length,
         .link = packet.link,
         .is_dropped = !reason.empty(),
         .bytes = {reinterpret_cast<const char*>(packet.bytes.data()), kept},
         .comment = std::string(CommentOf(packet.route, reason, room))});
  }
  // Its client may be gone.
  if (is_late) Forget();
}

}  // namespace snf
