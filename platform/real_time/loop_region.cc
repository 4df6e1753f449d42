// SPDX-License-Identifier: Apache-2.0
#include "platform/real_time/loop_region.h"

#include <algorithm>
#include <bit>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/wire/kept_word.h"
#include "runtime/wire/link_payload.h"
#include "runtime/wire/log_word.h"

namespace snf {
namespace {

constexpr uint32_t kLeastCells = 512;  // of a link between loops of units

using Memory = std::span<std::byte>;

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

// Returns the cells of a link by which units hand over what they keep.
uint32_t KeptCells(const LoopRegion::Options& options) {
  const size_t message = Cell::CountFor(sizeof(KeptWord) + options.entry_bytes);
  return std::max(kLeastCells,
                  static_cast<uint32_t>(std::bit_ceil(2 * message)));
}

std::vector<BufferPool::Options> SharesOf(const LoopRegion::Options& options) {
  std::vector<BufferPool::Options> shares(1 + options.loops, options.loop);
  shares[0] = options.controller;
  return shares;
}

// Where everything lies. The same options give the same places.
struct Places {
  struct OfLoop {
    Memory bell;
    Memory progress;
    Memory control;
    Memory down;  // the rings from and to the controller
    Memory up;
  };
  struct OfLoggers {
    Memory log;        // the ring from the units
    Memory answers{};  // and to them, of loops that may end
    Memory kept{};     // of these: what units hand over to new loggers
  };
  Memory pool;
  Memory clock;
  Memory bell;         // the controller's
  Memory controllers;  // a ControllerEpoch
  std::vector<OfLoop> loops;
  std::vector<Memory> between;  // rings, by sender and receiver
  Memory loggers_bell;
  std::vector<OfLoggers> loggers;  // by loop of units, if there are any
  Memory originals;

  Places(Memory memory, const LoopRegion::Options& options) {
    RegionCarver carver(memory);
    const size_t ring = CellRing::BytesFor(options.controller_cells);
    const size_t unit_ring =
        CellRing::BytesFor(UnitCells(options.record_bytes));
    pool = carver.Take(BufferPool::BytesFor(SharesOf(options)));
    clock = carver.Take(sizeof(RealClock));
    bell = carver.Take(sizeof(Doorbell));
    controllers = carver.Take(sizeof(ControllerEpoch));
    for (uint32_t i = 0; i < options.loops; ++i) {
      loops.push_back({.bell = carver.Take(sizeof(Doorbell)),
                       .progress = carver.Take(sizeof(LoopProgress)),
                       .control = carver.Take(sizeof(LoopControl)),
                       .down = carver.Take(ring),
                       .up = carver.Take(ring)});
    }
    for (uint32_t i = 0; i < options.loops * options.loops; ++i) {
      between.push_back(carver.Take(unit_ring));
    }
    if (!options.loggers) return;
    loggers_bell = carver.Take(sizeof(Doorbell));
    for (uint32_t i = 0; i < options.loops; ++i) {
      loggers.push_back(
          {.log = carver.Take(CellRing::BytesFor(LoggerCells(options)))});
    }
    if (!options.recovers) return;
    for (OfLoggers& loop : loggers) {
      loop.answers = carver.Take(unit_ring);
      loop.kept = carver.Take(CellRing::BytesFor(KeptCells(options)));
    }
    originals = carver.Take(PacketOriginals::BytesFor(options.controller));
  }
};

// Where that lies which the controller and the loggers alone have.
struct OwnPlaces {
  struct OfLoggers {
    Memory progress;
    Memory up;         // the ring to the controller
    Memory control{};  // of loops that may end, as what follows
    Memory note{};
    Memory down{};  // the ring from the controller
  };
  Memory stop;                     // a LoopControl
  std::vector<OfLoggers> loggers;  // by loop of units

  OwnPlaces(Memory memory, const LoopRegion::Options& options) {
    RegionCarver carver(memory);
    const size_t ring = CellRing::BytesFor(options.controller_cells);
    stop = carver.Take(sizeof(LoopControl));
    for (uint32_t i = 0; i < options.loops; ++i) {
      loggers.push_back({.progress = carver.Take(sizeof(LoopProgress)),
                         .up = carver.Take(ring)});
      if (!options.recovers) continue;
      loggers.back().control = carver.Take(sizeof(LogControl));
      loggers.back().note = carver.Take(sizeof(LogNote));
      loggers.back().down = carver.Take(ring);
    }
  }
};

size_t OwnSizeOf(const LoopRegion::Options& options) {
  const auto round = RegionCarver::RoundUp;
  const size_t ring = LinkRing::BytesFor(options.controller_cells);
  const size_t recovery = options.recovers ? round(sizeof(LogControl)) +
                                                 round(sizeof(LogNote)) + ring
                                           : 0;
  return round(sizeof(LoopControl)) +
         options.loops * (round(sizeof(LoopProgress)) + ring + recovery);
}

size_t SizeOf(const LoopRegion::Options& options) {
  const auto round = RegionCarver::RoundUp;
  const size_t loops = options.loops;
  const size_t loggers =
      options.loggers ? round(sizeof(Doorbell)) +
                            loops * LinkRing::BytesFor(LoggerCells(options))
                      : 0;
  const size_t recovery =
      options.recovers
          ? loops * (LinkRing::BytesFor(UnitCells(options.record_bytes)) +
                     LinkRing::BytesFor(KeptCells(options))) +
                round(PacketOriginals::BytesFor(options.controller))
          : 0;
  return recovery + loggers + round(BufferPool::BytesFor(SharesOf(options))) +
         round(sizeof(RealClock)) + round(sizeof(ControllerEpoch)) +
         (1 + loops) * round(sizeof(Doorbell)) +
         loops * (round(sizeof(LoopProgress)) + round(sizeof(LoopControl))) +
         2 * loops * LinkRing::BytesFor(options.controller_cells) +
         loops * loops * LinkRing::BytesFor(UnitCells(options.record_bytes));
}

// Objects live where their bytes are, in whichever process made them.
template <typename T>
T* At(Memory memory) {
  return std::launder(reinterpret_cast<T*>(memory.data()));
}

void MakeRing(Memory memory, uint32_t cells) {
  SNF_CHECK(CellRing::Format(memory, cells).ok());
}

LinkOut OutTo(Memory ring, Doorbell* receiver, size_t reserve) {
  return {*CellRing::Producer::Attach(ring, receiver), reserve};
}

// The bell of a loop of units.
Doorbell* BellOf(const Places& places, const LoopRegion::Options& options,
                 uint32_t loop) {
  return options.bells != nullptr ? options.bells[loop]
                                  : At<Doorbell>(places.loops[loop].bell);
}

LinkIn InFrom(Memory ring, size_t max_payload_bytes) {
  return {*CellRing::Consumer::Attach(ring), max_payload_bytes};
}

void MakeParts(const Places& places, const LoopRegion::Options& options) {
  new (places.clock.data()) RealClock;
  new (places.bell.data()) Doorbell;
  new (places.controllers.data()) ControllerEpoch;
  for (const Places::OfLoop& loop : places.loops) {
    new (loop.bell.data()) Doorbell;
    new (loop.progress.data()) LoopProgress;
    new (loop.control.data()) LoopControl;
    MakeRing(loop.down, options.controller_cells);
    MakeRing(loop.up, options.controller_cells);
  }
  for (const Memory ring : places.between) {
    MakeRing(ring, UnitCells(options.record_bytes));
  }
  if (!options.loggers) return;
  new (places.loggers_bell.data()) Doorbell;
  for (const Places::OfLoggers& loop : places.loggers) {
    MakeRing(loop.log, LoggerCells(options));
    if (options.recovers) {
      MakeRing(loop.answers, UnitCells(options.record_bytes));
      MakeRing(loop.kept, KeptCells(options));
    }
  }
}

void MakeOwnParts(const OwnPlaces& places, const LoopRegion::Options& options) {
  new (places.stop.data()) LoopControl;
  for (const OwnPlaces::OfLoggers& loop : places.loggers) {
    new (loop.progress.data()) LoopProgress;
    MakeRing(loop.up, options.controller_cells);
    if (!options.recovers) continue;
    new (loop.control.data()) LogControl;
    new (loop.note.data()) LogNote;
    MakeRing(loop.down, options.controller_cells);
  }
}

// Adds what the controller's process has of the loops of loggers.
void AddLoggers(const LoopRegion::Options& options, const Places& places,
                const OwnPlaces& own, LoopRegion& region) {
  region.loggers_bell = At<Doorbell>(places.loggers_bell);
  region.loggers_control = At<LoopControl>(own.stop);
  for (size_t i = 0; i < places.loggers.size(); ++i) {
    const OwnPlaces::OfLoggers& loop = own.loggers[i];
    region.controller.loggers.push_back(
        {.in = InFrom(loop.up, 0),
         .progress = At<LoopProgress>(loop.progress)});
    if (!options.recovers) continue;
    ControllerLinks::LoggerLoopEnd& end = region.controller.loggers.back();
    end.out.emplace(
        OutTo(loop.down, region.loggers_bell, options.controller_reserve));
    end.control = At<LogControl>(loop.control);
    end.bell = region.loggers_bell;
    region.loops[i].log_control = end.control;
  }
  if (!options.recovers) return;
  region.originals.emplace(places.originals, options.controller);
}

}  // namespace

absl::StatusOr<LoopRegion> LoopRegion::Create(const Options& options) {
  auto memory = SharedRegion::Create({.name = "snf", .bytes = SizeOf(options)});
  if (!memory.ok()) return memory.status();
  std::optional<SharedRegion> own_memory;
  if (options.loggers) {
    auto own =
        SharedRegion::Create({.name = "snf own", .bytes = OwnSizeOf(options)});
    if (!own.ok()) return own.status();
    own_memory = *std::move(own);
  }
  const Places places(memory->bytes(), options);
  absl::Status status = BufferPool::Format(places.pool, SharesOf(options));
  if (!status.ok()) return status;
  MakeParts(places, options);
  auto buffers = BufferPool::Attach(places.pool, BufferPool::Party{0});
  if (!buffers.ok()) return buffers.status();
  LoopRegion region = {.memory = *std::move(memory),
                       .own_memory = std::move(own_memory),
                       .faults = std::make_unique<WireFaults>(),
                       .buffers = *std::move(buffers),
                       .clock = At<RealClock>(places.clock),
                       .controller = {.bell = At<Doorbell>(places.bell),
                                      .buffers = nullptr,
                                      .faults = nullptr,
                                      .loops = {}},
                       .loops = {}};
  region.controller.faults = region.faults.get();
  region.controller.controllers = At<ControllerEpoch>(places.controllers);
  for (const Places::OfLoop& loop : places.loops) {
    const auto index = static_cast<uint32_t>(region.loops.size());
    region.loops.push_back({.bell = BellOf(places, options, index),
                            .progress = At<LoopProgress>(loop.progress),
                            .control = At<LoopControl>(loop.control)});
    for (size_t from = 0; from < options.loops; ++from) {
      region.loops.back().from_loops.push_back(
          places.between[from * options.loops + index]);
    }
    region.controller.loops.push_back(
        {.out = OutTo(loop.down, region.loops.back().bell,
                      options.controller_reserve),
         .in = InFrom(loop.up, kMaxPayloadToController),
         .progress = region.loops.back().progress,
         .bell = region.loops.back().bell});
  }
  if (options.loggers) {
    const OwnPlaces own(region.own_memory->bytes(), options);
    MakeOwnParts(own, options);
    AddLoggers(options, places, own, region);
  }
  return region;
}

bool LoopRegion::Loop::has_mail() const {
  return std::ranges::any_of(from_loops, RingHasItems);
}

absl::StatusOr<LoopRegion::UnitSide> LoopRegion::Attach(Memory memory,
                                                        const Options& options,
                                                        uint32_t loop,
                                                        WireFaults& faults) {
  if (loop >= options.loops || memory.size() < SizeOf(options)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loop ", loop, " of ", options.loops, " in ",
                     memory.size(), " bytes of memory"));
  }
  const Places places(memory, options);
  auto buffers = BufferPool::Attach(
      places.pool, BufferPool::Party{static_cast<uint8_t>(loop + 1)});
  if (!buffers.ok()) return buffers.status();
  const Places::OfLoop& own = places.loops[loop];
  UnitSide side = {
      .links = {.buffers = *std::move(buffers),
                .bell = BellOf(places, options, loop),
                .progress = At<LoopProgress>(own.progress),
                .control = At<LoopControl>(own.control),
                .faults = &faults,
                .from_controller = InFrom(own.down, kMaxPayloadFromController),
                .to_controller = OutTo(own.up, At<Doorbell>(places.bell),
                                       options.controller_reserve),
                .from_loops = {},
                .to_loops = {}},
      .clock = At<RealClock>(places.clock)};
  for (uint32_t other = 0; other < options.loops; ++other) {
    side.links.to_loops.push_back(
        OutTo(places.between[loop * options.loops + other],
              BellOf(places, options, other), kLeastCells));
    side.links.from_loops.push_back(InFrom(
        places.between[other * options.loops + loop], options.record_bytes));
  }
  if (options.reports) {
    side.links.controllers = At<ControllerEpoch>(places.controllers);
  }
  if (options.loggers) {
    side.links.to_loggers.emplace(OutTo(places.loggers[loop].log,
                                        At<Doorbell>(places.loggers_bell),
                                        LoggerCells(options)));
  }
  if (options.recovers) {
    side.links.from_loggers.emplace(
        InFrom(places.loggers[loop].answers, options.record_bytes));
    side.links.to_new_loggers.emplace(OutTo(places.loggers[loop].kept,
                                            At<Doorbell>(places.loggers_bell),
                                            KeptCells(options)));
    side.links.originals.emplace(places.originals, options.controller);
  }
  return side;
}

absl::StatusOr<LoopRegion::LoggersSide> LoopRegion::AttachLoggers(
    Memory memory, Memory own_memory, const Options& options,
    WireFaults& faults) {
  if (!options.loggers || memory.size() < SizeOf(options) ||
      own_memory.size() < OwnSizeOf(options)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loggers of ", options.loops, " loops in ", memory.size(),
                     " and ", own_memory.size(), " bytes of memory"));
  }
  const Places places(memory, options);
  const OwnPlaces own(own_memory, options);
  LoggersSide side = {.loops = {},
                      .bell = At<Doorbell>(places.loggers_bell),
                      .control = At<LoopControl>(own.stop)};
  for (size_t i = 0; i < options.loops; ++i) {
    const OwnPlaces::OfLoggers& loop = own.loggers[i];
    auto* const units_bell = At<Doorbell>(places.loops[i].bell);
    side.loops.push_back(
        {.units_bell = units_bell,
         .progress = At<LoopProgress>(loop.progress),
         .faults = &faults,
         .from_units = InFrom(places.loggers[i].log, options.entry_bytes),
         .to_controller = OutTo(loop.up, At<Doorbell>(places.bell),
                                options.controller_reserve)});
    if (!options.recovers) continue;
    side.loops.back().recovery.emplace(LoggerLoopLinks::Recovery{
        .from_controller = InFrom(loop.down, 0),
        .to_units = OutTo(places.loggers[i].answers, units_bell, kLeastCells),
        .kept = InFrom(places.loggers[i].kept, options.entry_bytes),
        .control = At<LogControl>(loop.control),
        .note = At<LogNote>(loop.note)});
  }
  return side;
}

}  // namespace snf
