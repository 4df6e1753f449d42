// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TUNNELS_TEST_BUFFER_H_
#define SNF_BASE_TUNNELS_TEST_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/packet/packet_info.h"
#include "base/packet/packet_parser.h"
#include "base/packet/test_packet_text.h"
#include "gtest/gtest.h"

namespace snf {

// A packet at the beginning of its room.
struct TestBuffer {
  explicit TestBuffer(const TestPacket& packet, size_t size = 2'048)
      : room(size) {
    std::ranges::copy(packet.bytes, room.begin());
    info.length = static_cast<uint32_t>(packet.bytes.size());
    info.original_length = std::max(info.length, packet.original_length);
    info.link = packet.link;
    info.headers = Parse(info.link, bytes());
  }
  explicit TestBuffer(const std::string& text, size_t size = 2'048)
      : TestBuffer(*ParsePacket(text), size) {}

  std::span<const std::byte> bytes() const {
    return std::span(room).first(info.length);
  }
  TestPacket packet() const {
    return {.bytes = {bytes().begin(), bytes().end()},
            .original_length = info.original_length,
            .link = info.link};
  }
  // Expects that `info` says what the bytes say.
  std::string Text() const {
    EXPECT_EQ(info.headers, Parse(info.link, bytes()));
    EXPECT_GE(info.original_length, info.length);
    return ToText(packet());
  }

  PacketInfo info;
  std::vector<std::byte> room;
};

// Returns the text as ToText writes it.
inline std::string Same(const std::string& text) {
  return ToText(*ParsePacket(text));
}

}  // namespace snf

#endif  // SNF_BASE_TUNNELS_TEST_BUFFER_H_
