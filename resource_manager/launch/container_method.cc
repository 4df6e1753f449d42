// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/launch/container_method.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <lxc/attach_options.h>
#include <lxc/lxccontainer.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "resource_manager/launch/confinement.h"

namespace snf {
namespace {

namespace fs = std::filesystem;

// Not that of daemons, which only their user may enter.
constexpr const char* kFolder = "/run/snf-units";
constexpr const char* kCgroups = "/sys/fs/cgroup";
constexpr int kReadySeconds = 10;
constexpr int kMonitorMs = 1'000;
constexpr int kLockTries = 100;
constexpr const char* kMonitorEnd = "-monitor";
constexpr const char* kPivotEnd = "-pivot";
constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 500'000};

#if defined(__x86_64__)
// A program that waits for signals without end: an ELF header, one segment, and
//   wait: mov eax, SYS_pause; syscall; jmp wait
constexpr std::array<unsigned char, 129> kInit = {
    0x7f, 'E',  'L',  'F', 2,    1,    1,    0,    0,
    0,    0,    0,    0,   0,    0,    0,  // 64 bits
    2,    0,    0x3e, 0,   1,    0,    0,    0,    0x78,
    0,    0x40, 0,    0,   0,    0,    0,  // entry
    0x40, 0,    0,    0,   0,    0,    0,    0,    0,
    0,    0,    0,    0,   0,    0,    0,  // segments
    0,    0,    0,    0,   0x40, 0,    0x38, 0,    1,
    0,    0,    0,    0,   0,    0,    0,  // one
    1,    0,    0,    0,   5,    0,    0,    0,    0,
    0,    0,    0,    0,   0,    0,    0,  // load, run
    0,    0,    0x40, 0,   0,    0,    0,    0,    0,
    0,    0x40, 0,    0,   0,    0,    0,  // at 0x400000
    0x81, 0,    0,    0,   0,    0,    0,    0,    0x81,
    0,    0,    0,    0,   0,    0,    0,        // 129 bytes
    0,    0x10, 0,    0,   0,    0,    0,    0,  // of a page
    0xb8, 0x22, 0,    0,   0,    0x0f, 0x05, 0xeb, 0xf7};
#else
constexpr std::array<unsigned char, 0> kInit = {};
#endif

std::string NameOfLauncher(pid_t pid) { return absl::StrCat("snf-", pid); }

// Returns the folders of this process in the hierarchies of cgroups.
std::vector<fs::path> OwnCgroups() {
  std::vector<fs::path> folders;
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string of = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const fs::path root = kCgroups;
    if (of.starts_with("name=")) {
      folders.push_back(root / of.substr(5) / path.substr(1));
    } else if (!of.empty()) {
      folders.push_back(root / of / path.substr(1));
    } else {
      const fs::path unified = root / "unified";
      folders.push_back((fs::exists(unified) ? unified : root) /
                        path.substr(1));
    }
  }
  return folders;
}

// Removes a cgroup, whose folders are removed from the inside out. Processes
// that still live in it are killed.
void RemoveCgroup(const fs::path& folder) {
  std::error_code error;
  std::ifstream processes(folder / "cgroup.procs");
  for (pid_t pid = 0; processes >> pid;) {
    if (pid > 1) kill(pid, SIGKILL);
  }
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) RemoveCgroup(entry.path());
  }
  rmdir(folder.c_str());
}

void RemoveAllOf(const std::string& launcher) {
  std::error_code error;
  for (const fs::path& own : OwnCgroups()) RemoveCgroup(own / launcher);
  fs::remove_all(fs::path(kFolder) / launcher, error);
}

// Locks the folder of a launcher, as that does for its life; returns -1 if
// another process has, or it is gone.
int Lock(const fs::path& folder) {
  const int opened =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (opened >= 0 && flock(opened, LOCK_EX | LOCK_NB) == 0) return opened;
  if (opened >= 0) close(opened);
  return -1;
}

// Removes the remains of killed launchers, whose locks are free.
void RemoveLeftovers() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kFolder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("snf-")) continue;
    const int lock = Lock(entry.path());
    if (lock < 0) continue;
    RemoveAllOf(name);
    close(lock);
  }
}

absl::Status Error(const std::string& what) {
  return absl::UnavailableError(absl::StrCat("container: ", what));
}

// Waits until the monitor has ended, and has removed the container's cgroups.
// Kills a monitor that is stopped or late, so that the launcher does not wait
// without limit; returns false then.
bool EndMonitor(pid_t monitor) {
  for (int i = 0; i < kMonitorMs * 2; ++i) {
    const pid_t ended = waitpid(monitor, nullptr, WNOHANG);
    if (ended == monitor || (ended < 0 && errno != EINTR)) return true;
    nanosleep(&kPause, nullptr);
  }
  kill(monitor, SIGKILL);
  waitpid(monitor, nullptr, 0);
  return false;
}

// Returns the path of a container's cgroup in the cgroup of this process. The
// paths of its monitor's cgroups begin with it.
std::string CgroupOf(uint32_t index) {
  return absl::StrCat(NameOfLauncher(getpid()), "/", index);
}

// Removes cgroups that a killed monitor has left: LXC starts no container in
// cgroups that exist. Waits for the ends of processes there, but not without
// limit.
void RemoveCgroupsOf(uint32_t index) {
  int pauses = kMonitorMs * 2;
  for (const fs::path& own : OwnCgroups()) {
    for (const char* end : {"", kMonitorEnd, kPivotEnd}) {
      const fs::path folder = own / absl::StrCat(CgroupOf(index), end);
      for (; pauses > 0 && fs::exists(folder); --pauses) {
        RemoveCgroup(folder);
        if (fs::exists(folder)) nanosleep(&kPause, nullptr);
      }
    }
  }
}

}  // namespace

struct ContainerMethod::Entry {
  const Process* process;
  uint32_t starts;
  std::string folder;  // the launcher's
};

// Runs inside, in a copy of the launcher.
int ContainerMethod::Enter(void* argument) {
  const auto& [to_start, starts, folder] = *static_cast<const Entry*>(argument);
  const Process& process = *to_start;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, process.name.c_str());
  CloseOthers(process.descriptors);
  if (process.prepare != nullptr) {
    // Files are copied to where a relative path finds them from there.
    [[maybe_unused]] const int moved = chdir(folder.c_str());
    EndUnless(ConfineToLoading());
    EndUnless(process.prepare());
  }
  EndUnless(ConfineToUnits());
  _exit(process.body(starts));
}

absl::StatusOr<void*> ContainerMethod::Library() {
  constexpr const char* kInstead = "; --isolation=process works without it";
  if (geteuid() != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("containers need root", kInstead));
  }
  if (kInit.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("containers are made on x86-64 alone", kInstead));
  }
  std::error_code error;
  if (fs::is_empty(kCgroups, error) || error) {
    return absl::FailedPreconditionError(absl::StrCat(
        kCgroups,
        " is empty: containers need control groups; ip netns exec hides them, "
        "nsenter --net=FILE does not",
        kInstead));
  }
  void* const library = dlopen("liblxc.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return absl::FailedPreconditionError(absl::StrCat(
      "LXC is missing (Debian's package liblxc1): ", dlerror(), kInstead));
}

absl::Status ContainerMethod::Check() { return Library().status(); }

absl::StatusOr<std::unique_ptr<ContainerMethod>> ContainerMethod::Make(
    const Limits& limits, std::span<const std::string> files) {
  const absl::StatusOr<void*> opened = Library();
  if (!opened.ok()) return opened.status();
  void* const library = *opened;
  const auto make = reinterpret_cast<New>(dlsym(library, "lxc_container_new"));
  const auto put = reinterpret_cast<Put>(dlsym(library, "lxc_container_put"));
  if (make == nullptr || put == nullptr) {
    return absl::FailedPreconditionError("liblxc.so.1 has no containers");
  }
  RemoveLeftovers();
  std::unique_ptr<ContainerMethod> method(
      new ContainerMethod(limits, make, put));
  if (absl::Status s = method->MakeRoot(); !s.ok()) return s;
  for (const std::string& file : files) {
    if (absl::Status s = method->CopyToRoot(file); !s.ok()) return s;
  }
  return method;
}

ContainerMethod::ContainerMethod(const Limits& limits, New make, Put put)
    : limits_(limits),
      new_(make),
      put_(put),
      folder_(absl::StrCat(kFolder, "/", NameOfLauncher(getpid()))) {}

ContainerMethod::~ContainerMethod() {
  for (uint32_t i = 0; i < containers_.size(); ++i) on_ended(i);
  RemoveAllOf(NameOfLauncher(getpid()));
}

std::string ContainerMethod::NameOf(uint32_t index) const {
  return absl::StrCat(NameOfLauncher(getpid()), "-", index);
}

// Makes what all containers have as their file system. LXC expects to find
// there the folders that it would make.
absl::Status ContainerMethod::MakeRoot() {
  const fs::path root = fs::path(folder_) / "files";
  std::error_code error;
  // Another launcher may take a new folder for a leftover.
  for (int tries = 0; tries < kLockTries; ++tries) {
    fs::create_directories(folder_, error);
    if (error) return Error(absl::StrCat(folder_, ": ", error.message()));
    const int lock = Lock(folder_);
    if (lock >= 0 && fs::exists(folder_)) break;
    if (lock >= 0) close(lock);
    if (tries == kLockTries - 1) {
      return Error(absl::StrCat(folder_, ": in use"));
    }
    nanosleep(&kPause, nullptr);
  }
  fs::create_directories(root / "proc", error);
  fs::create_directories(root / "dev", error);
  fs::create_symlink("/proc/self/fd", root / "dev/fd", error);
  int i = 0;
  for (const char* name : {"stdin", "stdout", "stderr"}) {
    fs::create_symlink(absl::StrCat("/proc/self/fd/", i++), root / "dev" / name,
                       error);
  }
  const fs::path init = root / "init";
  std::ofstream file(init, std::ios::binary);
  file.write(reinterpret_cast<const char*>(kInit.data()),
             static_cast<std::streamsize>(kInit.size()));
  file.close();
  fs::permissions(init, fs::perms(0755), error);
  if (file.good() && !error) return absl::OkStatus();
  return Error(absl::StrCat(init.string(), ": cannot be made"));
}

// The copy is for users of containers, who are none of the host's.
absl::Status ContainerMethod::CopyToRoot(const std::string& file) const {
  const auto bad = [&file](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", why));
  };
  std::error_code error;
  const fs::path from = fs::absolute(file, error);
  if (error) return bad(error.message());
  const fs::file_status about = fs::status(from, error);
  if (error) return bad(error.message());
  if (!fs::is_regular_file(about)) return bad("is not a regular file");
  if ((about.permissions() & fs::perms::others_read) == fs::perms::none) {
    return bad(
        "not every user may read it, and containers have users of their own");
  }
  // No part of the path leads out of the root.
  fs::path to = fs::path(folder_) / "files";
  to += from.lexically_normal();
  fs::create_directories(to.parent_path(), error);
  if (!error) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  }
  if (!error) fs::permissions(to, fs::perms(0444), error);
  return error ? bad(error.message()) : absl::OkStatus();
}

absl::Status ContainerMethod::Configure(lxc_container& lxc,
                                        uint32_t index) const {
  const std::string cgroup = CgroupOf(index);
  const std::string ids =
      absl::StrCat(" 0 ", 1'000'000 + index * 65'536, " 65536");
  using Item = std::pair<std::string, std::string>;
  std::vector<Item> items = {
      {"lxc.rootfs.path", absl::StrCat("dir:", folder_, "/files")},
      {"lxc.rootfs.options", "ro"},
      {"lxc.uts.name", "unit"},
      {"lxc.pty.max", "0"},
      {"lxc.tty.max", "0"},
      {"lxc.autodev", "0"},
      {"lxc.console.path", "none"},
      {"lxc.net.0.type", "empty"},
      {"lxc.no_new_privs", "1"},
      {"lxc.cap.keep", "none"},
      {"lxc.idmap", absl::StrCat("u", ids)},
      {"lxc.idmap", absl::StrCat("g", ids)},
      {"lxc.cgroup.relative", "1"},
      {"lxc.cgroup.dir.monitor", absl::StrCat(cgroup, kMonitorEnd)},
      {"lxc.cgroup.dir.monitor.pivot", absl::StrCat(cgroup, kPivotEnd)},
      {"lxc.cgroup.dir.container", cgroup}};
  const std::string memory = std::to_string(limits_.memory_bytes);
  const std::string processes = std::to_string(limits_.processes);
  const std::string quota = std::to_string(limits_.cpu_percent * 1'000);
  if (fs::exists(fs::path(kCgroups) / "cgroup.controllers")) {
    items.insert(items.end(), {{"lxc.cgroup2.memory.max", memory},
                               {"lxc.cgroup2.pids.max", processes},
                               {"lxc.cgroup2.cpu.max", quota + " 100000"}});
  } else {
    items.insert(items.end(), {{"lxc.cgroup.memory.limit_in_bytes", memory},
                               {"lxc.cgroup.pids.max", processes},
                               {"lxc.cgroup.cpu.cfs_quota_us", quota}});
  }
  for (const auto& [key, value] : items) {
    if (lxc.set_config_item(&lxc, key.c_str(), value.c_str())) continue;
    return Error(absl::StrCat("LXC does not take ", key, " = ", value));
  }
  return absl::OkStatus();
}

// Lets a process of its own, which LXC makes the monitor, start the container.
absl::Status ContainerMethod::Boot(Container& container) {
  lxc_container& lxc = *container.lxc;
  const pid_t launcher = getpid();
  container.monitor = fork();
  if (container.monitor < 0) {
    return Error(absl::StrCat("fork: ", std::strerror(errno)));
  }
  if (container.monitor == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "snf-monitor");
    if (getppid() != launcher) _exit(1);
    lxc.want_daemonize(&lxc, false);
    std::string init = "/init";
    std::array<char*, 2> arguments = {init.data(), nullptr};
    _exit(lxc.start(&lxc, 0, arguments.data()) ? 0 : 1);
  }
  // LXC's own wait looks once a second.
  for (int i = 0; i < kReadySeconds * 2'000; ++i) {
    const pid_t init = lxc.is_running(&lxc) ? lxc.init_pid(&lxc) : -1;
    if (init > 1) {
      container.init = static_cast<int>(syscall(SYS_pidfd_open, init, 0));
      return absl::OkStatus();
    }
    if (waitpid(container.monitor, nullptr, WNOHANG) == container.monitor) {
      container.monitor = -1;
      return Error("LXC cannot start it");
    }
    nanosleep(&kPause, nullptr);
  }
  return Error(
      absl::StrCat("LXC did not start it within ", kReadySeconds, " s"));
}

absl::StatusOr<pid_t> ContainerMethod::Start(uint32_t index, uint32_t starts,
                                             const Process& process) {
  if (containers_.size() <= index) containers_.resize(index + 1);
  Container& container = containers_[index];
  container.lxc = new_(NameOf(index).c_str(), folder_.c_str());
  if (container.lxc == nullptr) return Error("LXC cannot make it");
  if (absl::Status s = Configure(*container.lxc, index); !s.ok()) return s;
  if (absl::Status s = Boot(container); !s.ok()) return s;
  lxc_attach_options_t options = LXC_ATTACH_OPTIONS_DEFAULT;
  options.env_policy = LXC_ATTACH_CLEAR_ENV;
  std::string root = "/";
  options.initial_cwd = root.data();
  std::error_code ignored;
  Entry entry = {.process = &process,
                 .starts = starts,
                 .folder = fs::current_path(ignored).string()};
  pid_t pid = -1;
  if (container.lxc->attach(container.lxc, Enter, &entry, &options, &pid) !=
          0 ||
      pid <= 1) {
    return Error("LXC cannot enter it");
  }
  return pid;
}

void ContainerMethod::on_ended(uint32_t index) {
  if (index >= containers_.size()) return;
  Container container = std::exchange(containers_[index], {});
  if (container.lxc == nullptr) return;
  // The monitor ends once init has, and takes the container down. LXC asks the
  // monitor which process init is, and waits without limit.
  if (container.init >= 0) {
    syscall(SYS_pidfd_send_signal, container.init, SIGKILL, nullptr, 0);
    close(container.init);
  } else if (container.monitor > 1) {
    kill(container.monitor, SIGKILL);
  }
  if (container.monitor > 0 && !EndMonitor(container.monitor)) {
    RemoveCgroupsOf(index);
  }
  put_(container.lxc);
}

}  // namespace snf
