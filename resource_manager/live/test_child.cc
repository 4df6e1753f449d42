// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/test_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace snf {

TestChild::TestChild() {
  const pid_t pid = fork();
  SNF_CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  id_ = *ProcessIdOf(pid);
}

void TestChild::Kill() {
  if (id_.pid == 0) return;
  kill(id_.pid, SIGKILL);
  waitpid(id_.pid, nullptr, 0);
  id_ = {};
}

}  // namespace snf
