// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// Folds a word into a digest. For a given word it maps different digests to
// different ones: once two histories differ, equal packets do not make their
// digests equal again. The same on every machine.
uint64_t Fold(uint64_t digest, uint64_t word) {
  digest = (digest ^ word) * 0x9e37'79b9'7f4a'7c15;
  return digest ^ digest >> 32;
}

uint64_t Fold(uint64_t digest, std::span<const std::byte> bytes) {
  digest = Fold(digest, bytes.size());
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    digest = Fold(digest, SwapToBigEndian(LoadAs<uint64_t>(bytes.data())));
  }
  uint64_t rest = 0;
  for (const std::byte byte : bytes) {
    rest = rest << 8 | static_cast<uint64_t>(byte);
  }
  return Fold(digest, rest);
}

// An NF for tests (proto/decisions.md 22). It overwrites the last 8 bytes of
// each packet's payload with a digest of all earlier packets of its flow, as
// they arrived. So state that is stale, lost or duplicated shows in the next
// packet.
//
// A packet with a shorter payload, or one that was not captured, leaves
// unchanged, but is part of the digest like any other. Checksums are not
// updated: the packets are meant to be compared, not to be received.
class Chronicle final : public NetworkFunction {
  // An error in any of these slots shows, because the count and the end of the
  // last packet are folded into the digest too.
  Slot<uint64_t> digest_ = declare<uint64_t>("digest");
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  static constexpr uint32_t kLastBytes = 64;
  Blob last_ = declare_blob("last", kLastBytes);

  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::span<std::byte> frame = packet.bytes();
    const uint64_t earlier = flow.get(digest_);
    const uint64_t packets = flow.get(packets_);
    const uint64_t digest =
        Fold(Fold(Fold(earlier, packets), flow.get(last_)), frame);
    flow.put(digest_, digest);
    flow.put(packets_, packets + 1);
    flow.put(last_, frame.last(std::min<size_t>(frame.size(), kLastBytes)));

    const ParsedPacket& headers = packet.headers();
    const bool has_payload = headers.result == ParseResult::kComplete ||
                             headers.result == ParseResult::kLaterFragment;
    if (has_payload && headers.payload_bytes() >= sizeof earlier) {
      const uint64_t written = SwapToBigEndian(earlier);
      std::memcpy(&frame[headers.end_offset - sizeof written], &written,
                  sizeof written);
    }
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Chronicle, "chronicle",
                "for tests: writes a digest of the flow's past into packets");

}  // namespace
}  // namespace snf
