// SPDX-License-Identifier: Apache-2.0
//
// An NF that tries, once in each object that gets a packet, what a hostile one
// would: each counter says how many objects could.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/shared_region.h"
#include "runtime/ring/spsc_ring.h"
#include "runtime/ring/thread_link.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

class Intruder final : public NetworkFunction {
 public:
  explicit Intruder(NfOptions& options)
      : how_(kHows[options.Choice("how", 0, kHows, "what it does")]),
        after_(options.Integer("after", 0, 0, 1'000'000,
                               "packets of an object before it says a word")),
        mark_(options.Text("mark", "", "FILE",
                           "is made by the one object that says a word; "
                           "without it, each does")) {
    if (how_ == "loggers" && IsOfLoggers() && IsFirst()) SpeakForLoggers();
  }

  Verdict process_packet(Packet& packet, FlowState&) override {
    if (how_ == "loggers") return Verdict::forward();
    if (how_ == "withhold") {
      works_ = true;
      if (packets_++ == after_ && IsFirst()) StandStill();
      works_ = false;
      return Verdict::forward();
    }
    if (how_ == "report" || how_ == "state" || how_ == "entry" ||
        how_ == "itself" || how_ == "late" || how_ == "shared" ||
        how_ == "pull") {
      if (packets_++ == after_ && IsFirst()) SayWord(packet.bytes().data());
      return Verdict::forward();
    }
    if (has_tried_) return Verdict::forward();
    has_tried_ = true;
    if (how_ == "spoil") Spoil(packet.bytes().data());
    if (how_ == "lie" && IsFirst()) LieAboutStates();
    if (how_ == "threads") MakeThreads();
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
    count(traced_, CanTrace());
    // Signal 0 only asks whether it might.
    count(killed_, kill(1, 0) == 0);
    count(executed_, CanExecute());
    count(mounted_, CanMount());
    count(entered_, unshare(CLONE_NEWUSER) == 0);
    count(looked_, CanLookIntoAnother());
    count(listened_, CanListen());
    count(inherited_, HasOthersFiles());
    count(called_, CallsThatAreNotRefused());
    return Verdict::forward();
  }

 private:
  // From "report" on a word that cannot be is said: to the controller, to other
  // units, to loggers and to the own loop; to a controller that takes the place
  // of another one; after nonsense was written wherever others or the next
  // process may look; after others were asked for their flows; and by loggers.
  static constexpr std::string_view kHows[] = {
      "all",    "memory", "hang",    "threads",  "spoil",
      "report", "state",  "entry",   "itself",   "late",
      "shared", "pull",   "loggers", "withhold", "lie"};
  // Rings in a loop's memory, in order.
  enum Ring : size_t {
    kDown,
    kUp,
    kFromItself,
    kFromOthers,
    kLog,
    kAnswers,
    kKept,
    kToOthers,
    kRings
  };

  static bool CanOpen(const char* path, int flags) {
    const int file = open(path, flags, 0600);
    if (file < 0) return false;
    close(file);
    if ((flags & O_CREAT) != 0) unlink(path);
    return true;
  }
  // No program listens at the port: a refusal means that it was reached.
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
  // Execution fails anyway; the error says whether it is permitted.
  static bool CanExecute() {
    char* const none[] = {nullptr};
    execve("/nonesuch", none, none);
    return errno == ENOENT;
  }
  // Nothing is harmed where it may.
  static bool CanMount() {
    mount("none", "/nonesuch", "tmpfs", 0, nullptr);
    return errno == ENOENT;
  }
  static bool CanTrace() {
    const pid_t parent = getppid();
    if (ptrace(PTRACE_SEIZE, parent, nullptr, nullptr) != 0) return false;
    ptrace(PTRACE_DETACH, parent, nullptr, nullptr);
    return true;
  }
  static bool CanLookIntoAnother() {
    char byte = 0;
    iovec here = {.iov_base = &byte, .iov_len = 1};
    iovec there = here;
    return process_vm_readv(getppid(), &here, 1, &there, 1, 0) >= 0 ||
           errno != EPERM;
  }
  static bool CanListen() {
    for (const int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK}) {
      const int file = socket(family, SOCK_DGRAM, 0);
      if (file < 0) continue;
      close(file);
      return true;
    }
    return false;
  }
  // A unit has files of its own: three streams, the region twice, a socket.
  static bool HasOthersFiles() {
    constexpr int kMost = 4'096;
    int files = 0;
    for (int file = 0; file < kMost; ++file) {
      if (fcntl(file, F_GETFD) >= 0) ++files;
    }
    return files > 6;
  }
  // By arguments that harm nothing where they are taken.
  static uint64_t CallsThatAreNotRefused() {
    constexpr long kCalls[] = {SYS_bpf,
                               SYS_chroot,
                               SYS_clock_settime,
                               SYS_delete_module,
                               SYS_dup,
                               SYS_execveat,
                               SYS_fsopen,
                               SYS_getdents64,
                               SYS_init_module,
                               SYS_io_uring_setup,
                               SYS_ioctl,
                               SYS_kcmp,
                               SYS_keyctl,
                               SYS_memfd_create,
                               SYS_mknodat,
                               SYS_move_mount,
                               SYS_name_to_handle_at,
                               SYS_open_tree,
                               SYS_openat,
                               SYS_perf_event_open,
                               SYS_pidfd_getfd,
                               SYS_pidfd_open,
                               SYS_pipe2,
                               SYS_pivot_root,
                               SYS_prctl,
                               SYS_process_vm_writev,
                               SYS_quotactl,
                               SYS_read,
                               SYS_recvmsg,
                               SYS_sched_setaffinity,
                               SYS_seccomp,
                               SYS_sendmsg,
                               SYS_setns,
                               SYS_setpriority,
                               SYS_setuid,
                               SYS_shmget,
                               SYS_socketpair,
                               SYS_swapon,
                               SYS_symlinkat,
                               SYS_syslog,
                               SYS_unlinkat,
                               SYS_userfaultfd};
    uint64_t others = 0;
    for (const long call : kCalls) {
      errno = 0;
      others += syscall(call, -1L, nullptr, -1L, nullptr, 0L, 0L) == -1 &&
                        errno == EPERM
                    ? 0
                    : 1;
    }
    return others;
  }
  // As many as there may be, which wait; up to 1,000.
  void MakeThreads() {
    for (int i = 0; i < 1'000; ++i) {
      pthread_t thread{};
      const auto wait = [](void*) -> void* {
        static std::mutex never;
        never.lock();
        never.lock();
        return nullptr;
      };
      if (pthread_create(&thread, nullptr, wait, nullptr) != 0) return;
      pthread_detach(thread);
      count(threads_);
    }
  }
  // Writes nonsense into what it shares with the controller and other units:
  // from this packet up to the end of the memory that it has.
  static void Spoil(std::byte* packet) {
    constexpr size_t kPage = 4'096;
    std::byte* end = packet;
    // The kernel says where there is none, and harms no process.
    while (syscall(SYS_getrandom, end, 1, 0) == 1) end += kPage;
    const auto bytes = static_cast<uint64_t>(end - packet);
    uint64_t seed = bytes;
    for (int i = 0; i < 200'000; ++i) {
      seed = seed * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
      std::byte* const at = packet + (seed >> 16) % (bytes - kPage);
      *at = static_cast<std::byte>(seed >> 56);
    }
  }
  // No object has said a word before.
  bool IsFirst() const {
    if (mark_.empty()) return true;
    const int file =
        open(mark_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return false;
    close(file);
    return true;
  }
  // Puts nonsense where the units' loop puts its messages, and waits for what
  // comes of it: the loop would put its own there. What it says to itself the
  // loop sees as it goes on.
  void SayWord(const std::byte* packet) const {
    const std::span<std::byte> memory = MapOf(packet).memory;
    const std::vector<RingHeader*> rings = RingsIn(memory);
    if (rings.size() <= kUp) std::abort();
    if (how_ == "itself") return Push(*rings[kFromItself], Nonsense());
    if (how_ == "late") AwaitController(rings);
    if (how_ == "shared") SpoilShared(memory, rings[kToOthers]);
    if (how_ == "pull") Ask(packet, rings);
    const Ring ring = how_ == "entry"                      ? kLog
                      : how_ == "report" || how_ == "late" ? kUp
                                                           : kToOthers;
    if (how_ != "shared") Push(*rings[ring], Nonsense());
    while (true) pause();
  }
  static Cell Nonsense() {
    Cell cell;
    cell.bytes.fill(std::byte{0xee});
    return cell;
  }
  static void Push(RingHeader& ring, const Cell& cell) {
    const uint64_t pushed = ring.pushed.load();
    reinterpret_cast<Cell*>(&ring + 1)[pushed % ring.capacity] = cell;
    ring.pushed.store(pushed + 1);
  }
  static std::vector<RingHeader*> RingsIn(std::span<std::byte> memory) {
    std::vector<RingHeader*> rings;
    for (size_t at = 0; at + sizeof(RingHeader) < memory.size(); at += 128) {
      auto* const header = reinterpret_cast<RingHeader*>(&memory[at]);
      if (header->magic != kRingMagic || header->item_bytes != sizeof(Cell)) {
        continue;
      }
      rings.push_back(header);
      if (rings.size() == kRings) break;
    }
    return rings;
  }
  // Until another one than before asks for reports, but not for long: one that
  // has asked already, and is not made without this unit, is followed by none.
  static void AwaitController(const std::vector<RingHeader*>& rings) {
    const auto* const epoch = reinterpret_cast<const ControllerEpoch*>(
        reinterpret_cast<const std::byte*>(rings[kToOthers]) -
        2 * sizeof(Doorbell) - sizeof(ControllerEpoch));
    const uint32_t before = epoch->newest.load();
    constexpr int kMostTurns = 2'000;
    for (int i = 0; i < kMostTurns && epoch->newest.load() == before; ++i) {
      poll(nullptr, 0, 1);
    }
  }
  // Stops the thread that runs the units, while it works at no packet: nobody
  // sees a call that does not return. It reports to no controller any more.
  static void StandStill() {
    signal(SIGUSR1, [](int) {
      while (!works_) pause();
    });
    const pid_t runner = gettid();
    std::thread([runner] {
      while (true) {
        poll(nullptr, 0, 1);
        syscall(SYS_tgkill, getpid(), runner, SIGUSR1);
      }
    }).detach();
  }
  // All that comes in front of the last ring, which is to carry one more word:
  // bells, positions, what rings are, clock, and what controllers tell; then
  // what that ring is, and the mark of the packets behind it.
  static void SpoilShared(std::span<std::byte> memory, RingHeader* last) {
    auto* const begin = reinterpret_cast<std::byte*>(last);
    std::memset(memory.data(), 0xdd,
                static_cast<size_t>(begin - memory.data()));
    const size_t bytes = CellRing::BytesFor(last->capacity);
    std::memset(begin + RegionCarver::RoundUp(bytes), 0xdd, 64);
    Push(*last, Nonsense());
    last->magic = last->item_bytes = last->capacity = 3;
    last->released = 1'000'000;
  }
  // Asks the unit of the other of two loops for its flows, and notes in the
  // file if anything came.
  void Ask(const std::byte* packet,
           const std::vector<RingHeader*>& rings) const {
    const uint16_t own = MapOf(packet).name.ends_with("snf loop 1") ? 1 : 0;
    const UnitId other{static_cast<uint16_t>(1 - own)};
    const uint64_t heard = rings[kFromOthers]->pushed;
    for (uint32_t slot = 0; slot < 40; ++slot) {
      Push(*rings[kToOthers], std::bit_cast<Cell>(UnitCommand::Send(
                                  other, Pull{.flow = MakeFlowId(0, slot, 0),
                                              .need = Clock{1},
                                              .requester = UnitId{own}})));
    }
    poll(nullptr, 0, 200);
    if (rings[kFromOthers]->pushed == heard) return;
    std::ofstream(mark_) << "state of others came";
  }

  // --- In the process of the loggers. ---

  static bool IsOfLoggers() {
    std::array<char, 16> name{};
    prctl(PR_GET_NAME, name.data());
    return std::string_view(name.data()) == "snf-loggers";
  }
  // Stops the loggers once they have said some words, and says another one,
  // which they would overwrite if they did not stand still yet.
  void SpeakForLoggers() const {
    static std::atomic<bool> stand_still = false;
    signal(SIGUSR1, [](int) {
      stand_still = true;
      while (true) pause();
    });
    std::thread([after = static_cast<uint64_t>(after_)] {
      std::vector<RingHeader*> rings;
      while (rings.empty()) {
        poll(nullptr, 0, 1);
        for (const Map& map : Maps()) {
          if (map.name.ends_with("snf own")) rings = RingsIn(map.memory);
        }
      }
      while (rings[0]->pushed.load() < after) sched_yield();
      syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
      while (!stand_still) poll(nullptr, 0, 1);
      Push(*rings[0], Nonsense());
    }).detach();
  }

  // Writes nonsense wherever this process shows states, as long as it runs.
  static void LieAboutStates() {
    std::thread([] {
      for (uint64_t round = 0;; ++round) {
        for (const Map& map : Maps()) {
          const bool is_own = map.name.find("rw-s") != std::string::npos &&
                              map.name.ends_with("snf host");
          if (is_own) Spoil(map.memory, round);
        }
        poll(nullptr, 0, 1);
      }
    }).detach();
  }
  // Changes words that are not 0, each in some rounds.
  static void Spoil(std::span<std::byte> memory, uint64_t round) {
    constexpr uint64_t kOdd = 0x9e37'79b9'7f4a'7c15;
    for (size_t at = 0; at + 8 <= memory.size(); at += 8) {
      auto& word = *reinterpret_cast<volatile uint64_t*>(&memory[at]);
      const uint64_t hash = (at + round) * kOdd;
      if (word != 0 && hash % 4 == 0) word = word ^ hash >> 32;
    }
  }

  // --- Memory. ---

  struct Map {
    std::span<std::byte> memory;
    std::string name;
  };
  static std::vector<Map> Maps() {
    std::vector<Map> all;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      char* rest = nullptr;
      const uint64_t begin = std::strtoull(line.c_str(), &rest, 16);
      const uint64_t end = std::strtoull(rest + 1, nullptr, 16);
      all.push_back({.memory = {reinterpret_cast<std::byte*>(begin),
                                static_cast<size_t>(end - begin)},
                     .name = line.substr(0, line.find(" (deleted)"))});
    }
    return all;
  }
  // Returns the memory in which the packet lies.
  static Map MapOf(const std::byte* packet) {
    for (const Map& map : Maps()) {
      const std::byte* const begin = map.memory.data();
      if (packet >= begin && packet < begin + map.memory.size()) return map;
    }
    std::abort();
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

  static constexpr uint64_t kRingMagic = 0x534e'4672'696e'6731;

  std::string_view how_;
  int64_t after_;
  std::string mark_;
  int64_t packets_ = 0;
  static inline volatile sig_atomic_t works_ = 0;  // it is in process_packet
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
  Counter looked_ = declare_counter("looked", "into another process");
  Counter listened_ = declare_counter("listened", "at a socket");
  Counter inherited_ = declare_counter("inherited", "files of others");
  Counter called_ = declare_counter("called", "system calls not refused");
  Counter threads_ = declare_counter("threads", "made");
  Counter entered_ = declare_counter("entered", "a namespace");
};
SNF_REGISTER_NF(Intruder, "intruder", "tries what it must not");

}  // namespace
}  // namespace snf
