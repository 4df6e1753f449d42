// SPDX-License-Identifier: Apache-2.0
#include "platform/service/metrics_certificate.h"

#include <fmt/format.h>

#include <utility>

#include "platform/service/tls_files.h"

namespace snf {

absl::StatusOr<MetricsServer::Options> WithCertificate(
    MetricsServer::Options options, const std::string& directory) {
  if (directory.empty()) return options;
  absl::StatusOr<TlsFiles> files = ReadTlsFiles(directory, TlsEnd::kServer);
  if (!files.ok()) {
    return absl::Status(files.status().code(),
                        fmt::format("--metrics_tls: {}",
                                    std::string(files.status().message())));
  }
  options.certificate = std::move(files->certificate);
  options.key = std::move(files->key);
  return options;
}

}  // namespace snf
