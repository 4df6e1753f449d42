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

// What comes of a read: the state that the unit asked for, or that the store
// has been silent for StoreOptions::patience (again); a read goes on then.
// Valid until the call that it is given to returns.
struct StoreAnswer {
  UnitId unit = kNoUnit;
  State state;  // is_there, else only its flow is valid
  std::span<const std::byte> record{};
  bool is_there = false;
};

// A loop's way to the store of flows' state outside of units, which other
// threads and machines use as well. Nothing waits but Wait: requests go out,
// and answers come in, in Poll. What a store forgets or loses is no danger: a
// unit takes a state only if its clock is right, the unit before keeps its own
// until it is told of the Takeover, and writes it again if it is asked.
// Owner-thread only.
class StateStore {
 public:
  virtual ~StateStore() = default;

  // Keeps the state, with the first state.bytes bytes of its record, in place
  // of an older one; forgets the flow if the state's clock is 0. It may be
  // lost, and is counted then.
  virtual void Write(const State& state, std::span<const std::byte> record) = 0;
  // Asks for a state, until it is there as of that clock. Returns false if it
  // is being asked for already.
  virtual bool Read(const Pull& pull) = 0;
  // Calls `take` with what came; it may call Read and Write. Returns true if
  // anything moved.
  virtual bool Poll(absl::FunctionRef<void(const StoreAnswer&)> take) = 0;
  // Something is to come.
  virtual bool is_waiting() const = 0;
  // Waits until it may have come, or for so long.
  virtual void Wait(Nanos at_most) = 0;

  virtual const StoreFigures& figures() const = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_STORE_STATE_STORE_H_
