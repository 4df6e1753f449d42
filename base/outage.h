// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_OUTAGE_H_
#define SNF_BASE_OUTAGE_H_

#include <optional>
#include <string>
#include <utility>

#include "base/time.h"

namespace snf {

// Tells for how long something that a process depends on has been away, and
// why: etcd, or a resource manager. All times of an object are of one clock. A
// value; thread-compatible.
class Outage {
 public:
  struct State {
    Nanos away{};       // 0: it answers
    std::string why{};  // it does not; "": it answers
    bool is_away() const { return !why.empty(); }
  };

  void OnAnswer() {
    since_.reset();
    why_.clear();
  }
  // There is no answer to a question of that time. The newest reason counts.
  void OnNoAnswer(Instant asked, std::string why) {
    if (!since_.has_value()) since_ = asked;
    why_ = why.empty() ? "no answer" : std::move(why);
  }
  State At(Instant now) const {
    if (!since_.has_value()) return {};
    return {.away = now - *since_, .why = why_};
  }

 private:
  std::optional<Instant> since_;
  std::string why_;
};

// Sets `longest` to the state if that is away for longer. For several parts of
// a process that depend on one thing.
inline void TakeLonger(const Outage::State& state,
                       std::optional<Outage::State>& longest) {
  if (longest.has_value() && state.away <= longest->away) return;
  longest = state;
}

}  // namespace snf

#endif  // SNF_BASE_OUTAGE_H_
