// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_HEADER_VIEW_H_
#define SNF_BASE_PACKET_HEADER_VIEW_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/byte_order.h"

namespace snf {

template <typename Byte>
concept ByteOrConstByte = std::same_as<std::remove_const_t<Byte>, std::byte>;

// The part that all header views share: the place of the header in a packet. A
// view borrows the packet's bytes, fits in two registers, is made where it is
// needed and not stored. `Byte` is `const std::byte` to read, `std::byte` to
// rewrite as well.
//
// Each view V has `V::At(bytes, offset)`, which returns the header that begins
// at `offset`, or an empty view (which converts to false) if the bytes end
// before the header does or if its own length field is impossible. On a view
// that is not empty, getters and setters need no check; on an empty one they
// must not be called.
template <ByteOrConstByte Byte>
class HeaderView {
 public:
  explicit operator bool() const { return start_ != nullptr; }

 protected:
  HeaderView() = default;
  explicit HeaderView(Byte* start) : start_(start) {}

  static bool Fits(std::span<Byte> bytes, size_t offset, size_t size) {
    return offset <= bytes.size() && size <= bytes.size() - offset;
  }

  // Sanitizer builds stop here if the view is empty.
  Byte* at(size_t offset) const {
    if (start_ == nullptr) __builtin_unreachable();
    return start_ + offset;
  }
  uint8_t u8(size_t offset) const {
    return std::to_integer<uint8_t>(*at(offset));
  }
  be16 b16(size_t offset) const { return LoadBe16(at(offset)); }
  be32 b32(size_t offset) const { return LoadBe32(at(offset)); }
  uint16_t u16(size_t offset) const { return b16(offset).host(); }
  uint32_t u32(size_t offset) const { return b32(offset).host(); }

 private:
  Byte* start_ = nullptr;
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_HEADER_VIEW_H_
