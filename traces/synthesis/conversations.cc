// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/conversations.h"

#include "base/check.h"

namespace snf {

void Conversations::Add(std::span<const PacketShape> packets) {
  SNF_CHECK(!packets.empty() && packets[0].offset == Nanos{});
  int64_t last = 0;
  for (const PacketShape& packet : packets) {
    SNF_CHECK(packet.offset.ns >= last);
    last = packet.offset.ns;
    offsets_.push_back(last);
    bytes_before_.push_back(bytes_before_.back() + packet.wire_bytes);
  }
  first_.push_back(offsets_.size());
}

}  // namespace snf
