// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/loop_region.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "platform/drivers/loops/loop_places.h"
#include "runtime/wire/link_payload.h"

namespace snf {
namespace {

constexpr size_t kUnitReserve = 512;  // cells that may wait at a link of units

void MakeRing(Memory memory, uint32_t cells) {
  SNF_CHECK(CellRing::Format(memory, cells).ok());
}

LinkOut OutTo(Memory ring, Doorbell* receiver, size_t reserve) {
  return {*CellRing::Producer::Attach(ring, receiver), reserve};
}

LinkIn InFrom(Memory ring, size_t max_payload_bytes) {
  return {*CellRing::Consumer::Attach(ring), max_payload_bytes};
}

// --- What Create makes. ---

absl::Status MakePool(Memory memory, const LoopRegion::Options& options) {
  return BufferPool::Format(memory, SharesOf(options));
}

absl::Status MakeLoop(const LoopPlaces& loop,
                      const LoopRegion::Options& options) {
  new (loop.bell.data()) Doorbell;
  new (loop.progress.data()) LoopProgress;
  new (loop.control.data()) LoopControl;
  MakeRing(loop.down, options.controller_cells);
  MakeRing(loop.up, options.controller_cells);
  for (size_t i = 0; i < loop.from_loops.size(); ++i) {
    const bool is_relays = options.apart && i > 0;
    MakeRing(loop.from_loops[i],
             is_relays ? RelayCells(options) : UnitCells(options));
  }
  if (options.loggers) MakeRing(loop.log, LoggerCells(options));
  if (options.recovers) {
    MakeRing(loop.answers, UnitCells(options));
    MakeRing(loop.kept, KeptCells(options));
  }
  if (!options.apart) return absl::OkStatus();
  new (loop.clock.data()) RealClock;
  new (loop.controllers.data()) ControllerEpoch;
  new (loop.controller_bell.data()) Doorbell;
  new (loop.loggers_bell.data()) Doorbell;
  MakeRing(loop.to_relay, RelayCells(options));
  return MakePool(loop.pool, options);
}

absl::Status MakeParts(const Places& places,
                       const LoopRegion::Options& options) {
  new (places.clock.data()) RealClock;
  new (places.bell.data()) Doorbell;
  new (places.controllers.data()) ControllerEpoch;
  new (places.loggers_bell.data()) Doorbell;
  for (const Memory note : places.notes) new (note.data()) ControllerNote;
  return MakePool(places.pool, options);
}

void MakeOwnParts(const OwnPlaces& places, const LoopRegion::Options& options) {
  new (places.stop.data()) LoopControl;
  new (places.bell.data()) Doorbell;
  new (places.controller_bell.data()) Doorbell;
  for (const OwnPlaces::OfLoggers& loop : places.loggers) {
    new (loop.progress.data()) LoopProgress;
    MakeRing(loop.up, options.controller_cells);
    if (!options.recovers) continue;
    new (loop.control.data()) LogControl;
    new (loop.note.data()) LogNote;
    MakeRing(loop.down, options.controller_cells);
  }
}

// Returns the places of all loops.
std::vector<LoopPlaces> LoopsOf(const Places& places,
                                std::span<const Memory> memories,
                                const LoopRegion::Options& options) {
  if (!options.apart) return places.loops;
  std::vector<LoopPlaces> loops;
  for (const Memory memory : memories) {
    RegionCarver carver(memory);
    loops.emplace_back(carver, options);
  }
  return loops;
}

// The bell of a loop of units.
Doorbell* BellOf(const std::vector<LoopPlaces>& loops,
                 const LoopRegion::Options& options, uint32_t loop) {
  return options.bells != nullptr ? options.bells[loop]
                                  : At<Doorbell>(loops[loop].bell);
}

// Adds what the controller's process has of a loop of units.
void AddLoop(const LoopRegion::Options& options, const LoopPlaces& loop,
             Doorbell* bell, LoopRegion& region) {
  region.loops.push_back({.bell = bell,
                          .progress = At<LoopProgress>(loop.progress),
                          .control = At<LoopControl>(loop.control),
                          .clock = region.clock,
                          .from_loops = loop.from_loops});
  region.controller.loops.push_back(
      {.out = OutTo(loop.down, bell, options.controller_reserve),
       .in = InFrom(loop.up, kMaxPayloadToController),
       .progress = region.loops.back().progress,
       .bell = bell});
  if (!options.apart) return;
  region.loops.back().clock = At<RealClock>(loop.clock);
  region.controller.loops.back().controllers =
      At<ControllerEpoch>(loop.controllers);
  region.controller.other_bells.push_back(At<Doorbell>(loop.controller_bell));
  region.controller.relayed.push_back(
      {.from = InFrom(loop.to_relay, options.record_bytes),
       .to = OutTo(loop.from_loops[1], bell, RelayCells(options))});
  region.controller.copies.push_back(
      *BufferPool::Attach(loop.pool, BufferPool::Party{0}));
}

// Adds what the controller's process has of the loops of loggers.
void AddLoggers(const LoopRegion::Options& options, const Places& places,
                const OwnPlaces& own, LoopRegion& region) {
  region.loggers_bell =
      At<Doorbell>(options.apart ? own.bell : places.loggers_bell);
  region.loggers_control = At<LoopControl>(own.stop);
  if (options.apart) {
    region.controller.other_bells.push_back(At<Doorbell>(own.controller_bell));
  }
  for (size_t i = 0; i < options.loops; ++i) {
    const OwnPlaces::OfLoggers& loop = own.loggers[i];
    region.controller.loggers.push_back(
        {.in = InFrom(loop.up, kMaxPayloadToController),
         .progress = At<LoopProgress>(loop.progress)});
    if (options.reports) {
      region.controller.loggers.back().note =
          At<ControllerNote>(places.notes[i]);
    }
    if (!options.recovers) continue;
    ControllerLinks::LoggerLoopEnd& end = region.controller.loggers.back();
    end.out.emplace(
        OutTo(loop.down, region.loggers_bell, options.controller_reserve));
    end.control = At<LogControl>(loop.control);
    end.bell = region.loggers_bell;
    region.loops[i].log_control = end.control;
  }
}

absl::StatusOr<SharedRegion> NewApart(const LoopRegion::Options& options,
                                      uint32_t loop) {
  return SharedRegion::Create({.name = absl::StrCat("snf loop ", loop),
                               .bytes = LoopPlaces::BytesFor(options),
                               .in_advance = LoopRegion::InAdvance(options)});
}

absl::StatusOr<std::vector<SharedRegion>> MakeApart(
    const LoopRegion::Options& options) {
  std::vector<SharedRegion> memories;
  for (uint32_t i = 0; options.apart && i < options.loops; ++i) {
    auto memory = NewApart(options, i);
    if (!memory.ok()) return memory.status();
    memories.push_back(*std::move(memory));
  }
  return memories;
}

}  // namespace

size_t LoopRegion::InAdvance(const Options& options) {
  return options.apart ? LoopPlaces::BytesInAdvance(options)
                       : SharedRegion::kAll;
}

size_t LoopRegion::OwnInAdvance(const Options& options) {
  return OwnPlaces::BytesInAdvance(options);
}

void LoopRegion::Renew(Memory memory, const Options& options,
                       uint32_t logger_process, uint32_t ends) {
  SNF_CHECK(options.apart);
  RegionCarver carver(memory);
  const LoopPlaces loop(carver, options);
  LoopControl& control = *At<LoopControl>(loop.control);
  control.stops = control.stops_timers = false;
  control.logger_process = logger_process;
  control.ends = ends;
  MakeRing(loop.from_loops[0], UnitCells(options));
  SNF_CHECK(MakePool(loop.pool, options).ok());
}

std::vector<Memory> LoopRegion::memories() const {
  std::vector<Memory> all;
  for (const SharedRegion& of_loop : apart) all.push_back(of_loop.bytes());
  if (all.empty()) all.push_back(memory.bytes());
  return all;
}

absl::StatusOr<LoopRegion> LoopRegion::Create(const Options& options) {
  auto memory =
      SharedRegion::Create({.name = "snf", .bytes = Places::BytesFor(options)});
  if (!memory.ok()) return memory.status();
  auto apart = MakeApart(options);
  if (!apart.ok()) return apart.status();
  std::optional<SharedRegion> own_memory;
  if (options.loggers) {
    auto own = SharedRegion::Create({.name = "snf own",
                                     .bytes = OwnPlaces::BytesFor(options),
                                     .in_advance = OwnInAdvance(options)});
    if (!own.ok()) return own.status();
    own_memory = *std::move(own);
  }
  return Make(options,
              {.all = *std::move(memory),
               .apart = *std::move(apart),
               .own = std::move(own_memory)},
              /*is_new=*/true);
}

absl::StatusOr<LoopRegion> LoopRegion::Adopt(const Options& options,
                                             std::span<const int> fds) {
  const size_t count = size_t{options.loops} + 1 + (options.loggers ? 1 : 0);
  if (!options.apart || fds.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory of ", options.loops, " loops in ", fds.size(), " descriptors"));
  }
  std::vector<SharedRegion> mapped;
  for (size_t i = 0; i < count; ++i) {
    const bool is_of_loop = i < options.loops;
    const bool is_own = !is_of_loop && i + 1 < count;
    const size_t bytes = is_of_loop ? LoopPlaces::BytesFor(options)
                         : is_own   ? OwnPlaces::BytesFor(options)
                                    : Places::BytesFor(options);
    auto memory = SharedRegion::Map(fds[i], is_of_loop ? InAdvance(options)
                                            : is_own   ? OwnInAdvance(options)
                                                       : SharedRegion::kAll);
    if (!memory.ok()) return memory.status();
    if (memory->bytes().size() < bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "memory of ", memory->bytes().size(), " bytes, not ", bytes));
    }
    mapped.push_back(*std::move(memory));
  }
  SharedRegion all = std::move(mapped.back());
  mapped.pop_back();
  std::optional<SharedRegion> own;
  if (options.loggers) {
    own = std::move(mapped.back());
    mapped.pop_back();
  }
  return Make(options,
              {.all = std::move(all),
               .apart = std::move(mapped),
               .own = std::move(own)},
              /*is_new=*/false);
}

absl::StatusOr<SharedRegion> LoopRegion::CreateApart(const Options& options,
                                                     uint32_t loop) {
  auto memory = NewApart(options, loop);
  if (!memory.ok()) return memory.status();
  RegionCarver carver(memory->bytes());
  absl::Status status = MakeLoop(LoopPlaces(carver, options), options);
  if (!status.ok()) return status;
  return memory;
}

std::vector<int> LoopRegion::memory_fds() const {
  std::vector<int> fds;
  for (const SharedRegion& of_loop : apart) fds.push_back(of_loop.fd());
  if (own_memory.has_value()) fds.push_back(own_memory->fd());
  fds.push_back(memory.fd());
  return fds;
}

absl::StatusOr<LoopRegion> LoopRegion::Make(const Options& options,
                                            Memories memories, bool is_new) {
  const Places places(memories.all.bytes(), options);
  if (is_new) {
    if (absl::Status s = MakeParts(places, options); !s.ok()) return s;
  }
  auto buffers = BufferPool::Attach(places.pool, BufferPool::Party{0});
  if (!buffers.ok()) return buffers.status();
  LoopRegion region = {.memory = std::move(memories.all),
                       .apart = std::move(memories.apart),
                       .own_memory = std::move(memories.own),
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
  region.controller.record_bytes = options.record_bytes;
  const auto loops = LoopsOf(places, region.memories(), options);
  for (uint32_t i = 0; i < options.loops; ++i) {
    if (is_new) {
      if (absl::Status s = MakeLoop(loops[i], options); !s.ok()) return s;
    }
    AddLoop(options, loops[i], BellOf(loops, options, i), region);
  }
  if (options.loggers) {
    const OwnPlaces own(region.own_memory->bytes(), options);
    if (is_new) MakeOwnParts(own, options);
    AddLoggers(options, places, own, region);
  }
  return region;
}

bool LoopRegion::Loop::has_mail() const {
  return std::ranges::any_of(from_loops, RingHasItems);
}

// --- What loops of units get. ---

namespace {

// Adds the links to other loops of units.
void AddOthers(const LoopRegion::Options& options,
               const std::vector<LoopPlaces>& loops, uint32_t loop,
               Doorbell* controller_bell, UnitLoopLinks& links) {
  for (const Memory ring : loops[options.apart ? 0 : loop].from_loops) {
    links.from_loops.push_back(InFrom(ring, options.record_bytes));
  }
  if (!options.apart) {
    for (uint32_t other = 0; other < options.loops; ++other) {
      links.to_loops.push_back(OutTo(loops[other].from_loops[loop],
                                     BellOf(loops, options, other),
                                     kUnitReserve));
    }
    return;
  }
  links.is_relayed = true;
  links.to_loops.push_back(
      OutTo(loops[0].from_loops[0], links.bell, kUnitReserve));
  links.to_loops.push_back(
      OutTo(loops[0].to_relay, controller_bell, kUnitReserve));
}

}  // namespace

absl::StatusOr<LoopRegion::UnitSide> LoopRegion::Attach(Memory memory,
                                                        const Options& options,
                                                        uint32_t loop,
                                                        WireFaults& faults) {
  const size_t bytes =
      options.apart ? LoopPlaces::BytesFor(options) : Places::BytesFor(options);
  if (loop >= options.loops || memory.size() < bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("loop ", loop, " of ", options.loops, " in ",
                     memory.size(), " bytes of memory"));
  }
  // Of loops that have memory of their own, it knows no other.
  std::optional<Places> all;
  std::vector<LoopPlaces> loops;
  if (options.apart) {
    RegionCarver carver(memory);
    loops.emplace_back(carver, options);
  } else {
    loops = all.emplace(memory, options).loops;
  }
  const LoopPlaces& own = loops[options.apart ? 0 : loop];
  const auto common = [&](Memory LoopPlaces::*apart, Memory Places::*of_all) {
    return options.apart ? own.*apart : (*all).*of_all;
  };
  auto buffers =
      BufferPool::Attach(common(&LoopPlaces::pool, &Places::pool),
                         BufferPool::Party{static_cast<uint8_t>(loop + 1)});
  if (!buffers.ok()) return buffers.status();
  auto* const controller_bell =
      At<Doorbell>(common(&LoopPlaces::controller_bell, &Places::bell));
  auto* const loggers_bell =
      At<Doorbell>(common(&LoopPlaces::loggers_bell, &Places::loggers_bell));
  UnitSide side = {
      .links = {.buffers = *std::move(buffers),
                .bell = options.apart ? At<Doorbell>(own.bell)
                                      : BellOf(loops, options, loop),
                .progress = At<LoopProgress>(own.progress),
                .control = At<LoopControl>(own.control),
                .faults = &faults,
                .from_controller = InFrom(own.down, kMaxPayloadFromController),
                .to_controller =
                    OutTo(own.up, controller_bell, options.controller_reserve),
                .from_loops = {},
                .to_loops = {}},
      .clock = At<RealClock>(common(&LoopPlaces::clock, &Places::clock))};
  AddOthers(options, loops, loop, controller_bell, side.links);
  if (options.reports) {
    side.links.controllers = At<ControllerEpoch>(
        common(&LoopPlaces::controllers, &Places::controllers));
  }
  if (options.loggers) {
    side.links.to_loggers.emplace(
        OutTo(own.log, loggers_bell, LoggerCells(options)));
  }
  if (options.recovers) {
    side.links.from_loggers.emplace(InFrom(own.answers, options.record_bytes));
    side.links.to_new_loggers.emplace(
        OutTo(own.kept, loggers_bell, KeptCells(options)));
  }
  return side;
}

// --- What loops of loggers get. ---

absl::StatusOr<LoopRegion::LoggersSide> LoopRegion::AttachLoggers(
    std::span<const Memory> memories, Memory own_memory, const Options& options,
    WireFaults& faults) {
  const size_t count = options.apart ? options.loops : 1;
  const size_t bytes =
      options.apart ? LoopPlaces::BytesFor(options) : Places::BytesFor(options);
  const auto holds = [bytes](Memory memory) { return memory.size() >= bytes; };
  if (!options.loggers || memories.size() != count ||
      !std::ranges::all_of(memories, holds) ||
      own_memory.size() < OwnPlaces::BytesFor(options)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "loggers of ", options.loops, " loops in ", memories.size(),
        " memories, and ", own_memory.size(), " bytes"));
  }
  const OwnPlaces own(own_memory, options);
  std::optional<Places> all;
  std::vector<LoopPlaces> loops;
  LoggersSide side = {
      .loops = {}, .bells = {}, .control = At<LoopControl>(own.stop)};
  if (options.apart) {
    side.bells.push_back(At<Doorbell>(own.bell));
    for (const Memory memory : memories) {
      RegionCarver carver(memory);
      loops.emplace_back(carver, options);
      side.bells.push_back(At<Doorbell>(loops.back().loggers_bell));
    }
  } else {
    all.emplace(memories[0], options);
    loops = all->loops;
    side.bells.push_back(At<Doorbell>(all->loggers_bell));
  }
  auto* const controller_bell =
      At<Doorbell>(options.apart ? own.controller_bell : all->bell);
  for (uint32_t i = 0; i < options.loops; ++i) {
    const OwnPlaces::OfLoggers& loop = own.loggers[i];
    Doorbell* const units_bell = BellOf(loops, options, i);
    side.loops.push_back(
        {.units_bell = units_bell,
         .progress = At<LoopProgress>(loop.progress),
         .faults = &faults,
         .from_units = InFrom(loops[i].log, options.entry_bytes),
         .to_controller =
             OutTo(loop.up, controller_bell, options.controller_reserve),
         .ledger = loop.ledger});
    if (!options.recovers) continue;
    side.loops.back().recovery.emplace(LoggerLoopLinks::Recovery{
        .from_controller = InFrom(loop.down, kMaxPayloadFromController),
        .to_units = OutTo(loops[i].answers, units_bell, kUnitReserve),
        .kept = InFrom(loops[i].kept, options.entry_bytes),
        .control = At<LogControl>(loop.control),
        .note = At<LogNote>(loop.note)});
  }
  return side;
}

}  // namespace snf
