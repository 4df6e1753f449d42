// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_LEASE_MESSAGES_H_
#define SNF_BASE_MESSAGES_LEASE_MESSAGES_H_

#include <cstdint>
#include <type_traits>

#include "base/ids.h"
#include "base/time.h"

// The messages between the resource manager, controllers and units
// (proto/protocol.md §7) are plain structs, as in messages.h.

namespace snf {

// Shares of a unit are counted in 1/1024 of its capacity.
inline constexpr int64_t kWholeUnit = 1'024;

// Names a unit for all controllers.
enum class GlobalUnitId : uint32_t {};
// Names a controller, as in FlowId.
enum class ControllerId : uint8_t {};
// Names a lease; no number is used twice.
enum class LeaseId : uint64_t {};

// A life of a unit: a unit that starts again has a greater incarnation.
struct UnitLife {
  GlobalUnitId unit{};
  uint64_t incarnation = 0;
  friend bool operator==(const UnitLife&, const UnitLife&) = default;
};
// A life of a controller, by an epoch that the resource manager gives.
struct ControllerLife {
  ControllerId controller{};
  uint64_t epoch = 0;
  friend bool operator==(const ControllerLife&,
                         const ControllerLife&) = default;
};

// A controller asks for a total capacity. Asks have numbers 1, 2, 3 … in each
// epoch of the controller.
struct Ask {
  ControllerLife from;
  uint64_t number = 0;
  int64_t capacity = 0;  // in 1/1024 of a unit
};
// A controller needs the lease for another term. The sequence is that of the
// last Grant that the controller has received: if a later Grant was lost, the
// answer repeats it.
struct Renew {
  ControllerLife from;
  LeaseId lease{};
  uint64_t sequence = 0;
};
// A controller keeps only this share of the lease; 0 gives all of it back.
struct GiveBack {
  ControllerLife from;
  LeaseId lease{};
  int64_t keep = 0;
};

// The resource manager sets the share of a lease at a unit. The unit ignores a
// message whose sequence is not above the last one of that lease. A share of 0
// ends the lease: the unit refuses its new packets and serves the queued ones.
struct SetShare {
  UnitLife to;
  uint64_t manager_epoch = 0;
  LeaseId lease{};
  ControllerLife holder;
  uint64_t sequence = 0;
  int64_t share = 0;
};
// A unit has applied a SetShare; for a share of 0, nothing of it is queued.
struct ShareSet {
  UnitLife from;
  uint64_t manager_epoch = 0;
  LeaseId lease{};
  uint64_t sequence = 0;
  int64_t share = 0;
};
// A unit's answer to the resource manager of that epoch, which asks for its
// leases. From then on the unit refuses messages of earlier managers.
struct ReportedUnit {
  UnitLife unit;
  uint64_t manager_epoch = 0;
  bool is_dead = false;  // there is no such process
};
// A lease as a unit reports it to a new resource manager. A draining lease has
// `target` 0, and takes up `share` until it is drained.
struct ReportedLease {
  LeaseId lease{};
  ControllerLife holder;
  uint64_t sequence = 0;
  int64_t share = 0;
  int64_t target = 0;
};

// The controller holds this share of the unit. The sequence is that of the
// SetShare which the unit has confirmed.
struct Grant {
  ControllerLife to;
  LeaseId lease{};
  UnitLife unit;
  int64_t share = 0;
  uint64_t sequence = 0;
  uint64_t manager_epoch = 0;
};
// The controller is to move its flows and give back all but `keep`; otherwise
// the resource manager cuts the lease at `until`.
struct Revoke {
  ControllerLife to;
  LeaseId lease{};
  int64_t keep = 0;
  Instant until;
  uint64_t manager_epoch = 0;
};
// The controller has no such lease any more.
struct Gone {
  ControllerLife to;
  LeaseId lease{};
  uint64_t manager_epoch = 0;
};
// Tells all controllers that this resource manager knows all leases: each
// controller repeats its open messages.
struct NewManager {
  uint64_t manager_epoch = 0;
};

static_assert(std::is_trivially_copyable_v<SetShare> &&
              std::is_trivially_copyable_v<ShareSet> &&
              std::is_trivially_copyable_v<ReportedLease> &&
              std::is_trivially_copyable_v<Ask> &&
              std::is_trivially_copyable_v<Revoke>);

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_LEASE_MESSAGES_H_
