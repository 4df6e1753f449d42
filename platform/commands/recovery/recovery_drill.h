// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_DRILL_H_
#define SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_DRILL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "platform/commands/recovery/drilled_unit.h"
#include "platform/commands/recovery/free_pieces.h"
#include "platform/commands/recovery/recovery_way.h"
#include "platform/run/ingress.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"
#include "runtime/logger/log_entry.h"
#include "traces/capture_reader.h"

namespace snf {

// Outcomes of the packets of a drill: each ends once, or still waits for the
// datastore at the end.
struct DrillTotals {
  uint64_t packets_in = 0;
  uint64_t passed_through = 0;  // have no flow
  uint64_t dropped = 0;         // by the platform
  uint64_t nf_dropped = 0;
  uint64_t consumed = 0;
  uint64_t released = 0;
  uint64_t waiting = 0;
  uint32_t flows_max = 0;  // at one time
};

// Compares the heir after a death with the unit, which continues.
struct Death {
  uint64_t records = 0;        // of the unit
  uint64_t records_wrong = 0;  // the heir has another, or none
  // The heir has another, but the packet that made it has not left: it runs
  // again, and got other pieces.
  uint64_t records_anew = 0;
  bool pieces_differ = false;  // free pieces
  Recovered recovered;
};

// Theory of operation. One unit runs a capture, with the controller of other
// runs and one way to keep what it does (recovery_way.h). Units and messages
// take no time, except for messages to a datastore: the time is that of the
// capture. At any time the unit may be declared dead: the way makes an heir,
// which is compared with the unit, record for record. The unit has not really
// failed, so the heir should equal it.
//
// Owner-thread only.
class RecoveryDrill final : private DrilledUnit::Host {
 public:
  // The NF must be OK. `way` may be null: then nothing is kept. If it
  // `compares`, outputs are noted for heirs. `observer` hears of packets and
  // ends of flows if it is not null. They must outlive the drill.
  RecoveryDrill(const NfSpec& nf, const RunOptions& options, uint32_t max_flows,
                RecoveryWay* way, bool compares = false,
                RunObserver* observer = nullptr);
  RecoveryDrill(const RecoveryDrill&) = delete;
  RecoveryDrill& operator=(const RecoveryDrill&) = delete;

  // Runs a packet at its time, after all earlier events; times do not decrease.
  void Take(const CapturedPacket& captured);
  // Declares the unit dead now, and recovers it. Requires a way, and at least
  // one packet before.
  Death Die(Instant now);

  DrillTotals totals() const;

 private:
  struct Released {
    PacketMeta meta;
    std::vector<PieceUse> uses;
  };

  void on_command(const UnitCommand& command) override;
  void on_entry(std::span<const std::byte> entry) override;
  void on_released(const LogEntryView& entry);
  void TellController(const LogEntry& entry);

  void RunDue(Instant until);
  void RunStep(Instant now, absl::FunctionRef<void()> begin);
  void CallController(absl::FunctionRef<void(ControllerOut&)> call);
  void Execute(const ControllerCommand& command);
  void AdvanceWay(Instant now);
  void ApplyReleased();
  void Observe(const UnitInput& input);
  void on_note(const FlowNote& note);
  void End(PacketHandle packet, uint64_t& counter);

  RunOptions options_;
  DrilledUnit unit_;
  LogEntryLimits limits_;
  Ingress ingress_;
  Controller controller_;
  RecoveryWay* way_;
  bool compares_;
  RunObserver* observer_;
  Instant now_ = Instant::min();
  std::deque<UnitInput> inputs_;
  std::deque<Released> released_;
  DrainReport drained_{.unit = UnitId{0}};
  FreePieces free_;
  DrillTotals totals_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_RECOVERY_RECOVERY_DRILL_H_
