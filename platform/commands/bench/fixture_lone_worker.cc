// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/fixture_lone_worker.h"

#include <utility>

#include "base/byte_order.h"
#include "base/check.h"
#include "platform/commands/bench/bench_suite.h"
#include "platform/run/run_setup.h"
#include "runtime/wire/link_payload.h"

namespace snf {
namespace {

constexpr uint32_t kCells = 4'096;
// As in a run with the default options.
UnitLoopOptions LoopOptions(bool logs) {
  RunOptions run;
  run.loggers = logs;
  return {.max_units = run.controller.max_units,
          .unit = UnitOptionsOf(run, 0),
          .tables = TableOptionsOf(run),
          .service = std::nullopt};
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoneWorker>> LoneWorker::Make(const NfSpec& nf,
                                                             bool logs) {
  const StateSchema schema = nf.create()->schema();
  const LoopRegion::Options options = {
      .controller = {.small = kBatch, .medium = 0, .large = 0},
      .loop = {.small = 64, .medium = 0, .large = 0},
      .record_bytes = schema.record_bytes(),
      .controller_cells = kCells,
      .controller_reserve = kCells,
      .loggers = logs,
      .entry_bytes = MaxLogEntryBytes(schema)};
  auto region = LoopRegion::Create(options);
  if (!region.ok()) return region.status();
  auto side =
      LoopRegion::Attach(region->memory.bytes(), options, 0, *region->faults);
  if (!side.ok()) return side.status();
  return std::unique_ptr<LoneWorker>(new LoneWorker(nf, LoopOptions(logs),
                                                    options, *std::move(region),
                                                    std::move(side->links)));
}

LoneWorker::LoneWorker(const NfSpec& nf, const UnitLoopOptions& options,
                       const LoopRegion::Options& of, LoopRegion region,
                       UnitLoopLinks links)
    : region_(std::move(region)),
      pieces_(nf.create()->pools()),
      tables_(*nf.create(), options.max_units, options.tables),
      loop_(options, nf, clock_, std::move(links)),
      out_(region_.controller.loops.front().out) {
  if (options.unit.has_logger) {
    auto side = LoopRegion::AttachLoggers(
        region_.memories(), region_.own_memory->bytes(), of, *region_.faults);
    SNF_CHECK(side.ok());
    loggers_.emplace(LoggerLoopOptions{.max_units = options.max_units,
                                       .max_copies = options.unit.max_flows},
                     nf, std::move(side->loops.front()));
    logger_thread_ = std::thread([this] {
      while (!stop_.load(std::memory_order_relaxed)) {
        if (!loggers_->Turn()) std::this_thread::yield();
      }
    });
  }
  out_.Send(ControllerCommand::Start(UnitId{0}, false, 1));
}

LoneWorker::~LoneWorker() {
  stop_.store(true, std::memory_order_relaxed);
  if (logger_thread_.joinable()) logger_thread_.join();
}

void LoneWorker::Run(BatchBuffers& buffers, std::span<const PacketMeta> metas) {
  for (size_t i = 0; i < metas.size(); ++i) {
    out_.Send(ControllerCommand::Enqueue(UnitId{0}, buffers[i], metas[i]));
  }
  const Instant now = clock_.Now();
  for (size_t table = 0; now >= tables_.next_wakeup() && table < tables_.size();
       ++table) {
    tables_.on_timers(now, table, [this](const TableMessage& message) {
      SendToUnit(message);
    });
  }
  released_ = 0;
  while (released_ < metas.size()) {
    SNF_CHECK(out_.Flush());
    const int64_t begin = ThreadCpuNs();
    while (loop_.Turn()) {
    }
    cpu_ns_ += ThreadCpuNs() - begin;
    // The loop has nothing left to do, but its loggers have.
    has_asked_ = false;
    do {
      ReceiveAll();
    } while (released_ < metas.size() && !has_asked_);
  }
}

void LoneWorker::ReceiveAll() {
  Receive(region_.controller.loops.front().in);
  if (loggers_.has_value()) Receive(region_.controller.loggers.front().in);
}

void LoneWorker::Receive(LinkIn& in) {
  const auto handle = [this](const Cell& cell,
                             std::span<const std::byte> payload) {
    Handle(cell, payload);
  };
  do {
    in.Receive();
  } while (in.Handle(PayloadToController, handle) > 0);
}

// Answers as a controller would that grants everything.
void LoneWorker::Handle(const Cell& cell, std::span<const std::byte> payload) {
  using Kind = UnitCommand::Kind;
  const auto send = [this](const TableMessage& message) {
    SendToUnit(message);
  };
  if (cell.is_table()) {
    has_asked_ = true;
    tables_.on_message(clock_.Now(), LoadAs<TableMessage>(payload.data()),
                       send);
    return;
  }
  const auto command = cell.As<UnitCommand>();
  switch (command.kind) {
    case Kind::kRelease:
      ++released_;
      break;
    case Kind::kSendAlias: {
      has_asked_ = true;
      const auto alias = LoadAs<Alias>(payload.data());
      out_.Send(ControllerCommand::Ack(
          UnitId{0}, {.flow = alias.flow, .clock = alias.clock}));
      break;
    }
    case Kind::kRequestPieces: {
      has_asked_ = true;
      PieceBlock pieces = pieces_.Next(command.request.pool);
      pieces.unit = UnitId{0};
      out_.Send(
          ControllerCommand::Pieces(ControllerCommand::Kind::kPieces, pieces));
      break;
    }
    default:
      SNF_CHECK(command.kind == Kind::kSendNote);
  }
}

void LoneWorker::SendToUnit(const TableMessage& message) {
  out_.Send(Cell::OfTable(), std::as_bytes(std::span(&message, 1)));
}

}  // namespace snf
