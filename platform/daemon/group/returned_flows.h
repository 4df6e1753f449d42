// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_RETURNED_FLOWS_H_
#define SNF_PLATFORM_DAEMON_GROUP_RETURNED_FLOWS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/time.h"
#include "controller/hand_over/standby_flows.h"
#include "platform/daemon/group/held_pieces.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/run/run.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Theory of operation. The flows that a member's heir gives back, once the
// member has come back (proto/protocol.md H7). They come before the member
// handles packets, and are taken in before it does. First the pieces of all
// flows leave the pools; then flow after flow is taken: a unit with a flow may
// ask for pieces, and must get none that another of the flows has.
//
//   Put ─► waiting ─OnWhole─► pieces leave the pools ─► TakeFlow ─► own flows
//
// Worked example: the member's NAT is new, and has all ports. Flow A comes
// back, with port 1024: port 1024 leaves the pool. The next connection gets
// port 1025.
//
// A flow that is here already stays as it is.
//
// Owner-thread only. Memory: as StandbyFlows.
class ReturnedFlows {
 public:
  // If no flow can be taken for this long, the others are given up.
  static constexpr Nanos kPatience = Seconds(2);

  explicit ReturnedFlows(const StandbyFlows::Options& options)
      : waiting_(options) {}

  // A flow came from that controller, whose round that is.
  void Put(uint32_t from, uint64_t round, Instant now, StandbyFlow flow);
  // The controller has sent all flows.
  void OnWhole(uint32_t from, uint64_t round);
  // A flow of the process before this one is to be taken in.
  void Continue(StandbyFlow flow) { reserving_.push_back(std::move(flow)); }
  // No more flows come: some may be missing.
  void EndWaiting() { is_whole_ = true; }
  // A flow came too late.
  void Refuse() { ++untaken_; }
  // Takes in some of the flows, once they are whole. Call it at each turn.
  void Turn(RealDriver& driver);
  // Another driver takes packets from now on.
  void OnOtherDriver();
  // Returns true if no flow waits, or is being taken in.
  bool is_done() const {
    return waiting_.size() == 0 && reserving_.empty() && taking_.empty();
  }

  // Appends states_returned, states_had, states_unreturned.
  void AppendTo(std::vector<NamedCount>& counts) const;

 private:
  struct Taking {
    StandbyFlow flow;
    std::vector<HeldPiece> pieces;
  };

  void Reserve(RealDriver& driver);
  void TakeSome(RealDriver& driver);
  void GiveUp(RealDriver& driver);

  StandbyFlows waiting_;
  bool is_whole_ = false;
  std::deque<StandbyFlow> reserving_;
  std::deque<Taking> taking_;  // whose pieces have left the pools
  Instant give_up_ = Instant::max();
  std::unique_ptr<NetworkFunction> nf_;  // tells the flows' pieces
  uint64_t taken_ = 0;
  uint64_t had_ = 0;
  uint64_t untaken_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_RETURNED_FLOWS_H_
