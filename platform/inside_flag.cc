// SPDX-License-Identifier: Apache-2.0
#include "platform/inside_flag.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/check.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace snf {
namespace {

constexpr int kIpv4Offset = 96;  // of the length of an IPv4 prefix

// In the mapped form; `is_ipv4` says how it was written.
std::optional<IpAddress> AddressIn(const std::string& text, bool& is_ipv4) {
  IpAddress address;
  std::array<std::byte, 4> ipv4;
  is_ipv4 = inet_pton(AF_INET, text.c_str(), ipv4.data()) == 1;
  if (is_ipv4) return IpAddress::FromIpv4(LoadBe32(ipv4.data()));
  if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) {
    return address;
  }
  return std::nullopt;
}

std::string TextOf(const IpPrefix& prefix) {
  const bool is_ipv4 =
      prefix.length >= kIpv4Offset &&
      prefix.address == IpAddress::FromIpv4(prefix.address.ipv4());
  const int bits = is_ipv4 ? 32 : 128;
  const int length = is_ipv4 ? prefix.length - kIpv4Offset : prefix.length;
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto* bytes = prefix.address.bytes.data() + (is_ipv4 ? 12 : 0);
  SNF_CHECK(inet_ntop(is_ipv4 ? AF_INET : AF_INET6, bytes, text.data(),
                      text.size()) != nullptr);
  return length == bits ? std::string(text.data())
                        : fmt::format("{}/{}", text.data(), length);
}

IpAddress Masked(const IpAddress& address, int length) {
  IpAddress masked;
  for (int bit = 0; bit < length; ++bit) {
    const auto mask = std::byte{0x80} >> bit % 8;
    masked.bytes[bit / 8] |= address.bytes[bit / 8] & mask;
  }
  return masked;
}

absl::StatusOr<IpPrefix> PrefixIn(const std::string& text) {
  const size_t slash = std::min(text.find('/'), text.size());
  bool is_ipv4 = false;
  const auto address = AddressIn(text.substr(0, slash), is_ipv4);
  if (!address.has_value()) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" is no prefix; want for example \"10.0.0.0/8\"", text));
  }
  const int bits = is_ipv4 ? 32 : 128;
  int length = bits;
  if (slash < text.size()) {
    const char* end = text.data() + text.size();
    const auto [stopped, error] =
        std::from_chars(text.data() + slash + 1, end, length);
    if (error != std::errc() || stopped != end || length < 0 || length > bits) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" has no length from 0 to {}", text, bits));
    }
  }
  const int of_128 = is_ipv4 ? length + kIpv4Offset : length;
  const IpPrefix prefix = {.address = Masked(*address, of_128),
                           .length = static_cast<uint8_t>(of_128)};
  if (prefix.address != *address) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" has bits behind its length; the prefix is {}", text,
                    TextOf(prefix)));
  }
  return prefix;
}

}  // namespace

absl::StatusOr<std::vector<IpPrefix>> ParseInside(const std::string& text) {
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

std::string FormatInside(std::span<const IpPrefix> prefixes) {
  std::vector<std::string> texts;
  for (const IpPrefix& prefix : prefixes) texts.push_back(TextOf(prefix));
  return fmt::format("{}", fmt::join(texts, ","));
}

}  // namespace snf
