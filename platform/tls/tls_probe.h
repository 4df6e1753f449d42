// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TLS_TLS_PROBE_H_
#define SNF_PLATFORM_TLS_TLS_PROBE_H_

#include <string>
#include <string_view>

#include "platform/tls/tls_endpoint.h"

namespace snf {

// What WhyNotReachable says of one that closes the connection.
inline constexpr std::string_view kHangsUp = "it hangs up";

// Connects to a server as a client does, and says what keeps it from being one:
// nobody listens there, the server's certificate is not good, or it does not
// take the client's. Returns "" if nothing does. Blocks for some seconds at
// most; meanwhile the process ignores SIGPIPE.
std::string WhyNotReachable(const TlsEndpoint& endpoint);

}  // namespace snf

#endif  // SNF_PLATFORM_TLS_TLS_PROBE_H_
