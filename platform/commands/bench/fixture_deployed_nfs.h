// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_DEPLOYED_NFS_H_
#define SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_DEPLOYED_NFS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace snf {

// For benchmarks: many NFs of one tenant on a host, of which hardly any runs.
//
//   this ──fork──► zygote, has read and checked all NFs
//                     └──fork──► parked process, with all of them behind it
//
// The parked process runs whichever NF is asked for: it makes a unit for it,
// which runs a packet each way, and throws it away. Each NF is a firewall with
// 20 rules of its own. Packets and times are in memory that all share; all
// processes end with this. Make it while this process is small. Owner-thread
// only.
class DeployedNfs {
 public:
  // Error: Unavailable, with the system's reason.
  static absl::StatusOr<std::unique_ptr<DeployedNfs>> Start(uint32_t nfs);
  DeployedNfs(const DeployedNfs&) = delete;
  DeployedNfs& operator=(const DeployedNfs&) = delete;
  ~DeployedNfs();

  // Returns how long it takes from the wish for the next NF, in turn, until its
  // first packets are through, after a millisecond of rest; Nanos::max() if it
  // is not within a second.
  Nanos StartNext();
  // Returns the memory of zygote and parked process, shared pages by their
  // share, above their memory without NFs, for each NF, in bytes.
  double BytesOfEach() const;

 private:
  struct Board;
  struct Deployed;

  DeployedNfs(Board& board, pid_t zygote, uint32_t nfs)
      : board_(board), zygote_(zygote), nfs_(nfs) {}
  static int Deploy(Board& board, uint32_t nfs);
  [[noreturn]] static void Park(Board& board, std::vector<Deployed>& deployed);

  Board& board_;
  const pid_t zygote_;
  const uint32_t nfs_;
  uint32_t next_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_FIXTURE_DEPLOYED_NFS_H_
