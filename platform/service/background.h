// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SERVICE_BACKGROUND_H_
#define SNF_PLATFORM_SERVICE_BACKGROUND_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// Continues a process in the background, as a child in its own session. Until
// the child is ready it has the terminal, to report why it fails.
class Background {
 public:
  // Forks, and returns in both processes. In the parent, which has waited until
  // the child is ready or has ended, the value is the parent's exit code. Call
  // before there are other threads. Error: Unavailable.
  static absl::StatusOr<std::optional<int>> Begin();

  // In the child: sends the messages of this process, and of all that it starts
  // from now on, to the file `log`, so that none keeps the terminal.
  // TakeErrorsBack restores this process's own stderr. Does nothing in the
  // foreground.
  static void SendErrorsTo(const std::string& log);
  static void TakeErrorsBack();

  // In the child: leaves the terminal, and lets the parent end. Messages to
  // stderr, as of an NF that crashes, go to the file `log` from then on.
  static void SayReady(const std::string& log);
  // After SayReady: the file of that name may be another by now.
  static void ReopenErrors(const std::string& log);
  // Returns true after SayReady: stderr is not read any more.
  static bool is_ready() { return is_ready_; }

 private:
  static int ready_;     // the child's end of a pipe
  static int terminal_;  // the original stderr, while messages go to a file
  static bool is_ready_;
};

// Tells systemd, if that started this process and wants to know.
void NotifySystemd(const char* state);

}  // namespace snf

#endif  // SNF_PLATFORM_SERVICE_BACKGROUND_H_
