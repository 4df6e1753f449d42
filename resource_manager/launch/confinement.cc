// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/launch/confinement.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"

namespace snf {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// futex_waitv of Linux 5.16, which older headers do not name.
constexpr int kFutexWaitv = 449;

constexpr std::array kAllowed = {
    // Memory.
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk,
    // Threads, of which clone is looked at apart, and waiting.
    SYS_futex, kFutexWaitv, SYS_set_robust_list, SYS_rseq, SYS_sched_yield,
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettid,
    SYS_getpid, SYS_exit, SYS_exit_group, SYS_getrandom, SYS_restart_syscall,
    // Signals, to itself: others are not to be seen from its namespace.
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
    SYS_tgkill, SYS_setitimer,
#if defined(__x86_64__)
    SYS_alarm,
#endif
    // Descriptors that it has: the region, its socket, stderr.
    SYS_write, SYS_writev, SYS_sendto, SYS_close, SYS_fcntl, SYS_fstat,
    SYS_newfstatat};

// System calls for the loading of a module, and for files that options name.
constexpr std::array kAllowedForLoading = {
    SYS_openat, SYS_read, SYS_readv, SYS_pread64, SYS_lseek, SYS_readlinkat,
    SYS_faccessat, SYS_getdents64, SYS_getcwd, SYS_uname, SYS_prlimit64,
    SYS_statx,
#if defined(__x86_64__)
    SYS_open, SYS_access, SYS_readlink, SYS_stat, SYS_lstat,
#endif
    // For ConfineToUnits.
    SYS_prctl, SYS_capset};

sock_filter Statement(uint16_t code, uint32_t k) {
  return {.code = code, .jt = 0, .jf = 0, .k = k};
}
// Skips `if_so` statements if the value is k, otherwise `if_not`.
sock_filter Jump(uint32_t k, uint8_t if_so, uint8_t if_not,
                 uint16_t kind = BPF_JEQ) {
  return {.code = static_cast<uint16_t>(BPF_JMP | kind | BPF_K),
          .jt = if_so,
          .jf = if_not,
          .k = k};
}

std::vector<sock_filter> Filter(bool loads) {
  constexpr uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr uint16_t kReturn = BPF_RET | BPF_K;
  const auto load = [](size_t offset) {
    return Statement(kLoad, static_cast<uint32_t>(offset));
  };
  const auto refuse = [](int error) {
    return Statement(kReturn, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error));
  };
  const sock_filter allow = Statement(kReturn, SECCOMP_RET_ALLOW);
  std::vector<sock_filter> filter = {
      load(offsetof(seccomp_data, arch)), Jump(kArchitecture, 1, 0),
      Statement(kReturn, SECCOMP_RET_KILL_PROCESS),
      load(offsetof(seccomp_data, nr))};
  const auto allow_all = [&](std::span<const int> numbers) {
    for (const int number : numbers) {
      filter.push_back(Jump(static_cast<uint32_t>(number), 0, 1));
      filter.push_back(allow);
    }
  };
  allow_all(kAllowed);
  if (loads) allow_all(kAllowedForLoading);
  // A filter cannot see the arguments of clone3; libc then calls clone.
  filter.push_back(Jump(SYS_clone3, 0, 1));
  filter.push_back(refuse(ENOSYS));
  // A thread, but no process.
  filter.push_back(Jump(SYS_clone, 0, 3));
  filter.push_back(load(offsetof(seccomp_data, args)));
  filter.push_back(Jump(CLONE_THREAD, 0, 1, BPF_JSET));
  filter.push_back(allow);
  filter.push_back(refuse(EPERM));
  return filter;
}

absl::Status Error(const char* what) {
  return absl::UnavailableError(absl::StrCat("confining the process: ", what,
                                             ": ", std::strerror(errno)));
}

absl::Status Confine(bool loads) {
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    // A capability that this kernel does not know cannot be dropped.
    if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) != 1) continue;
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      return Error("the bounding set");
    }
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3,
                                     .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  if (syscall(SYS_capset, &header, none.data()) != 0) {
    return Error("capabilities");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Error("privileges");
  std::vector<sock_filter> filter = Filter(loads);
  const sock_fprog program = {.len = static_cast<uint16_t>(filter.size()),
                              .filter = filter.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    return Error("seccomp");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ConfineToLoading() { return Confine(true); }

absl::Status ConfineToUnits() { return Confine(false); }

}  // namespace snf
