// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_AWAY_FLOWS_H_
#define SNF_PLATFORM_DAEMON_GROUP_AWAY_FLOWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/messages/controller_counts.h"
#include "base/packet/flow_key.h"
#include "base/time.h"

namespace snf {

// A flow whose hosts are one member's, and whose pieces are another one's: the
// flow began there while the first one was away.
struct AwayFlow {
  FlowKey key;
  uint32_t home = 0;      // the member whose pieces the flow has
  Nanos idle_timeout{0};  // 0: the usual one
};

// Theory of operation. Says of which flows the packets that come here are to go
// to another member (proto/protocol.md H8). An entry may outlive its flow: the
// other member then sends the next packet back, and the entry is erased.
//
// Worked example: the NAT of member 2 gave port 50,000 to a flow of 10.0.0.1,
// while member 1 was away. Member 1 is back, and is told: packets of the flow
// from 10.0.0.1 go to 2. Packets to port 50,000 come there anyway.
//
// An entry expires without packets, as its flow does. At most kMost are kept:
// the oldest make room. Owner-thread only. Memory: some 200 bytes an entry.
class AwayFlows {
 public:
  static constexpr size_t kMost = 1 << 16;

  explicit AwayFlows(Nanos idle_timeout) : idle_timeout_(idle_timeout) {}

  // `owner` is whose hosts the flow has; another entry with the key is
  // replaced.
  void Put(Instant now, uint32_t owner, const AwayFlow& flow);
  // Returns the member whose pieces the flow has, and notes that it had a
  // packet.
  std::optional<uint32_t> Find(Instant now, const FlowKey& key);
  void Erase(const FlowKey& key);
  // Looks at the next `most` entries, and erases each that has expired.
  void DropExpired(Instant now, size_t most);
  void ForEach(absl::FunctionRef<void(const AwayFlow&)> visit) const;

  // Entries are told on, from TellAll on: Next returns each once, also later
  // ones; nothing if there is no other now.
  void TellAll();
  std::optional<AwayFlow> Next();
  size_t untold() const { return untold_.size(); }

  size_t size() const { return entries_.size(); }
  // Counts the entries of flows with that member's hosts.
  size_t size_of(uint32_t owner) const { return of_[owner]; }
  uint64_t evicted() const { return evicted_; }

 private:
  struct Entry {
    AwayFlow flow;
    uint32_t owner;
    Instant used;
  };
  using Entries = std::list<Entry>;  // in the order of coming
  void EraseEntry(Entries::iterator entry);

  const Nanos idle_timeout_;
  Entries entries_;
  Entries::iterator next_ = entries_.end();  // at which DropExpired looks
  absl::flat_hash_map<FlowKey, Entries::iterator, FlowKeyHash> by_key_;
  std::array<size_t, kMostAtPorts> of_{};
  std::deque<FlowKey> untold_;
  uint64_t evicted_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_AWAY_FLOWS_H_
