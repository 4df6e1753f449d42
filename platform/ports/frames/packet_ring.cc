// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/frames/packet_ring.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>

namespace snf {
namespace {

// Size of contiguous memory that the kernel has to find.
constexpr size_t kBlockBytes = 64 * 1024;
// Bytes ahead of a frame: the slot's header, an address, an offload and a VLAN
// tag, with alignment.
constexpr size_t kAheadBytes = 128;

bool SetOption(int socket, int option, int value) {
  return setsockopt(socket, SOL_PACKET, option, &value, sizeof value) == 0;
}

}  // namespace

PacketRing::~PacketRing() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

bool PacketRing::Open(int socket, size_t frame_bytes, size_t most_bytes) {
  slot_bytes_ = std::min(std::bit_ceil(frame_bytes + kAheadBytes), kBlockBytes);
  if (!SetOption(socket, PACKET_VERSION, TPACKET_V2) ||
      !SetOption(socket, PACKET_COPY_THRESH, 1)) {
    return false;
  }
  size_t bytes =
      std::bit_floor(std::clamp(most_bytes, kLeastBytes, kMostBytes));
  while (true) {
    tpacket_req wanted = {};
    wanted.tp_block_size = kBlockBytes;
    wanted.tp_block_nr = static_cast<unsigned>(bytes / kBlockBytes);
    wanted.tp_frame_size = static_cast<unsigned>(slot_bytes_);
    wanted.tp_frame_nr = static_cast<unsigned>(bytes / slot_bytes_);
    if (setsockopt(socket, SOL_PACKET, PACKET_RX_RING, &wanted,
                   sizeof wanted) == 0) {
      break;
    }
    bytes /= 2;
    if (bytes < kLeastBytes) return false;
  }
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_POPULATE, socket, 0);
  if (mapped == MAP_FAILED) return false;
  memory_ = {static_cast<std::byte*>(mapped), bytes};
  return true;
}

bool PacketRing::Adopt(int socket, size_t bytes, size_t slot_bytes,
                       size_t next) {
  const bool is_right = std::has_single_bit(slot_bytes) &&
                        slot_bytes <= kBlockBytes && bytes <= kMostBytes &&
                        bytes % kBlockBytes == 0 && next < bytes / slot_bytes;
  if (!is_right) {
    errno = EINVAL;
    return false;
  }
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_POPULATE, socket, 0);
  if (mapped == MAP_FAILED) return false;
  memory_ = {static_cast<std::byte*>(mapped), bytes};
  slot_bytes_ = slot_bytes;
  next_ = next;
  return true;
}

tpacket2_hdr& PacketRing::slot(size_t i) const {
  return *reinterpret_cast<tpacket2_hdr*>(&memory_[i * slot_bytes_]);
}

tpacket2_hdr* PacketRing::Next() const {
  tpacket2_hdr& next = slot(next_);
  const uint32_t status =
      std::atomic_ref(next.tp_status).load(std::memory_order_acquire);
  return (status & TP_STATUS_USER) != 0 ? &next : nullptr;
}

std::span<std::byte> PacketRing::FrameOf(tpacket2_hdr& slot) {
  return {reinterpret_cast<std::byte*>(&slot) + slot.tp_mac, slot.tp_snaplen};
}

void PacketRing::Release() {
  std::atomic_ref(slot(next_).tp_status)
      .store(TP_STATUS_KERNEL, std::memory_order_release);
  next_ = (next_ + 1) * slot_bytes_ == memory_.size() ? 0 : next_ + 1;
}

}  // namespace snf
