// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/fixture_deployed_nfs.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/core/fixture_lone_unit.h"
#include "runtime/core/fixture_traffic.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

constexpr uint32_t kRules = 20;

std::string FirewallNumber(uint32_t number) {
  std::string rules;
  for (uint32_t i = 0; i < kRules; ++i) {
    rules += fmt::format("{}tcp from any to 10.{}.{}.0/24 port {}",
                         i == 0 ? "" : ";", number / 256, number % 256, 1 + i);
  }
  return fmt::format("firewall(deny={})", rules);
}

// Returns the memory of a process, shared pages by their share; 0 if unknown.
uint64_t BytesOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
  uint64_t kib = 0;
  for (std::string word; file >> word;) {
    if (word == "Pss:") {
      file >> kib;
      break;
    }
  }
  return kib * 1024;
}

}  // namespace

struct DeployedNfs::Deployed {
  // Returns when the NF's first packets were through, in a unit made for it.
  Instant Run() {
    Instant ended;
    {
      LoneUnit unit(std::move(nf), 64);
      const MadeTraffic traffic(
          1, unit,
          BatchBuffers(BufferPool({.small = 1, .medium = 0, .large = 0}), 1));
      ended = RealClock::Monotonic();
    }
    nf = spec.create();
    return ended;
  }

  NfSpec spec;
  std::unique_ptr<NetworkFunction> nf;  // has run nothing yet
};

struct DeployedNfs::Board {
  bool is_wanted() const { return wanted.load() != done.load(); }

  Doorbell bell;                    // of the parked process
  Doorbell asker;                   // of who wants one
  std::atomic<uint32_t> wanted{0};  // NFs wanted so far
  std::atomic<uint32_t> done{0};
  std::atomic<uint32_t> nf{0};    // that is wanted
  std::atomic<int64_t> ended{0};  // its packet
  std::atomic<bool> is_deployed{false};
  std::atomic<uint64_t> bytes{0};  // that zygote and parked process took more
};

absl::StatusOr<std::unique_ptr<DeployedNfs>> DeployedNfs::Start(uint32_t nfs) {
  const auto failed = [](const char* what) {
    return absl::UnavailableError(
        fmt::format("{}: {}", what, std::strerror(errno)));
  };
  void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failed("shared memory");
  Board& board = *new (memory) Board;
  const pid_t zygote = fork();
  if (zygote == 0) _exit(Deploy(board, nfs));
  if (zygote < 0) {
    munmap(memory, sizeof(Board));
    return failed("a process");
  }
  std::unique_ptr<DeployedNfs> deployed(new DeployedNfs(board, zygote, nfs));
  const bool is_there = board.asker.Wait(
      [&board] { return board.is_deployed.load(); }, Seconds(10));
  if (is_there) return deployed;
  return absl::UnavailableError("NFs were not deployed within 10 s");
}

DeployedNfs::~DeployedNfs() {
  kill(zygote_, SIGKILL);
  waitpid(zygote_, nullptr, 0);
  munmap(&board_, sizeof(Board));
}

int DeployedNfs::Deploy(Board& board, uint32_t nfs) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<Deployed> deployed;
  deployed.reserve(nfs);
  const auto add = [&deployed](uint32_t number) {
    auto nf = NfSpec::Parse(FirewallNumber(number));
    SNF_CHECK(nf.ok() && nf->check().ok());
    deployed.push_back({.spec = *nf, .nf = nf->create()});
  };
  add(0);
  deployed.front().Run();
  const uint64_t before = BytesOf(getpid());
  for (uint32_t i = 1; i < nfs; ++i) add(i);
  const uint64_t zygote = BytesOf(getpid());
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    deployed.front().Run();
    // Includes the zygote, which shares most of the memory.
    const uint64_t both = BytesOf(getpid()) + BytesOf(getppid());
    board.bytes = std::max(both, zygote) - before;
    board.is_deployed = true;
    board.asker.Ring();
    Park(board, deployed);
  }
  while (true) pause();
}

void DeployedNfs::Park(Board& board, std::vector<Deployed>& deployed) {
  while (true) {
    board.bell.Wait([&board] { return board.is_wanted(); }, Nanos::max(), 0);
    if (!board.is_wanted()) continue;
    board.ended = deployed[board.nf].Run().ns;
    ++board.done;
    board.asker.Ring();
  }
}

Nanos DeployedNfs::StartNext() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  board_.nf = next_ = (next_ + 1) % nfs_;
  const Instant begin = RealClock::Monotonic();
  ++board_.wanted;
  board_.bell.Ring();
  const bool is_done =
      board_.asker.Wait([this] { return !board_.is_wanted(); }, Seconds(1));
  return is_done ? Instant{board_.ended} - begin : Nanos::max();
}

double DeployedNfs::BytesOfEach() const {
  return static_cast<double>(board_.bytes) / nfs_;
}

}  // namespace snf
