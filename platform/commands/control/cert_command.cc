// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/control/cert_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "base/text/wording.h"
#include "platform/service/certificates.h"

namespace snf {

CertCommand::CertCommand()
    : FlagCommand(
          {.summary = "make certificates for the control service over TCP",
           .usage =
               "snf cert DIRECTORY [--host=HOST…] [--role=ROLE] [--days=COUNT]",
           .about =
               "Makes a certificate authority, a certificate for daemons and "
               "one for clients, with their keys. Pass DIRECTORY as --tls to "
               "snf up, and to snf status and the other commands that ask a "
               "daemon. Existing files are never overwritten."}) {
  flags().Argument("DIRECTORY", directory_);
  flags().Repeated(
      "host", "HOST",
      "how clients name the daemon's machine, besides localhost and 127.0.0.1: "
      "an IP address or a host name; may be given several times",
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
  flags().Choice("role", role_,
                 {{"look", "figures, units, flows and settings"},
                  {"steer", "also changes settings, and drains units"},
                  {"admin", "also sets chains, kills, and ends the daemon"}},
                 "what the client may ask a daemon for:");
  flags().Count("days", days_, 1, 3'650, "how long the certificates are valid");
}

absl::Status CertCommand::Run() {
  CertificateOptions options = {.hosts = hosts_, .role = role_};
  options.end_s = int64_t{days_} * 86'400;
  const absl::Status made = MakeCertificates(directory_, options);
  if (absl::IsInvalidArgument(made)) {
    return absl::InvalidArgumentError(
        fmt::format("--host: {}", std::string(made.message())));
  }
  if (!made.ok()) return made;
  fmt::print(
      "{0} now holds, valid for {1}:\n"
      "  ca.crt     for both ends\n"
      "  server.*   for the daemon's machine: snf up "
      "--control=tcp:127.0.0.1:7001 --tls={0}\n"
      "  client.*   for clients, whose role is {2}: snf status "
      "--control=tcp:127.0.0.1:7001 "
      "--tls={0}\n"
      "  ca.key     signs further clients; no daemon reads it\n",
      ShellWord(directory_), Plural(days_, "day"), NameOf(role_));
  return absl::OkStatus();
}

}  // namespace snf
