// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_DAEMON_FILES_H_
#define SNF_PLATFORM_CONTROL_DAEMON_FILES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// Where a daemon of `snf up` is found: /run/snf, or the user's own
// $XDG_RUNTIME_DIR/snf where that cannot be written.
struct DaemonFiles {
  std::string name;       // "default"
  std::string directory;  // of this user alone
  std::string lock;       // held as long as the daemon lives; its pid is in it
  std::string socket;     // of its control service
  std::string log;        // of a daemon in the background without --log
  std::string modules;    // a folder of NFs' modules that were deployed
  // A socket, where units wait after it was killed; others have a dot and more
  // behind that.
  std::string keep;
  std::string chains;   // a file that notes the chains of a daemon with --keep
  std::string network;  // names what DaemonNetwork has made for it
  // Of a resource manager: the socket of its leases service, and a file that
  // notes its members (platform/manager/member_file.h).
  std::string leases;
  std::string members;

  // Errors: InvalidArgument, no name of a daemon, or it makes too long a name
  // of a socket; FailedPrecondition, there is no such directory.
  static absl::StatusOr<DaemonFiles> Of(const std::string& name);
};

// Says of processes of units and loggers that wait for the next daemon, since
// the last one was killed, how many there are and for how long they wait; "" if
// there are none. No daemon may run.
std::string WhatWaits(const DaemonFiles& files);
// Ends them, and returns once they have ended; false if there are none. The
// caller has the lock of that name (DaemonLock).
bool EndWaiting(const DaemonFiles& files);

// Returns the process id of the daemon; 0 if none runs. Errors: those of the
// directory and the file; PermissionDenied.
absl::StatusOr<pid_t> PidOf(const DaemonFiles& files);

// Waits until the daemon is gone; returns false if it is not by then.
bool WaitForEnd(const DaemonFiles& files, Nanos patience);

// Makes this process the daemon of a name as long as it lives.
class DaemonLock {
 public:
  // Removes what a daemon of that name left behind that was killed, with its
  // network. Errors:
  // FailedPrecondition, one runs; those of files.
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
  int file_;  // -1 where it was moved away
};

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_DAEMON_FILES_H_
