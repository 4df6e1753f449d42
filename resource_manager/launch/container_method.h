// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LAUNCH_CONTAINER_METHOD_H_
#define SNF_RESOURCE_MANAGER_LAUNCH_CONTAINER_METHOD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "resource_manager/launch/launch_server.h"

struct lxc_container;

namespace snf {

// Theory of operation. Starts each process in a container of its own (LXC).
// The container is made first: own mount, net, ipc, uts, pid, cgroup and user
// namespaces, a read-only file system with copies of given files only, limits
// of memory, CPU and processes. Its init only waits. Then a copy of this
// process enters, with its loaded program and its descriptors: so no file of
// the host has to be visible inside. There it drops the rights that units do
// not need (confinement.h).
//
//   launcher ──fork──► monitor ──LXC──► init        (container)
//       └────fork, enter──────────────► process     (child of the launcher)
//
// Ends: the kernel ends monitor and process with the launcher, init with the
// monitor. Cgroups and a folder in /run/snf-units, which only a live launcher
// can remove, are named by its process id; the next launcher removes those of
// dead ones.
//
// Owner-thread only; the process has to be of one thread.
class ContainerMethod final : public LaunchMethod {
 public:
  struct Limits {
    // Memory of a process's own, without the region.
    uint64_t memory_bytes = uint64_t{2} << 30;
    uint32_t cpu_percent = 100;  // of one CPU
    uint32_t processes = 8;      // threads and init among them
  };
  // Returns OK if containers can be made here, as far as can be told without
  // making one; else the error of Make.
  static absl::Status Check();
  // Errors: PermissionDenied if the process is not root's; FailedPrecondition
  // where there is no LXC, or no known machine; Unavailable, with the system's
  // reason.
  // Copies of `files` are the only files in the containers, at their absolute
  // paths. InvalidArgument names a file that cannot be read by everybody.
  static absl::StatusOr<std::unique_ptr<ContainerMethod>> Make(
      const Limits& limits, std::span<const std::string> files = {});
  ContainerMethod(const ContainerMethod&) = delete;
  ContainerMethod& operator=(const ContainerMethod&) = delete;
  // Ends all containers, and removes their cgroups and folder.
  ~ContainerMethod() override;

  absl::StatusOr<pid_t> Start(uint32_t index, uint32_t starts,
                              const Process& process) override;
  void on_ended(uint32_t index) override;

 private:
  struct Entry;
  struct Container {
    lxc_container* lxc = nullptr;
    pid_t monitor = -1;
    int init = -1;  // its pidfd
  };
  using New = lxc_container* (*)(const char* name, const char* path);
  using Put = int (*)(lxc_container*);

  ContainerMethod(const Limits& limits, New make, Put put);
  static absl::StatusOr<void*> Library();
  absl::Status MakeRoot();
  absl::Status CopyToRoot(const std::string& file) const;
  absl::Status Configure(lxc_container& lxc, uint32_t index) const;
  static int Enter(void* entry);
  absl::Status Boot(Container& container);
  std::string NameOf(uint32_t index) const;

  const Limits limits_;
  const New new_;
  const Put put_;
  const std::string folder_;
  std::vector<Container> containers_;  // by index
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LAUNCH_CONTAINER_METHOD_H_
