// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_UNIT_PROCESS_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_UNIT_PROCESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/drivers/loops/host_mapping.h"
#include "platform/drivers/loops/host_memories.h"
#include "platform/drivers/loops/isolation.h"
#include "platform/drivers/loops/loop_region.h"
#include "platform/hosts/host_place.h"
#include "platform/modules/module_stand_ins.h"
#include "platform/process/command.h"
#include "platform/service/tls_files.h"
#include "resource_manager/launch/launch_server.h"
#include "runtime/live/host_store.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/unit_loop.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// Sets up the process of a loop of units, or of all loops of loggers, which is
// the same program. The bytes of a LaunchedNf follow.
struct UnitProcessSetup {
  LoopRegion::Options region;
  UnitLoopOptions loop;       // `index` is the process's own
  LoggerLoopOptions loggers;  // of the first loop of them
  Nanos nf_patience;
  Nanos busy_poll{-1};  // RealOptions::busy_poll; negative: by default
  Isolation isolation = Isolation::kProcess;
  // Number of processes of units that are started at once, with the loggers';
  // the others are started on demand.
  uint32_t at_once = ~uint32_t{0};
  // Each process runs the NF once, with a packet of its own, before it is
  // ready.
  bool rehearses = false;
  // Hosts where some processes of units run.
  HostPlaces hosts{};
  // Records that the units of this host show each other; no slots: none.
  HostStore::Options host_store{};
  HostMemoryKey host_key{};  // of these records, on other hosts
  // The argument of each start is the HostPlace of the process; no processes:
  // this host.
  bool places_change = false;
  std::array<char, 64> command{};  // named first in messages; ends with a zero

  // Returns the set-up, followed by the bytes of a LaunchedNf.
  std::vector<std::byte> WithNf(const std::string& launched) const;

  // Counts processes: one for each loop of units, then one for all loggers.
  uint32_t processes() const { return region.loops + (region.loggers ? 1 : 0); }
  // Counts the descriptors that UnitProcessMain gets.
  size_t descriptors() const {
    return 2 * size_t{processes()} + (host_store.slots > 0 ? 2 : 0);
  }
  bool is_at_once(size_t process) const {
    return process < at_once || process == region.loops;
  }
};
static_assert(std::is_trivially_copyable_v<UnitProcessSetup>);

// Returns the process of a loop of units. The NF, and what `region`, `socket`
// and `host` are of, must outlive it.
LaunchMethod::Process ProcessOfUnits(const UnitProcessSetup& setup,
                                     const ReadNf& nf, uint32_t loop,
                                     int region, int socket,
                                     const HostDescriptors& host = {});
// Returns the way to start processes of the NF. Errors: those of
// ContainerMethod::Make.
absl::StatusOr<std::unique_ptr<LaunchMethod>> MethodOf(Isolation isolation,
                                                       const ReadNf& nf);

// The command that the program is called by, as a process of units.
inline constexpr std::string_view kUnitProcessCommand = "unit-process";
// Is called with the descriptor of a launcher's socket (launcher.h), whose
// descriptors are the memories of all loops of units, what the controller and
// loggers have between them, if there are loggers, HostDescriptors, if units
// show each other their records, and a socket for each process. Starts the
// processes, each of which gets what is its own and no more, and returns when
// the socket is closed.
int UnitProcessMain(int socket);

// --- Units on other hosts (host_units.cc). ---

// Counts the loops of which the last ones may be on other hosts: the loops of
// spare units are on this host, since spare units only replace failed ones.
uint32_t PlacedLoops(uint32_t loops, uint32_t max_units);

// Is the process of the loop of units `setup.loop.index`, which runs on that
// host (HomeSide), in place of a process of this host. `nf` has the bytes
// of a LaunchedNf. Returns the exit code if the host starts nothing;
// else ends as the process there does.
int RunUnitsOnHost(const UnitProcessSetup& setup, const HostPlace& host,
                   std::span<const std::byte> nf, int region, int socket);

// Serves a daemon that has connected to this host's agent: starts a process of
// units as RunUnitsOnHost asks, and returns the exit code once it has ended. In
// a process of its own with one thread. With `files` the connection is
// encrypted; else the pointer is null. `takes_geneve` lets the daemon ask for
// HostWire::kGeneve. `memories` is for HostMemories::Ask.
int ServeHostSession(int socket, int memories, const TlsFiles* files,
                     bool takes_geneve);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_UNIT_PROCESS_H_
