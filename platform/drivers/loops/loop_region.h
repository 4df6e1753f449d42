// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_LOOP_REGION_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_LOOP_REGION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/live/controller_loop.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/unit_loop.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/shared_region.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// Memory in which packets lie, and links, between a controller's loop and loops
// of units. Its parts are handed to the loops, which it has to outlive.
//
// Where all loops trust each other, as threads of one process do, one memory is
// enough: a packet is where it is, whichever loop has it, and loops of units
// have links to each other.
//
// Else each loop of units has memory *apart*, and its process maps nothing
// else:
//
//   controller's:  packets
//   loop i's:      packets · links to and from the controller, its loggers, and
//                  a relay of messages about state · clock, bells
//
// All pools of packets have the same shares, so a handle names the same place
// in each. The controller copies a packet into the memory of the loop that it
// sends it to, and back when it hears what became of it. So the packet itself
// is kept as it came, in case that loop dies, and no unit can change it once it
// is told of. Messages from loop to loop are relayed (StateRelay). The
// controller and the loggers, which run no foreign code, map all of it.
struct LoopRegion {
  struct Options {
    BufferPool::Options controller;  // its share of the buffers
    BufferPool::Options loop;        // the share of each loop of units
    uint32_t loops = 1;
    bool apart = false;         // each loop of units has memory of its own
    uint32_t record_bytes = 0;  // of the NF's state
    uint32_t controller_cells = 1'024;  // of a link to or from the controller
    size_t controller_reserve = 8'192;  // cells that may wait at such a link
    // The units have output loggers, to which entries of so many bytes go at
    // most.
    bool loggers = false;
    uint32_t entry_bytes = 0;
    uint32_t logger_cells = 4'096;  // of a link to loggers; or some entries
    // The loops of units, which have loggers, may end while others go on.
    bool recovers = false;
    // The controller may fail; units have loggers, whose NF has pools of so
    // many words in all.
    bool reports = false;
    uint32_t piece_words = 0;
    // The bells of loops of units that share threads with others, by loop; null
    // if they have bells of their own, in the memory.
    Doorbell* const* bells = nullptr;
  };
  // Holds what the controller's process has of a loop of units.
  struct Loop {
    Doorbell* bell;
    LoopProgress* progress;
    LoopControl* control;
    LogControl* log_control = nullptr;  // of its loggers, if loops may end
    // The loop reads the time from it. All loops share one, unless each has
    // memory of its own.
    RealClock* clock = nullptr;
    // Rings from all loops of units, for has_mail.
    std::vector<std::span<std::byte>> from_loops{};

    // Returns true if other loops of units have sent what was not handled yet.
    // Of a loop that does not run; any thread.
    bool has_mail() const;
  };
  // Errors as SharedRegion::Create and BufferPool::Format.
  static absl::StatusOr<LoopRegion> Create(const Options& options);
  // Returns what the controller's process has of the memory that another
  // process has made so, which is dead: its ends of the links go on from where
  // they are. `fds` are descriptors, which stay the caller's, in the order of
  // memory_fds. With Options::apart. Errors: as SharedRegion::Map;
  // InvalidArgument if the memory cannot be that.
  static absl::StatusOr<LoopRegion> Adopt(const Options& options,
                                          std::span<const int> fds);
  // Returns new memory of its own for a loop of units, as Create makes it.
  static absl::StatusOr<SharedRegion> CreateApart(const Options& options,
                                                  uint32_t loop);
  // Returns the descriptors of all memory: of the loops of units, of what the
  // controller and the loggers have between them, and of the controller's.
  std::vector<int> memory_fds() const;

  // Returns what connects a loop of units, and the clock of the run, in its
  // memory (memory_of) that Create has made with these options, in this process
  // or another one. Call it once for each loop, and once more for each time
  // that it has ended, once all that it left is taken. Errors: InvalidArgument
  // if the memory cannot be that.
  struct UnitSide {
    UnitLoopLinks links;
    const RealClock* clock;
  };
  static absl::StatusOr<UnitSide> Attach(std::span<std::byte> memory,
                                         const Options& options, uint32_t loop,
                                         WireFaults& faults);

  // Returns what connects the loops of loggers, by loop of units, in the same
  // way: `memories` are those of all loops of units (memory_of), by loop, and
  // `own` is what Create has made beside them. Call it once for each process of
  // loggers; the one before must have ended.
  struct LoggersSide {
    std::vector<LoggerLoopLinks> loops;
    std::vector<Doorbell*> bells;  // of who runs all of them
    LoopControl* control;          // when that is to stop
  };
  static absl::StatusOr<LoggersSide> AttachLoggers(
      std::span<const std::span<std::byte>> memories, std::span<std::byte> own,
      const Options& options, WireFaults& faults);

  // Makes what the next process of a loop of units finds in its memory, as
  // Create has: the last one may have written nonsense there. Call it once that
  // has ended, and all that it left is taken. What the loop shares with others
  // they have put right: the rings (LinkIn::SkipAll), the clock, and what
  // controllers tell. LoopControl holds `logger_process` and `ends`.
  // With Options::apart.
  static void Renew(std::span<std::byte> memory, const Options& options,
                    uint32_t logger_process, uint32_t ends);

  // Returns the memory that a loop of units maps.
  const SharedRegion& memory_of(uint32_t loop) const {
    return apart.empty() ? memory : apart[loop];
  }
  // Returns those of all, for AttachLoggers.
  std::vector<std::span<std::byte>> memories() const;
  // So much of it, and of own_memory, is to have its pages in advance
  // (SharedRegion::Map).
  static size_t InAdvance(const Options& options);
  static size_t OwnInAdvance(const Options& options);

  SharedRegion memory;
  // Holds the memory of each loop of units, by loop, if each has its own.
  std::vector<SharedRegion> apart;
  // What the controller and the loggers have between them, if there are
  // loggers: units do not map it.
  std::optional<SharedRegion> own_memory;
  std::unique_ptr<WireFaults> faults;  // what the controller's process finds
  BufferPool buffers;                  // the controller's
  RealClock* clock;
  ControllerLinks controller;  // `buffers` is left to its owner
  std::vector<Loop> loops;
  Doorbell* loggers_bell = nullptr;        // of who runs the loggers
  LoopControl* loggers_control = nullptr;  // the same

 private:
  struct Memories {
    SharedRegion all;
    std::vector<SharedRegion> apart;
    std::optional<SharedRegion> own;
  };
  static absl::StatusOr<LoopRegion> Make(const Options& options,
                                         Memories memories, bool is_new);
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_LOOP_REGION_H_
