// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/fixture_parked_process.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "base/check.h"
#include "platform/commands/bench/fixture_one_cpu.h"
#include "runtime/core/fixture_lone_unit.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

// A unit with a NAT that has had packets, which takes one more at a time.
class RehearsedUnit {
 public:
  RehearsedUnit()
      : unit_(NatOf(), kFlows),
        traffic_(kFlows, unit_,
                 BatchBuffers(BufferPool({.small = 1, .medium = 0, .large = 0}),
                              1)) {}
  void TakeOne() { traffic_.RunBatch(); }

 private:
  static constexpr uint32_t kFlows = 64;

  static std::unique_ptr<NetworkFunction> NatOf() {
    const auto spec = NfSpec::Parse("nat(ip=203.0.113.1)");
    SNF_CHECK(spec.ok());
    return spec->create();
  }

  LoneUnit unit_;
  MadeTraffic traffic_;
};

// Lets the kernel end this process with its parent.
void EndWithParent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace

struct ParkedProcess::Board {
  // Counters of requested and finished work.
  struct Work {
    bool is_there() const { return wanted.load() != done.load(); }

    Doorbell bell;
    std::atomic<uint32_t> wanted{0};
    std::atomic<uint32_t> done{0};
  };

  Work packets;  // for the parked unit
  Work forks;    // for the loader
  Doorbell asker;
  std::atomic<uint32_t> spins{0};  // of the parked unit, before it sleeps
  std::atomic<int64_t> begun{0};   // of the last fork
  std::atomic<int64_t> ended{0};   // of the last packet
};

absl::StatusOr<std::unique_ptr<ParkedProcess>> ParkedProcess::Start() {
  const auto failed = [](const char* what) {
    return absl::UnavailableError(
        fmt::format("{}: {}", what, std::strerror(errno)));
  };
  void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failed("shared memory");
  Board& board = *new (memory) Board;
  const pid_t loader = fork();
  if (loader == 0) _exit(Load(board));
  if (loader < 0) {
    munmap(memory, sizeof(Board));
    return failed("a process");
  }
  return std::unique_ptr<ParkedProcess>(new ParkedProcess(board, loader));
}

ParkedProcess::~ParkedProcess() {
  kill(loader_, SIGKILL);
  waitpid(loader_, nullptr, 0);
  munmap(&board_, sizeof(Board));
}

int ParkedProcess::Load(Board& board) {
  EndWithParent();
  RehearsedUnit unit;
  if (fork() == 0) _exit(Park(board));
  while (true) {
    board.forks.bell.Wait([&] { return board.forks.is_there(); }, Nanos::max(),
                          0);
    if (!board.forks.is_there()) continue;
    board.begun = RealClock::Monotonic().ns;
    const pid_t forked = fork();
    if (forked == 0) {
      unit.TakeOne();
      board.ended = RealClock::Monotonic().ns;
      _exit(0);
    }
    waitpid(forked, nullptr, 0);
    ++board.forks.done;
    board.asker.Ring();
  }
}

int ParkedProcess::Park(Board& board) {
  EndWithParent();
  RehearsedUnit unit;
  std::optional<OneCpu> last;  // who spins wants a CPU of its own
  while (true) {
    if (last.has_value() != (board.spins != 0)) {
      if (last.has_value()) {
        last.reset();
      } else {
        last.emplace(true);
      }
    }
    board.packets.bell.Wait([&] { return board.packets.is_there(); },
                            Nanos::max(), board.spins);
    if (!board.packets.is_there()) continue;
    unit.TakeOne();
    board.ended = RealClock::Monotonic().ns;
    ++board.packets.done;
    board.asker.Ring();
  }
}

Nanos ParkedProcess::Wake(bool spins) {
  constexpr uint32_t kManySpins = 100'000;
  std::optional<OneCpu> first;
  if (spins) first.emplace(false);
  board_.spins = spins ? kManySpins : 0;
  Nanos took;
  // The first one tells it of the spins.
  for (int i = 0; i < 2; ++i) {
    if (!spins) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Instant begin = RealClock::Monotonic();
    ++board_.packets.wanted;
    board_.packets.bell.Ring();
    if (!board_.asker.Wait([&] { return !board_.packets.is_there(); },
                           Seconds(1))) {
      return Nanos::max();
    }
    took = Instant{board_.ended} - begin;
  }
  return took;
}

Nanos ParkedProcess::Fork() {
  ++board_.forks.wanted;
  board_.forks.bell.Ring();
  if (!board_.asker.Wait([&] { return !board_.forks.is_there(); },
                         Seconds(1))) {
    return Nanos::max();
  }
  return Instant{board_.ended} - Instant{board_.begun};
}

}  // namespace snf
