// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/text/wording.h"
#include "resource_manager/etcd/etcd_client.h"

namespace snf {
namespace {

constexpr size_t kMostEndpoints = 16;

// An IPv6 address stands in brackets.
bool IsEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = text.substr(0, colon);
  const bool is_bracketed = host.front() == '[' && host.back() == ']';
  if (!is_bracketed && host.find_first_of(":/[]") != std::string::npos) {
    return false;
  }
  const bool is_plain = std::ranges::all_of(
      host, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  uint32_t port = 0;
  return is_plain && absl::SimpleAtoi(text.substr(colon + 1), &port) &&
         port > 0 && port <= 65'535;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadEndpoints(
    const std::string& text) {
  const std::vector<std::string> endpoints = absl::StrSplit(text, ',');
  if (endpoints.size() > kMostEndpoints) {
    return absl::InvalidArgumentError(fmt::format(
        "{} endpoints: at most {} are used", endpoints.size(), kMostEndpoints));
  }
  for (const std::string& endpoint : endpoints) {
    if (IsEndpoint(endpoint)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no endpoint of etcd: HOST:PORT is wanted, as 127.0.0.1:2379",
        Printable(endpoint)));
  }
  return endpoints;
}

}  // namespace snf
