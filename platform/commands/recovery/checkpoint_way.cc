// SPDX-License-Identifier: Apache-2.0
//
// The way of FTMB (Sherry et al., SIGCOMM 2015): a copy of the unit now and
// then, a log of its inputs since, and a replay.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "platform/commands/recovery/recovery_way.h"
#include "platform/report/recovery_meter.h"

namespace snf {
namespace {

// The copy is the whole unit, as FTMB's is of the whole virtual machine: with
// its pools, timers and open requests, so that a replay of the same inputs has
// the same effects. A packet may leave once the order of its accesses to shared
// data is logged. A unit has one thread, which runs its inputs in order, and
// these are logged before they run.
class CheckpointWay final : public RecoveryWay {
 public:
  CheckpointWay(const NfSpec& nf, const RunOptions& options)
      : spec_(nf), nf_(nf.create()), options_(options) {}

  std::string_view name() const override { return "checkpoint"; }

  void AdvanceTo(Instant now, const Unit& unit, Release) override {
    if (!copy_.has_value() || now >= next_) TakeCopy(now, unit);
  }
  void BeginStep() override { kept_.BeginStep(); }
  void on_input(const UnitInput& input, BufferPool& buffers) override {
    kept_.Add(input, buffers);
  }
  void on_entry(Instant, const LogEntryView& entry, std::span<const std::byte>,
                const Unit&, Release release) override {
    release(entry);
  }
  void EndStep(uint64_t last_entry) override { kept_.EndStep(last_entry); }
  void NoteOutput(const KeptStep::Output& output) override {
    kept_.NoteOutput(output);
  }

  Recovered Recover(Instant now) override;

 private:
  void TakeCopy(Instant now, const Unit& unit) {
    // One at each multiple of the period after the first, as far as something
    // runs.
    const int64_t period = RecoveryMeter::kCheckpointEvery.ns;
    const Instant last = copy_.has_value() ? next_ : now;
    next_ = last + Nanos{((now - last).ns / period + 1) * period};
    copy_.emplace(unit);
    kept_.Clear();
  }

  NfSpec spec_;
  std::unique_ptr<NetworkFunction> nf_;
  RunOptions options_;
  std::optional<Unit> copy_;
  Instant next_;
  KeptInputs kept_;
};

Recovered CheckpointWay::Recover(Instant) {
  Recovered made;
  SNF_CHECK(copy_.has_value());
  const Nanos begin = CpuTimeOfThread();
  Unit restored = *copy_;
  const Nanos copied = {CpuTimeOfThread().ns - begin.ns};
  made.heir = std::make_unique<Heir>(spec_, std::move(restored));
  const Nanos again = CpuTimeOfThread();
  for (const KeptStep& step : kept_.steps()) {
    made.heir->Replay(step, [](FlowId, Clock) { return true; });
  }
  made.executed = {copied.ns + CpuTimeOfThread().ns - again.ns};
  for (const KeptStep& step : kept_.steps()) {
    made.service.ns += ServiceTimeOf(options_, step).ns;
  }
  made.records = copy_->own_copies();
  made.bytes = made.records * (sizeof(State) + nf_->schema().record_bytes());
  made.network = TransferTime(options_, made.bytes);
  return made;
}

}  // namespace

std::unique_ptr<RecoveryWay> MakeCheckpointWay(const NfSpec& nf,
                                               const RunOptions& options) {
  return std::make_unique<CheckpointWay>(nf, options);
}

}  // namespace snf
