// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_CERTIFICATES_H_
#define SNF_PLATFORM_SERVICE_CERTIFICATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/service/client_role.h"

namespace snf {

struct CertificateOptions {
  // How clients name the server, beside localhost and its addresses: IP
  // addresses, and names of hosts.
  std::vector<std::string> hosts = {};
  ClientRole role = ClientRole::kLook;  // that the client's names
  // From when until when they are good, in seconds from now on. The clock of
  // another machine may be late.
  int64_t begin_s = -3'600;
  int64_t end_s = int64_t{365} * 86'400;
};

// Makes a certificate authority, and a certificate for servers and one for
// clients that it has signed, with their keys, of ECDSA P-256:
//
//   ca.crt ca.key   server.crt server.key   client.crt client.key
//
// in PEM, in a directory that is made for this user alone if it does not exist.
// Only this user may read keys. Nothing is overwritten, and no file stays if
// not all can be made. Errors: InvalidArgument for a bad host name;
// FailedPrecondition if one of these files exists; PermissionDenied;
// Unavailable, with the system's reason.
absl::Status MakeCertificates(const std::string& directory,
                              const CertificateOptions& options);

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_CERTIFICATES_H_
