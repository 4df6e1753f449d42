// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MOVES_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MOVES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "platform/drivers/virtual_cluster/cluster_member.h"
#include "platform/drivers/virtual_time/moved_flow.h"
#include "platform/run/run.h"

namespace snf {

// Theory of operation. Moves flows to other controllers, after the dispatcher's
// table has changed (proto/protocol.md H1-H3). From then on packets of such a
// flow wait, in order, until the new controller has the flow:
//
//   settling  the old controller has packets of the flow under way
//   given     the state is under way to the new controller, or waits for room
//   taken     the new controller has the flow; the state is under way to a unit
//
// The old controller's unit keeps its copy until the new controller's unit has
// released a packet of the flow. So no state is lost if a controller fails
// meanwhile: its successor continues the move. Owner-thread only.
class ClusterMoves {
 public:
  // The cluster.
  class Host {
   public:
    // Returns the controller that the table names for a flow.
    virtual ClusterMember& OwnerOf(const FlowKey& flow) = 0;
    // A flow with that alias belongs to the controller from now on.
    virtual void on_alias(ControllerId of, const FlowKey& alias) = 0;

   protected:
    ~Host() = default;
  };
  using Members = std::vector<std::unique_ptr<ClusterMember>>;

  // The arguments must outlive the object.
  ClusterMoves(Host& host, const Members& members, ClusterFigures& figures)
      : host_(host), members_(members), figures_(figures) {}

  bool empty() const { return moves_.empty() && to_scan_.empty(); }
  // Counts moves of flows that the controller has not given away for good.
  size_t from(const ClusterMember& member) const;

  // Looks for flows of the member that have to move, after a change of the
  // table.
  void Scan(ClusterMember& member);
  // Handles a successor, which knows flows that its predecessor had given away.
  void on_rebuilt(Instant now, ClusterMember& member);
  // Returns true if packets of the flow are to wait.
  bool holds(const FlowKey& flow) const { return by_key_.contains(flow); }
  void Wait(const FlowKey& flow, bool by_alias, const FlowKey& key,
            PacketHandle packet);
  // A null packet was released.
  void on_advanced(FlowId flow, Clock clock);
  // Continues all moves; to be called in intervals longer than a message takes,
  // while there are moves.
  void Advance(Instant now);

 private:
  enum class Phase : uint8_t { kSettling, kGiven, kTaken };
  // A flow that no controller has room for is dropped after this time.
  static constexpr Nanos kPatience = Seconds(1);
  struct Waiting {
    FlowKey key;
    bool by_alias;
    PacketHandle packet;
  };
  struct Move {
    Phase phase = Phase::kSettling;
    FlowKey key;
    ClusterMember* from = nullptr;
    ClusterMember* to = nullptr;  // of kTaken
    FlowId taken = kNoFlow;       // the flow's id there
    bool is_there = false;        // … and its state is
    uint32_t successions = 0;     // of controllers there, when it was taken
    Clock settled{};              // as it was seen last
    Instant given{};
    MovedFlow moved{};
    std::deque<Waiting> waiting{};
  };
  using Moves = std::map<FlowId, Move>;  // by the id at the first controller

  void ScanNow(ClusterMember& member);
  void Begin(ClusterMember& from, FlowId flow, const FlowKey& key);
  bool Settle(Instant now, Moves::value_type& entry);
  bool Take(Instant now, Moves::value_type& entry);
  bool Finish(Instant now, Moves::value_type& entry);
  void End(Instant now, Moves::iterator at);

  Host& host_;
  const Members& members_;
  ClusterFigures& figures_;
  Moves moves_;
  std::vector<ClusterMember*> to_scan_;
  // Looked up, never iterated.
  absl::flat_hash_map<FlowKey, FlowId, FlowKeyHash> by_key_;
  absl::flat_hash_map<FlowId, FlowId> by_taken_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MOVES_H_
