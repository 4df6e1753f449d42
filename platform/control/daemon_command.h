// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_DAEMON_COMMAND_H_
#define SNF_PLATFORM_CONTROL_DAEMON_COMMAND_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "platform/control/call_limit.h"
#include "platform/control/control_client.h"
#include "platform/process/command.h"
#include "platform/service/daemon_files.h"
#include "platform/service/tls_endpoint.h"

namespace snf {

// The base of a command that asks a daemon, which --name names, or --control
// where it is on another machine.
class DaemonCommand : public FlagCommand {
 protected:
  explicit DaemonCommand(Text text);

  // Returns its name, or its address.
  const std::string& daemon() const { return daemon_; }
  // Returns whether any flag is of a daemon elsewhere, be it without the other
  // one that it wants.
  bool is_remote() const {
    return tls_.is_given() || !tls_.directory().empty();
  }
  // Finds the daemon, and connects to it at the first call. Errors:
  // FailedPrecondition, none of that name runs; those of TlsFlags.
  absl::StatusOr<ControlClient*> Connect();
  // Returns whether the one that --control names has ended: nobody listens
  // there, or who does hangs up. One that cannot be asked may still run.
  bool HasEnded() const;
  // Asks it, once. There is an answer in time, or an error that says there is
  // none; if even the latter takes longer than kGrace, the process ends.
  template <typename Request>
  auto Ask(const Request& request)
      -> decltype(std::declval<ControlClient>().Ask(request)) {
    const Nanos patience = ControlClient::PatienceOf(request);
    const CallLimit limit(LateLine(), Nanos{patience.ns + kGrace.ns});
    const absl::StatusOr<ControlClient*> client = Connect();
    if (!client.ok()) return client.status();
    auto reply = (*client)->Ask(request);
    if (reply.ok()) return reply;
    return OfDaemon(reply.status());
  }

 private:
  static constexpr Nanos kGrace = Seconds(10);

  std::string LateLine() const;
  absl::StatusOr<ControlClient*> ConnectRemote();
  absl::Status OfDaemon(const absl::Status& status) const;
  absl::Status WhyUnavailable(const std::string& text) const;

  std::string daemon_ = "default";
  TlsFlags tls_;
  std::optional<TlsEndpoint> endpoint_;
  ControlClient* client_ = nullptr;
};

// Adds the flag that names a daemon.
FlagSet::Traits& AddDaemonName(FlagSet& flags, std::string& name);
// Says that there is none of that name, and what waits for one.
absl::Status NoDaemon(const std::string& name);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_DAEMON_COMMAND_H_
