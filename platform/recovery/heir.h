// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RECOVERY_HEIR_H_
#define SNF_PLATFORM_RECOVERY_HEIR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/recovery/drilled_unit.h"
#include "platform/recovery/free_pieces.h"
#include "platform/recovery/kept_inputs.h"
#include "runtime/core/unit.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// The unit that takes a dead one's place. It takes records, or goes on from a
// copy, and runs inputs again. What the dead unit let out is not let out again.
// Owner-thread only.
class Heir final : private DrilledUnit::Host {
 public:
  struct Figures {
    uint64_t packets = 0;         // were run again
    uint64_t suppressed = 0;      // outputs that had been released before
    uint64_t released = 0;        // outputs that had not
    uint64_t outputs_differ = 0;  // of those suppressed, if they are compared
  };
  // Tells whether the dead unit's output of that clock was released.
  using IsReleased = absl::FunctionRef<bool(FlowId, Clock)>;

  // An empty unit, which asks for pieces and aliases anew; `free` has the
  // pieces that it gets.
  Heir(const NfSpec& nf, uint32_t max_flows, const FreePieces& free);
  // A unit that goes on from the copy, with the answers in the inputs.
  Heir(const NfSpec& nf, Unit copy);

  // Takes a flow's record. Returns false if it cannot be one.
  bool Take(Instant now, State state, std::span<const std::byte> record);
  // Runs the inputs of a step again. Outputs are held against those of the
  // step if there are any.
  void Replay(const KeptStep& step, IsReleased is_released);

  const Unit& unit() const { return unit_.unit(); }
  const Figures& figures() const { return figures_; }
  // Returns the pieces that are free, at the unit or where it got them from;
  // only of one that asks anew.
  const FreePieces& free() const { return free_; }

 private:
  struct Released {
    PacketMeta meta;
    std::vector<PieceUse> uses;
  };

  void on_command(const UnitCommand& command) override;
  void on_entry(std::span<const std::byte> entry) override;
  void Run(const UnitInput& input);

  DrilledUnit unit_;
  LogEntryLimits limits_;
  const bool asks_anew_;
  FreePieces free_;
  FreePieces at_store_;  // are granted when the unit asks
  std::deque<UnitInput> answers_;
  std::deque<Released> released_;
  Instant now_;
  const KeptStep* step_ = nullptr;
  const IsReleased* is_released_ = nullptr;
  Figures figures_;
};

// Returns what entries of a unit with this NF may be.
LogEntryLimits LimitsOf(const NetworkFunction& nf);

}  // namespace snf

#endif  // SNF_PLATFORM_RECOVERY_HEIR_H_
