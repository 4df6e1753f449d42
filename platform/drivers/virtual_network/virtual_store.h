// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_VIRTUAL_STORE_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_VIRTUAL_STORE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/rng.h"
#include "base/time.h"
#include "platform/drivers/virtual_network/event_queue.h"
#include "platform/drivers/virtual_network/state_network.h"
#include "platform/run/run.h"
#include "runtime/store/state_store.h"
#include "runtime/store/store_reads.h"

namespace snf {

// Theory of operation. The store outside of units, and the way to it, of a run
// in virtual time. It is as far from a unit as another unit is, and chaos meets
// what goes there and back as it meets messages about state: a request takes a
// hop, a state state_delay and the time of its record. To this comes the time
// of the server and of the client, which StoreOptions says: each of the
// server's threads serves one request at a time, for `operation`, in the order
// in which they come; and the rest of a round trip, drawn from `round_trips`,
// passes before the answer leaves.
//
// Worked example, with a hop of 1 µs, state_delay 20 µs, a request of 2 µs and
// round trips of 23 µs always: two units ask at 0. Both requests come at 1 µs;
// the server is done with the first at 3, with the second at 5 µs. 21 µs later
// the answers leave, and are with the units at 44 and 46 µs.
//
// A seed always gives the same run. Owner-thread only.
class VirtualStore {
 public:
  // `record_bytes`: of the longest record.
  VirtualStore(const RunOptions& options, uint32_t record_bytes);

  // As StateStore's.
  void Write(Instant now, const State& state,
             std::span<const std::byte> record);
  bool Read(Instant now, const Pull& pull);

  // When something is due; Instant::max() for nothing.
  Instant next_time() const;
  // Does the next thing that is due. Returns what a unit gets of it, if it gets
  // anything, valid until the next call.
  std::optional<StoreAnswer> RunNext(Instant now);

  // Counts states that are kept.
  size_t size() const { return values_.size(); }
  // Adds what was counted.
  void AddTotals(RunResult& result) const;

 private:
  struct Event {
    enum class Kind : uint8_t { kWriteThere, kReadThere, kAnswerHere };
    Kind kind{};
    uint32_t record = StateNetwork::kNoRecord;
    Instant sent;  // the request of it
    Pull pull;     // but of kWriteThere
    State state;   // kAnswerHere: its clock is 0 if there is none
  };
  struct Value {
    State state;
    std::vector<std::byte> record;
  };
  void Ask(Instant now, const Pull& pull);
  void WriteThere(Instant now, const Event& event);
  void ReadThere(Instant now, const Event& event);
  std::optional<StoreAnswer> AnswerHere(Instant now, const Event& event);
  // Returns when the answer to what came now leaves.
  Instant Serve(Instant now);

  StoreOptions options_;
  Nanos hop_delay_;
  StateNetwork network_;
  StoreReads reads_;
  Rng rng_;
  EventQueue<Event> events_;
  std::vector<Instant> free_at_;                 // by thread of the server
  absl::flat_hash_map<uint64_t, Value> values_;  // by flow
  std::vector<std::byte> answer_;                // the record of the last
  StoreFigures figures_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_VIRTUAL_STORE_H_
