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

// Finds out whether an NF wrote outside of its packet: it remembers what stands
// before and behind the packet, its description and the first bytes of the
// buffer's unused room. A packet that fills its buffer has none behind it. Made
// before the call, asked after it; the buffer must outlive it.
class PacketGuard final : public NfCallGuard {
 public:
  PacketGuard(BufferPool& buffers, PacketHandle packet)
      : info_(std::as_bytes(std::span(&buffers.info(packet), 1))),
        behind_(BehindOf(buffers, packet)),
        packet_bytes_(buffers.bytes(packet).size()) {
    std::memcpy(info_before_.data(), info_.data(), info_.size());
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
  static std::span<const std::byte> BehindOf(BufferPool& buffers,
                                             PacketHandle packet) {
    const std::span<const std::byte> room = buffers.room(packet);
    const std::span<const std::byte> behind =
        room.subspan(buffers.bytes(packet).size());
    return behind.first(std::min(behind.size(), kBehind));
  }

  std::span<const std::byte> info_;
  std::span<const std::byte> behind_;
  size_t packet_bytes_;
  std::array<std::byte, sizeof(PacketInfo)> info_before_;
  std::array<std::byte, kBehind> behind_before_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_PACKET_GUARD_H_
