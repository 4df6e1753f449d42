// SPDX-License-Identifier: Apache-2.0
#include "platform/service/client_role.h"

#include <algorithm>
#include <array>
#include <optional>

namespace snf {
namespace {

constexpr std::array<std::string_view, 3> kRoleNames = {"look", "steer",
                                                        "admin"};

}  // namespace

std::string_view NameOf(ClientRole role) {
  return kRoleNames[static_cast<size_t>(role)];
}

std::string UriOf(ClientRole role) {
  return "urn:snf:role:" + std::string(NameOf(role));
}

ClientRole RoleOf(std::span<const std::string> uris) {
  std::optional<ClientRole> least;
  for (const ClientRole role :
       {ClientRole::kAdmin, ClientRole::kSteer, ClientRole::kLook}) {
    if (std::ranges::count(uris, UriOf(role)) > 0) least = role;
  }
  return least.value_or(ClientRole::kLook);
}

}  // namespace snf
