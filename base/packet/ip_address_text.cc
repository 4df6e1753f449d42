// SPDX-License-Identifier: Apache-2.0
#include "base/packet/ip_address_text.h"

#include <arpa/inet.h>

#include <array>
#include <cstdio>

namespace snf {
namespace {

struct Run {
  size_t first = 0;
  size_t count = 0;
};

// Returns the longest run of at least two zero groups, the first among equals,
// which RFC 5952 §4.2 replaces with "::".
Run LongestZeroRun(const std::array<uint16_t, 8>& groups) {
  Run best, run;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] != 0) {
      run = {};
      continue;
    }
    if (run.count++ == 0) run.first = i;
    if (run.count >= 2 && run.count > best.count) best = run;
  }
  return best;
}

bool IsMapped(const IpAddress& address) {
  return IpAddress::FromIpv4(address.ipv4()) == address;
}

// A zero byte inside the text would end it early for inet_pton, so it is
// refused.
bool Read(int family, std::string_view text, std::byte* to) {
  return text.find('\0') == std::string_view::npos &&
         inet_pton(family, std::string(text).c_str(), to) == 1;
}

}  // namespace

std::optional<IpAddress> ParseIpv4(std::string_view text) {
  std::array<std::byte, 4> bytes;
  if (!Read(AF_INET, text, bytes.data())) return std::nullopt;
  return IpAddress::FromIpv4(LoadBe32(bytes.data()));
}

std::optional<IpAddress> ParseIpv6(std::string_view text) {
  IpAddress address;
  if (!Read(AF_INET6, text, address.bytes.data())) return std::nullopt;
  return address;
}

std::string Ipv4Text(const IpAddress& address) {
  std::string text;
  for (size_t i = 12; i < 16; ++i) {
    if (i > 12) text += '.';
    text += std::to_string(std::to_integer<int>(address.bytes[i]));
  }
  return text;
}

std::string Ipv6Text(const IpAddress& address) {
  if (IsMapped(address)) return "::ffff:" + Ipv4Text(address);  // RFC 5952 §5
  std::array<uint16_t, 8> groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i] = LoadBe16(&address.bytes[2 * i]).host();
  }
  const Run zeros = LongestZeroRun(groups);
  std::string text;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (zeros.count > 0 && i == zeros.first) {
      text += "::";
      i += zeros.count - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    char digits[5];
    std::snprintf(digits, sizeof digits, "%x", unsigned{groups[i]});
    text += digits;
  }
  return text;
}

}  // namespace snf
