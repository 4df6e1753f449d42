// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/buffer_pool.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace snf {
namespace {

constexpr uint64_t kMagic = 0x534e'4670'6f6f'6c31;  // "SNFpool1"
constexpr size_t kLine = 64;
constexpr size_t kTooMany = std::numeric_limits<size_t>::max();

size_t RoundUp(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

auto BufferPool::SharesOf(std::span<const Options> options) -> Shares {
  Shares shares{};
  for (size_t p = 0; p < options.size(); ++p) {
    shares[p] = {options[p].small, options[p].medium, options[p].large};
  }
  return shares;
}

size_t BufferPool::Place(const Shares& shares, Classes& classes) {
  size_t end = RoundUp(sizeof(Header));
  size_t place = 0;
  for (size_t c = 0; c < classes.size(); ++c) {
    uint64_t count = 0;
    for (const Counts& share : shares) count += share[c];
    if (count >= uint64_t{1} << kClassShift) return kTooMany;
    SizeClass& size = classes[c];
    size.bytes = kBufferBytes[c];
    size.count = static_cast<uint32_t>(count);
    size.place = place;
    place += count;
    size.holders = end;
    size.buffers = RoundUp(size.holders + count * sizeof(uint16_t));
    end = size.buffers + count * Stride(size.bytes);
  }
  return end;
}

BufferPool::BufferPool(const Shares& shares, Party party)
    : party_(party), shares_(shares) {
  SNF_CHECK(Place(shares_, classes_) != kTooMany);
  for (size_t c = 0; c < classes_.size(); ++c) {
    SizeClass& size = classes_[c];
    for (size_t p = 0; p < static_cast<size_t>(party); ++p) {
      size.first += shares_[p][c];
    }
    size.next = LazyArray<uint32_t>(shares_[static_cast<size_t>(party)][c]);
  }
}

BufferPool::BufferPool(const Options& options)
    : BufferPool(SharesOf({&options, 1}), Party{0}) {
  Classes unused;
  memory_ = LazyArray<std::byte>(Place(shares_, unused));
}

size_t BufferPool::BytesFor(std::span<const Options> shares) {
  Classes unused;
  return shares.size() > kMaxParties ? kTooMany
                                     : Place(SharesOf(shares), unused);
}

absl::Status BufferPool::Format(std::span<std::byte> memory,
                                std::span<const Options> shares) {
  const size_t bytes = BytesFor(shares);
  if (bytes > memory.size() ||
      reinterpret_cast<uintptr_t>(memory.data()) % kLine != 0) {
    return absl::InvalidArgumentError(
        bytes == kTooMany
            ? absl::StrCat("buffer pool: more buffers than handles, or more "
                           "than ",
                           kMaxParties, " parties")
            : absl::StrCat("buffer pool of ", bytes, " bytes in ",
                           memory.size(), " bytes of memory"));
  }
  const Header header = {.magic = kMagic, .shares = SharesOf(shares)};
  std::memcpy(memory.data(), &header, sizeof(header));
  return absl::OkStatus();
}

absl::StatusOr<BufferPool> BufferPool::Attach(std::span<std::byte> memory,
                                              Party party) {
  Header header{};
  if (memory.size() >= sizeof(header)) {
    std::memcpy(&header, memory.data(), sizeof(header));
  }
  Classes unused;
  const size_t bytes = Place(header.shares, unused);
  if (header.magic != kMagic || bytes > memory.size() ||
      reinterpret_cast<uintptr_t>(memory.data()) % kLine != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no buffer pool in ", memory.size(), " bytes of memory"));
  }
  if (static_cast<size_t>(party) >= kMaxParties) {
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer pool: party ", static_cast<int>(party), ", of ", kMaxParties));
  }
  BufferPool pool(header.shares, party);
  pool.region_ = Region(memory.data());
  pool.FindFree();
  return pool;
}

// The buffers that the party's predecessor held are free, because it is dead.
void BufferPool::FindFree() {
  for (size_t c = 0; c < classes_.size(); ++c) {
    SizeClass& size = classes_[c];
    const auto count = static_cast<uint32_t>(size.next.size());
    for (uint32_t i = count; i-- > 0;) {
      uint16_t& mark = HolderAt(size, size.first + i);
      const uint16_t holder = HolderOf(mark);
      if (holder != 0 && holder != MarkOf(party_)) {
        size.used = std::max(size.used, i + 1);
        size.next[i] = kTaken;
        ++in_use_;
      } else {
        SetHolder(mark, 0);
        if (i >= size.used) continue;
        size.next[i] = size.free;
        size.free = i;
      }
    }
  }
}

void BufferPool::TakeAll() {
  in_use_ = 0;
  for (SizeClass& size : classes_) {
    size.free = kEnd;
    size.used = static_cast<uint32_t>(size.next.size());
    for (uint32_t i = 0; i < size.used; ++i) {
      size.next[i] = kTaken;
      SetHolder(HolderAt(size, size.first + i), MarkOf(party_));
      ++in_use_;
    }
  }
}

PacketHandle BufferPool::Allocate(uint32_t bytes) {
  for (size_t c = 0; c < classes_.size(); ++c) {
    SizeClass& size = classes_[c];
    const uint32_t growth = c + 1 < classes_.size() ? kMaxPacketGrowth : 0;
    if (bytes > size.bytes - growth) continue;
    uint32_t index = size.free;
    if (index != kEnd) {
      size.free = size.next[index];
    } else if (size.used < size.next.size()) {
      index = size.used++;
    } else {
      continue;
    }
    size.next[index] = kTaken;
    SetHolder(HolderAt(size, size.first + index), MarkOf(party_));
    ++in_use_;
    return HandleOf(c, size.first + index);
  }
  return kNoPacket;
}

bool BufferPool::Return(PacketHandle handle) {
  const bool is_own = FreeIfOwn(handle);
  refused_returns_ += is_own ? 0 : 1;
  return is_own;
}

void BufferPool::CopyTo(BufferPool& other, PacketHandle packet) {
  const View from = view(packet);  // reads the length once
  const View to = other.whole(packet);
  std::memcpy(&to.info, &from.info, sizeof(PacketInfo));
  to.info.length = static_cast<uint32_t>(from.bytes.size());
  if (!from.bytes.empty()) {
    std::memcpy(to.bytes.data(), from.bytes.data(), from.bytes.size());
  }
}

BufferPool::Share BufferPool::share(Party party) const {
  Share share;
  share.count_ = shares_[static_cast<size_t>(party)];
  for (size_t p = 0; p < static_cast<size_t>(party); ++p) {
    for (size_t c = 0; c < share.first_.size(); ++c) {
      share.first_[c] += shares_[p][c];
    }
  }
  return share;
}

BufferPool::Party BufferPool::owner(PacketHandle handle) const {
  const size_t c = value(handle) >> kClassShift;
  uint32_t end = 0;
  for (size_t p = 0; p < kMaxParties; ++p) {
    end += shares_[p][c];
    if (IndexOf(handle) < end) return Party{static_cast<uint8_t>(p)};
  }
  SNF_CHECK(false);  // IsHandle() was false
  return Party{0};
}

}  // namespace snf
