// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_TLS_FILES_H_
#define SNF_PLATFORM_SERVICE_TLS_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace snf {

// One end of a connection.
enum class TlsEnd : uint8_t { kServer, kClient };

// The certificate and key that an end shows, and the authority for the other
// end's certificate, in PEM.
struct TlsFiles {
  std::string authority;
  std::string certificate;
  std::string key;
};

// Reads ca.crt, and server.crt and server.key, or client.crt and client.key, of
// a directory, and looks whether the other end can take them: the key is the
// certificate's and this user's alone, and the authority has signed the
// certificate for this end, and it is good today. Errors name the file:
// FailedPrecondition; PermissionDenied; Unavailable, with the system's reason.
absl::StatusOr<TlsFiles> ReadTlsFiles(const std::string& directory, TlsEnd end);

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_TLS_FILES_H_
