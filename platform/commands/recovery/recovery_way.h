// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_WAY_H_
#define SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_WAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/time.h"
#include "platform/commands/recovery/drilled_unit.h"
#include "platform/commands/recovery/free_pieces.h"
#include "platform/commands/recovery/heir.h"
#include "platform/commands/recovery/kept_inputs.h"
#include "platform/run/run.h"
#include "runtime/core/unit.h"
#include "runtime/logger/log_entry.h"

namespace snf {

// The result of a recovery, and its times.
struct Recovered {
  std::unique_ptr<Heir> heir = nullptr;
  uint64_t records = 0;  // were moved to it
  uint64_t bytes = 0;    // with the header of a State each
  Nanos executed{};      // CPU time of the recovery until the heir is complete
  Nanos network{};       // time for messages and records, by RunOptions
  Nanos service{};       // of the packets run again, at the unit's capacity
  // The free pieces after the recovery, at the heir or for it; nothing for an
  // heir that continues from a copy.
  std::optional<FreePieces> free = std::nullopt;
  // The flows that have a clock which ran and was not released.
  std::vector<FlowId> unreleased = {};
};

// Theory of operation. A way to keep what a unit does, so that its packets may
// leave and another unit can take its place. It gets what an OutputLogger gets,
// the unit's entries in order, and lets them out; some also look at the unit's
// inputs before they run. A step is what follows from one packet, timer or end
// of a flow: between two steps nothing runs or waits at the unit.
//
//   AdvanceTo, BeginStep, { on_input, on_entry … } …, EndStep
//
// Recover makes an heir as if the unit's process died there, of what is kept
// outside of it. It changes nothing: the unit can go on. Owner-thread only.
class RecoveryWay {
 public:
  // Called with each entry whose packets may leave, in order for each flow.
  using Release = absl::FunctionRef<void(const LogEntryView&)>;

  virtual ~RecoveryWay() = default;

  virtual std::string_view name() const = 0;
  // Handles what is due by `now`; called before each step and before Recover.
  virtual void AdvanceTo(Instant /*now*/, const Unit& /*unit*/,
                         Release /*release*/) {}
  virtual void BeginStep() {}
  virtual void on_input(const UnitInput& /*input*/, BufferPool& /*buffers*/) {}
  // `bytes` are the entry's bytes, valid during the call.
  virtual void on_entry(Instant now, const LogEntryView& entry,
                        std::span<const std::byte> bytes, const Unit& unit,
                        Release release) = 0;
  virtual void EndStep(uint64_t /*last_entry*/) {}
  // Notes an output of the step, to be compared with the outputs of an heir.
  virtual void NoteOutput(const KeptStep::Output& /*output*/) {}

  virtual Recovered Recover(Instant now) = 0;
};

// Make the three ways. The options give figures and limits; the NF must be OK.
std::unique_ptr<RecoveryWay> MakeLoggerWay(const NfSpec& nf,
                                           const RunOptions& options,
                                           uint32_t max_flows);
std::unique_ptr<RecoveryWay> MakeCheckpointWay(const NfSpec& nf,
                                               const RunOptions& options);
std::unique_ptr<RecoveryWay> MakeDatastoreWay(const NfSpec& nf,
                                              const RunOptions& options,
                                              uint32_t max_flows);

// Returns the time to transfer `bytes` of records to another unit.
Nanos TransferTime(const RunOptions& options, uint64_t bytes);
// Returns the CPU time of this thread.
Nanos CpuTimeOfThread();
// Returns how long a unit takes for the packets of a step.
Nanos ServiceTimeOf(const RunOptions& options, const KeptStep& step);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_WAY_H_
