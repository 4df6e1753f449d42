// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <thread>

#include "base/check.h"

namespace snf {
namespace {

// Calls without FUTEX_PRIVATE_FLAG, since several processes share the word.
void Futex(std::atomic<uint32_t>& word, int operation, uint32_t operand,
           const timespec* timeout) {
  syscall(SYS_futex, &word, operation, operand, timeout, nullptr, 0);
}

// As the kernel has them; headers may be older.
constexpr long kFutexWaitv = 449;
constexpr uint32_t kSize32 = 2;
struct Waiter {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
};

timespec TimeOf(Nanos time) {
  constexpr int64_t kSecond = Seconds(1).ns;
  return {.tv_sec = time.ns / kSecond, .tv_nsec = time.ns % kSecond};
}

}  // namespace

uint32_t Doorbell::SpinsOnSpareCpus() {
  if (is_busy_poll_.load(std::memory_order_relaxed)) return spins();
  static const uint32_t cpus = std::thread::hardware_concurrency();
  return cpus > kFewCpus ? kSpins : 0;
}

uint32_t Doorbell::SetBusyPoll(Nanos time) {
  // Nothing has interrupted the shortest measurement.
  constexpr uint32_t kPauses = 1'000;
  Nanos shortest = Nanos::max();
  for (int i = 0; i < 5; ++i) {
    const Instant begin = RealClock::Monotonic();
    for (uint32_t j = 0; j < kPauses; ++j) Pause();
    shortest = std::min(shortest, RealClock::Monotonic() - begin);
  }
  const int64_t spins = time.ns / std::max<int64_t>(shortest.ns, 1) * kPauses +
                        time.ns % std::max<int64_t>(shortest.ns, 1) * kPauses /
                            std::max<int64_t>(shortest.ns, 1);
  set_spins(static_cast<uint32_t>(
      std::min<int64_t>(spins, std::numeric_limits<uint32_t>::max())));
  busy_poll_ns_ = time.ns;
  is_busy_poll_ = true;
  return Doorbell::spins();
}

void Doorbell::Wake() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  Futex(rings_, FUTEX_WAKE, 1, nullptr);
}

void Doorbell::SleepWhile(uint32_t rings, Nanos timeout) {
  if (timeout == Nanos::max()) {
    Futex(rings_, FUTEX_WAIT, rings, nullptr);
  } else if (timeout > Nanos{0}) {
    const timespec time = TimeOf(timeout);
    Futex(rings_, FUTEX_WAIT, rings, &time);
  }
}

void Doorbell::SleepWhileAll(std::span<Doorbell* const> bells,
                             std::span<const uint32_t> rings, Nanos timeout,
                             Instant now) {
  SNF_CHECK(bells.size() <= kMostAtOnce);
  if (timeout <= Nanos{0}) return;
  std::array<Waiter, kMostAtOnce> waiters;
  for (size_t i = 0; i < bells.size(); ++i) {
    waiters[i] = {.value = rings[i],
                  .address = reinterpret_cast<uintptr_t>(&bells[i]->rings_),
                  .flags = kSize32,
                  .reserved = 0};
  }
  const bool has_end = timeout < Instant::max() - now;
  const timespec end = TimeOf({has_end ? (now + timeout).ns : 0});
  const long woken = syscall(kFutexWaitv, waiters.data(), bells.size(), 0,
                             has_end ? &end : nullptr, CLOCK_MONOTONIC);
  if (woken < 0 && (errno == ENOSYS || errno == EPERM)) {
    bells[0]->SleepWhile(rings[0], std::min(timeout, kUnheard));
  }
}

}  // namespace snf
