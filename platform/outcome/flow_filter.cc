// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/flow_filter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/packet/flow_key_text.h"

namespace snf {
namespace {

constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kPortBytes = 4;

bool HasPorts(FlowKeyForm form) {
  return form != FlowKeyForm::kIpv4Fragment &&
         form != FlowKeyForm::kIpv6Fragment;
}

// A packet without a link header that has the key's fields.
struct KeyPacket {
  std::array<std::byte, kIpv6Bytes + 2 * kPortBytes> room{};
  size_t size = 0;

  explicit KeyPacket(const FlowKey& key) {
    const bool is_ipv4 = (static_cast<uint8_t>(key.form) & 0xf) == 4;
    const size_t l4 = is_ipv4 ? kIpv4Bytes : kIpv6Bytes;
    size = l4 + 2 * kPortBytes;
    if (is_ipv4) {
      room[0] = std::byte{0x45};
      room[3] = static_cast<std::byte>(size);
      room[9] = static_cast<std::byte>(key.protocol);
      Store(&room[12], key.source.ipv4());
      Store(&room[16], key.destination.ipv4());
    } else {
      room[0] = std::byte{0x60};
      room[5] = static_cast<std::byte>(2 * kPortBytes);
      room[6] = static_cast<std::byte>(key.protocol);
      std::ranges::copy(key.source.bytes, &room[8]);
      std::ranges::copy(key.destination.bytes, &room[24]);
    }
    if (!HasPorts(key.form)) return;
    Store(&room[l4], key.source_port);
    Store(&room[l4 + 2], key.destination_port);
  }
  CapturedPacket packet() const {
    return {.time = {},
            .bytes = std::span(room).first(size),
            .original_bytes = static_cast<uint32_t>(size),
            .link = LinkType::kRawIp};
  }
};

}  // namespace

absl::StatusOr<FlowFilter> FlowFilter::Compile(const std::string& text) {
  FlowFilter filter;
  if (text.empty()) return filter;
  if (const auto key = ParseFlowKey(text); key.ok()) {
    filter.key_ = *key;
    return filter;
  }
  auto compiled = PacketFilter::Compile(text);
  if (!compiled.ok()) return compiled.status();
  filter.filter_ = *std::move(compiled);
  return filter;
}

bool FlowFilter::SelectsDirection(const FlowKey& key) {
  return filter_->Passes(KeyPacket(key).packet());
}

bool FlowFilter::SelectsFlow(const FlowKey& key) {
  if (key_.form != FlowKeyForm::kNone) {
    return key == key_ || Reversed(key) == key_;
  }
  if (filter_ == nullptr) return true;
  if (key.form == FlowKeyForm::kNone) return false;
  return SelectsDirection(key) || SelectsDirection(Reversed(key));
}

bool FlowFilter::SelectsPacket(const CapturedPacket& packet) {
  if (key_.form != FlowKeyForm::kNone) return false;
  return filter_ == nullptr || filter_->Passes(packet);
}

}  // namespace snf
