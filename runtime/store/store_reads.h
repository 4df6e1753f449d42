// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_STORE_STORE_READS_H_
#define SNF_RUNTIME_STORE_STORE_READS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "runtime/store/store_options.h"

namespace snf {

// Theory of operation. Tracks the open reads of units from a store, and the
// times of the requests: the part of a client that knows no network. A unit
// that misses a flow's state wants it as of a clock; the state in the store may
// be older. Then the store is asked again, after poll, twice that, and so on.
// If it does not answer at all, it is asked again after timeout, twice that,
// and so on; and after patience without any answer the unit is to be told so,
// and again after each patience more. The read stays: a store that is slow
// answers after all. It is over when the state came, or the unit has not
// repeated its Pull for kWanted.
//
// Worked example, with 50 µs and 1 s: unit 1 wants clock 7 of a flow. The store
// is asked at 0 and has clock 5; it is asked at 50 and 150 µs, and then has 7:
// the read is over.
//
// A value; owner-thread only. Costs a hash and a heap operation a call.
class StoreReads {
 public:
  explicit StoreReads(const StoreOptions& options) : options_(options) {}

  // Adds a read of the unit pull.requester: the store is to be asked now.
  // Returns false if it is already being asked.
  bool Open(Instant now, const Pull& pull);

  // The store answered the request that was sent for the unit at that time: it
  // has the flow's state as of that clock, or none. Returns true if this is
  // what the unit wants; then the read is over. Else only the answer to the
  // last request leads to another, so that a store that is slow has no more
  // than one to answer for each read and timeout.
  bool on_answer(Instant now, Instant sent, UnitId unit, FlowId flow,
                 std::optional<Clock> applied);

  // A request that is due again; is_silent if the unit is also to be told that
  // the store is silent.
  struct Due {
    Pull pull;
    bool is_silent = false;
  };
  // Returns the time of the next due request; Instant::max() if there is none.
  Instant next_due() const {
    return timers_.empty() ? Instant::max() : timers_.top().due;
  }
  // Returns nothing if no request is due.
  std::optional<Due> PopDue(Instant now);

  // Forgets the reads of a unit that has ended.
  void Forget(UnitId unit);

  size_t size() const { return reads_.size(); }
  // Counts reads, read_again, timeouts and silent.
  const StoreCounters& counters() const { return counters_; }

 private:
  // A unit repeats a Pull at least this often while it wants the state.
  static constexpr Nanos kWanted = Seconds(20);

  using Key = std::pair<uint64_t, uint16_t>;  // the flow, the unit
  static Key KeyOf(FlowId flow, UnitId unit) {
    return {value(flow), value(unit)};
  }
  struct Read {
    Pull pull;
    Instant wanted;  // the unit's last Pull
    Instant heard;   // last answer of the store, or last notice of its silence
    Instant sent;    // the last request
    Instant due;
    Nanos pause;            // after the next answer that is not it
    Nanos timeout;          // of the next request
    bool is_asked = false;  // and no answer has come since
  };
  struct Timer {
    Instant due;
    uint64_t order;
    Key key;
    bool operator>(const Timer& other) const {
      return due != other.due ? due > other.due : order > other.order;
    }
  };
  void Ask(Instant now, Read& read, const Key& key);
  void Schedule(Read& read, const Key& key, Instant due);

  StoreOptions options_;
  absl::flat_hash_map<Key, Read> reads_;
  // One of each read is in force: that of its due time.
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t order_ = 0;
  StoreCounters counters_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_STORE_STORE_READS_H_
