// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_EVENT_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_EVENT_H_

#include <cstdint>
#include <variant>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "base/messages/messages.h"
#include "platform/run/run.h"

namespace snf {

// An event of a run of several controllers. A controller's driver has events of
// its own. Plain data.
struct ClusterEvent {
  struct UnitUp {  // the end of a start
    UnitLife unit;
  };
  struct Tick {};    // of resource managers
  struct Sample {};  // of controllers' loads
  struct EpochEnd {
    uint32_t member;
  };
  struct MoveOn {};  // of flows that change their controller
  struct Change {    // a controller joins or leaves
    MemberChange what;
  };
  struct Death {
    int controller;
  };
  struct NextManager {};
  struct PiecesHome {
    PieceBlock pieces;
  };
  struct Lack {  // of pieces of a pool
    ControllerId controller;
    uint32_t successions;
    PieceRequest request;
  };
  struct Advanced {
    FlowId flow;
    Clock clock;
  };

  uint32_t manager = 0;
  std::variant<ToManager, ManagerCommand, UnitUp, Tick, Sample, EpochEnd,
               MoveOn, Change, Death, NextManager, Advanced, PiecesHome, Lack>
      what;

  // Returns true if the event only keeps leases as they are.
  bool keeps_leases() const {
    return is_periodic() || std::holds_alternative<ToManager>(what) ||
           std::holds_alternative<ManagerCommand>(what);
  }
  // Returns true if there is such an event in each period, without traffic.
  bool is_periodic() const {
    return std::holds_alternative<Tick>(what) ||
           std::holds_alternative<EpochEnd>(what);
  }
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_EVENT_H_
