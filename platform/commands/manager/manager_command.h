// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_MANAGER_MANAGER_COMMAND_H_
#define SNF_PLATFORM_COMMANDS_MANAGER_MANAGER_COMMAND_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/control/etcd_flags.h"
#include "platform/hosts/host_watch.h"
#include "platform/process/command.h"
#include "platform/service/daemon_files.h"
#include "platform/service/daemon_log.h"
#include "resource_manager/live/lease_address.h"
#include "resource_manager/live/member_file.h"

namespace snf {

// `snf manager` starts a resource manager, of which daemons lease their
// capacity.
class StartManagerCommand final : public FlagCommand {
 public:
  StartManagerCommand();

 private:
  absl::Status Run() override;
  // If there are several managers: where the leader's notes are, and whether
  // this manager may lead.
  struct Election {
    MemberNotes* notes = nullptr;
    std::function<bool()> may_serve = nullptr;
  };

  absl::Status CheckFlags() const;
  // Returns none without --listen. Errors: InvalidArgument; of ReadTlsFiles.
  absl::StatusOr<std::optional<LeasePort>> Port() const;
  absl::StatusOr<std::unique_ptr<HostWatch>> WatchHosts() const;
  absl::Status Serve(const DaemonFiles& files);
  absl::Status Lead(const DaemonFiles& files, const Election& election,
                    const std::function<void()>& say_ready,
                    const std::function<bool()>& goes_on);
  absl::Status Stand(const DaemonFiles& files, const std::atomic<bool>& ends,
                     const std::function<void(const std::string&)>& tell_part,
                     const std::function<void()>& say_ready);
  void TellReady(const DaemonFiles& files) const;
  LogOptions LogOf(const DaemonFiles& files) const;

  std::string name_of_manager_ = "default";
  uint32_t units_ = 8;
  int64_t unit_capacity_bps_ = 1'000'000'000;
  EtcdFlags etcd_;
  Nanos leader_term_ = Seconds(2);
  bool hosts_ = false;
  std::string listen_;  // tcp:HOST:PORT; "": not on TCP
  std::string tls_;     // a directory for ReadTlsFiles
  Nanos member_term_ = Seconds(10);
  bool foreground_ = false;
  std::string log_;
  bool log_json_ = false;
  size_t log_level_ = 1;  // LogLevel
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_MANAGER_MANAGER_COMMAND_H_
