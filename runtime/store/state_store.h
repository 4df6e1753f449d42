// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_STORE_STATE_STORE_H_
#define SNF_RUNTIME_STORE_STATE_STORE_H_

#include <cstddef>
#include <span>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "runtime/store/store_options.h"

namespace snf {

// Result of a read: the state that the unit asked for, or the notice that the
// store has not answered for another StoreOptions::patience; the read continues
// then. Valid until the call that it is given to returns.
struct StoreAnswer {
  UnitId unit = kNoUnit;
  State state;  // is_there, else only its flow is valid
  std::span<const std::byte> record{};
  bool is_there = false;
};

// A loop's way to the store of flows' state outside of units, which other
// threads and machines use as well. Nothing waits but Wait: requests go out,
// and answers come in, in Poll. A store may lose states safely: a unit takes a
// state only if its clock is right, and the previous unit keeps its own state
// until the Takeover, and writes it again on request. Owner-thread only.
class StateStore {
 public:
  virtual ~StateStore() = default;

  // Keeps the state, with the first state.bytes bytes of its record, in place
  // of an older one; forgets the flow if the state's clock is 0. It may be
  // lost, and is counted then.
  virtual void Write(const State& state, std::span<const std::byte> record) = 0;
  // Requests a state repeatedly, until it is in the store as of that clock.
  // Returns false if it is already requested.
  virtual bool Read(const Pull& pull) = 0;
  // Calls `take` with each answer; `take` may call Read and Write. Returns true
  // if anything moved.
  virtual bool Poll(absl::FunctionRef<void(const StoreAnswer&)> take) = 0;
  // Returns true if an answer is outstanding.
  virtual bool is_waiting() const = 0;
  // Waits until an answer may have come, or for `at_most`.
  virtual void Wait(Nanos at_most) = 0;

  virtual const StoreFigures& figures() const = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_STORE_STATE_STORE_H_
