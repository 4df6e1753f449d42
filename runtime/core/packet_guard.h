// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_PACKET_GUARD_H_
#define SNF_RUNTIME_CORE_PACKET_GUARD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf_call.h"

namespace snf {

// Detects writes of an NF outside of its packet: remembers the bytes before and
// behind the packet, its description and the first bytes of the buffer's unused
// room. A packet that fills its buffer has none behind it. Made before the
// call, asked after it; the buffer must outlive it.
class PacketGuard final : public NfCallGuard {
 public:
  PacketGuard(BufferPool& buffers, PacketHandle packet)
      : info_(std::as_bytes(std::span(&buffers.info(packet), 1))),
        room_(buffers.room(packet)) {
    std::memcpy(info_before_.data(), info_.data(), info_.size());
    OnResize(buffers.bytes(packet).size());
  }

  void OnResize(size_t bytes) override {
    packet_bytes_ = bytes;
    behind_ = room_.subspan(bytes);
    behind_ = behind_.first(std::min(behind_.size(), kBehind));
    std::memcpy(behind_before_.data(), behind_.data(), behind_.size());
  }

  void Check() const override {
    if (std::memcmp(info_.data(), info_before_.data(), info_.size()) != 0) {
      Fail("before");
    }
    if (std::memcmp(behind_.data(), behind_before_.data(), behind_.size()) !=
        0) {
      Fail("behind");
    }
  }

 private:
  static constexpr size_t kBehind = 64;

  void Fail(std::string_view where) const {
    FailNf(absl::StrCat("wrote ", std::string(where), " the packet, which has ",
                        packet_bytes_, " bytes"));
  }

  std::span<const std::byte> info_;
  std::span<const std::byte> room_;
  std::span<const std::byte> behind_;
  size_t packet_bytes_ = 0;
  std::array<std::byte, sizeof(PacketInfo)> info_before_;
  std::array<std::byte, kBehind> behind_before_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_PACKET_GUARD_H_
