// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_CONVERSATIONS_H_
#define SNF_TRACES_SYNTHESIS_CONVERSATIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"

namespace snf {

// The time and the size of a packet.
struct PacketShape {
  Nanos offset;  // since its conversation's first packet
  uint32_t wire_bytes = 0;
};

// The times and sizes of the packets of many conversations, without their
// bytes. An Overlay draws from it. It takes 16 bytes a packet and 16 a
// conversation. Owner-thread only.
class Conversations {
 public:
  // Adds a conversation of at least one packet, whose offsets begin at 0 and
  // never go back.
  void Add(std::span<const PacketShape> packets);

  size_t size() const { return first_.size() - 1; }
  uint64_t packets() const { return offsets_.size(); }

  // The following are of the conversation `i`, whose packets are numbered from
  // 0. FirstOf returns the number of its first packet among all packets.
  uint64_t FirstOf(size_t i) const { return first_[i]; }
  uint32_t CountOf(size_t i) const {
    return static_cast<uint32_t>(first_[i + 1] - first_[i]);
  }
  std::span<const int64_t> OffsetsOf(size_t i) const {
    return std::span(offsets_).subspan(first_[i], CountOf(i));
  }
  int64_t SpanOf(size_t i) const { return offsets_[first_[i + 1] - 1]; }
  uint32_t WireBytes(size_t i, size_t packet) const {
    return static_cast<uint32_t>(BytesBetween(i, packet, packet + 1));
  }
  // Returns the bytes of its packets from `begin` to before `end`.
  uint64_t BytesBetween(size_t i, size_t begin, size_t end) const {
    return bytes_before_[first_[i] + end] - bytes_before_[first_[i] + begin];
  }
  uint64_t BytesOf(size_t i) const { return BytesBetween(i, 0, CountOf(i)); }

 private:
  std::vector<uint64_t> first_ = {0};  // one more than conversations
  std::vector<int64_t> offsets_;
  std::vector<uint64_t> bytes_before_ = {0};  // one more than packets
};

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_CONVERSATIONS_H_
