// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_DOORBELL_H_
#define SNF_RUNTIME_RING_DOORBELL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "runtime/ring/real_clock.h"

namespace snf {

// Lets a thread that has nothing to do sleep, until a thread of any process
// that maps the Doorbell's region wakes it.
//
// Theory of operation. Each thread sleeps at a Doorbell of its own; the
// producers of all rings that it reads ring this one. The sleeper says that it
// is parked, *then* looks once more for work, and sleeps only as long as
// `rings_` is unchanged. A producer publishes work, *then* looks whether the
// sleeper is parked, and if so changes `rings_` and wakes it. All four steps
// are sequentially consistent: either the sleeper sees the work, or the
// producer sees that it is parked; then the change of `rings_` keeps it from
// falling asleep, or the call wakes it.
//
// A process may be killed at any instruction. If it is killed between
// publishing and waking, it leaves a sleeper with work: so the thread that
// detects the death calls Ring() for the consumers of the dead process, and
// waits have timeouts. If it is killed while it sleeps, it leaves `parked_`
// set, which costs producers a system call for each ring; the next thread that
// sleeps here clears it.
//
// A Doorbell is in a region, zeroed at first. Budget: Ring ≤ 1 ns if no thread
// is parked.
class Doorbell {
 public:
  // 30 to 80 µs of `pause`, several times the cost of a wake-up.
  static constexpr uint32_t kSpins = 2'000;

  // The spins of a wait of this process by default. Any thread.
  static uint32_t spins() { return spins_.load(std::memory_order_relaxed); }
  static void set_spins(uint32_t spins) { spins_ = spins; }
  // Returns the spins that SetBusyPoll has set. Without SetBusyPoll, returns
  // kSpins, or 0 if the machine has at most kFewCpus CPUs: there a thread that
  // spins keeps a controller, a unit or a logger from the CPU. A round trip
  // through three processes on two CPUs took 0.5 ms with spins.
  static constexpr uint32_t kFewCpus = 3;
  static uint32_t SpinsOnSpareCpus();

  // Makes threads of this process look for work for at least `time` before they
  // sleep, however few CPUs there are. Measures how long `pause` takes, and
  // returns the spins.
  static uint32_t SetBusyPoll(Nanos time);
  // Returns the time of SetBusyPoll; 0 if it was not called. Any thread.
  static Nanos busy_poll() {
    return {busy_poll_ns_.load(std::memory_order_relaxed)};
  }
  // Undoes SetBusyPoll and set_spins.
  static void ResetSpins() {
    is_busy_poll_ = false;
    busy_poll_ns_ = 0;
    set_spins(kSpins);
  }

  // A deep sleeper has no use for what Nudge tells until something else wakes
  // it. kAwake is of a thread that is not parked.
  enum class Sleep : uint32_t { kAwake, kLight, kDeep };

  // Wakes the sleeper if it is parked. The caller must have stored the new work
  // with sequential consistency before, as SpscRing does. Any thread.
  void Ring() {
    if (parked_.load(std::memory_order_seq_cst) != Sleep::kAwake) Wake();
  }
  // Does the same, unless the sleep is deep.
  void Nudge() {
    if (parked_.load(std::memory_order_seq_cst) == Sleep::kLight) Wake();
  }

  // Calls ready() up to `spins` times, until the timeout at the latest, then
  // once more, and sleeps until the next Ring(), the timeout (Nanos::max():
  // none, counted from the beginning of the sleep) or a signal; it may also
  // wake without a reason. Returns the last result of ready(), which must read
  // memory with sequential consistency, as has_items() does. Owner thread only.
  template <typename Ready>
  bool Wait(const Ready& ready, Nanos timeout,
            uint32_t spins = Doorbell::spins(), Sleep sleep = Sleep::kLight) {
    if (Spin(ready, timeout, spins)) return true;
    const uint32_t rings = rings_.load(std::memory_order_seq_cst);
    parked_.store(sleep, std::memory_order_seq_cst);
    bool is_ready = ready();
    if (!is_ready) {
      SleepWhile(rings, timeout);
      is_ready = ready();
    }
    parked_.store(Sleep::kAwake, std::memory_order_relaxed);
    return is_ready;
  }

  // Does the same at several bells, up to kMostAtOnce, any of which wakes it:
  // so a thread that rings one bell cannot damage another. `now` is the time of
  // the machine's monotonic clock. On Linux before 5.16 the thread sleeps no
  // longer than kUnheard, and only the first bell wakes it earlier.
  static constexpr size_t kMostAtOnce = 128;
  static constexpr Nanos kUnheard = Microseconds(100);
  template <typename Ready>
  static bool WaitAtAll(std::span<Doorbell* const> bells, const Ready& ready,
                        Nanos timeout, Instant now,
                        uint32_t spins = Doorbell::spins()) {
    if (bells.size() == 1) return bells[0]->Wait(ready, timeout, spins);
    if (Spin(ready, timeout, spins)) return true;
    std::array<uint32_t, kMostAtOnce> rings;
    for (size_t i = 0; i < bells.size(); ++i) {
      rings[i] = bells[i]->rings_.load(std::memory_order_seq_cst);
      bells[i]->parked_.store(Sleep::kLight, std::memory_order_seq_cst);
    }
    bool is_ready = ready();
    if (!is_ready) {
      SleepWhileAll(bells, std::span(rings).first(bells.size()), timeout, now);
      is_ready = ready();
    }
    for (Doorbell* const bell : bells) {
      bell->parked_.store(Sleep::kAwake, std::memory_order_relaxed);
    }
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
  // Returns true as soon as ready() is. Reads the clock now and then, so that
  // many spins do not outlast the timeout.
  template <typename Ready>
  static bool Spin(const Ready& ready, Nanos timeout, uint32_t spins) {
    constexpr uint32_t kLooks = 16;
    const bool ends = timeout != Nanos::max() && spins > kLooks;
    const Instant begin = ends ? RealClock::Monotonic() : Instant{};
    for (uint32_t i = 0; i < spins; ++i) {
      if (ready()) return true;
      Pause();
      if (ends && i % kLooks == kLooks - 1 &&
          RealClock::Monotonic() - begin >= timeout) {
        return false;
      }
    }
    return false;
  }
  inline static std::atomic<uint32_t> spins_ = kSpins;
  // Set by SetBusyPoll.
  inline static std::atomic<bool> is_busy_poll_ = false;
  inline static std::atomic<int64_t> busy_poll_ns_ = 0;
  void Wake();
  void SleepWhile(uint32_t rings, Nanos timeout);
  static void SleepWhileAll(std::span<Doorbell* const> bells,
                            std::span<const uint32_t> rings, Nanos timeout,
                            Instant now);

  // Written by the sleeper only.
  alignas(128) std::atomic<Sleep> parked_{Sleep::kAwake};
  std::atomic<uint32_t> rings_{
      0};  // changed by a thread that rings a parked sleeper
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(Doorbell) == 128);

}  // namespace snf

#endif  // SNF_RUNTIME_RING_DOORBELL_H_
