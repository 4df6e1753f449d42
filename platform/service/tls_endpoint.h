// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_TLS_ENDPOINT_H_
#define SNF_PLATFORM_SERVICE_TLS_ENDPOINT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "platform/process/flags.h"
#include "platform/service/tls_files.h"

namespace snf {

// A TCP port of a host.
struct TcpAddress {
  std::string host;  // a name or an IP address, without brackets
  uint16_t port = 0;

  // Returns "127.0.0.1:7001" or "[::1]:7001".
  std::string text() const;
};

// Parses tcp:HOST:PORT, as in tcp:127.0.0.1:7001 or tcp:[::1]:7001. Error:
// InvalidArgument.
absl::StatusOr<TcpAddress> ParseTcpAddress(const std::string& text);

// A TCP port where both ends show certificates.
struct TlsEndpoint {
  TcpAddress address;
  TlsFiles files;
};

// The flags --control and --tls, which name one.
class TlsFlags {
 public:
  TlsFlags() = default;
  TlsFlags(const TlsFlags&) = delete;
  TlsFlags& operator=(const TlsFlags&) = delete;

  // Adds the flags, which are read into this; `help` says what --control is
  // for.
  void AddTo(FlagSet& flags, const std::string& help);

  bool is_given() const { return !control_.empty(); }
  const std::string& directory() const { return directory_; }
  // Returns nothing if no endpoint is named. Errors: InvalidArgument for one
  // flag without the other, or a bad address; errors of ReadTlsFiles.
  absl::StatusOr<std::optional<TlsEndpoint>> Endpoint(TlsEnd end) const;

 private:
  std::string control_;
  std::string directory_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_TLS_ENDPOINT_H_
