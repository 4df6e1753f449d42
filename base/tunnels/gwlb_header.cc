// SPDX-License-Identifier: Apache-2.0
#include "base/tunnels/gwlb_header.h"

#include <array>

#include "base/byte_order.h"
#include "base/check.h"

namespace snf {
namespace {

GwlbRefusal RefusalOf(GeneveFault fault) {
  switch (fault) {
    case GeneveFault::kNone:
      return GwlbRefusal::kNone;
    case GeneveFault::kOtherVersion:
      return GwlbRefusal::kVersion;
    case GeneveFault::kOptionsTruncated:
      return GwlbRefusal::kOptionsTruncated;
    case GeneveFault::kOptionLength:
      return GwlbRefusal::kOptionLength;
    case GeneveFault::kCriticalOption:
      return GwlbRefusal::kCriticalOption;
    case GeneveFault::kInnerProtocol:
      return GwlbRefusal::kInnerProtocol;
    case GeneveFault::kTruncated:
    case GeneveFault::kOptionsTooLong:
    case GeneveFault::kNoRoom:
      return GwlbRefusal::kTruncated;
  }
  return GwlbRefusal::kTruncated;
}

// The three options that a packet must have.
struct Wanted {
  uint8_t type;
  size_t bytes;
  GwlbRefusal without;
};
constexpr std::array<Wanted, 3> kWanted = {
    {{kEndpointOption, 8, GwlbRefusal::kNoEndpoint},
     {kAttachmentOption, 8, GwlbRefusal::kNoAttachment},
     {kCookieOption, 4, GwlbRefusal::kNoCookie}}};

GwlbRefusal CheckAwsOptions(std::span<const std::byte> list) {
  std::array<bool, kWanted.size()> has{};
  GeneveOptions options(list);
  while (const auto option = options.Next()) {
    if (option->name.option_class != kAwsOptionClass) continue;
    for (size_t i = 0; i < kWanted.size(); ++i) {
      if (option->name.type != kWanted[i].type) continue;
      if (option->data.size() != kWanted[i].bytes) {
        return GwlbRefusal::kAwsOptionLength;
      }
      if (has[i]) return GwlbRefusal::kAwsOptionTwice;
      has[i] = true;
    }
  }
  for (size_t i = 0; i < kWanted.size(); ++i) {
    if (!has[i]) return kWanted[i].without;
  }
  return GwlbRefusal::kNone;
}

}  // namespace

std::string_view Name(GwlbRefusal refusal) {
  static constexpr std::array<std::string_view, kGwlbRefusals> kNames = {
      "none",
      "truncated",
      "version",
      "options_truncated",
      "option_length",
      "critical_option",
      "inner_protocol",
      "control",
      "aws_option_length",
      "aws_option_twice",
      "no_endpoint",
      "no_attachment",
      "no_cookie",
      "inner_empty",
      "inner_too_long"};
  return kNames.at(static_cast<size_t>(refusal));
}

GwlbRefusal ParseGwlb(std::span<const std::byte> payload,
                      GeneveHeader& header) {
  const GeneveFault fault = ParseGeneve(payload, {}, header);
  if (fault != GeneveFault::kNone) return RefusalOf(fault);
  if (header.is_control) return GwlbRefusal::kControl;
  if (header.protocol == kBridgedFrame || header.protocol == kMirrorBytes) {
    return GwlbRefusal::kInnerProtocol;
  }
  const GwlbRefusal refusal = CheckAwsOptions(header.options);
  if (refusal != GwlbRefusal::kNone) return refusal;
  const size_t inner = payload.size() - header.bytes();
  if (inner == 0) return GwlbRefusal::kInnerEmpty;
  return inner > kGwlbMtu ? GwlbRefusal::kInnerTooLong : GwlbRefusal::kNone;
}

GwlbMetadata ReadGwlbMetadata(const GeneveHeader& header) {
  GwlbMetadata metadata;
  const auto number = [](std::span<const std::byte> data) {
    return uint64_t{LoadBe32(data.data()).host()} << 32 |
           LoadBe32(&data[4]).host();
  };
  GeneveOptions options(header.options);
  while (const auto option = options.Next()) {
    if (option->name.option_class != kAwsOptionClass) continue;
    switch (option->name.type) {
      case kEndpointOption:
        metadata.endpoint = number(option->data);
        break;
      case kAttachmentOption:
        metadata.attachment = number(option->data);
        break;
      case kCookieOption:
        metadata.cookie = LoadBe32(option->data.data()).host();
        break;
      default:
        break;
    }
  }
  return metadata;
}

void BuildGwlb(const GwlbMetadata& metadata, EtherType inner,
               std::span<std::byte, kGwlbHeaderBytes> room) {
  std::array<std::byte, 8 + 8 + 4> data;
  const auto store = [&data](size_t at, uint64_t number) {
    Store(&data[at], be32(static_cast<uint32_t>(number >> 32)));
    Store(&data[at + 4], be32(static_cast<uint32_t>(number)));
  };
  store(0, metadata.endpoint);
  store(8, metadata.attachment);
  Store(&data[16], be32(metadata.cookie));
  const std::span<const std::byte> all(data);
  const std::array<GeneveOption, kWanted.size()> options = {
      {{{kAwsOptionClass, kEndpointOption}, all.first(8)},
       {{kAwsOptionClass, kAttachmentOption}, all.subspan(8, 8)},
       {{kAwsOptionClass, kCookieOption}, all.subspan(16)}}};
  GeneveHeader header;
  header.protocol = inner;
  SNF_CHECK(BuildGeneve(header, options, room).fault == GeneveFault::kNone);
}

}  // namespace snf
