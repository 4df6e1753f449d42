// SPDX-License-Identifier: Apache-2.0
#include "platform/service/daemon_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace snf {
namespace {

DaemonFiles Files() {
  const std::string directory =
      testing::TempDir() + "/daemon-" + std::to_string(getpid());
  return {.name = "it",
          .directory = directory,
          .lock = directory + "/it.lock",
          .socket = directory + "/it.sock",
          .log = directory + "/it.log",
          .failed = directory + "/it.failed.pcapng",
          .modules = directory + "/it.modules",
          .keep = directory + "/it.keep",
          .chains = directory + "/it.keep.chains",
          .network = directory + "/it.net",
          .leases = directory + "/it.leases",
          .members = directory + "/it.members"};
}

bool IsThere(const std::string& file) {
  struct stat found = {};
  return lstat(file.c_str(), &found) == 0;
}

void Make(const std::string& file) {
  close(open(file.c_str(), O_CREAT | O_WRONLY, 0600));
}

TEST(DaemonFiles, AreOfAName) {
  const auto files = DaemonFiles::Of("edge-1");
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->socket, files->directory + "/edge-1.sock");
  EXPECT_EQ(DaemonFiles::Of("edge.15")->lock,
            files->directory + "/edge.15.lock");
  for (const char* wrong : {"", "-x", "a/b", "..", "A", "a b", "ä", ".1", "a.",
                            "a.b", "a.1.2", "a.123"}) {
    EXPECT_FALSE(DaemonFiles::Of(wrong).ok()) << wrong;
  }
  EXPECT_FALSE(DaemonFiles::Of(std::string(41, 'a')).ok());
}

TEST(DaemonLock, IsHeldByOneAndLeavesNothing) {
  const DaemonFiles files = Files();
  EXPECT_EQ(*PidOf(files), 0);
  std::optional<DaemonLock> lock;
  {
    auto taken = DaemonLock::Take(files);
    ASSERT_TRUE(taken.ok()) << taken.status();
    lock.emplace(*std::move(taken));
  }
  EXPECT_EQ(*PidOf(files), getpid());
  const auto second = DaemonLock::Take(files);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second.status().message(), "\"it\" runs already, as process " +
                                           std::to_string(getpid()) +
                                           "; snf down --name=it ends it");
  Make(files.socket);
  EXPECT_FALSE(WaitForEnd(files, Milliseconds(1)));
  lock.reset();
  EXPECT_TRUE(WaitForEnd(files, Milliseconds(1)));
  EXPECT_FALSE(IsThere(files.socket));
  EXPECT_FALSE(IsThere(files.lock));
  EXPECT_FALSE(IsThere(files.directory));
}

TEST(DaemonLock, TakesThePlaceOfOneThatWasKilled) {
  const DaemonFiles files = Files();
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = DaemonLock::Take(files);
    Make(files.socket);
    _exit(lock.ok() ? 0 : 1);  // nothing is removed
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(IsThere(files.lock));
  EXPECT_EQ(*PidOf(files), 0);
  const auto lock = DaemonLock::Take(files);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_FALSE(IsThere(files.socket));
  EXPECT_EQ(*PidOf(files), getpid());
}

}  // namespace
}  // namespace snf
