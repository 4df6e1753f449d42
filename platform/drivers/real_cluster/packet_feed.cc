// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/packet_feed.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace snf {
namespace {

constexpr std::align_val_t kAlignment{128};
// Threads may be more than CPUs: who spins may keep the other from its work.
constexpr uint32_t kSpins = 100;

}  // namespace

void PacketFeed::FreeAligned::operator()(std::byte* memory) const {
  ::operator delete[](memory, kAlignment);
}

PacketFeed::PacketFeed() : memory_(new (kAlignment) std::byte[kBytes]) {
  // A packet of any size finds room in an empty ring, wherever it begins.
  static_assert(2 * SizeOf(kMostBytes) <= kBytes);
}

// The consumer says how many packets it took before it gives their bytes back.
bool PacketFeed::HasRoom(size_t size) {
  const auto fits = [&] {
    return next_ + size - known_given_back_ <= kBytes &&
           pushed_ - known_taken_ < kMostPackets;
  };
  if (fits()) return true;
  known_given_back_ = given_back_.load(std::memory_order_acquire);
  known_taken_ = packets_taken_.load(std::memory_order_acquire);
  return fits();
}

bool PacketFeed::Push(const CapturedPacket& packet) {
  const size_t bytes = std::min(packet.bytes.size(), kMostBytes);
  const size_t size = SizeOf(bytes);
  const size_t left = kBytes - next_ % kBytes;
  const size_t skipped = size > left ? left : 0;
  if (!HasRoom(skipped + size)) return false;
  if (skipped > 0) {
    ::new (HeadAt(next_)) Head{.packet = {}, .bytes = kSkip};
    next_ += skipped;
  }
  Head* const head = ::new (HeadAt(next_))
      Head{.packet = packet, .bytes = static_cast<uint32_t>(bytes)};
  head->packet.bytes = {};
  if (bytes > 0) std::memcpy(head + 1, packet.bytes.data(), bytes);
  next_ += size;
  ++pushed_;
  if (++unflushed_ >= kBurst) Flush();
  return true;
}

void PacketFeed::Flush() {
  if (unflushed_ == 0) return;
  unflushed_ = 0;
  packets_written_.store(pushed_, std::memory_order_relaxed);
  written_.store(next_, std::memory_order_seq_cst);
  consumer_.Ring();
}

void PacketFeed::WaitForRoom(Nanos most) {
  Flush();
  const auto has_room = [this] {
    return next_ - given_back_.load(std::memory_order_seq_cst) <= kBytes / 2 &&
           pushed_ - packets_taken_.load(std::memory_order_seq_cst) <=
               kMostPackets / 2;
  };
  producer_.Wait(has_room, most, kSpins);
}

void PacketFeed::Close() {
  Flush();
  is_closed_.store(true, std::memory_order_seq_cst);
  consumer_.Ring();
}

void PacketFeed::GiveBack(uint32_t packets) {
  taken_packets_ += packets;
  packets_taken_.store(taken_packets_, std::memory_order_release);
  given_back_.store(read_, std::memory_order_seq_cst);
  // A producer that waits has flushed each packet that it pushed.
  const uint64_t left = written_.load(std::memory_order_seq_cst) - read_;
  const uint64_t packets_left =
      packets_written_.load(std::memory_order_relaxed) - taken_packets_;
  if (left <= kBytes / 2 && packets_left <= kMostPackets / 2) producer_.Ring();
}

void PacketFeed::Settle() {
  if (settled_ == taken_packets_) return;
  settled_ = taken_packets_;
  packets_settled_.store(settled_, std::memory_order_seq_cst);
  producer_.Ring();
}

bool PacketFeed::WaitUntilSettled(Nanos most) {
  Flush();
  const auto is_settled = [this] {
    return packets_settled_.load(std::memory_order_seq_cst) == pushed_;
  };
  return producer_.Wait(is_settled, most, kSpins);
}

void PacketFeed::Wait(Nanos most) {
  const auto has_work = [this] {
    return read_ != written_.load(std::memory_order_seq_cst) ||
           is_closed_.load(std::memory_order_seq_cst);
  };
  consumer_.Wait(has_work, most, kSpins);
}

}  // namespace snf
