// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_DOORBELL_H_
#define SNF_RUNTIME_RING_DOORBELL_H_

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace snf {

// How a thread that has had nothing to do goes to sleep, and is woken by
// threads of any process that maps the region in which the Doorbell lies.
//
// Theory of operation. One thread sleeps at a Doorbell, its own; all rings that
// it reads ring this one. The sleeper says that it is parked, *then* looks once
// more whether there is work, and sleeps only as long as `rings_` is what it
// was before. Who brings work publishes it, *then* looks whether the sleeper is
// parked, and if so changes `rings_` and wakes it. All four are sequentially
// consistent: either the one sees the work or the other sees the parked
// sleeper, and between its look and its sleep `rings_` has changed.
//
// A process may be killed anywhere. Killed between publishing and waking, it
// leaves a sleeper with work; so who finds out that a process died calls Ring()
// for those that it fed, and waits have timeouts. Killed while it sleeps, it
// leaves `parked_` set, which costs those who ring a system call each; the
// next that sleeps here clears it.
//
// Lies in a region, zeroed at first. Budget: Ring ≤ 1 ns if nobody is parked.
class Doorbell {
 public:
  // About 50 µs of `pause`, what a wake-up costs several times over.
  static constexpr uint32_t kSpins = 2'000;

  // Wakes the sleeper if it is parked. What it is to see must have been stored
  // before with sequential consistency, as SpscRing does. Any thread.
  void Ring() {
    if (parked_.load(std::memory_order_seq_cst) != 0) Wake();
  }

  // Calls ready() up to `spins` times, then once more and sleeps until the next
  // Ring(), the timeout (Nanos::max(): none) or a signal; it may wake for no
  // reason. Returns what ready() said last. Owner thread only.
  // ready() looks at memory with sequential consistency, as has_items() does.
  template <typename Ready>
  bool Wait(const Ready& ready, Nanos timeout, uint32_t spins = kSpins) {
    for (uint32_t i = 0; i < spins; ++i) {
      if (ready()) return true;
      Pause();
    }
    const uint32_t rings = rings_.load(std::memory_order_seq_cst);
    parked_.store(1, std::memory_order_seq_cst);
    bool is_ready = ready();
    if (!is_ready) {
      SleepWhile(rings, timeout);
      is_ready = ready();
    }
    parked_.store(0, std::memory_order_relaxed);
    return is_ready;
  }

 private:
  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  void Wake();
  void SleepWhile(uint32_t rings, Nanos timeout);

  alignas(128) std::atomic<uint32_t> parked_{0};  // written by the sleeper only
  std::atomic<uint32_t> rings_{0};                // and this if it is parked
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(Doorbell) == 128);

}  // namespace snf

#endif  // SNF_RUNTIME_RING_DOORBELL_H_
