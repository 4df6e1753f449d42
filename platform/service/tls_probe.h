// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_TLS_PROBE_H_
#define SNF_PLATFORM_SERVICE_TLS_PROBE_H_

#include <string>
#include <string_view>

#include "platform/service/tls_endpoint.h"

namespace snf {

// Answer of WhyNotReachable for a server that closes the connection.
inline constexpr std::string_view kHangsUp = "it closes the connection";

// Connects to a server like a client, and returns why a client cannot use it:
// the server does not listen, its certificate is bad, or it rejects the
// client's. Returns "" if the connection works. `flag` is the flag that names
// the certificates, for the text. Blocks for some seconds at
// most; meanwhile the process ignores SIGPIPE.
std::string WhyNotReachable(const TlsEndpoint& endpoint,
                            std::string_view flag = "--tls");

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_TLS_PROBE_H_
