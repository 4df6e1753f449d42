// SPDX-License-Identifier: Apache-2.0
//
// SNF's way: an output logger has the newest record of each flow, and nothing
// is run again.
#include <utility>

#include "base/check.h"
#include "platform/commands/recovery/recovery_way.h"
#include "runtime/logger/logger_commands.h"
#include "runtime/logger/output_logger.h"

namespace snf {
namespace {

class LoggerWay final : public RecoveryWay {
 public:
  LoggerWay(const NfSpec& nf, const RunOptions& options, uint32_t max_flows)
      : spec_(nf),
        nf_(nf.create()),
        options_(options),
        max_flows_(max_flows),
        logger_(DrilledUnit::kIncarnation,
                {.max_flows = max_flows, .packets = ~uint32_t{0}},
                nf_->schema(), nf_->pools()) {}

  std::string_view name() const override { return "logger"; }

  void on_entry(Instant, const LogEntryView& entry,
                std::span<const std::byte> bytes, const Unit&,
                Release release) override {
    const OutputLogger::Result result = logger_.on_entry(bytes, out_);
    SNF_CHECK(result == OutputLogger::Result::kTaken);
    // The controller acknowledges the entry's message at once.
    logger_.on_told(entry->number);
    out_.clear();
    release(entry);
  }

  Recovered Recover(Instant now) override;

 private:
  NfSpec spec_;
  std::unique_ptr<NetworkFunction> nf_;
  RunOptions options_;
  uint32_t max_flows_;
  OutputLogger logger_;
  LoggerOut out_;
};

Recovered LoggerWay::Recover(Instant now) {
  using Kind = LoggerCommand::Kind;
  Recovered made;
  made.heir =
      std::make_unique<Heir>(spec_, max_flows_, FreePieces(nf_->pools()));
  made.free.emplace(nf_->pools());
  OutputLogger logger = logger_;  // so that the unit can go on
  LoggerOut out;
  const Nanos begin = CpuTimeOfThread();
  logger.Seal();
  std::vector<FlowId> flows;
  while (logger.has_more()) {
    out.clear();
    logger.Resume(out);
    for (const LoggerCommand& command : out.commands()) {
      if (command.kind == Kind::kFreePieces) made.free->Add(command.pieces);
      if (command.kind == Kind::kApplied && !command.applied.ended) {
        flows.push_back(command.applied.flow);
      }
    }
  }
  for (const FlowId flow : flows) {
    out.clear();
    logger.on_pull({.flow = flow, .need = Clock{1}, .requester = UnitId{0}},
                   out);
    SNF_CHECK(out.commands().size() == 1 &&
              out.commands()[0].kind == Kind::kSendState);
    const State state = out.commands()[0].state;
    SNF_CHECK(made.heir->Take(now, state,
                              logger.state_bytes(flow).first(state.bytes)));
    ++made.records;
    made.bytes += sizeof(State) + state.bytes;
  }
  made.executed = {CpuTimeOfThread().ns - begin.ns};
  made.network = {options_.hop_delay.ns +
                  TransferTime(options_, made.bytes).ns};
  return made;
}

}  // namespace

std::unique_ptr<RecoveryWay> MakeLoggerWay(const NfSpec& nf,
                                           const RunOptions& options,
                                           uint32_t max_flows) {
  return std::make_unique<LoggerWay>(nf, options, max_flows);
}

}  // namespace snf
