// SPDX-License-Identifier: Apache-2.0
//
// An NF that tries, once in each object that gets a packet, what a hostile one
// would: each counter says how many objects could.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "runtime/sdk/nf.h"

namespace snf {
namespace {

class Intruder final : public NetworkFunction {
 public:
  explicit Intruder(NfOptions& options)
      : how_(kHows[options.Choice("how", 0, kHows, "what it does")]) {}

  Verdict process_packet(Packet&, FlowState&) override {
    if (has_tried_) return Verdict::forward();
    has_tried_ = true;
    if (how_ == "memory") TakeMemory();
    if (how_ == "hang") {
      while (true) pause();
    }
    if (how_ != "all") return Verdict::forward();
    count(tried_);
    count(opened_, CanOpen("/etc/passwd", O_RDONLY));
    count(created_, CanOpen("/tmp/snf-intruder", O_WRONLY | O_CREAT));
    count(connected_, CanConnect());
    count(forked_, CanFork());
    count(traced_, ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0);
    // Signal 0 only asks whether it might.
    count(killed_, kill(1, 0) == 0);
    count(executed_, CanExecute());
    count(mounted_, mount("none", "/", "tmpfs", 0, nullptr) == 0);
    count(entered_, unshare(CLONE_NEWUSER) == 0);
    return Verdict::forward();
  }

 private:
  static constexpr std::string_view kHows[] = {"all", "memory", "hang"};

  static bool CanOpen(const char* path, int flags) {
    const int file = open(path, flags, 0600);
    if (file < 0) return false;
    close(file);
    if ((flags & O_CREAT) != 0) unlink(path);
    return true;
  }
  // To a port of this machine where nobody listens: being refused is reaching
  // it.
  static bool CanConnect() {
    const int out = socket(AF_INET, SOCK_STREAM, 0);
    if (out < 0) return false;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(1);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool can =
        connect(out, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0 ||
        errno == ECONNREFUSED;
    close(out);
    return can;
  }
  static bool CanFork() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, nullptr, 0);
    return child > 0;
  }
  // It fails one way or the other; only one says that it might.
  static bool CanExecute() {
    char* const none[] = {nullptr};
    execve("/nonesuch", none, none);
    return errno == ENOENT;
  }
  // Until there is none: 4 GiB.
  static void TakeMemory() {
    constexpr size_t kPiece = size_t{64} << 20;
    for (int i = 0; i < 64; ++i) {
      void* const piece =
          mmap(nullptr, kPiece, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      if (piece == MAP_FAILED) std::abort();
    }
  }

  std::string_view how_;
  bool has_tried_ = false;
  Counter tried_ = declare_counter("tried", "objects that tried");
  Counter opened_ = declare_counter("opened", "a file of the host");
  Counter created_ = declare_counter("created", "a file");
  Counter connected_ = declare_counter("connected", "out");
  Counter forked_ = declare_counter("forked", "a process");
  Counter traced_ = declare_counter("traced", "its parent");
  Counter killed_ = declare_counter("killed", "another process");
  Counter executed_ = declare_counter("executed", "a program");
  Counter mounted_ = declare_counter("mounted", "a file system");
  Counter entered_ = declare_counter("entered", "a namespace");
};
SNF_REGISTER_NF(Intruder, "intruder", "tries what it must not");

}  // namespace
}  // namespace snf
