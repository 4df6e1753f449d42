// SPDX-License-Identifier: Apache-2.0
#include "platform/tls/cert_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "platform/text/wording.h"
#include "platform/tls/certificates.h"

namespace snf {

CertCommand::CertCommand()
    : FlagCommand(
          {.summary = "make certificates for the control service over TCP",
           .usage = "snf cert DIRECTORY [--host=HOST…] [--days=COUNT]",
           .about =
               "Makes a certificate authority, a certificate for daemons and "
               "one for those who ask them, with their keys: snf up takes the "
               "directory by --tls, and so do snf status and all that asks a "
               "daemon. It overwrites nothing."}) {
  flags().Argument("DIRECTORY", directory_);
  flags().Repeated(
      "host", "HOST",
      "how clients name the machine of the daemon, beside localhost and "
      "127.0.0.1: an IP address or a name; may be named again and again",
      [this](const std::string& host) {
        constexpr size_t kMostHosts = 64;
        if (hosts_.size() == kMostHosts) {
          return absl::InvalidArgumentError(
              fmt::format("more than {} hosts", kMostHosts));
        }
        hosts_.push_back(host);
        return absl::OkStatus();
      },
      [this] { return fmt::format("{}", fmt::join(hosts_, ",")); });
  flags().Count("days", days_, 1, 3'650, "how long they are good");
}

absl::Status CertCommand::Run() {
  CertificateOptions options = {.hosts = hosts_};
  options.end_s = int64_t{days_} * 86'400;
  const absl::Status made = MakeCertificates(directory_, options);
  if (absl::IsInvalidArgument(made)) {
    return absl::InvalidArgumentError(
        fmt::format("--host: {}", std::string(made.message())));
  }
  if (!made.ok()) return made;
  fmt::print(
      "{0} has, good for {1}:\n"
      "  ca.crt     for both ends\n"
      "  server.*   for the daemon's machine: snf up "
      "--control=tcp:127.0.0.1:7001 --tls={0}\n"
      "  client.*   for those who ask it: snf status "
      "--control=tcp:127.0.0.1:7001 --tls={0}\n"
      "  ca.key     signed these; nothing wants it any more\n",
      ShellWord(directory_), Plural(days_, "day"));
  return absl::OkStatus();
}

}  // namespace snf
