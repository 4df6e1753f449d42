// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_PACKET_MAKER_H_
#define SNF_TRACES_SYNTHESIS_PACKET_MAKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "traces/synthesis/composer.h"
#include "traces/synthesis/flow_model.h"

namespace snf {

// Makes the bytes of packets: Ethernet, IPv4 or IPv6, TCP or UDP, with right
// checksums, lengths, and TCP's sequence numbers; the payload is random text of
// small letters. In a given share of the packets that have room for it, one of
// given strings stands at a random place of the payload. Owner-thread only.
class PacketMaker {
 public:
  static constexpr uint32_t kDensityOne = 1'000'000;
  struct Options {
    uint64_t seed = 1;
    std::vector<std::string> strings = {};
    // The number of packets with a string among kDensityOne that have a
    // payload.
    uint32_t string_density = 0;
  };
  // One flow and its state between packets.
  struct Flow {
    FlowKind kind;
    FreshEnds ends;
    uint16_t client_port = 0;
    std::array<uint32_t, 2> sequence{};  // next, of the client and the server
  };
  enum class Place : uint8_t { kBegin, kAnswer, kMiddle, kEnd };

  explicit PacketMaker(Options options);

  // Begins a flow with the addresses of the copy's number.
  Flow Begin(uint64_t copy, const FlowKind& kind);

  // Makes the next packet of the flow, valid until the next call. `wire_bytes`
  // is from LeastBytes to FlowModel::kMostBytes. In TCP the flags SYN and FIN
  // show `place`.
  std::span<const std::byte> Make(Flow& flow, Place place, bool from_server,
                                  uint32_t wire_bytes);

  uint64_t with_string() const { return with_string_; }

 private:
  void FillPayload(std::span<std::byte> payload);

  Options options_;
  Rng rng_;
  std::vector<std::byte> text_;
  std::vector<std::byte> frame_;
  uint64_t with_string_ = 0;
};

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_PACKET_MAKER_H_
