// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BYPASS_BYPASS_CORE_H_
#define SNF_PLATFORM_BYPASS_BYPASS_CORE_H_

#include <cstdint>

#include "base/time.h"

namespace snf {

// Theory of operation. Decides when a guard passes packets in the place of a
// daemon that is gone (snf up --bypass).
//
//   kArmed ──daemon gone──► kWaiting ──patience──► kPassing
//                              ▲ │ claimed            │ claimed
//              claim given up  │ ▼                    ▼
//                            kGivenWay ◄──────────────┘
//                              └──kMostGivenWay──► kEnded
//
// A daemon that is ready ends the guard of the daemon before by a signal. Until
// then the guard stays, so that a daemon that dies while it starts leaves the
// link no worse. A process of another name sends no signal: then the guard ends
// after kMostGivenWay of its claim.
//
// Owner-thread only. Times are of any one clock that never goes back.
class BypassCore {
 public:
  enum class Phase : uint8_t {
    kArmed,     // the daemon lives
    kWaiting,   // it is gone; another one may come
    kPassing,   // none came: packets pass unprocessed
    kGivenWay,  // another process has claimed the interfaces
    kEnded,
  };
  static constexpr Nanos kMostGivenWay = Seconds(60);

  // Another daemon may come for `patience` after the end of one.
  explicit BypassCore(Nanos patience) : patience_(patience) {}

  Phase state() const { return state_; }
  // Returns true if the daemon has ended without a clean end.
  bool is_daemon_gone() const { return is_gone_; }
  // The daemon has ended cleanly.
  void on_clean_end();
  // The daemon has ended otherwise. Both are for kArmed, and ignored later.
  void on_daemon_gone(Instant now);
  // The guard was told to end.
  void on_told_to_end() { state_ = Phase::kEnded; }
  // Enters the state that is due, and returns it. `is_claimed`: another
  // process has claimed any of the interfaces.
  Phase Look(Instant now, bool is_claimed);

 private:
  const Nanos patience_;
  Phase state_ = Phase::kArmed;
  bool is_gone_ = false;
  Instant since_;  // of kWaiting and kGivenWay
};

}  // namespace snf

#endif  // SNF_PLATFORM_BYPASS_BYPASS_CORE_H_
