// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_RECOVERY_HEIR_H_
#define SNF_PLATFORM_COMMANDS_RECOVERY_HEIR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/commands/recovery/drilled_unit.h"
#include "platform/commands/recovery/free_pieces.h"
#include "platform/commands/recovery/kept_inputs.h"
#include "runtime/core/unit.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// The unit that replaces a dead one. It takes records, or continues from a
// copy, and runs inputs again. Packets that the dead unit released are not
// released again. Owner-thread only.
class Heir final : private DrilledUnit::Host {
 public:
  struct Figures {
    uint64_t packets = 0;         // were run again
    uint64_t suppressed = 0;      // outputs that had been released before
    uint64_t released = 0;        // outputs that had not been released before
    uint64_t outputs_differ = 0;  // of those suppressed, if they are compared
  };
  // Tells whether the dead unit's output of that clock was released.
  using IsReleased = absl::FunctionRef<bool(FlowId, Clock)>;

  // Makes an empty unit, which asks for pieces and aliases again; `free` has
  // the pieces that it gets.
  Heir(const NfSpec& nf, uint32_t max_flows, const FreePieces& free);
  // Makes a unit that continues from the copy, with the answers in the inputs.
  Heir(const NfSpec& nf, Unit copy);

  // Takes a flow's record. Returns false if it cannot be one.
  bool Take(Instant now, State state, std::span<const std::byte> record);
  // Runs the inputs of a step again. Outputs are compared with the outputs of
  // the step, if it has any.
  void Replay(const KeptStep& step, IsReleased is_released);

  const Unit& unit() const { return unit_.unit(); }
  const Figures& figures() const { return figures_; }
  // Returns the free pieces, at the unit or at their source; only for a unit
  // made from records.
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

#endif  // SNF_PLATFORM_COMMANDS_RECOVERY_HEIR_H_
