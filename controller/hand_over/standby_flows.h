// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_HAND_OVER_STANDBY_FLOWS_H_
#define SNF_CONTROLLER_HAND_OVER_STANDBY_FLOWS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/rendezvous.h"
#include "base/time.h"
#include "controller/hand_over/hand_over.h"

namespace snf {

// A copy of another controller's flow, with which the flow can continue behind
// clock flow.last.
struct StandbyFlow {
  HandedFlow flow;
  State state;
  std::vector<std::byte> record{};  // of the state
  uint32_t home = 0;  // the controller whose hosts and pieces the flow has
  // A packet came for it here, so a later flow with the key is no reason to
  // forget it.
  bool is_due = false;
};

struct StandbyCounters {
  uint64_t kept = 0;      // copies that came
  uint64_t taken = 0;     // flows that continue here
  uint64_t reverted = 0;  // of these, that are copies again: their unit failed
                          // before it had run them
  uint64_t evicted = 0;   // copies that had to make room, the oldest first
  uint64_t outlived = 0;  // copies of flows that began while their home was
                          // away, and there once more
  uint64_t expired = 0;   // copies of flows that were idle for too long
};

// Theory of operation. The flows that a controller continues if a controller
// dies whose heir it is (proto/protocol.md H5, H6). Other controllers send
// copies, a newer one in place of an older, and say which flows have ended. A
// flow is found by its key, or by its alias.
//
// A controller that has connected again sends all of its flows again, in
// another round, and then says so (OnWhole): copies of earlier rounds are of
// flows that have ended meanwhile.
//
// Worked example: controller 1 sends flow A as of clock 3, B as of 1 and A as
// of 5, and that B has ended. It dies, and a packet of A comes: Find returns A
// as of 5. Once A runs here, OnTaken has Find return it no more. Its copy stays
// until a unit has shown that it ran clock 6 (OnShown). If that unit fails
// before, A is given up here, and Settle has Find return it again.
//
// Owner-thread only. Memory: about 600 bytes and a record for each flow.
class StandbyFlows {
 public:
  struct Options {
    size_t max_flows = 1 << 16;
    // The idle timeout of a flow without its own.
    Nanos idle_timeout = Seconds(300);
  };

  explicit StandbyFlows(const Options& options) : options_(options) {}

  // A copy came from a controller, whose round that is. Of two controllers that
  // send copies with one key, the copy with the later packet stays.
  void Put(uint32_t from, uint64_t round, Instant now, StandbyFlow flow);
  // The controller's flow has ended.
  void OnEnd(uint32_t from, const FlowKey& key, FlowId flow);
  // The controller has sent all flows that it had when the round began.
  void OnWhole(uint32_t from, uint64_t round);
  // Forgets what that controller has sent.
  void Forget(uint32_t from) { EraseOf(from, std::nullopt); }
  // Returns the flow that has this key, or alias; null if there is none, or it
  // was idle for too long. Valid until a call that is not const.
  const StandbyFlow* Find(const FlowKey& key, bool by_alias, Instant now);
  // The flow with this key, which Find has returned, continues here under that
  // id.
  void OnTaken(const FlowKey& key, FlowId here);
  // Forgets the flow with this key, which Find has returned: no unit can take
  // it.
  void Drop(const FlowKey& key);
  // The flow with this key, which Find has returned, cannot continue yet.
  void SetDue(const FlowKey& key) { OfKey(key)->flow.is_due = true; }
  // Forgets it, since there is a flow with the key that had a later packet.
  void DropOutlived(const FlowKey& key) {
    ++counters_.outlived;
    Drop(key);
  }
  // A unit shows a flow as of this clock: forgets the copy with which the flow
  // continues here, if that is older.
  void OnShown(FlowId here, Clock applied);
  // Says whether a flow that continues here still runs.
  enum class Fate : uint8_t { kRuns, kEnded, kLost };
  // Looks at the next `most` flows that continue here and were not shown yet. A
  // flow that is lost is a copy again.
  void Settle(size_t most, absl::FunctionRef<Fate(FlowId here)> fate_of);
  // Forgets the copies of flows that continue here.
  void ForgetTaken();
  size_t taken() const { return taken_.size(); }
  // Returns the copies of flows of these homes that came from any of these
  // controllers, in the order of coming, and forgets them. A copy of a flow
  // that continues here is forgotten alone.
  std::vector<StandbyFlow> TakeAll(MemberSet homes, MemberSet from);
  // Shows the copies of flows that do not continue here, and who has sent them.
  void ForEachWaiting(
      absl::FunctionRef<void(uint32_t from, const StandbyFlow& copy)> show)
      const {
    for (const Entry& entry : entries_) {
      if (entry.here == kNoFlow) show(entry.from, entry.flow);
    }
  }
  // Looks at the next `most` copies, and forgets each whose flow was idle for
  // too long.
  void DropExpired(Instant now, size_t most);

  void ForEach(absl::FunctionRef<void(const StandbyFlow&)> visit) const {
    for (const Entry& entry : entries_) visit(entry.flow);
  }
  // Returns true if there is a copy of a flow with this key.
  bool Knows(const FlowKey& key) const { return by_key_.contains(key); }
  size_t size() const { return by_key_.size(); }
  // Counts the flows that this controller has sent.
  size_t size_of(uint32_t from) const {
    const auto of = of_.find(from);
    return of == of_.end() ? 0 : of->second;
  }
  const StandbyCounters& counters() const { return counters_; }

 private:
  struct Entry {
    uint32_t from;
    uint64_t round;
    Instant came;
    StandbyFlow flow;
    FlowId here = kNoFlow;  // as which it continues here
  };
  using Entries = std::list<Entry>;  // in the order of coming

  void Erase(Entries::iterator entry);
  // Erases the entry if it has expired.
  bool Expire(Entries::iterator entry, Instant now);
  void EraseOf(uint32_t from, std::optional<uint64_t> but_round);
  bool IsExpired(const Entry& entry, Instant now) const;
  Entries::iterator OfKey(const FlowKey& key) const;

  const Options options_;
  Entries entries_;
  Entries::iterator next_ = entries_.end();  // at which DropExpired looks
  absl::flat_hash_map<FlowKey, Entries::iterator, FlowKeyHash> by_key_;
  absl::flat_hash_map<FlowKey, Entries::iterator, FlowKeyHash> by_alias_;
  absl::btree_map<FlowId, Entries::iterator> taken_;  // by id here
  FlowId next_settled_ = kNoFlow;  // at which Settle looks, or behind that
  std::map<uint32_t, size_t> of_;  // flows, by controller
  StandbyCounters counters_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_HAND_OVER_STANDBY_FLOWS_H_
