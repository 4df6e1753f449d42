// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RUN_H_
#define SNF_PLATFORM_RUN_RUN_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/packet/classifier.h"
#include "base/packet/ip_prefix.h"
#include "base/time.h"
#include "controller/core/controller_counters.h"
#include "controller/core/options.h"
#include "platform/run/epoch_series.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf_report.h"
#include "runtime/shell/log_figures.h"
#include "runtime/shell/state_figures.h"
#include "runtime/store/store_options.h"

namespace snf {

// Says what the network does to the messages about state between units (Push,
// State, Pull, Takeover, TakeoverAck), drawn from the seed, and what becomes of
// starts of units. Different delays also reorder.
struct ChaosOptions {
  Nanos state_delay_min;  // on top of the delays of RunOptions
  Nanos state_delay_max;
  uint32_t state_loss_65536 = 0;       // messages lost, of 65,536
  uint32_t state_duplicate_65536 = 0;  // messages that arrive twice
  uint32_t start_failure_65536 = 0;    // starts of units that never end
  // The same trouble between units and their output loggers.
  Nanos logger_delay_min{};
  Nanos logger_delay_max{};
  uint32_t logger_loss_65536 = 0;
  uint32_t logger_duplicate_65536 = 0;
  // The same for messages about leases, of several controllers.
  Nanos lease_delay_min{};
  Nanos lease_delay_max{};
  uint32_t lease_loss_65536 = 0;
  uint32_t lease_duplicate_65536 = 0;
  // Messages about state meet with trouble.
  bool any() const {
    return state_delay_max.ns > 0 || state_loss_65536 > 0 ||
           state_duplicate_65536 > 0;
  }
  // Returns true if messages between units and their loggers suffer it.
  bool meets_loggers() const {
    return logger_delay_max.ns > 0 || logger_loss_65536 > 0 ||
           logger_duplicate_65536 > 0;
  }
  // Returns true if messages about leases suffer it.
  bool meets_leases() const {
    return lease_delay_max.ns > 0 || lease_loss_65536 > 0 ||
           lease_duplicate_65536 > 0;
  }
};

// Says which host or process is killed, and when.
//
// A unit's host loses the unit's process and all packets in it; messages that
// it sent still arrive. If it has several units (ControllerOptions::
// units_per_host), kUnit kills that unit alone. kHost kills all units of the
// host, and the loggers on it, which serve units of another host. Another
// process of the unit starts when the controller wants it. A logger's host
// loses the entries that came and were not released; a logger's process keeps
// these in its ring, but for the packet that it was about to send. Another
// logger takes its place. The resource manager of several controllers loses all
// that it knew.
struct Kill {
  enum class Victim : uint8_t {
    kUnit,
    kHost,
    kLoggerHost,
    kLoggerProcess,
    kController,
    kManager,
  };
  static constexpr int kAnyController = -1;
  static constexpr int kAnyHost = -1;

  bool is_of_unit() const { return victim == Victim::kUnit; }
  bool is_of_host() const { return victim == Victim::kHost; }
  bool is_of_controller() const { return victim == Victim::kController; }
  bool is_of_manager() const { return victim == Victim::kManager; }
  bool is_of_logger() const {
    return victim == Victim::kLoggerHost || victim == Victim::kLoggerProcess;
  }

  Victim victim = Victim::kUnit;
  UnitId unit = kNoUnit;  // or the logger's unit; kNoUnit: any that runs
  int host = kAnyHost;    // by HostMap; below 0: any on which a unit runs
  int controller = kAnyController;  // of several
  Nanos at{-1};             // after the first packet; below 0: by chance
  uint32_t chance_65536{};  // … with each packet that comes, of 65,536
};

// A controller of several joins the others, or leaves them in good order.
struct MemberChange {
  bool joins = false;
  int controller =
      Kill::kAnyController;  // that leaves; new ones are numbered on
  Nanos at{};                // after the first packet
};

// Says which units and loggers die, and when; by chance means drawn from the
// seed.
struct FaultOptions {
  std::vector<Kill> kills;
  std::vector<MemberChange> changes;
  // Until the controller knows of a unit's death, or until another logger,
  // controller or resource manager begins to take over.
  Nanos detection = Milliseconds(1);
  // Returns true if more than resource managers may die.
  bool any() const { return !std::ranges::all_of(kills, &Kill::is_of_manager); }
  bool any_of_hosts() const {
    return std::ranges::any_of(kills, &Kill::is_of_host);
  }
  // Hosts have units and loggers.
  bool any_of_units() const {
    return any_of_hosts() || std::ranges::any_of(kills, &Kill::is_of_unit);
  }
  bool any_of_loggers() const {
    return any_of_hosts() || std::ranges::any_of(kills, &Kill::is_of_logger);
  }
  bool any_controller() const {
    return std::ranges::any_of(kills, &Kill::is_of_controller);
  }
};

// After the last packet, timers of NFs run for at most this long, in the time
// of the run, so that a timer that is armed again and again does not keep the
// run from ending. Timers still armed then are counted
// (UnitCounters::timers_left).
inline constexpr Nanos kTimersAfterLastPacket = Seconds(3'600);

// Says how a flow's state gets to the unit of its next flowlet.
enum class StateMode : uint8_t {
  kProactive,  // it is pushed there ahead, or else pulled
  kReactive,   // it is pulled from the unit before, when it is missed
  kExternal,   // it is read from a store outside of units
};

// The fate of packets that hide something from the NFs (Unread).
enum class Unreadable : uint8_t {
  kAuto,  // kDrop if the NF is a barrier (NetworkFunction::is_barrier)
  kPass,
  kDrop,
};

// The options of a run, whatever its driver.
struct RunOptions {
  ControllerOptions controller;
  FlowClassifier::Options flow;
  BufferPool::Options buffers;
  // The inside of an NF with two sides; empty: see NatPeerEmulator.
  std::vector<IpPrefix> inside;
  Unreadable unreadable = Unreadable::kAuto;
  // The most fragments that Ingress keeps until their packet's first one comes,
  // 0 … kMaxEarlyFragments.
  uint32_t early_fragments = 64;
  // From controller to unit, from unit to controller or egress, and of a Pull,
  // Takeover or TakeoverAck from unit to unit. What a unit returns of credits
  // and load is at the controller at once.
  Nanos hop_delay = Microseconds(1);
  // A record from unit to unit: base + bytes / bandwidth.
  Nanos state_delay = Microseconds(20);
  int64_t state_bandwidth_bps = 10'000'000'000;
  // A record from a unit to another one of its host. A unit needs 0.2 to 0.5 µs
  // for both ends of that (platform/commands/bench/budgets.md row 12), and the
  // rings in between some tenths more.
  Nanos local_handover = Microseconds(1);
  Nanos state_retry = Milliseconds(10);  // UnitOptions::retry_after
  uint32_t hold_packets = 1024;          // UnitOptions::hold_packets
  uint32_t max_replicas = 65'536;        // UnitOptions::max_replicas
  uint32_t push_bases = 0;               // UnitOptions::push_bases
  StateMode state = StateMode::kProactive;
  StoreOptions store;  // of kExternal
  // Units have output loggers. In virtual time, an entry is at the logger after
  // logger_delay, and its unit knows it released as long after that.
  bool loggers = false;
  Nanos logger_delay = Microseconds(1);
  // Units, loggers or controllers fail; only with loggers. Shared tables count
  // each packet once all the same.
  FaultOptions faults;
  bool nf_logs = false;                   // UnitOptions::nf_logs
  Nanos table_period = Milliseconds(10);  // TableOptions::period
  ChaosOptions chaos;
  Nanos unit_start_delay = Milliseconds(10);  // from stopped to ready
  Nanos warm_start_delay = Microseconds(30);  // from warm to ready
  bool check = true;                          // run the Checker
  // A call of an NF that takes longer ends the process (NfWatchdog); the time
  // is the machine's. Nanos::max(): none does.
  Nanos nf_patience = Nanos::max();
};

// Counts the messages between units and their output loggers.
struct LoggerFigures : UnitLogFigures {
  uint64_t sent_again = 0;  // entries that the logger asked for
  uint64_t messages_lost = 0;
  uint64_t messages_duplicated = 0;
};

// Failures of controllers, and what their successors made of them.
struct ControllerFaultFigures : SuccessionCounters {
  uint64_t kills = 0;
  uint64_t kills_in_vain = 0;  // while there was no controller
  Histogram recovery_ns;       // from a death until packets go on
};

// Counts failures of units and loggers, and their losses. controller.failures
// and the drops for kUnitFailed tell more.
struct FaultFigures {
  uint64_t kills = 0;
  uint64_t kills_without_unit = 0;  // there was no process to kill
  uint64_t host_kills = 0;          // their units and loggers count as well
  uint64_t kills_without_host = 0;  // no unit ran there, or a state was only
                                    // there
  uint64_t packets_lost = 0;        // including packets that NFs made
  uint64_t null_packets_lost = 0;   // and other clocks without payload
  // Entries that logger and unit had not both seen as taken.
  uint64_t entries_lost = 0;
  uint64_t ends_lost = 0;  // ends of flows that no unit heard of
  uint64_t tells_by_loggers = 0;
  uint64_t records_left = 0;  // of failed processes, in loggers at the end
  // Processes of units that were killed in real time: what their units counted,
  // of state and of entries, is not in the figures.
  uint64_t processes_uncounted = 0;
  // Counts processes that ended amid a call of the NF for a packet or a flow,
  // so that this was dropped, and flows that the NF got no more.
  uint64_t nf_failures = 0;
  uint64_t flows_blocked = 0;
  // Counts processes that were killed for a bad word.
  uint64_t processes_hostile = 0;
  // Processes of loggers that were, and words by which units asked for the
  // state of flows that were not theirs.
  uint64_t loggers_hostile = 0;
  uint64_t pulls_refused = 0;
  Histogram detection_ns;  // from a kill until the controller knows
  Histogram recovery_ns;   // from a death until its flows are moved
  uint64_t logger_kills = 0;
  uint64_t logger_failures = 0;       // ends of the process, in real time
  uint64_t kills_without_logger = 0;  // no logger, or its unit was gone
  uint64_t logger_packets_lost = 0;   // including packets that NFs made
  uint64_t logger_clocks_kept = 0;    // clocks of these, or without packet
  uint64_t records_restored = 0;      // of flows, in new loggers
  // From a logger's death until another has all that its unit keeps.
  Histogram logger_recovery_ns;
};

// How controllers of a run leased units from resource managers (SNF §7).
struct ClusterFigures {
  uint64_t controllers = 0;  // 0: the run had one, with units of its own
  uint64_t asks = 0;
  uint64_t grants = 0;
  uint64_t revoked = 0;
  uint64_t given_back = 0;
  uint64_t gone = 0;    // leases that ended without being given back
  uint64_t joined = 0;  // controllers, after the first packet
  uint64_t left = 0;
  uint64_t changes_in_vain = 0;  // there was nobody to leave or to be killed
  uint64_t flows_moved = 0;      // from one controller to another
  uint64_t packets_waited = 0;   // for these
  uint64_t words_given = 0;      // of pools, from one to another
  uint64_t flows_not_taken = 0;  // for want of room: their state is lost
  uint64_t refused = 0;          // messages, by managers, controllers and units
  // Resource managers that failed; successors that knew all leases again; the
  // longest time from a failure to that, in ns; messages without a receiver.
  uint64_t managers_failed = 0;
  uint64_t managers_recovered = 0;
  uint64_t manager_recovery_ns_max = 0;
  uint64_t unheard = 0;
  // Messages about leases that were lost, or came twice (ChaosOptions).
  uint64_t messages_lost = 0;
  uint64_t messages_duplicated = 0;
  uint64_t units_started = 0;
  uint64_t units_up_max = 0;
  // Units of which controllers used more than there is, and aliases that two
  // controllers gave: 0.
  uint64_t overcommitted = 0;
  // Units that honoured more than a manager had reserved there: 0.
  uint64_t overpromised = 0;
  // The longest that a controller which asked had no share of any unit.
  uint64_t unleased_ns_max = 0;
  uint64_t foreign_aliases = 0;
};

// Tells of one of several controllers.
struct ControllerFigures {
  uint64_t packets = 0;  // that it got
  uint64_t bytes = 0;    // of these, by original lengths
  uint64_t dropped = 0;  // packets
  uint32_t units_max = 0;
  // Of the units' capacity while traffic lasted, 0 … 1; 0 where units are
  // shared.
  double capacity_used = 0;
  // Its leases, if it has some: grants and changes, and what it used of units
  // at most, in 1/1024 of one.
  uint64_t grants = 0;
  int64_t share_max = 0;
};

// Estimates how long other ways of recovery would take in the same run
// (platform/report/recovery_meter.h): with an output logger, with a checkpoint
// now and then and a replay of the input since (FTMB), and with a datastore and
// a replay of what is in transit (CHC). Times are in ns.
struct RecoveryFigures {
  uint64_t samples = 0;  // times at which a unit might have failed
  uint64_t logger_p50 = 0;
  uint64_t logger_p99 = 0;
  uint64_t checkpoint_p50 = 0;
  uint64_t checkpoint_p99 = 0;
  uint64_t datastore_p50 = 0;
  uint64_t datastore_p99 = 0;
  // The following say what a packet takes longer than without it.
  uint64_t logger_path_p50 = 0;
  uint64_t logger_path_p99 = 0;
  uint64_t checkpoint_path_p50 = 0;
  uint64_t checkpoint_path_p99 = 0;
  uint64_t datastore_path_p50 = 0;
  uint64_t datastore_path_p99 = 0;
  uint64_t checkpoints = 0;
  uint64_t checkpoint_bytes = 0;
  uint64_t datastore_requests = 0;
};

// Counts an NF's aliases; controller.pieces and aliases_… tell more.
struct AliasFigures {
  bool has_sides = false;           // the NF's flows are inside endpoints
  uint32_t pools = 0;               // that it has
  uint64_t packets_offered = 0;     // to the controller by alias
  uint64_t packets_found = 0;       // of these, whose alias a flow had
  uint64_t packets_hairpinned = 0;  // released to an alias, so they came again
  uint64_t at_once_max = 0;         // aliases at one time
};

// Tells of a shared table (runtime/tables/table_replica.h).
struct TableFigures {
  std::string nf;  // its name in the chain; empty where it is alone
  std::string name;
  uint64_t entries = 0;  // at the end
  uint64_t max_entries = 0;
  uint64_t updates = 0;    // by NFs
  uint64_t refused = 0;    // updates and entries that went to the rest
  uint64_t forgotten = 0;  // entries that went there because they were old
  uint64_t messages = 0;   // sent, in all directions
  uint64_t bytes = 0;
  uint64_t repeated = 0;  // messages, of these
  // How old each message of updates was, by its first update, when all units
  // knew it that read the table; and when all units did.
  Histogram staleness_ns{};
  Histogram spread_ns{};
};

// Tells how units came to run whose processes come and go.
struct UnitStartFigures {
  bool is_pooled = false;       // they do
  uint64_t processes = 0;       // made, in all
  uint64_t most_processes = 0;  // at one time
  uint64_t ended = 0;           // of these, for want of use
  uint64_t killed = 0;          // while they were parked
  // From the decision to start a unit until it ran, in a process that was there
  // and in one that was made for it.
  Histogram parked_ns;
  Histogram cold_ns;
};

// Tells of a run in real time.
struct RealFigures {
  uint32_t threads = 0;         // 0: the run was in virtual time
  Nanos wall;                   // from the first packet until the last had left
  Histogram schedule_error_ns;  // how late packets were taken
  uint64_t sleeps = 0;          // of workers that had nothing to do
  uint64_t skips = 0;           // steps over timers at the end
  UnitStartFigures starts;
};

// Counts something that a name tells.
struct NamedCount {
  std::string name;
  uint64_t count = 0;
};

// Tells of a port of live traffic.
struct PortFigures {
  std::string name;       // "inside"; "inside2" if there are several
  std::string interface;  // "lan0"
  uint64_t received = 0;  // packets that came in
  uint64_t split = 0;     // frames that were several packets in one
  // Frames of several packets that stayed whole: each is one of `received`.
  uint64_t merged = 0;
  uint64_t refused = 0;  // frames that are no packets: cut, or not to be split
  uint64_t kernel_drops = 0;  // frames that came too fast
  uint64_t sent = 0;
  // Packets that left because a frame of several was cut on its way out, one
  // less than its packets each.
  uint64_t cut = 0;
  uint64_t send_drops = 0;  // packets that the kernel did not take
  uint64_t too_long = 0;    // of these, packets that are longer than the MTU
  // Fragments that were another controller's (platform/ports/steering.h),
  // which were let go, and not received.
  uint64_t foreign = 0;
  // How long the interface has been down or missing, at least 1 ns; 0: it is
  // up.
  Nanos down{};
  // Counts of a port that routes (RouterCount), which
  // platform/ports/router/README.md explains; else none.
  std::vector<NamedCount> router = {};
};
// Tells of all ports. Then, without frames of a group (GroupCounts),
//   the sum of received + answer_copies = packets_in + filtered + no_chain, and
//   packets_released + packets_passed_through + copies + the sum of cut
//     = the sum of sent + send_drops, unrouted and packets_hairpinned.
struct PortsFigures {
  std::vector<PortFigures> ports;  // none: the run had a capture
  uint64_t filtered = 0;  // packets whose receiver is at their sender's side
  uint64_t unrouted = 0;  // made by the NF, receiver and sender not seen
  // Copies of packets that left by several ports of a side, because they are
  // for all hosts or for one not seen before: one less than the ports, each.
  uint64_t copies = 0;
  // Copies of answers that several chains may have asked for, as of health
  // checks: one less than the chains, each.
  uint64_t answer_copies = 0;
  // Packets that were dropped, for neither a rule nor a default names a chain.
  uint64_t no_chain = 0;
};

// Counts the log records of NFs. Records of a packet that is lost with its unit
// are counted with their batch alone.
struct NfLogFigures {
  uint64_t released = 0;  // left with their packets
  uint64_t no_room = 0;   // did not fit the batch of their call
  // Batches that were lost, with their packets, and batches of units that are
  // no batches.
  uint64_t batches_lost = 0;
  uint64_t batches_refused = 0;
  // Records that left, and were not written: because the queue to the files was
  // full, or because their file did not take them.
  uint64_t queue_full = 0;
  uint64_t write_failed = 0;
};

// Counts the records of one log.
struct NfLogCount {
  std::string name;  // "ids.alerts"
  uint64_t released = 0;
  uint64_t no_room = 0;
};

// The result of a run. By the rule of conservation
//   packets_in + packets_inherited + packets_generated
//     + aliases.packets_hairpinned
//     = packets_released + packets_passed_through + packets_consumed
//       + all drops.
struct RunResult {
  uint64_t packets_in = 0;
  uint64_t bytes_in = 0;           // original lengths
  uint64_t packets_inherited = 0;  // of a process whose place this run took
  uint64_t packets_generated = 0;
  uint64_t packets_released = 0;
  uint64_t packets_passed_through = 0;
  uint64_t packets_consumed = 0;
  std::array<uint64_t, kDropReasons> dropped{};
  std::vector<uint64_t> nf_dropped;  // by NetworkFunction::drop_reasons()
  std::vector<std::string> nf_drop_names;
  // The counters of NFs, summed over units (NetworkFunction::counters).
  struct NfCounter {
    std::string nf;  // its name in the chain; empty where it is alone
    std::string name;
    std::string help;
    uint64_t value = 0;
  };
  std::vector<NfCounter> nf_counters;
  NfLogFigures nf_log;
  std::vector<NfLogCount> nf_logs;  // by LogId

  std::vector<TableFigures> tables;
  // The reports of those NFs that report anything.
  struct OfNf {
    std::string nf;  // as NfCounter::nf
    NfReport report;
  };
  std::vector<OfNf> nf_reports;

  Instant first_packet;
  Instant last_packet;
  // Fragments that came before their packet's first one and were kept, and of
  // these the ones whose first one then came.
  uint64_t fragments_kept = 0;
  uint64_t fragments_kept_matched = 0;
  uint64_t late_packets = 0;  // earlier than their predecessor; taken as equal

  ControllerCounters controller;
  ClassifierCounters classifier;
  uint64_t cold_starts = 0;
  uint64_t warm_starts = 0;
  uint64_t failed_starts = 0;
  uint32_t units_per_host = 1;
  StateFigures state;
  LoggerFigures loggers;
  StoreFigures store;
  FaultFigures faults;
  ControllerFaultFigures controller_faults;
  ClusterFigures cluster;
  std::vector<ControllerFigures> controllers;  // none: there was one
  RecoveryFigures recovery;
  AliasFigures aliases;
  RealFigures real;
  PortsFigures live;
  uint32_t held_packets_max = 0;  // in one unit

  Histogram latency_ns;  // arrival to release, of packets that were released
  uint32_t units_max = 0;
  int64_t units_mean_1000 = 0;
  int64_t unit_ns_with_traffic = 0;  // Provisioning::unit_ns_with_traffic
  Histogram utilisation_1000;        // per unit and epoch
  std::vector<EpochSample> epochs;
  ForgottenEpochs forgotten;  // those before

  uint64_t digest = 0;
  // The same for runs that differ in the external ports that they gave, and
  // equal to `digest` for an NF without sides (renaming_digest.h).
  uint64_t digest_up_to_renaming = 0;
  // Says why the run ended early, with units that are no more heard of; empty
  // if it did not.
  std::string failure;
  bool nf_failed = false;  // that is why
  uint64_t violations = 0;
  std::vector<std::string> violation_messages;
  // Packets that units ran and that I6 was checked of, and others
  // (single_unit_oracle.h).
  uint64_t i6_compared = 0;
  uint64_t i6_not_compared = 0;
  // Of these: since the NF read a shared table, or a difference was found.
  uint64_t i6_after_table_read = 0;
  uint64_t i6_after_difference = 0;

  uint64_t packets_dropped() const {
    uint64_t sum = 0;
    for (const uint64_t n : dropped) sum += n;
    for (const uint64_t n : nf_dropped) sum += n;
    return sum;
  }
  uint64_t packets_begun() const {
    return packets_in + packets_inherited + packets_generated +
           aliases.packets_hairpinned;
  }
  uint64_t packets_ended() const {
    return packets_released + packets_passed_through + packets_consumed +
           packets_dropped();
  }
  bool conserved() const { return packets_begun() == packets_ended(); }
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RUN_H_
