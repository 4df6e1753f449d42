// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/recovery/kept_inputs.h"

#include <functional>
#include <string_view>

namespace snf {

uint64_t DigestOf(const LogEntryView& entry, BufferPool& buffers) {
  uint64_t digest = static_cast<uint64_t>(entry->outcome) << 16 |
                    static_cast<uint64_t>(entry->reason) << 8 |
                    entry->nf_reason;
  const auto add = [&](PacketHandle packet) {
    const std::span<const std::byte> bytes = buffers.bytes(packet);
    const uint64_t hash = std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    digest = digest * 0x9e37'79b9'7f4a'7c15 + hash;
  };
  for (size_t i = 0; i < entry->emitted; ++i) add(entry.emitted(i));
  if (entry->packet != kNoPacket) add(entry->packet);
  return digest;
}

void KeptInputs::Add(const UnitInput& input, BufferPool& buffers) {
  KeptStep::Input& kept = steps_.back().inputs.emplace_back(
      KeptStep::Input{.input = input, .info = {}, .bytes = {}});
  kept.input.packet = kNoPacket;
  if (input.packet == kNoPacket) return;
  const auto& [info, bytes] = buffers.view(input.packet);
  kept.info = info;
  kept.bytes.assign(bytes.begin(), bytes.end());
}

void KeptInputs::ForgetThrough(uint64_t entry) {
  while (!steps_.empty() && steps_.front().last_entry <= entry) {
    steps_.pop_front();
  }
}

}  // namespace snf
