// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_MANAGER_COMMANDS_H_
#define SNF_BASE_MESSAGES_MANAGER_COMMANDS_H_

#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/time.h"

// Options, commands and refusals of a resource manager (proto/protocol.md §7).
// Plain data.

namespace snf {

struct ManagerOptions {
  uint32_t max_units = 64;                 // units 0 … max_units - 1 exist
  uint32_t max_starts = 8;                 // at the same time
  Nanos term = Seconds(1);                 // a lease ends without a renewal
  Nanos revoke_grace = Milliseconds(100);  // for moving flows away
  Nanos start_timeout = Seconds(10);
  Nanos keep_warm = Seconds(10);  // a unit without leases stops then
  Nanos first_back_off = Milliseconds(100);
  Nanos max_back_off = Seconds(10);
};

// Why a message was refused. Each refusal is counted, and changes nothing.
enum class LeaseRefusal : uint8_t {
  kNone,
  kUnknownController,  // never joined, or declared dead
  kStaleEpoch,         // of an earlier life of a controller or of the manager
  kStaleNumber,        // repeated, or overtaken by a later one
  kUnknownUnit,
  kStaleIncarnation,  // of another life of the unit
  kWrongState,        // the unit is not in a state for this
  kUnknownLease,
  kNotHolder,  // another controller's lease
  kNegative,
  kTooMuch,     // more than all units, or than the lease, have
  kBadReport,   // shares that do not fit into a unit, or a lease told twice
  kRecovering,  // the manager does not know all leases yet
  kCount
};

// Starts a process of the unit.
struct StartUnit {
  UnitLife unit;
  // The first command, or its answer, may be lost.
  bool is_repeated = false;
};
// Ends the unit's process once no controller uses the unit, unless a later
// manager asks for its leases before.
struct StopUnit {
  UnitLife unit;
  uint64_t manager_epoch = 0;
};
// Asks a unit for its leases. From then on the unit refuses earlier managers.
struct AskReport {
  GlobalUnitId unit{};
  uint64_t manager_epoch = 0;
};
// Answers an AskLife, once the resource manager is ready.
struct NewLife {
  ControllerLife life;
};
using ManagerCommand = std::variant<SetShare, Grant, Revoke, Gone, StartUnit,
                                    StopUnit, AskReport, NewManager, NewLife>;
using ManagerOut = std::vector<ManagerCommand>;

// The receivers of commands: a unit, a controller, or all controllers.
inline GlobalUnitId ReceiverOf(const SetShare& set) { return set.to.unit; }
inline GlobalUnitId ReceiverOf(const StartUnit& start) {
  return start.unit.unit;
}
inline GlobalUnitId ReceiverOf(const StopUnit& stop) { return stop.unit.unit; }
inline GlobalUnitId ReceiverOf(const AskReport& ask) { return ask.unit; }
inline ControllerId ReceiverOf(const Grant& grant) {
  return grant.to.controller;
}
inline ControllerId ReceiverOf(const Revoke& revoke) {
  return revoke.to.controller;
}
inline ControllerId ReceiverOf(const Gone& gone) { return gone.to.controller; }
inline ControllerId ReceiverOf(const NewLife& given) {
  return given.life.controller;
}
struct AllControllers {};
inline AllControllers ReceiverOf(const NewManager& /*manager*/) { return {}; }

// Hands the message of a command to `unit(GlobalUnitId, message)`,
// `controller(ControllerId, message)` or `all_controllers(message)`.
template <typename Unit, typename Controller, typename All>
void Dispatch(const ManagerCommand& command, Unit&& unit,
              Controller&& controller, All&& all_controllers) {
  std::visit(
      [&](const auto& message) {
        const auto receiver = ReceiverOf(message);
        using Receiver = std::remove_const_t<decltype(receiver)>;
        if constexpr (std::is_same_v<Receiver, GlobalUnitId>) {
          unit(receiver, message);
        } else if constexpr (std::is_same_v<Receiver, ControllerId>) {
          controller(receiver, message);
        } else {
          all_controllers(message);
        }
      },
      command);
}

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_MANAGER_COMMANDS_H_
