// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_LOOP_PLACES_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_LOOP_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "platform/drivers/loops/loop_region.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/shared_region.h"

namespace snf {

// Where everything lies in the memories of a LoopRegion. The same options give
// the same places in each process. A part that there is not is empty.

using Memory = std::span<std::byte>;

// Returns the object there. Objects live where their bytes are, in whichever
// process made them.
template <typename T>
T* At(Memory memory) {
  return std::launder(reinterpret_cast<T*>(memory.data()));
}

// Returns how many cells the links have: between loops of units, which have
// room for some messages with the largest record; from and to a relay; to
// loggers, which hold the largest entry; and by which units hand over what they
// keep.
uint32_t UnitCells(const LoopRegion::Options& options);
uint32_t RelayCells(const LoopRegion::Options& options);
uint32_t LoggerCells(const LoopRegion::Options& options);
uint32_t KeptCells(const LoopRegion::Options& options);

std::vector<BufferPool::Options> SharesOf(const LoopRegion::Options& options);

// Says where the parts of a loop of units lie in its memory.
struct LoopPlaces {
  Memory bell;
  Memory progress;
  Memory control;
  Memory down;  // the rings from and to the controller
  Memory up;
  // Rings from loops of units: from all of them, by index; or, of a loop that
  // has memory of its own, from itself, and then from the relay.
  std::vector<Memory> from_loops;
  Memory log;      // if there are loggers: the ring to them
  Memory answers;  // of loops that may end: from them,
  Memory kept;     // and what units hand over to new ones
  // Of a loop that has memory of its own:
  Memory clock;
  Memory controllers;  // a ControllerEpoch
  Memory controller_bell;
  Memory loggers_bell;
  Memory to_relay;
  Memory pool;

  LoopPlaces(RegionCarver& carver, const LoopRegion::Options& options);
  static size_t BytesFor(const LoopRegion::Options& options);
  // Returns how many of these bytes get pages in advance: all but most of the
  // packets.
  static size_t BytesInAdvance(const LoopRegion::Options& options);
};

// What the controller's process has, and where loops of units have none of
// their own, all of these as well.
struct Places {
  Memory pool;
  Memory clock;
  Memory bell;         // the controller's
  Memory controllers;  // a ControllerEpoch
  Memory loggers_bell;
  std::vector<Memory> notes;  // by loop: a ControllerNote, if it may fail
  std::vector<LoopPlaces> loops;

  Places(Memory memory, const LoopRegion::Options& options);
  static size_t BytesFor(const LoopRegion::Options& options);
};

// Says where the parts lie that only the controller and the loggers map.
struct OwnPlaces {
  struct OfLoggers {
    Memory progress;
    Memory up;         // the ring to the controller
    Memory control{};  // of loops that may end, as what follows
    Memory note{};
    Memory down{};    // the ring from the controller
    Memory ledger{};  // of pieces, if the controller may fail
  };
  Memory stop;                     // a LoopControl
  Memory bell;                     // the loggers', which the controller rings
  Memory controller_bell;          // the controller's, which the loggers ring
  std::vector<OfLoggers> loggers;  // by loop of units

  OwnPlaces(Memory memory, const LoopRegion::Options& options);
  static size_t BytesFor(const LoopRegion::Options& options);
  // Returns how many of these bytes get pages in advance: all but the ledgers.
  static size_t BytesInAdvance(const LoopRegion::Options& options);
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_LOOP_PLACES_H_
