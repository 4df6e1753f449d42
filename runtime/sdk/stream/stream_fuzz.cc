// SPDX-License-Identifier: Apache-2.0
//
// Any segments of one stream, whose bytes follow from their sequence numbers:
// events come in order, data are the stream's bytes, and memory is bounded.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/packet/l4_headers.h"
#include "runtime/sdk/no_services.h"
#include "runtime/sdk/stream/stream.h"

namespace snf {

// Makes the handles that an NF's declarations give; runtime/sdk/nf.h does not
// compile for libFuzzer.
class NetworkFunction {
 public:
  static StreamSlots SlotsOf(uint32_t held_bytes) {
    return {.place = Slot<StreamPlace>(0, 8),
            .held = Blob(1, 8 + sizeof(StreamPlace), held_bytes)};
  }
};

namespace {

constexpr uint32_t kHeldBytes = 200;

std::byte ByteAt(uint64_t sequence) {
  return static_cast<std::byte>(sequence * 31 % 251);
}

// Holds the events of a stream to its contract.
struct Watch {
  uint64_t offset = 0;
  uint32_t first = 0;

  void On(const StreamEvent& event, const TcpSegment& segment) {
    using Kind = StreamEvent::Kind;
    if (event.kind == Kind::kBegin || event.kind == Kind::kMidstream) {
      offset = 0;
      first = segment.sequence + (event.kind == Kind::kBegin ? 1 : 0);
    } else if (event.kind == Kind::kGap) {
      SNF_CHECK(event.offset == offset && event.bytes > 0);
      offset += event.bytes;
    } else if (event.kind == Kind::kData) {
      SNF_CHECK(event.offset == offset && event.bytes == event.data.size());
      for (const std::byte byte : event.data) {
        SNF_CHECK(byte == ByteAt(static_cast<uint32_t>(first + offset)));
        ++offset;
      }
    }
    SNF_CHECK(event.kind != Kind::kOverlapDiffers);
  }
};

}  // namespace
}  // namespace snf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using snf::Stream;
  using Tcp = snf::TcpHeader<const std::byte>;
  const snf::StreamSlots slots = snf::NetworkFunction::SlotsOf(snf::kHeldBytes);
  std::array<std::byte, 8 + sizeof(snf::StreamPlace) + 8 + snf::kHeldBytes>
      record = {};
  snf::StateView view(record);
  snf::NoServices services;
  snf::FlowState flow(snf::FlowId{1}, snf::Instant{}, snf::Instant::max(), view,
                      services);
  snf::Watch watch;
  uint32_t base = 0xffff'ff00;  // numbers wrap soon
  for (; bytes >= 4; data += 4, bytes -= 4) {
    // A sequence number, flags, how much is sent, and how much is captured.
    snf::TcpSegment segment;
    segment.sequence = base + data[0];
    segment.flags = data[1] & (Tcp::kSyn | Tcp::kFin | Tcp::kRst);
    if (data[1] >= 0xc0) base += 64;
    const bool has_syn = segment.has(Tcp::kSyn);
    std::vector<std::byte> payload(std::min<size_t>(data[2] % 100, data[3]));
    for (size_t i = 0; i < payload.size(); ++i) {
      const auto at = segment.sequence + (has_syn ? 1 : 0) + i;
      payload[i] = snf::ByteAt(static_cast<uint32_t>(at));
    }
    segment.data = payload;
    segment.data_bytes = data[2] % 100;
    Stream stream(flow, slots);
    const auto on_event = [&](const snf::StreamEvent& event) {
      watch.On(event, segment);
    };
    if (data[1] % 16 == 8) {
      stream.Acknowledge(segment.sequence, on_event);
    } else {
      stream.Push(segment, on_event);
    }
    SNF_CHECK(!stream.has_begun() || stream.offset() == watch.offset);
    SNF_CHECK(stream.held_bytes() <= snf::kHeldBytes);
  }
  Stream(flow, slots).Flush([&](const snf::StreamEvent& event) {
    watch.On(event, {});
  });
  return 0;
}
