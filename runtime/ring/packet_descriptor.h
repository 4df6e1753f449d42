// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_PACKET_DESCRIPTOR_H_
#define SNF_RUNTIME_RING_PACKET_DESCRIPTOR_H_

#include <array>
#include <cstdint>
#include <type_traits>

#include "base/ids.h"
#include "base/messages/messages.h"

namespace snf {

// A packet in a ring: its handle and its metadata. One cache line.
struct PacketDescriptor {
  PacketMeta meta;
  PacketHandle packet = kNoPacket;  // kNoPacket if the meta has no payload
  std::array<uint32_t, 3> reserved{};
};
static_assert(sizeof(PacketDescriptor) == 64);
static_assert(std::is_trivially_copyable_v<PacketDescriptor>);

}  // namespace snf

#endif  // SNF_RUNTIME_RING_PACKET_DESCRIPTOR_H_
