// SPDX-License-Identifier: Apache-2.0
#include "base/ipfix/ipfix_collector.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace snf {

std::optional<IpfixCollector> IpfixCollector::Parse(std::string_view text) {
  IpfixCollector collector = {.host = "", .is_udp = text.starts_with("udp")};
  text.remove_prefix(std::string_view("udp://").size());
  const bool is_bracketed = text.starts_with('[');
  const size_t end = text.find(is_bracketed ? ']' : ':');
  if (is_bracketed && end == std::string_view::npos) return std::nullopt;
  collector.host = text.substr(0, end);
  if (is_bracketed) collector.host.erase(0, 1);
  text.remove_prefix(std::min(is_bracketed ? end + 1 : end, text.size()));
  if (collector.host.empty()) return std::nullopt;
  if (text.empty()) return collector;
  const char* const last = text.data() + text.size();
  const auto [stopped, error] =
      std::from_chars(text.data() + 1, last, collector.port);
  if (text[0] != ':' || error != std::errc() || stopped != last ||
      collector.port == 0) {
    return std::nullopt;
  }
  return collector;
}

std::string IpfixCollector::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_udp ? "udp://" : "tcp://") + (is_ipv6 ? "[" + host + "]" : host) +
         ":" + std::to_string(port);
}

}  // namespace snf
