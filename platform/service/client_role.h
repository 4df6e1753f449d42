// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_CLIENT_ROLE_H_
#define SNF_PLATFORM_SERVICE_CLIENT_ROLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace snf {

// The rights of a client over TCP. Each role has the rights of the roles before
// it, too. The certificate names it by a URI in its
// subject's alternative names (RFC 5280, 4.2.1.6): urn:snf:role:steer.
enum class ClientRole : uint8_t {
  kLook,   // figures, units, flows and settings
  kSteer,  // also changes settings, and drains units
  kAdmin,  // also sets chains, kills processes, and ends the daemon
};

// "look", "steer" or "admin".
std::string_view NameOf(ClientRole role);
// Returns the URI that names the role.
std::string UriOf(ClientRole role);
// Returns the role of a certificate with these URIs: the least role that
// they name, and kLook if they name none.
ClientRole RoleOf(std::span<const std::string> uris);

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_CLIENT_ROLE_H_
