// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_LEASE_ADDRESS_H_
#define SNF_RESOURCE_MANAGER_LIVE_LEASE_ADDRESS_H_

#include <functional>
#include <optional>
#include <span>
#include <string>

namespace snf {

// The certificate and key of an end of a connection by TLS, and the authority
// of the other end's certificate, in PEM.
struct LeaseTls {
  std::string authority;
  std::string certificate;
  std::string key;
};

// Names the place where a resource manager listens: "unix:PATH", a socket of
// this machine, or "HOST:PORT", where both ends show certificates.
struct LeaseAddress {
  std::string target;
  std::optional<LeaseTls> tls = std::nullopt;  // with HOST:PORT

  static LeaseAddress OfSocket(const std::string& path) {
    return {.target = "unix:" + path};
  }
};

// A TCP port of a resource manager for members of other machines.
struct LeasePort {
  LeaseAddress address;
  // Returns whether a client may call, by the URIs that its certificate names.
  // Any thread.
  std::function<bool(std::span<const std::string>)> may_call;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_LEASE_ADDRESS_H_
