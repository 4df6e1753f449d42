// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_METRICS_CERTIFICATE_H_
#define SNF_PLATFORM_SERVICE_METRICS_CERTIFICATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "platform/process/metrics_server.h"

namespace snf {

// Returns the options with the server's certificate and key of a directory,
// unless `directory` is "". Errors of ReadTlsFiles, which name --metrics_tls as
// well.
absl::StatusOr<MetricsServer::Options> WithCertificate(
    MetricsServer::Options options, const std::string& directory);

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_METRICS_CERTIFICATE_H_
