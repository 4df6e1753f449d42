// SPDX-License-Identifier: Apache-2.0
#include "base/packet/ip_prefix.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/byte_order.h"
#include "base/packet/ip_address_text.h"

namespace snf {
namespace {

constexpr int kIpv4Offset = 96;  // of the length of an IPv4 prefix

std::string TextOf(const IpPrefix& prefix) {
  const bool is_ipv4 = prefix.is_ipv4();
  const int length = is_ipv4 ? prefix.length - kIpv4Offset : prefix.length;
  std::string text =
      is_ipv4 ? Ipv4Text(prefix.address) : Ipv6Text(prefix.address);
  if (prefix.length < 128) absl::StrAppend(&text, "/", length);
  return text;
}

template <typename... Parts>
absl::Status Wrong(std::string_view text, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", std::string(text), "\" ", parts...));
}

absl::StatusOr<IpPrefix> PrefixIn(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  std::optional<IpAddress> address = ParseIpv4(text.substr(0, slash));
  const bool is_ipv4 = address.has_value();
  if (!is_ipv4) address = ParseIpv6(text.substr(0, slash));
  if (!address.has_value()) {
    return Wrong(text, "is no prefix; want for example \"10.0.0.0/8\"");
  }
  const int bits = is_ipv4 ? 32 : 128;
  int length = bits;
  if (slash < text.size()) {
    const char* end = text.data() + text.size();
    const auto [stopped, error] =
        std::from_chars(text.data() + slash + 1, end, length);
    if (error != std::errc() || stopped != end || length < 0 || length > bits) {
      return Wrong(text, "has no length from 0 to ", bits);
    }
  }
  const int of_128 = is_ipv4 ? length + kIpv4Offset : length;
  const IpPrefix prefix = IpPrefix::Of(*address, static_cast<uint8_t>(of_128));
  if (prefix.address != *address) {
    return Wrong(text, "has bits behind its length; the prefix is ",
                 TextOf(prefix));
  }
  return prefix;
}

}  // namespace

IpPrefix IpPrefix::Of(const IpAddress& address, uint8_t length) {
  IpPrefix prefix = {.address = {}, .length = length};
  for (int bit = 0; bit < length; ++bit) {
    const auto mask = std::byte{0x80} >> bit % 8;
    prefix.address.bytes[bit / 8] |= address.bytes[bit / 8] & mask;
  }
  return prefix;
}

bool IpPrefix::Contains(const IpAddress& other) const {
  const auto difference = [&](size_t at) {
    return SwapToBigEndian(LoadAs<uint64_t>(&address.bytes[at]) ^
                           LoadAs<uint64_t>(&other.bytes[at]));
  };
  if (length <= 64) return length == 0 || difference(0) >> (64 - length) == 0;
  return difference(0) == 0 && difference(8) >> (128 - length) == 0;
}

absl::StatusOr<std::vector<IpPrefix>> ParsePrefixes(std::string_view text) {
  std::vector<IpPrefix> prefixes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto prefix = PrefixIn(text.substr(begin, end - begin));
    if (!prefix.ok()) return prefix.status();
    prefixes.push_back(*prefix);
    begin = end + 1;
  }
  return prefixes;
}

std::string FormatPrefixes(std::span<const IpPrefix> prefixes) {
  std::string text;
  for (const IpPrefix& prefix : prefixes) {
    if (!text.empty()) text += ',';
    text += TextOf(prefix);
  }
  return text;
}

}  // namespace snf
