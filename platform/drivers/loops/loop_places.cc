// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/loop_places.h"

#include <algorithm>
#include <bit>

#include "runtime/ring/doorbell.h"
#include "runtime/ring/log_note.h"
#include "runtime/ring/logger_ledger.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/thread_link.h"
#include "runtime/wire/kept_word.h"
#include "runtime/wire/log_word.h"

namespace snf {
namespace {

constexpr uint32_t kLeastCells = 512;
// Of the packets in a loop's own memory: those that the first few hundred
// packets under way at one time lie in.
constexpr size_t kPacketsInAdvance = size_t{1} << 20;

constexpr size_t Room(size_t bytes) { return RegionCarver::RoundUp(bytes); }
size_t RingRoom(uint32_t cells) { return Room(CellRing::BytesFor(cells)); }

uint32_t CellsFor(size_t cells, uint32_t least) {
  return std::max(least, static_cast<uint32_t>(std::bit_ceil(cells)));
}

}  // namespace

uint32_t UnitCells(const LoopRegion::Options& options) {
  return CellsFor(4 * (1 + Cell::CountFor(options.record_bytes)), kLeastCells);
}
uint32_t RelayCells(const LoopRegion::Options& options) {
  return 4 * UnitCells(options);
}
uint32_t LoggerCells(const LoopRegion::Options& options) {
  return CellsFor(1 + Cell::CountFor(sizeof(LogWord) + options.entry_bytes),
                  options.logger_cells);
}
uint32_t KeptCells(const LoopRegion::Options& options) {
  return CellsFor(2 * Cell::CountFor(sizeof(KeptWord) + options.entry_bytes),
                  kLeastCells);
}

std::vector<BufferPool::Options> SharesOf(const LoopRegion::Options& options) {
  std::vector<BufferPool::Options> shares(1 + options.loops, options.loop);
  shares[0] = options.controller;
  return shares;
}

// --- Of a loop. ---

LoopPlaces::LoopPlaces(RegionCarver& carver,
                       const LoopRegion::Options& options) {
  const auto ring = [&carver](uint32_t cells) {
    return carver.Take(CellRing::BytesFor(cells));
  };
  bell = carver.Take(sizeof(Doorbell));
  progress = carver.Take(sizeof(LoopProgress));
  control = carver.Take(sizeof(LoopControl));
  down = ring(options.controller_cells);
  up = ring(options.controller_cells);
  if (options.apart) {
    from_loops = {ring(UnitCells(options)), ring(RelayCells(options))};
  } else {
    for (uint32_t i = 0; i < options.loops; ++i) {
      from_loops.push_back(ring(UnitCells(options)));
    }
  }
  if (options.loggers) log = ring(LoggerCells(options));
  if (options.recovers) {
    answers = ring(UnitCells(options));
    kept = ring(KeptCells(options));
  }
  if (!options.apart) return;
  clock = carver.Take(sizeof(RealClock));
  controllers = carver.Take(sizeof(ControllerEpoch));
  controller_bell = carver.Take(sizeof(Doorbell));
  loggers_bell = carver.Take(sizeof(Doorbell));
  to_relay = ring(RelayCells(options));
  pool = carver.Take(BufferPool::BytesFor(SharesOf(options)));
}

size_t LoopPlaces::BytesFor(const LoopRegion::Options& options) {
  size_t bytes = Room(sizeof(Doorbell)) + Room(sizeof(LoopProgress)) +
                 Room(sizeof(LoopControl)) +
                 2 * RingRoom(options.controller_cells);
  bytes += options.apart
               ? RingRoom(UnitCells(options)) + RingRoom(RelayCells(options))
               : options.loops * RingRoom(UnitCells(options));
  if (options.loggers) bytes += RingRoom(LoggerCells(options));
  if (options.recovers) {
    bytes += RingRoom(UnitCells(options)) + RingRoom(KeptCells(options));
  }
  if (!options.apart) return bytes;
  return bytes + Room(sizeof(RealClock)) + Room(sizeof(ControllerEpoch)) +
         2 * Room(sizeof(Doorbell)) + RingRoom(RelayCells(options)) +
         Room(BufferPool::BytesFor(SharesOf(options)));
}

size_t LoopPlaces::BytesInAdvance(const LoopRegion::Options& options) {
  const size_t packets = Room(BufferPool::BytesFor(SharesOf(options)));
  return BytesFor(options) - packets + std::min(packets, kPacketsInAdvance);
}

// --- Of all. ---

Places::Places(Memory memory, const LoopRegion::Options& options) {
  RegionCarver carver(memory);
  pool = carver.Take(BufferPool::BytesFor(SharesOf(options)));
  clock = carver.Take(sizeof(RealClock));
  bell = carver.Take(sizeof(Doorbell));
  controllers = carver.Take(sizeof(ControllerEpoch));
  loggers_bell = carver.Take(sizeof(Doorbell));
  for (uint32_t i = 0; options.reports && i < options.loops; ++i) {
    notes.push_back(carver.Take(sizeof(ControllerNote)));
  }
  if (options.apart) return;
  for (uint32_t i = 0; i < options.loops; ++i) {
    loops.emplace_back(carver, options);
  }
}

size_t Places::BytesFor(const LoopRegion::Options& options) {
  const size_t loops = options.apart ? 0 : options.loops;
  const size_t notes = options.reports ? options.loops : 0;
  return Room(BufferPool::BytesFor(SharesOf(options))) +
         Room(sizeof(RealClock)) + Room(sizeof(ControllerEpoch)) +
         2 * Room(sizeof(Doorbell)) + notes * Room(sizeof(ControllerNote)) +
         loops * LoopPlaces::BytesFor(options);
}

// --- Of the controller and the loggers. ---

OwnPlaces::OwnPlaces(Memory memory, const LoopRegion::Options& options) {
  RegionCarver carver(memory);
  const auto ring = [&] {
    return carver.Take(CellRing::BytesFor(options.controller_cells));
  };
  stop = carver.Take(sizeof(LoopControl));
  bell = carver.Take(sizeof(Doorbell));
  controller_bell = carver.Take(sizeof(Doorbell));
  for (uint32_t i = 0; i < options.loops; ++i) {
    loggers.push_back(
        {.progress = carver.Take(sizeof(LoopProgress)), .up = ring()});
    if (!options.recovers) continue;
    loggers.back().control = carver.Take(sizeof(LogControl));
    loggers.back().note = carver.Take(sizeof(LogNote));
    loggers.back().down = ring();
  }
  if (!options.reports) return;
  for (OfLoggers& of_loop : loggers) {
    of_loop.ledger = carver.Take(LoggerLedger::BytesFor(options.piece_words));
  }
}

size_t OwnPlaces::BytesFor(const LoopRegion::Options& options) {
  const size_t ledgers =
      options.reports
          ? options.loops * Room(LoggerLedger::BytesFor(options.piece_words))
          : 0;
  return BytesInAdvance(options) + ledgers;
}

size_t OwnPlaces::BytesInAdvance(const LoopRegion::Options& options) {
  const size_t ring = RingRoom(options.controller_cells);
  const size_t recovery =
      options.recovers ? Room(sizeof(LogControl)) + Room(sizeof(LogNote)) + ring
                       : 0;
  return Room(sizeof(LoopControl)) + 2 * Room(sizeof(Doorbell)) +
         options.loops * (Room(sizeof(LoopProgress)) + ring + recovery);
}

}  // namespace snf
