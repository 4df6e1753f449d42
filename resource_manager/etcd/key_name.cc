// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/key_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/wording.h"

namespace snf {
namespace {

constexpr size_t kMostName = 64;

bool IsKeyName(const std::string& name) {
  const auto is_right = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
           c == ':';
  };
  return !name.empty() && name.size() <= kMostName &&
         std::ranges::all_of(name, is_right);
}

}  // namespace

absl::Status CheckKeyName(const char* what, const std::string& name) {
  if (IsKeyName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\" is no {}: letters, digits and -_.: are wanted, at most {}",
      Printable(name), what, kMostName));
}

}  // namespace snf
