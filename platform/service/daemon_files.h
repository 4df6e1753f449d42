// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_DAEMON_FILES_H_
#define SNF_PLATFORM_SERVICE_DAEMON_FILES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// The files of a daemon of `snf up`: in /run/snf, or in the user's own
// $XDG_RUNTIME_DIR/snf if /run/snf cannot be written.
struct DaemonFiles {
  std::string name;       // "default"
  std::string directory;  // of this user alone
  std::string lock;       // held as long as the daemon lives; its pid is in it
  std::string socket;     // of its control service
  std::string log;        // of a daemon in the background without --log
  std::string failed;     // capture of packets on which the NF failed
  std::string modules;    // a folder of NFs' modules that were deployed
  // Socket at which units wait after a kill of the daemon; further launchers
  // append a dot and a suffix.
  std::string keep;
  std::string chains;   // a file that notes the chains of a daemon with --keep
  std::string network;  // file with the names of what DaemonNetwork has made
  // For a resource manager: the socket of its leases service, and a file that
  // notes its members (resource_manager/live/member_file.h).
  std::string leases;
  std::string members;

  // Errors: InvalidArgument, no name of a daemon, or it makes too long a name
  // of a socket; FailedPrecondition, there is no such directory.
  static absl::StatusOr<DaemonFiles> Of(const std::string& name);
};

// Returns the capture, with comments, of packets on which an NF failed:
// STEM.failed.pcapng.
std::string FailedPacketsOf(const std::string& stem);

// Says of processes of units and loggers that wait for the next daemon, since
// the last one was killed, how many there are and for how long they wait; "" if
// there are none. No daemon may run.
std::string WhatWaits(const DaemonFiles& files);
// Ends them, and returns once they have ended; false if there are none. The
// caller has the lock of that name (DaemonLock).
bool EndWaiting(const DaemonFiles& files);

// Returns the process id of the daemon; 0 if none runs. Errors: as for the
// directory and the file; PermissionDenied.
absl::StatusOr<pid_t> PidOf(const DaemonFiles& files);

// Waits until the daemon is gone; returns false if it is not by then.
bool WaitForEnd(const DaemonFiles& files, Nanos patience);

// Makes this process the daemon of a name as long as it lives.
class DaemonLock {
 public:
  // Takes the lock, and removes the remains of a killed daemon of that name,
  // with its network. Errors: FailedPrecondition if one runs; errors of files.
  static absl::StatusOr<DaemonLock> Take(const DaemonFiles& files);
  // Takes over the lock that a daemon holds whose place this one takes.
  static DaemonLock Adopt(const DaemonFiles& files, int file);
  // Says again that this process is the daemon.
  void WritePid() const;
  // Leaves all to another daemon.
  void GiveAway();
  int file() const { return file_; }
  // Removes the lock and the socket.
  ~DaemonLock();
  DaemonLock(DaemonLock&& other) noexcept;
  DaemonLock& operator=(DaemonLock&&) = delete;

 private:
  DaemonLock(DaemonFiles files, int file);

  DaemonFiles files_;
  int file_;  // -1 if moved from
};

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_DAEMON_FILES_H_
