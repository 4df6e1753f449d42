// SPDX-License-Identifier: Apache-2.0
#include "platform/bench/fixture_lone_worker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "platform/bench/bench_suite.h"
#include "platform/run/table_ends.h"

namespace snf {
namespace {

constexpr uint32_t kCells = 4'096;
constexpr std::array<BufferPool::Options, 2> kShares = {
    {{.small = LoneWorker::kBatch, .medium = 0, .large = 0},
     {.small = 64, .medium = 0, .large = 0}}};

}  // namespace

// Three: to the worker, from it, and from it to itself.
struct LoneWorker::Rings {
  struct Ends {
    CellRing::Producer producer;
    CellRing::Consumer consumer;
  };
  static size_t Bytes() {
    return RegionCarver::RoundUp(sizeof(Doorbell)) +
           3 * RegionCarver::RoundUp(CellRing::BytesFor(kCells));
  }
  explicit Rings(RegionCarver& from)
      : carver(from),
        bell(new (carver.Take(sizeof(Doorbell)).data()) Doorbell) {}
  Ends Next() {
    const std::span<std::byte> memory = carver.Take(CellRing::BytesFor(kCells));
    SNF_CHECK(CellRing::Format(memory, kCells).ok());
    return {*CellRing::Producer::Attach(memory, nullptr),
            *CellRing::Consumer::Attach(memory)};
  }
  RegionCarver& carver;
  Doorbell* bell;
};

absl::StatusOr<std::unique_ptr<LoneWorker>> LoneWorker::Make(const NfSpec& nf) {
  const size_t pool_bytes = BufferPool::BytesFor(kShares);
  auto region = SharedRegion::Create(
      {.name = "snf_bench",
       .bytes = RegionCarver::RoundUp(pool_bytes) + Rings::Bytes()});
  if (!region.ok()) return region.status();
  RegionCarver carver(region->bytes());
  const std::span<std::byte> memory = carver.Take(pool_bytes);
  SNF_CHECK(BufferPool::Format(memory, kShares).ok());
  auto front = BufferPool::Attach(memory, BufferPool::Party{0});
  auto own = BufferPool::Attach(memory, BufferPool::Party{1});
  SNF_CHECK(front.ok() && own.ok());
  Rings rings(carver);
  std::unique_ptr<LoneWorker> lone(
      new LoneWorker(nf, *std::move(region), *std::move(front)));
  lone->Staff(rings, *std::move(own));
  return lone;
}

LoneWorker::LoneWorker(const NfSpec& nf, SharedRegion region,
                       BufferPool front_pool)
    : nf_(nf),
      example_(nf.create()),
      schema_(example_->schema()),
      region_(std::move(region)),
      front_pool_(std::move(front_pool)),
      pieces_(example_->pools()),
      tables_(*example_, options_.controller.max_units,
              TableOptionsOf(options_)) {}

void LoneWorker::Staff(Rings& rings, BufferPool buffers) {
  const auto down = rings.Next();
  const auto up = rings.Next();
  const auto round = rings.Next();
  out_ = std::make_unique<LinkOut>(down.producer, kCells);
  in_ = std::make_unique<LinkIn>(up.consumer,
                                 std::max(sizeof(Alias), sizeof(TableMessage)));
  RealWorker::Parts parts = {
      .options = &options_,
      .nf = &nf_,
      .example = example_.get(),
      .schema = &schema_,
      .clock = &clock_,
      .is_paced = false,
      .buffers = std::move(buffers),
      .bell = rings.bell,
      .from_front = LinkIn(down.consumer, sizeof(TableMessage)),
      .to_front = LinkOut(up.producer, kCells),
      .from_workers = {},
      .to_workers = {},
  };
  parts.from_workers.emplace_back(round.consumer, schema_.record_bytes());
  parts.to_workers.emplace_back(round.producer, kCells);
  worker_ = std::make_unique<RealWorker>(std::move(parts));
  out_->Send(ControllerCommand::OfUnit(ControllerCommand::Kind::kStartUnit,
                                       UnitId{0}, false));
}

void LoneWorker::Run(BatchBuffers& buffers, std::span<const PacketMeta> metas) {
  for (size_t i = 0; i < metas.size(); ++i) {
    out_->Send(ControllerCommand::Enqueue(UnitId{0}, buffers[i], metas[i]));
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
    SNF_CHECK(out_->Flush());
    const int64_t begin = ThreadCpuNs();
    while (worker_->Turn()) {
    }
    cpu_ns_ += ThreadCpuNs() - begin;
    const auto handle = [this](const Cell& cell,
                               std::span<const std::byte> payload) {
      Handle(cell, payload);
    };
    do {
      in_->Receive();
    } while (in_->Handle(RealWorker::PayloadBytesToFront, handle) > 0);
  }
}

// What a controller would do that grants all.
void LoneWorker::Handle(const Cell& cell, std::span<const std::byte> payload) {
  using Kind = UnitCommand::Kind;
  const auto send = [this](const TableMessage& message) {
    SendToUnit(message);
  };
  if (cell.is_table()) {
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
      Alias alias;
      std::memcpy(&alias, payload.data(), sizeof alias);
      out_->Send(ControllerCommand::Ack(
          UnitId{0}, {.flow = alias.flow, .clock = alias.clock}));
      break;
    }
    case Kind::kRequestPieces: {
      PieceBlock pieces = pieces_.Next(command.request.pool);
      pieces.unit = UnitId{0};
      out_->Send(
          ControllerCommand::Pieces(ControllerCommand::Kind::kPieces, pieces));
      break;
    }
    default:
      SNF_CHECK(command.kind == Kind::kSendNote);
  }
}

void LoneWorker::SendToUnit(const TableMessage& message) {
  out_->Send(Cell::OfTable(), std::as_bytes(std::span(&message, 1)));
}

}  // namespace snf
