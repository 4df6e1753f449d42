// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_OPTIONS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "platform/drivers/loops/isolation.h"
#include "platform/drivers/loops/pin_place.h"
#include "platform/hosts/host_place.h"
#include "platform/run/pace.h"
#include "runtime/core/unit_options.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/tables/cluster_homes.h"

namespace snf {

class AliasListener;
class LeaseFinder;
class LiveBoard;
class LoopHost;
class PacketWatch;
class RealDriver;
struct LiveFigures;

// Says how a run in real time is driven (real_driver.h). Plain data: command
// lines are parsed into it without the driver's own headers.
struct RealOptions {
  Speed speed;
  // Threads of the dispatcher, of workers and, of three or more, the last one
  // of output loggers, if there are any. 1: the caller's thread runs all.
  // 0: one for each CPU, at most kMaxThreads. Workers and loggers may be
  // processes.
  uint32_t threads = 0;
  static constexpr uint32_t kMaxThreads = 33;
  // If threads = 0 and there are at most two CPUs, the caller's thread runs
  // all: waking another thread takes longer than most NFs do, and the kernel
  // wants the other CPU.
  bool one_of_two_cpus = false;
  BufferPool::Options buffers = {.small = 32'768, .medium = 1'024, .large = 64};
  // Gives each thread a CPU of its own, in order, of those that the process may
  // use. Requires at most one thread for each such CPU.
  bool pin = false;
  // Tells CPUs of several runs side by side apart.
  PinPlace pin_place = {};
  // Says where loops of units run. Their loggers share one process.
  Isolation isolation = Isolation::kThread;
  // Units show each other the states of flows in memory of the host, in place
  // of pushes and of the bytes of answers. Each host has memory of its own.
  bool host_state = false;
  // Other hosts, where some loops of units run: with processes, and loggers,
  // which are on this host.
  HostPlaces hosts = {};
  // Tells the other hosts as they join and leave, in place of `hosts`, which
  // then has none; with a warm pool, and `own_units` processes of units at
  // least on this host. Null: hosts stay as they are.
  const HostSource* host_source = nullptr;
  uint32_t own_units = 1;
  // If present, each unit has a process that comes and goes with it, up to
  // kMaxUnitProcesses; this many processes wait, parked, for the next units.
  // The driver then chooses `threads`, units take as long to start as their
  // processes do, and the controller does not fail. If absent, all processes
  // run from the start to the end.
  std::optional<uint32_t> warm_pool = std::nullopt;
  static constexpr uint32_t kMaxUnitProcesses = 16;
  // The file of this program, for processes of units and loggers.
  std::string program = "/proc/self/exe";
  std::string command = "snf";  // the first word of their messages
  // How long threads look for work before they sleep, in all processes
  // (Doorbell::SetBusyPoll). If absent, Doorbell chooses. In this process, the
  // caller sets it by Doorbell::SetBusyPoll.
  std::optional<Nanos> busy_poll = std::nullopt;
  // Units serve as fast as they can instead of by unit_capacity_bps, and are
  // ready at once instead of after unit_start_delay.
  bool unpaced = false;
  // A packet without room waits, and so do later ones; else it is dropped. The
  // same holds for answers to packets that have not left the NF yet.
  bool wait_for_room = false;
  // A packet that has not moved for this long, on top of the longest stay that
  // the service model allows, is reported as one that never ends.
  Nanos patience = Seconds(10);
  // Once set, Offer does not wait any more; may be null.
  const std::atomic<bool>* interrupted = nullptr;
  uint32_t guard_every = UnitOptions{}.guard_every;
  // The Redis of StateMode::kExternal, as unix:/PATH or HOST:PORT; "": the
  // driver starts a server of its own.
  std::string redis = "";
  LiveBoard* live = nullptr;  // gets figures, unless it is null
  // Gets a line for each kill and recovery of a controller, or a process of
  // units or loggers; may be null. Called on the caller's thread, or each
  // controller's; in a live run on any thread, with lines of processes as well.
  std::function<void(std::string_view)> notice = nullptr;
  // The capture of packets on which the NF failed, in processes with loggers;
  // "": none.
  std::string failed_packets = "";
  // Adds to the board's figures; may be null. Called on the driver's thread.
  std::function<void(LiveFigures&)> amend = nullptr;
  // If present, processes of units and loggers outlive this process by
  // `patience` if it is killed. The next driver with the same socket, options
  // of units and program takes them over, and says so by `notice`. Whoever may
  // write into the socket's folder can take them over.
  struct Keep {
    std::string socket;
    Nanos patience;
    // Called after a takeover once the controller knows which pieces of pools
    // units have, before it gives other pieces away; may be null.
    std::function<void(RealDriver&)> settle = nullptr;
    // False: the driver adopts no processes that wait at the socket.
    bool takes_over = true;
  };
  std::optional<Keep> keep = std::nullopt;
  // Processes that are kept stay, so there is no warm pool then.
  void KeepBy(Keep by) {
    keep = std::move(by);
    warm_pool.reset();
  }
  // Watches the packets that leave or are dropped; may be null.
  PacketWatch* watch = nullptr;
  // Number of controllers that share the NF's pools; ControllerOptions names
  // this run's controller.
  uint32_t controllers = 1;
  AliasListener* aliases = nullptr;  // gets all aliases, unless it is null
  // Null, or the homes of the NF's shared tables, which several controllers
  // have in common. Units are threads then.
  ClusterHomes* tables = nullptr;
  // Runs the loops of units that controllers share and this one leases;
  // `threads` is then 1 and its own. Null: the driver runs them.
  LoopHost* host = nullptr;
  // Finds the leases of the controller after a failure. Null: the controller
  // leases no units.
  LeaseFinder* lease_finder = nullptr;
  // Tells observers how long units were busy: by their capacity, or else by the
  // clock.
  bool measures_busy = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_REAL_OPTIONS_H_
