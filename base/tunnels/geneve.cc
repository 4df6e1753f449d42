// SPDX-License-Identifier: Apache-2.0
#include "base/tunnels/geneve.h"

#include <algorithm>
#include <array>

#include "base/byte_order.h"
#include "base/check.h"

namespace snf {
namespace {

constexpr size_t kWord = 4;
constexpr auto kControlBit = std::byte{0x80};
constexpr auto kCriticalBit = std::byte{0x40};

bool IsInner(EtherType type) {
  return type == EtherType::kIpv4 || type == EtherType::kIpv6 ||
         type == kBridgedFrame || type == kMirrorBytes;
}

// Returns the fault of the list of options.
GeneveFault CheckOptions(std::span<const std::byte> list,
                         std::span<const GeneveOptionName> known) {
  GeneveOptions options(list);
  while (const auto option = options.Next()) {
    if (option->name.is_critical() &&
        std::ranges::find(known, option->name) == known.end()) {
      return GeneveFault::kCriticalOption;
    }
  }
  return options.is_broken() ? GeneveFault::kOptionLength : GeneveFault::kNone;
}

}  // namespace

std::string_view Name(GeneveFault fault) {
  static constexpr std::array<std::string_view, kGeneveFaults> kNames = {
      "none",          "truncated",       "version",        "options_truncated",
      "option_length", "critical_option", "inner_protocol", "options_too_long",
      "no_room"};
  return kNames.at(static_cast<size_t>(fault));
}

std::optional<GeneveOption> GeneveOptions::Next() {
  if (left_.empty() || is_broken_) return std::nullopt;
  constexpr auto kLengthBits = std::byte{0x1f};
  if (left_.size() < kGeneveOptionHeaderBytes) {
    is_broken_ = true;
    return std::nullopt;
  }
  const size_t data = std::to_integer<size_t>(left_[3] & kLengthBits) * kWord;
  if (data > left_.size() - kGeneveOptionHeaderBytes) {
    is_broken_ = true;
    return std::nullopt;
  }
  const GeneveOption option = {
      .name = {.option_class = LoadBe16(left_.data()).host(),
               .type = std::to_integer<uint8_t>(left_[2])},
      .data = left_.subspan(kGeneveOptionHeaderBytes, data)};
  left_ = left_.subspan(kGeneveOptionHeaderBytes + data);
  return option;
}

GeneveFault ParseGeneve(std::span<const std::byte> payload,
                        std::span<const GeneveOptionName> known,
                        GeneveHeader& header) {
  if (payload.size() < kGeneveFixedBytes) return GeneveFault::kTruncated;
  const auto first = std::to_integer<unsigned>(payload[0]);
  if (first >> 6 != 0) return GeneveFault::kOtherVersion;
  const size_t list = size_t{first} * kWord;
  if (list > payload.size() - kGeneveFixedBytes) {
    return GeneveFault::kOptionsTruncated;
  }
  header.is_control = (payload[1] & kControlBit) != std::byte{0};
  header.protocol = EtherType{LoadBe16(&payload[2]).host()};
  header.network = LoadBe32(&payload[4]).host() >> 8;
  header.options = payload.subspan(kGeneveFixedBytes, list);
  const GeneveFault fault = CheckOptions(header.options, known);
  if (fault != GeneveFault::kNone) return fault;
  return IsInner(header.protocol) ? GeneveFault::kNone
                                  : GeneveFault::kInnerProtocol;
}

BuiltGeneve BuildGeneve(const GeneveHeader& header,
                        std::span<const GeneveOption> options,
                        std::span<std::byte> room) {
  SNF_CHECK(header.network < 1u << 24);
  size_t list = 0;
  bool is_critical = false;
  for (const GeneveOption& option : options) {
    const size_t data = option.data.size();
    if (data > kMaxGeneveOptionData || data % kWord != 0) {
      return {.fault = GeneveFault::kOptionLength};
    }
    list += kGeneveOptionHeaderBytes + data;
    is_critical |= option.name.is_critical();
  }
  if (!IsInner(header.protocol)) return {.fault = GeneveFault::kInnerProtocol};
  if (list > kMaxGeneveOptionsBytes) {
    return {.fault = GeneveFault::kOptionsTooLong};
  }
  if (kGeneveFixedBytes + list > room.size()) {
    return {.fault = GeneveFault::kNoRoom};
  }
  room[0] = static_cast<std::byte>(list / kWord);
  room[1] = (header.is_control ? kControlBit : std::byte{0}) |
            (is_critical ? kCriticalBit : std::byte{0});
  Store(&room[2], be16(static_cast<uint16_t>(header.protocol)));
  Store(&room[4], be32(header.network << 8));
  std::byte* to = room.data() + kGeneveFixedBytes;
  for (const GeneveOption& option : options) {
    Store(to, be16(option.name.option_class));
    to[2] = std::byte{option.name.type};
    to[3] = static_cast<std::byte>(option.data.size() / kWord);
    to += kGeneveOptionHeaderBytes;
    std::ranges::copy(option.data, to);
    to += option.data.size();
  }
  return {.bytes = kGeneveFixedBytes + list};
}

}  // namespace snf
