// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_VPN_WINDOW_H_
#define SNF_NFS_VPN_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_order.h"

namespace snf {

enum class VpnSeen : uint8_t { kNew, kReplayed, kTooOld };

// Theory of operation. The anti-replay window of a receiver (RFC 4303 §3.4.3):
// which of the last `window` sequence numbers, up to the highest, have come.
// The bits are a ring of words of 64, one more than the window needs, so that
// the window moves by clearing whole words (RFC 6479).
//
// Example: with a window of 1,024 and 5,000 as the highest, 3,977 is the last
// number that may still come; 3,976 is too old.
class VpnWindow {
 public:
  static constexpr uint32_t kMin = 32;
  static constexpr uint32_t kMax = 4'096;
  static constexpr uint32_t kWordBytes = 8;

  explicit VpnWindow(uint32_t window)
      : window_(window), words_((window + 63) / 64 + 1) {}

  uint32_t bytes() const { return words_ * kWordBytes; }

  // `bits` are bytes() bytes, or none before the first packet.
  VpnSeen Look(uint64_t highest, std::span<const std::byte> bits,
               uint64_t sequence) const {
    if (sequence > highest || bits.empty()) return VpnSeen::kNew;
    if (highest - sequence >= window_) return VpnSeen::kTooOld;
    const auto word = LoadAs<uint64_t>(&bits[PlaceOf(sequence)]);
    return (word >> (sequence % 64) & 1) != 0 ? VpnSeen::kReplayed
                                              : VpnSeen::kNew;
  }

  // Calls write(place, word) for each word that changes when `sequence`, which
  // is new, has come. `bits` are bytes() bytes.
  template <typename Write>
  void Mark(uint64_t highest, std::span<const std::byte> bits,
            uint64_t sequence, Write write) const {
    const size_t place = PlaceOf(sequence);
    uint64_t word = LoadAs<uint64_t>(&bits[place]);
    if (sequence / 64 > highest / 64) {
      word = 0;
      uint64_t cleared = sequence / 64 - highest / 64 - 1;
      if (cleared >= words_) cleared = words_ - 1;
      for (uint64_t i = 1; i <= cleared; ++i) {
        write(PlaceOf((sequence / 64 - i) * 64), uint64_t{0});
      }
    }
    write(place, word | uint64_t{1} << (sequence % 64));
  }

  // Returns the sequence number of 64 bits whose lower half a packet has (RFC
  // 4303 appendix A2.1); nothing if it is of a time before the first packet.
  std::optional<uint64_t> Extended(uint64_t highest, uint32_t low) const {
    const auto top = static_cast<uint32_t>(highest);
    uint64_t high = highest >> 32;
    const uint32_t bottom = top - window_ + 1;  // modulo 2^32
    if (top >= window_ - 1) {
      if (low < bottom) ++high;
    } else if (low >= bottom) {
      if (high == 0) return std::nullopt;
      --high;
    }
    return high << 32 | low;
  }

 private:
  size_t PlaceOf(uint64_t sequence) const {
    return static_cast<size_t>(sequence / 64 % words_) * kWordBytes;
  }

  uint32_t window_;
  uint32_t words_;
};

}  // namespace snf

#endif  // SNF_NFS_VPN_WINDOW_H_
