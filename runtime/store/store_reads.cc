// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/store_reads.h"

#include <algorithm>

namespace snf {
namespace {

// A store that is far behind must not be given more to do than it can.
constexpr Nanos kLongestTimeout = Seconds(1);

Nanos Twice(Nanos delay, Nanos most) {
  return std::min(Nanos{2 * delay.ns}, most);
}

}  // namespace

bool StoreReads::Open(Instant now, const Pull& pull) {
  const Key key = KeyOf(pull.flow, pull.requester);
  const auto [at, is_new] = reads_.try_emplace(key);
  Read& read = at->second;
  read.wanted = now;
  if (!is_new && read.pull.need == pull.need) return false;
  read.pull = pull;
  read.heard = now;
  read.pause = options_.poll;
  read.timeout = options_.timeout;
  ++counters_.reads;
  Ask(now, read, key);
  return true;
}

void StoreReads::Ask(Instant now, Read& read, const Key& key) {
  read.is_asked = true;
  read.sent = now;
  Schedule(read, key, now + read.timeout);
}

void StoreReads::Schedule(Read& read, const Key& key, Instant due) {
  read.due = due;
  timers_.push({.due = due, .order = ++order_, .key = key});
}

bool StoreReads::on_answer(Instant now, Instant sent, UnitId unit, FlowId flow,
                           std::optional<Clock> applied) {
  const Key key = KeyOf(flow, unit);
  const auto at = reads_.find(key);
  if (at == reads_.end()) return false;
  Read& read = at->second;
  if (applied == read.pull.need) {
    reads_.erase(at);
    return true;
  }
  read.heard = now;
  // The answer came twice, or after a newer request was sent.
  if (!read.is_asked || sent != read.sent) return false;
  read.is_asked = false;
  read.timeout = options_.timeout;
  Schedule(read, key, now + read.pause);
  read.pause = Twice(read.pause, StoreOptions::kMaxPoll);
  return false;
}

std::optional<StoreReads::Due> StoreReads::PopDue(Instant now) {
  if (next_due() > now) return std::nullopt;
  const Timer timer = timers_.top();
  timers_.pop();
  const auto at = reads_.find(timer.key);
  if (at == reads_.end() || at->second.due != timer.due) return std::nullopt;
  Read& read = at->second;
  if (now - read.wanted > kWanted) {
    reads_.erase(at);
    return std::nullopt;
  }
  const bool is_silent = read.is_asked && now - read.heard >= options_.patience;
  if (is_silent) {
    ++counters_.silent;
    read.heard = now;
  }
  if (read.is_asked) {
    ++counters_.timeouts;
    read.timeout =
        Twice(read.timeout, std::max(options_.patience, kLongestTimeout));
  } else {
    ++counters_.read_again;
  }
  Ask(now, read, timer.key);
  return Due{.pull = read.pull, .is_silent = is_silent};
}

void StoreReads::Forget(UnitId unit) {
  absl::erase_if(reads_, [unit](const auto& each) {
    return each.second.pull.requester == unit;
  });
}

}  // namespace snf
