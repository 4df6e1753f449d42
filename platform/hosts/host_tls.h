// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_HOSTS_HOST_TLS_H_
#define SNF_PLATFORM_HOSTS_HOST_TLS_H_

#include <openssl/ssl.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/service/openssl_pointers.h"
#include "platform/service/tls_files.h"

namespace snf {

// TLS 1.3 over a connected socket that does not block. Both ends show
// certificates of one authority: the agent's is for its address, and the
// daemon's has the role admin, since the daemon runs programs there. Read and
// Write may be called by two threads at the same time.
class HostTls {
 public:
  // Shakes hands. `address` is the agent's, at the daemon's end. Errors:
  // Unavailable, with the reason; FailedPrecondition if the other end's bytes
  // are no TLS.
  static absl::StatusOr<std::unique_ptr<HostTls>> Shake(
      const TlsFiles& files, TlsEnd end, int socket, const std::string& address,
      Nanos patience);

  // At the agent's end. Error: PermissionDenied for a daemon's certificate that
  // has another role than admin.
  absl::Status CheckRole();

  // As recv and send: the bytes, 0 at the end, or -1 with errno. With EPROTO,
  // why() has the reason.
  ssize_t Read(std::span<std::byte> to);
  ssize_t Write(std::span<const std::byte> from);
  std::string why();

 private:
  explicit HostTls(TlsPointer tls) : tls_(std::move(tls)) {}
  absl::Status Shake(int socket, Nanos patience);
  ssize_t ResultOf(int result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::mutex mutex_;
  TlsPointer tls_ ABSL_GUARDED_BY(mutex_);
  std::string why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace snf

#endif  // SNF_PLATFORM_HOSTS_HOST_TLS_H_
