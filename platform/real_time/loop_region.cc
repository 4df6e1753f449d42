// SPDX-License-Identifier: Apache-2.0
#include "platform/real_time/loop_region.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "runtime/wire/link_payload.h"
#include "runtime/wire/log_word.h"

namespace snf {
namespace {

constexpr uint32_t kLeastCells = 512;  // of a link between loops of units

// Returns the cells of a link between loops of units: room for some messages
// with the largest record.
uint32_t UnitCells(uint32_t record_bytes) {
  const size_t message = 1 + Cell::CountFor(record_bytes);
  return std::max(kLeastCells,
                  static_cast<uint32_t>(std::bit_ceil(4 * message)));
}

// Returns the cells of a link to loggers, which has to hold the largest entry.
uint32_t LoggerCells(const LoopRegion::Options& options) {
  const size_t message = Cell::CountFor(sizeof(LogWord) + options.entry_bytes);
  return std::max(options.logger_cells,
                  static_cast<uint32_t>(std::bit_ceil(message + 1)));
}

// Create takes as much.
size_t SizeOf(const LoopRegion::Options& options) {
  const auto round = RegionCarver::RoundUp;
  const size_t loops = options.shares.size() - 1;
  const size_t loggers =
      options.loggers
          ? round(sizeof(Doorbell)) +
                loops * (round(sizeof(LoopProgress)) +
                         LinkRing::BytesFor(LoggerCells(options)) +
                         LinkRing::BytesFor(options.controller_cells))
          : 0;
  return loggers + round(BufferPool::BytesFor(options.shares)) +
         (1 + loops) * round(sizeof(Doorbell)) +
         loops * round(sizeof(LoopProgress)) +
         2 * loops * LinkRing::BytesFor(options.controller_cells) +
         loops * loops * LinkRing::BytesFor(UnitCells(options.record_bytes));
}

template <typename T>
T* New(RegionCarver& carver) {
  return new (carver.Take(sizeof(T)).data()) T;
}

// Adds links between each loop of units and that of its loggers, and from there
// to the controller.
void AddLoggers(const LoopRegion::Options& options, RegionCarver& carver,
                LoopRegion& region) {
  region.loggers_bell = New<Doorbell>(carver);
  for (UnitLoopLinks& units : region.unit_loops) {
    auto* const progress = New<LoopProgress>(carver);
    const LinkRing log =
        LinkRing::Make(carver, LoggerCells(options), region.loggers_bell);
    const LinkRing up = LinkRing::Make(carver, options.controller_cells,
                                       region.controller.bell);
    units.to_loggers.emplace(log.producer, LoggerCells(options));
    region.controller.loggers.push_back(
        {.in = LinkIn(up.consumer, 0), .progress = progress});
    region.logger_loops.push_back(
        {.units_bell = units.bell,
         .progress = progress,
         .faults = region.faults.get(),
         .from_units = LinkIn(log.consumer, options.entry_bytes),
         .to_controller = LinkOut(up.producer, options.controller_reserve)});
  }
}

}  // namespace

absl::StatusOr<LoopRegion> LoopRegion::Create(const Options& options) {
  const size_t loops = options.shares.size() - 1;
  auto memory = SharedRegion::Create({.name = "snf", .bytes = SizeOf(options)});
  if (!memory.ok()) return memory.status();
  RegionCarver carver(memory->bytes());
  const std::span<std::byte> pool =
      carver.Take(BufferPool::BytesFor(options.shares));
  absl::Status status = BufferPool::Format(pool, options.shares);
  if (!status.ok()) return status;
  auto buffers = BufferPool::Attach(pool, BufferPool::Party{0});
  if (!buffers.ok()) return buffers.status();
  LoopRegion region = {.memory = *std::move(memory),
                       .faults = std::make_unique<WireFaults>(),
                       .buffers = *std::move(buffers),
                       .controller = {.bell = New<Doorbell>(carver),
                                      .buffers = nullptr,
                                      .faults = nullptr,
                                      .loops = {}},
                       .unit_loops = {},
                       .logger_loops = {}};
  region.controller.faults = region.faults.get();
  std::vector<Doorbell*> bells;
  for (size_t i = 0; i < loops; ++i) bells.push_back(New<Doorbell>(carver));
  for (size_t i = 0; i < loops; ++i) {
    auto own = BufferPool::Attach(
        pool, BufferPool::Party{static_cast<uint8_t>(i + 1)});
    if (!own.ok()) return own.status();
    auto* const progress = New<LoopProgress>(carver);
    const uint32_t cells = options.controller_cells;
    const LinkRing down = LinkRing::Make(carver, cells, bells[i]);
    const LinkRing up = LinkRing::Make(carver, cells, region.controller.bell);
    region.controller.loops.push_back(
        {.out = LinkOut(down.producer, options.controller_reserve),
         .in = LinkIn(up.consumer, kMaxPayloadToController),
         .progress = progress});
    region.unit_loops.push_back(
        {.buffers = *std::move(own),
         .bell = bells[i],
         .progress = progress,
         .faults = region.faults.get(),
         .from_controller = LinkIn(down.consumer, kMaxPayloadFromController),
         .to_controller = LinkOut(up.producer, options.controller_reserve),
         .from_loops = {},
         .to_loops = {}});
  }
  const uint32_t cells = UnitCells(options.record_bytes);
  for (size_t from = 0; from < loops; ++from) {
    for (size_t to = 0; to < loops; ++to) {
      const LinkRing ring = LinkRing::Make(carver, cells, bells[to]);
      region.unit_loops[from].to_loops.emplace_back(ring.producer, kLeastCells);
      region.unit_loops[to].from_loops.emplace_back(ring.consumer,
                                                    options.record_bytes);
    }
  }
  if (options.loggers) AddLoggers(options, carver, region);
  return region;
}

}  // namespace snf
