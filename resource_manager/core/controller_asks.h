// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_CONTROLLER_ASKS_H_
#define SNF_RESOURCE_MANAGER_CORE_CONTROLLER_ASKS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/messages/controller_counts.h"
#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "resource_manager/core/lease_book.h"

namespace snf {

// Theory of operation. The controllers that a resource manager knows: the last
// life of each, the capacity that it has asked for, and which of them wait for
// more. A controller waits from Await until Served. The next to be served is
// the waiting controller that holds least.
//
//   unknown ─Begin─► alive ─Die─► dead        each Begin with a later epoch
//                     │  ▲──────────┘
//                     └─Succeed: another epoch, the same capacity
//
// Worked example: controllers 1 and 2 ask for 2048 each, and hold 1024 and 512.
// Both wait. Controller 2 is next, and misses 1536.
//
// A value; owner-thread only. NextWaiting costs O(controllers that wait).
class ControllerAsks {
 public:
  static constexpr uint32_t kNone = LeaseBook::kNone;

  // The epoch is that of the resource manager.
  explicit ControllerAsks(uint64_t epoch) : epoch_(epoch) {}

  // Returns kNone for the controller's present life, and for a later life if an
  // earlier manager can have given it.
  LeaseRefusal Check(ControllerLife life) const;
  bool IsLater(ControllerLife life) const {
    return life.epoch > of(life.controller).epoch;
  }
  bool IsAlive(ControllerLife life) const {
    return is_alive(life.controller) && of(life.controller).epoch == life.epoch;
  }
  bool is_alive(ControllerId controller) const { return of(controller).alive; }
  ControllerLife LifeOf(ControllerId controller) const {
    return {controller, of(controller).epoch};
  }

  // Begins a life that asks for nothing yet.
  void Begin(ControllerLife life);
  // As Begin, but the capacity stays.
  void Succeed(ControllerLife life);
  void Die(ControllerId controller) { of(controller).alive = false; }

  // Takes the capacity of an ask. Returns kStaleNumber if a later one came, and
  // the reason why its capacity is impossible.
  LeaseRefusal on_ask(const Ask& ask, int64_t most);
  // The controller does not want more than this.
  void LimitTo(ControllerId controller, int64_t capacity);

  // Returns what the controller misses: it may be negative.
  int64_t Missing(uint32_t controller, const LeaseBook& leases) const {
    const Controller& c = controllers_[controller];
    return c.alive ? c.wanted - leases.held(controller) : 0;
  }
  // Sums Missing over the controllers that wait.
  int64_t MissingInAll(const LeaseBook& leases) const;
  // Lets the controller wait if it misses anything.
  void Await(uint32_t controller, const LeaseBook& leases);
  // Returns the next one to be served, or kNone.
  uint32_t NextWaiting(const LeaseBook& leases) const;
  void Served(uint32_t controller);

 private:
  struct Controller {
    uint64_t epoch = 0;  // of its last life
    bool alive = false;
    bool waits = false;
    uint64_t ask = 0;
    int64_t wanted = 0;
  };

  Controller& of(ControllerId id) { return controllers_[value(id)]; }
  const Controller& of(ControllerId id) const {
    return controllers_[value(id)];
  }

  uint64_t epoch_;
  std::array<Controller, kControllerIds> controllers_{};
  std::vector<uint32_t> waiting_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_CONTROLLER_ASKS_H_
