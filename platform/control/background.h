// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_BACKGROUND_H_
#define SNF_PLATFORM_CONTROL_BACKGROUND_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// Lets a process go on in the background, by a child in a session of its own.
// Until the child is ready it has the terminal, where it says why it fails.
class Background {
 public:
  // Goes on in both processes. In the parent, which has waited until the child
  // is ready or has ended, the value is the parent's exit code. Call before
  // there are other threads. Error: Unavailable.
  static absl::StatusOr<std::optional<int>> Begin();

  // In the child: what it starts from here on writes its messages to the file
  // `log`, and does not keep the terminal. So does this process itself, until
  // it takes its own back. Does nothing in the foreground.
  static void SendErrorsTo(const std::string& log);
  static void TakeErrorsBack();

  // In the child: leaves the terminal, and lets the parent end. Messages to
  // stderr, as of an NF that crashes, go to the file `log` from then on.
  static void SayReady(const std::string& log);
  // Returns true once it has said so: nobody reads its stderr any more.
  static bool is_ready() { return is_ready_; }

 private:
  static int ready_;     // the child's end of a pipe
  static int terminal_;  // what stderr was, while messages go to a file
  static bool is_ready_;
};

// Tells systemd, if that started this process and wants to know.
void NotifySystemd(const char* state);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_BACKGROUND_H_
