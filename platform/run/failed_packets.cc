// SPDX-License-Identifier: Apache-2.0
#include "platform/run/failed_packets.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/packet/flow_key_text.h"
#include "traces/capture_writer.h"

namespace snf {

std::string FailedPackets::Name(const PacketMeta& meta,
                                PacketHandle packet) const {
  const uint64_t number = packet == kNoPacket ? 0 : names_.NumberOf(packet);
  const FlowKey key = FlowOf(meta.flow);
  return fmt::format(
      "{}clock {}{}", number == 0 ? "" : fmt::format("packet {}, ", number),
      value(meta.clock), key == FlowKey{} ? "" : ", flow " + ToString(key));
}

std::string FailedPackets::Keep(PacketHandle packet, std::string what) {
  if (file_.empty()) return "not kept";
  const auto& [info, bytes] = buffers_.view(packet);
  kept_.push_back({.packet = {.time = info.arrival,
                              .bytes = {},
                              .original_bytes = info.original_length,
                              .link = info.link},
                   .bytes = {bytes.begin(), bytes.end()},
                   .what = std::move(what)});
  if (kept_.size() > kMost) kept_.pop_front();
  const auto writer = CaptureWriter::Open(file_, {});
  if (!writer.ok()) {
    return "not kept: " + std::string(writer.status().message());
  }
  for (Kept& each : kept_) {
    each.packet.bytes = each.bytes;
    (*writer)->Write(each.packet,
                     std::string_view(each.what).substr(0, kMaxCommentBytes));
  }
  if (const absl::Status s = (*writer)->Close(); !s.ok()) {
    return "not kept: " + std::string(s.message());
  }
  return "kept in " + file_;
}

}  // namespace snf
