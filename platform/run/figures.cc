// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"

namespace snf {
namespace {

constexpr AddUp kSum = AddUp::kSum;
constexpr AddUp kMax = AddUp::kMax;
constexpr AddUp kNot = AddUp::kNot;
constexpr std::monostate kComposed;
constexpr FigureMetric kNoMetric;
constexpr bool kIfAny = true;

// clang-format off
constexpr Figure kFigures[] = {
    {"packets_in", "packets", kSum, &RunResult::packets_in,
     "Packets taken from the capture.",
     {"snf_packets_in_total"}, {"Packets in"}},
    {"packets_inherited", "packets", kSum, &RunResult::packets_inherited,
     "Packets in units of a process that was killed, whose place this took.",
     {"snf_packets_inherited_total"}, {"   inherited", kIfAny}},
    {"packets_generated", "packets", kSum, &RunResult::packets_generated,
     "Packets that the network function made.",
     {"snf_packets_generated_total"}, {"        made", kIfAny}},
    {"packets_released", "packets", kSum, &RunResult::packets_released,
     "Packets that left.",
     {"snf_packets_released_total"}, {"        released"}},
    {"packets_consumed", "packets", kSum, &RunResult::packets_consumed,
     "Packets that the network function took.",
     {"snf_packets_consumed_total"}, {"        consumed", kIfAny}},
    {"packets_passed_through", "packets", kSum,
     &RunResult::packets_passed_through,
     "Packets without a readable IP header, which left untouched.",
     {"snf_packets_passed_through_total"}, {"        passed through", kIfAny}},
    {"packets_dropped", "object: reason → packets", kSum, kComposed,
     "Packets dropped, by reason; nf:… are the network function's."},
    {"flows", "flows", kSum, &ControllerCounters::flows,
     "Flows that began.", {"snf_flows_begun_total"}, {"Flows"}},
    {"(flows_ended)", "flows", kSum, &ControllerCounters::flows_ended,
     "Flows that are over.", {"snf_flows_ended_total"}},
    {"flowlets", "flowlets", kSum, &ControllerCounters::flowlets,
     "Flowlets that began.", {"snf_flowlets_total"}, {"Flowlets"}},
    {"decisions", "decisions", kSum, &ControllerCounters::decisions,
     "Choices of a unit for a flowlet, where the policy had one."},
    {"units_used_max", "units", kMax, &RunResult::units_max,
     "Units that were up at one time, at most."},
    {"units_used_mean", "units", kNot, &ReportFigures::units_mean,
     "Units that were up, on average over the time that one was."},
    {"overcommitted", "flowlets", kSum, &ControllerCounters::overcommitted,
     "Flowlets placed on a unit where there was no room."},
    {"latency_ns", "ns", kNot, &RunResult::latency_ns,
     "From arrival to release, of packets that were released."},
    {"ports", "object: port → its figures; unrouted, copies: packets", kNot,
     kComposed,
     "Of live traffic, what came and left by each port; unrouted are packets "
     "that the NF made for a receiver that was not seen before, copies are one "
     "less than the ports of each packet that left by several."},
    {"digest", "text: 16 hexadecimal digits", kNot, kComposed,
     "Two runs that release the same bytes, flow by flow, have the same."},
    {"seed", "integer", kNot, kComposed,
     "What all random choices were drawn from."},
    {"flags", "object: name → text", kNot, kComposed,
     "Every flag that has a value, as the command line takes it."},
    {"version", "text", kNot, kComposed, "Version of SNF."},
    {"elapsed_s", "number: s", kNot, kComposed,
     "By the clock on the wall; of a run in virtual time the only key that "
     "differs between two runs of the same input."},
    {"sound", "", kNot, &ReportFigures::sound,
     "No rule of the protocol was seen broken, and packets add up."},
    {"conserved", "", kNot, &ReportFigures::conserved,
     "Packets add up: in + generated + hairpinned = released + passed through "
     "+ consumed + dropped."},
    {"violations", "violations", kSum, &RunResult::violations,
     "Times that the checker saw a rule of the protocol broken."},
    {"violation_messages", "array of text", kNot, kComposed,
     "The first of these in words."},
    {"i6_compared", "packets", kSum, &RunResult::i6_compared,
     "Packets held against what a single unit makes of them."},
    {"i6_not_compared", "packets", kSum, &RunResult::i6_not_compared,
     "Packets that units ran and that were not."},
    {"i6_not_compared_by.table_read", "packets", kSum,
     &RunResult::i6_after_table_read,
     "Of these, after the network function had read a shared table."},
    {"i6_not_compared_by.difference", "packets", kSum,
     &RunResult::i6_after_difference,
     "Of these, after a difference was found in their flow."},
    {"digest_up_to_renaming", "text: 16 hexadecimal digits", kNot, kComposed,
     "As digest, with each external endpoint that a translator gave replaced "
     "by the inside one: the same however external ports were given."},
    {"nf", "text", kNot, kComposed, "The network function, or the chains."},
    {"counters", "object: name → integer", kSum, kComposed,
     "What network functions counted, as \"odd\", or in a chain "
     "\"drop_odd.odd\"."},
    {"tables", "object: name → object", kNot, kComposed,
     "Shared tables: entries, max_entries, updates, refused, forgotten (went "
     "into the rest because old), messages, bytes, "
     "repeated; staleness_ns, until all units know an update that read the "
     "table, and spread_ns, until all do."},
    {"nf_reports", "object: title → array of objects", kNot, kComposed,
     "What network functions report themselves."},
    {"policy", "text", kNot, kComposed, "The policy of placement."},
    {"files", "array of text", kNot, kComposed,
     "Captures, as the command line named them."},
    {"warnings", "array of text", kNot, kComposed,
     "What was noticed about the captures."},
    {"duration_s", "s", kNot, &ReportFigures::duration_s,
     "From the first packet to the last."},
    {"bytes_in", "bytes", kSum, &RunResult::bytes_in,
     "Lengths on the wire of the packets taken from the capture.",
     {"snf_received_bytes_total"}},
    {"bit_rate_mean_bps", "bit/s", kNot, &ReportFigures::mean_rate_bps,
     "Over the duration; 0 for a single packet."},
    {"late_packets", "packets", kSum, &RunResult::late_packets,
     "Packets earlier than one before them, taken at its time."},
    {"flows_evicted", "flows", kSum, &ControllerCounters::flows_evicted,
     "Flows ended early, for want of room in the table of flows.",
     {"snf_flows_evicted_total"}},
    {"long_probes", "flows, aliases", kSum, &ControllerCounters::long_probes,
     "Flows and aliases found far from where their hash leads; chance makes "
     "none.",
     {"snf_long_probes_total"}},
    {"flowlets_by.new_flow", "flowlets", kSum,
     &ReportFigures::flowlets_by_new_flow, "Flowlets that began a flow."},
    {"flowlets_by.gap", "flowlets", kSum, &ControllerCounters::flowlets_by_gap,
     "Flowlets that began after a gap."},
    {"flowlets_by.bytes", "flowlets", kSum,
     &ControllerCounters::flowlets_by_bytes,
     "Flowlets that began because the one before was full."},
    {"flowlets_movable", "flowlets", kSum, &ReportFigures::flowlets_movable,
     "Flowlets that are not the first of their flow."},
    {"flowlets_moved", "flowlets", kSum, &ControllerCounters::flowlets_moved,
     "Flowlets sent to another unit than the one before.",
     {"snf_flowlets_moved_total"}},
    {"flowlets_seamless", "flowlets", kSum, &StateCounters::seamless,
     "Flowlets that moved and found their state.",
     {"snf_flowlets_handed_over_total", "how", "seamless",
      "Flowlets that moved and have begun: seamless, or their state was "
      "pulled."},
     {"Moves   seamless"}},
    {"flowlets_pulled", "flowlets", kSum, &StateCounters::pulled,
     "Flowlets that moved and had to wait for their state.",
     {"snf_flowlets_handed_over_total", "how", "pulled"}, {"        pulled"}},
    {"wait_ns", "ns", kNot, &StateFigures::wait_ns,
     "For state, of flowlets that moved; 0 where seamless."},
    {"wait_worst", "null, or object: flow clock unit wait_ns", kMax, kComposed,
     "The packet that waited longest for state; the flow is \"\" if it was "
     "forgotten by then."},
    {"state_pushes", "messages", kSum, &StateCounters::pushes,
     "States sent ahead of flowlets, one for each receiver."},
    {"state_pulls", "messages", kSum, &StateCounters::pulls,
     "Requests for state, without repetitions."},
    {"state_answers", "messages", kSum, &StateCounters::answers,
     "States sent in answer to pulls."},
    {"state_bytes", "bytes", kSum, &StateCounters::bytes,
     "Records in pushes and answers."},
    {"state_pushed_bytes", "bytes", kSum, &StateCounters::pushed_bytes,
     "Records in pushes."},
    {"replication_bps", "bit/s", kNot, &ReportFigures::replication_bps,
     "Pushes, of each its header of 40 bytes and its record, over the epochs "
     "of 100 ms that had traffic."},
    {"held_packets_max", "packets", kMax, &RunResult::held_packets_max,
     "Packets held for state at one time in a unit, at most."},
    {"tombstones", "packets", kSum, &StateCounters::tombstones,
     "Packets dropped while they waited for state, whose clock went on."},
    {"flows_handed_over", "flows", kSum, &StateCounters::null_packets,
     "Flows that left a unit before it stopped."},
    {"timer_packets", "packets", kSum, &StateCounters::timer_packets,
     "Packets without payload at which an NF's timer could run."},
    {"timers_asked_again", "messages", kSum, &UnitCounters::timers_asked_again,
     "Requests of timer packets repeated for want of a free slot."},
    {"state_messages_lost", "messages", kSum, &StateCounters::messages_lost,
     "Messages about state lost by chaos, or for want of room on the way."},
    {"state_messages_duplicated", "messages", kSum,
     &StateCounters::messages_duplicated,
     "Messages about state that chaos let arrive twice."},
    {"replicas_taken", "replicas", kSum, &UnitCounters::replicas_taken,
     "Replicas that units took by push."},
    {"replicas_evicted", "replicas", kSum, &UnitCounters::replicas_evicted,
     "Replicas that made room for others."},
    {"replicas_expired", "replicas", kSum, &UnitCounters::replicas_expired,
     "Replicas that nobody asked for in time."},
    {"pulls_repeated", "messages", kSum, &UnitCounters::pulls_repeated,
     "Pulls repeated for want of an answer."},
    {"takeovers_repeated", "messages", kSum, &UnitCounters::takeovers_repeated,
     "Takeovers repeated for want of an answer."},
    {"takeovers_said_once", "messages", kSum,
     &UnitCounters::takeovers_said_once,
     "Takeovers that there was no room to repeat."},
    {"state_refused", "object: reason → messages", kSum, kComposed,
     "Messages about state that units refused, by reason."},
    {"timers_left", "timers", kSum, &UnitCounters::timers_left,
     "Timers of network functions still armed when the run ended."},
    {"starts_cold", "units", kSum, &RunResult::cold_starts,
     "Units started whose process was new.",
     {"snf_unit_starts_total", "how", "cold", "Units started, cold or warm."}},
    {"starts_warm", "units", kSum, &RunResult::warm_starts,
     "Units started that were kept warm.",
     {"snf_unit_starts_total", "how", "warm"}},
    {"starts_failed", "units", kSum, &RunResult::failed_starts,
     "Starts, of these, that took longer than start_timeout."},
    {"capacity_used", "0 … 1", kNot, &ReportFigures::capacity_used,
     "Bytes that units finished, over what was provisioned until the last "
     "packet came or left."},
    {"epochs_forgotten", "epochs", kSum, &ReportFigures::epochs_forgotten,
     "Epochs with traffic that are too long ago for the time series."},
    {"utilisation.p50", "0 … 1", kNot, &ReportFigures::utilisation_p50,
     "Half of the samples, one per unit and 100 ms, are below."},
    {"utilisation.p99", "0 … 1", kNot, &ReportFigures::utilisation_p99,
     "99 of 100 samples, one per unit and 100 ms, are below."},
    {"real.threads", "threads", kNot, &RealFigures::threads,
     "Threads that ran, of a run in real time."},
    {"real.wall_s", "s", kNot, &ReportFigures::wall_s,
     "From the first packet until the last had left."},
    {"real.late_ns", "ns", kNot, &RealFigures::schedule_error_ns,
     "How late packets were taken; null without a schedule."},
    {"real.worker_sleeps", "sleeps", kSum, &RealFigures::sleeps,
     "Times that a worker slept because it had nothing to do."},
    {"real.starts.parked_ns", "ns", kNot, &UnitStartFigures::parked_ns,
     "From the decision to start a unit until it ran, in a process that was "
     "there; null without --warm_pool, or if there was none."},
    {"real.starts.cold_ns", "ns", kNot, &UnitStartFigures::cold_ns,
     "The same, in a process that was made for it."},
    {"real.starts.processes", "processes", kSum, &UnitStartFigures::processes,
     "Processes of units that were made, of a run with --warm_pool."},
    {"real.starts.most_processes", "processes", kMax,
     &UnitStartFigures::most_processes, "Of these, at one time."},
    {"real.starts.ended", "processes", kSum, &UnitStartFigures::ended,
     "Of these, ended for want of use."},
    {"real.starts.killed", "processes", kSum, &UnitStartFigures::killed,
     "Of these, killed while parked: others came in their place; what their "
     "units had counted is missing."},
    {"aliases.granted", "aliases", kSum, &ControllerCounters::aliases_granted,
     "Aliases given to flows, of an NF with an inside."},
    {"aliases.at_once_max", "aliases", kMax, &AliasFigures::at_once_max,
     "Aliases at one time, at most."},
    {"aliases.refused.conflict", "aliases", kSum,
     &ControllerCounters::aliases_conflict,
     "Aliases refused because another flow had them."},
    {"aliases.refused.group_full", "aliases", kSum,
     &ControllerCounters::aliases_group_full,
     "Aliases refused because their host had as many as it may."},
    {"aliases.refused.unknown", "aliases", kSum,
     &ReportFigures::aliases_refused_unknown,
     "Aliases refused because the flow or the clock was not known."},
    {"aliases.packets_offered", "packets", kSum,
     &AliasFigures::packets_offered,
     "Packets that reached the controller by alias."},
    {"aliases.packets_found", "packets", kSum, &AliasFigures::packets_found,
     "Packets by alias for which a flow was found."},
    {"aliases.packets_hairpinned", "packets", kSum,
     &AliasFigures::packets_hairpinned,
     "Packets released to an alias, which came in once more.",
     {"snf_packets_hairpinned_total"}, {"        come again", kIfAny}},
    {"loggers.entries", "entries", kSum, &LoggerFigures::entries,
     "Entries that units sent their output loggers."},
    {"loggers.bytes", "bytes", kSum, &LoggerFigures::bytes,
     "Bytes of these entries."},
    {"loggers.whole", "deltas", kSum, &LoggerFigures::whole,
     "Deltas in them that are the whole record."},
    {"loggers.partial", "deltas", kSum, &LoggerFigures::partial,
     "Deltas in them that are what changed."},
    {"loggers.delta_bytes", "bytes", kSum, &LoggerFigures::delta_bytes,
     "Bytes of all deltas."},
    {"loggers.sent_again", "entries", kSum, &LoggerFigures::sent_again,
     "Entries sent again, because the logger asked."},
    {"loggers.messages_lost", "messages", kSum, &LoggerFigures::messages_lost,
     "Messages between units and loggers lost by --chaos."},
    {"loggers.messages_duplicated", "messages", kSum,
     &LoggerFigures::messages_duplicated,
     "Messages between units and loggers duplicated by --chaos."},
    {"loggers.full", "times", kSum, &LoggerFigures::full,
     "Times that units had more for their loggers than there was room for."},
    {"recovery.samples", "samples", kSum, &RecoveryFigures::samples,
     "Deaths of units that were thought through, with --recovery."},
    {"recovery.logger_p50_ns", "ns", kNot,
     &RecoveryFigures::logger_p50,
     "Recovery of half of them takes no longer with an "
     "output logger."},
    {"recovery.logger_p99_ns", "ns", kNot,
     &RecoveryFigures::logger_p99,
     "Recovery of 99 % of them takes no longer with an "
     "output logger."},
    {"recovery.checkpoint_p50_ns", "ns", kNot,
     &RecoveryFigures::checkpoint_p50,
     "Recovery of half of them takes no longer with a "
     "checkpoint every 50 ms, and a replay."},
    {"recovery.checkpoint_p99_ns", "ns", kNot,
     &RecoveryFigures::checkpoint_p99,
     "Recovery of 99 % of them takes no longer with a "
     "checkpoint every 50 ms, and a replay."},
    {"recovery.datastore_p50_ns", "ns", kNot,
     &RecoveryFigures::datastore_p50,
     "Recovery of half of them takes no longer with a "
     "datastore, and a replay."},
    {"recovery.datastore_p99_ns", "ns", kNot,
     &RecoveryFigures::datastore_p99,
     "Recovery of 99 % of them takes no longer with a "
     "datastore, and a replay."},
    {"recovery.logger_path_p50_ns", "ns", kNot,
     &RecoveryFigures::logger_path_p50,
     "What half of the packets take longer, at most, with an "
     "output logger."},
    {"recovery.logger_path_p99_ns", "ns", kNot,
     &RecoveryFigures::logger_path_p99,
     "What 99 % of the packets take longer, at most, with an "
     "output logger."},
    {"recovery.checkpoint_path_p50_ns", "ns", kNot,
     &RecoveryFigures::checkpoint_path_p50,
     "What half of the packets take longer, at most, with a "
     "checkpoint every 50 ms, and a replay."},
    {"recovery.checkpoint_path_p99_ns", "ns", kNot,
     &RecoveryFigures::checkpoint_path_p99,
     "What 99 % of the packets take longer, at most, with a "
     "checkpoint every 50 ms, and a replay."},
    {"recovery.datastore_path_p50_ns", "ns", kNot,
     &RecoveryFigures::datastore_path_p50,
     "What half of the packets take longer, at most, with a "
     "datastore, and a replay."},
    {"recovery.datastore_path_p99_ns", "ns", kNot,
     &RecoveryFigures::datastore_path_p99,
     "What 99 % of the packets take longer, at most, with a "
     "datastore, and a replay."},
    {"recovery.checkpoints", "checkpoints", kSum,
     &RecoveryFigures::checkpoints, "Checkpoints of units."},
    {"recovery.checkpoint_bytes", "bytes", kSum,
     &RecoveryFigures::checkpoint_bytes, "Records in checkpoints."},
    {"recovery.datastore_requests", "requests", kSum,
     &RecoveryFigures::datastore_requests,
     "Updates of the datastore, one a packet."},
    {"store.reads", "requests", kSum, &StoreCounters::reads,
     "States that units asked the external store for."},
    {"store.read_again", "requests", kSum, &StoreCounters::read_again,
     "Requests repeated since the store had an older state, or none."},
    {"store.writes", "requests", kSum, &StoreCounters::writes,
     "States that units wrote into the store."},
    {"store.erased", "requests", kSum, &StoreCounters::erased,
     "States that the store was told to forget, of flows that ended."},
    {"store.bytes_read", "bytes", kSum, &StoreCounters::bytes_read,
     "Values that the store sent, each a header and a record."},
    {"store.bytes_written", "bytes", kSum, &StoreCounters::bytes_written,
     "Values that the store was sent."},
    {"store.round_trip_ns", "ns", kNot, &StoreFigures::round_trip_ns,
     "From a request to the store's answer."},
    {"store.timeouts", "requests", kSum, &StoreCounters::timeouts,
     "Requests repeated for want of an answer."},
    {"store.silent", "requests", kSum, &StoreCounters::silent,
     "Times that a unit was told that the store did not answer at all."},
    {"store.writes_lost", "requests", kSum, &StoreCounters::writes_lost,
     "Writes that did not reach the store, or that it refused."},
    {"store.refused", "answers", kSum, &StoreCounters::refused,
     "Answers of the store that cannot be."},
    {"store.reconnects", "connections", kSum, &StoreCounters::reconnects,
     "Connections to the store that were made anew."},
    {"faults.kills", "units", kSum, &FaultFigures::kills,
     "Units that --faults killed."},
    {"faults.kills_without_unit", "kills", kSum,
     &FaultFigures::kills_without_unit,
     "Kills that found no unit running, or only the last one."},
    {"faults.failures", "units", kSum, &FailureCounters::failures,
     "Units that failed, and were recovered from."},
    {"faults.packets_rerouted", "packets", kSum,
     &FailureCounters::packets_rerouted,
     "Packets that survived the unit that had them, and went to another."},
    {"faults.processes_uncounted", "processes", kSum,
     &FaultFigures::processes_uncounted,
     "Processes of units that were killed in real time: what their units "
     "counted themselves, of state and entries, is not in the figures."},
    {"faults.processes_hostile", "processes", kSum,
     &FaultFigures::processes_hostile,
     "Processes of units that were killed for a word that cannot be."},
    {"faults.loggers_hostile", "processes", kSum,
     &FaultFigures::loggers_hostile,
     "Processes of loggers that were killed for a word that cannot be."},
    {"faults.pulls_refused", "messages", kSum, &FaultFigures::pulls_refused,
     "Messages that asked a unit for the state of a flow for a unit that the "
     "flow was not with, or no longer."},
    {"faults.detection_ns", "ns", kNot, &FaultFigures::detection_ns,
     "From a kill until the controller knew of it, in real time."},
    {"faults.recovery_ns", "ns", kNot, &FaultFigures::recovery_ns,
     "From a unit's death until its flows were with others, the time of "
     "detection in it."},
    {"faults.packets_lost", "packets", kSum, &FaultFigures::packets_lost,
     "Packets lost with a unit; dropped.unit_failed."},
    {"faults.null_packets_lost", "packets", kSum,
     &FaultFigures::null_packets_lost,
     "Packets without payload lost with a unit."},
    {"faults.entries_lost", "entries", kSum, &FaultFigures::entries_lost,
     "Entries that a unit sent its logger and the logger did not take."},
    {"faults.ends_lost", "flows", kSum, &FaultFigures::ends_lost,
     "Ends of flows that were on their way to a unit that had failed."},
    {"faults.ends_repeated", "flows", kSum, &FailureCounters::ends_repeated,
     "Ends of flows given to another unit after a failure."},
    {"faults.tells_by_loggers", "messages", kSum,
     &FaultFigures::tells_by_loggers,
     "Messages of units to the controller that their loggers sent."},
    {"faults.records_left", "records", kSum, &FaultFigures::records_left,
     "Old records of failed units that loggers keep at the end."},
    {"faults.clocks_lost", "clocks", kSum, &FailureCounters::clocks_lost,
     "Clocks lost with a unit and given to another as tombstones."},
    {"faults.flows_moved", "flows", kSum, &FailureCounters::flows_moved,
     "Flows of failed units that lost nothing and went to others."},
    {"faults.redirects", "packets", kSum, &FailureCounters::redirects,
     "Packets whose state was elsewhere after a failure."},
    {"faults.flows_given_up", "flows", kSum, &FailureCounters::flows_given_up,
     "Flows that began anew, since nobody knew where their state was."},
    {"faults.aliases_withdrawn", "aliases", kSum,
     &FailureCounters::aliases_withdrawn,
     "Aliases withdrawn, since what set them was lost."},
    {"faults.logger_kills", "loggers", kSum, &FaultFigures::logger_kills,
     "Loggers that --faults killed."},
    {"faults.logger_failures", "processes", kSum,
     &FaultFigures::logger_failures,
     "Processes of all loggers that ended, in real time, and were replaced."},
    {"faults.kills_without_logger", "kills", kSum,
     &FaultFigures::kills_without_logger,
     "Kills that found no logger whose unit ran."},
    {"faults.logger_recovery_ns", "ns", kNot,
     &FaultFigures::logger_recovery_ns,
     "From a logger's death until another had all that its unit keeps."},
    {"faults.logger_packets_lost", "packets", kSum,
     &FaultFigures::logger_packets_lost,
     "Packets lost with a logger; dropped.unit_failed, what they did is kept."},
    {"faults.logger_clocks_kept", "clocks", kSum,
     &FaultFigures::logger_clocks_kept,
     "Clocks that count as released, since a logger was lost with them."},
    {"faults.records_restored", "records", kSum,
     &FaultFigures::records_restored,
     "Records of flows that units gave to new loggers."},
    {"controller_faults.kills", "controllers", kSum,
     &ControllerFaultFigures::kills, "Controllers that --faults killed."},
    {"controller_faults.kills_in_vain", "kills", kSum,
     &ControllerFaultFigures::kills_in_vain,
     "Kills that found no controller."},
    {"controller_faults.recovery_ns", "ns", kNot,
     &ControllerFaultFigures::recovery_ns,
     "From a controller's death until packets went on, the time of detection "
     "in it."},
    {"controller_faults.packets_lost", "packets", kSum,
     &ControllerFaultFigures::packets_lost,
     "Packets lost with a controller; dropped.controller_failed."},
    {"controller_faults.clocks_lost", "clocks", kSum,
     &ControllerFaultFigures::clocks_lost,
     "Clocks that a controller had given and not sent when it died."},
    {"controller_faults.packets_waited", "packets", kSum,
     &ControllerFaultFigures::packets_waited,
     "Packets that waited until a controller's successor was made."},
    {"controller_faults.flows", "flows", kSum, &ControllerFaultFigures::flows,
     "Flows that successors made of what units reported."},
    {"controller_faults.flows_ending", "flows", kSum,
     &ControllerFaultFigures::flows_ending,
     "Those of which only the end was to come."},
    {"controller_faults.flows_unnamed", "flows", kSum,
     &ControllerFaultFigures::flows_unnamed,
     "Those whose key nobody knew: they are ended."},
    {"controller_faults.flows_superseded", "flows", kSum,
     &ControllerFaultFigures::flows_superseded,
     "Those whose key another flow had by then: their end is sent again."},
    {"controller_faults.tombstones", "clocks", kSum,
     &ControllerFaultFigures::tombstones,
     "Tombstones of successors, for clocks that nobody had."},
    {"controller_faults.null_packets", "packets", kSum,
     &ControllerFaultFigures::null_packets,
     "Null packets of successors, for flows that only sealed loggers had."},
    {"controller_faults.redirects", "messages", kSum,
     &ControllerFaultFigures::redirects,
     "Redirects of successors, of packets that waited for another place."},
    {"controller_faults.aliases_withdrawn", "aliases", kSum,
     &ControllerFaultFigures::aliases_withdrawn,
     "Aliases that had been asked for at clocks that were lost."},
    {"leases.controllers", "controllers", kNot, &ClusterFigures::controllers,
     "Controllers that leased units, of a run with several."},
    {"leases.asks", "messages", kSum, &ClusterFigures::asks,
     "Asks of controllers for capacity."},
    {"leases.grants", "messages", kSum, &ClusterFigures::grants,
     "Grants of shares of units, and changes of them."},
    {"leases.given_back", "messages", kSum, &ClusterFigures::given_back,
     "Leases that controllers gave back, or a part of them."},
    {"leases.revoked", "messages", kSum, &ClusterFigures::revoked,
     "Leases that resource managers wanted back, or a part of them."},
    {"leases.gone", "leases", kSum, &ClusterFigures::gone,
     "Leases that ended and had not been given back."},
    {"leases.refused", "messages", kSum, &ClusterFigures::refused,
     "Messages about leases that were refused."},
    {"leases.units_started", "units", kSum, &ClusterFigures::units_started,
     "Units that resource managers started."},
    {"leases.units_up_max", "units", kMax, &ClusterFigures::units_up_max,
     "Units that were up at one time."},
    {"leases.joined", "controllers", kSum, &ClusterFigures::joined,
     "Controllers that joined after the first packet."},
    {"leases.left", "controllers", kSum, &ClusterFigures::left,
     "Controllers that left in good order."},
    {"leases.changes_in_vain", "faults", kSum, &ClusterFigures::changes_in_vain,
     "Controllers that were to leave or to be killed, and were not there."},
    {"leases.flows_moved", "flows", kSum, &ClusterFigures::flows_moved,
     "Flows that went on under another controller."},
    {"leases.packets_waited", "packets", kSum, &ClusterFigures::packets_waited,
     "Packets that waited until another controller had their flow."},
    {"leases.flows_not_taken", "flows", kSum, &ClusterFigures::flows_not_taken,
     "Flows whose state was lost because their new controller had no room."},
    {"leases.words_given", "words", kSum, &ClusterFigures::words_given,
     "Words of 64 pieces that one controller gave to another."},
    {"leases.managers_failed", "managers", kSum,
     &ClusterFigures::managers_failed, "Resource managers that failed."},
    {"leases.managers_recovered", "managers", kSum,
     &ClusterFigures::managers_recovered,
     "Resource managers that knew all leases after such a failure."},
    {"leases.manager_recovery_ns_max", "ns", kMax,
     &ClusterFigures::manager_recovery_ns_max,
     "The longest time from a failure to that."},
    {"leases.unheard", "messages", kSum, &ClusterFigures::unheard,
     "Messages to a resource manager when there was none."},
    {"leases.messages_lost", "messages", kSum, &ClusterFigures::messages_lost,
     "Messages about leases that chaos lost."},
    {"leases.messages_duplicated", "messages", kSum,
     &ClusterFigures::messages_duplicated,
     "Messages about leases that chaos brought twice."},
    {"leases.unleased_ns_max", "ns", kMax, &ClusterFigures::unleased_ns_max,
     "The longest that a controller asked, and had no share of any unit."},
    {"leases.overpromised", "units", kSum, &ClusterFigures::overpromised,
     "Units that honoured more than their manager had reserved; in real time, "
     "shares that were more than their unit had left."},
    {"leases.overcommitted", "units", kSum, &ClusterFigures::overcommitted,
     "Changes after which controllers used more of a unit than it has."},
    {"leases.foreign_aliases", "aliases", kSum,
     &ClusterFigures::foreign_aliases,
     "Aliases that two controllers gave at the same time."},
    {"leases.by_controller", "list of objects, by controller", kNot, kComposed,
     "What each controller got, packets and bytes; what it dropped; its units "
     "at most, and the part of their capacity that it used, where they are its "
     "own; grants of leases, and what it held at most, in units."},
    {"pools.pools", "pools", kNot, &AliasFigures::pools,
     "Pools of pieces, of an NF that has any."},
    {"pools.pieces_out_max", "pieces", kMax, &PieceCounters::pieces_out_max,
     "Pieces that units and flows had at one time, at most."},
    {"pools.blocks_granted", "blocks", kSum, &PieceCounters::blocks_granted,
     "Blocks of at most 64 pieces given to units."},
    {"pools.requests_refused", "requests", kSum,
     &PieceCounters::requests_refused, "Requests for want of pieces refused."},
    {"pools.reclaim_rounds", "rounds", kSum, &PieceCounters::reclaim_rounds,
     "Times that units were asked for the pieces they could spare."},
    {"explain", "array of objects", kNot, kComposed,
     "The flows of --explain, with their flowlets one by one."},
    {"parse_results", "object: result → packets", kSum, kComposed,
     "How far the parser came."},
    {"fragments_unmatched", "packets", kSum,
     &ClassifierCounters::fragments_unmatched,
     "Later IP fragments without the first one, each a flow of its own."},
};
// clang-format on

// Returns the part of a result that a member belongs to.
template <typename Part>
const Part& In(const RunResult& result, const ReportFigures& derived) {
  if constexpr (std::is_same_v<Part, ReportFigures>) {
    return derived;
  } else if constexpr (std::is_same_v<Part, ControllerCounters>) {
    return result.controller;
  } else if constexpr (std::is_same_v<Part, PieceCounters>) {
    return result.controller.pieces;
  } else if constexpr (std::is_same_v<Part, ClassifierCounters>) {
    return result.classifier;
  } else if constexpr (std::is_same_v<Part, UnitCounters>) {
    return result.state.units;
  } else if constexpr (std::is_same_v<Part, AliasFigures>) {
    return result.aliases;
  } else if constexpr (std::is_same_v<Part, LoggerFigures>) {
    return result.loggers;
  } else if constexpr (std::is_base_of_v<Part, StoreFigures>) {
    return result.store;
  } else if constexpr (std::is_same_v<Part, RecoveryFigures>) {
    return result.recovery;
  } else if constexpr (std::is_same_v<Part, FaultFigures>) {
    return result.faults;
  } else if constexpr (std::is_same_v<Part, ControllerFaultFigures>) {
    return result.controller_faults;
  } else if constexpr (std::is_same_v<Part, ClusterFigures>) {
    return result.cluster;
  } else if constexpr (std::is_same_v<Part, FailureCounters>) {
    return result.controller.failures;
  } else if constexpr (std::is_same_v<Part, RealFigures>) {
    return result.real;
  } else if constexpr (std::is_same_v<Part, UnitStartFigures>) {
    return result.real.starts;
  } else if constexpr (std::is_base_of_v<Part, StateFigures>) {
    return result.state;
  } else {
    static_assert(std::is_same_v<Part, RunResult>);
    return result;
  }
}

struct Reader {
  const RunResult& result;
  const ReportFigures& derived;

  FigureValue operator()(std::monostate) const { return {}; }
  template <typename T, typename Part>
  FigureValue operator()(T Part::*member) const {
    const T& value = In<Part>(result, derived).*member;
    if constexpr (std::is_same_v<T, Histogram>) {
      const bool may_be_absent = std::is_same_v<Part, RealFigures> ||
                                 std::is_same_v<Part, UnitStartFigures>;
      const bool is_absent = may_be_absent && value.count() == 0;
      return is_absent ? nullptr : &value;
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      return uint64_t{value};
    } else {
      return value;
    }
  }
};

struct TypeName {
  std::string_view composed;

  std::string_view operator()(std::monostate) const { return composed; }
  template <typename T, typename Part>
  std::string_view operator()(T Part::*) const {
    if (std::is_same_v<T, bool>) return "boolean";
    if (std::is_same_v<T, double>) return "number";
    if (std::is_same_v<T, Histogram>) return "object: p50 p90 p99 p999 max";
    return "integer";
  }
};

}  // namespace

std::string_view Name(AddUp adds) {
  switch (adds) {
    case AddUp::kSum:
      return "sum";
    case AddUp::kMax:
      return "max";
    case AddUp::kNot:
      return "not";
  }
  return "";
}

std::span<const Figure> Figures() { return kFigures; }

FigureValue ValueOf(const Figure& figure, const RunResult& result,
                    const ReportFigures& derived) {
  return std::visit(Reader{result, derived}, figure.place);
}

bool IsShown(const Figure& figure, const RunResult& result) {
  if (figure.key.starts_with("real.starts.")) {
    return result.real.starts.is_pooled;
  }
  if (figure.key.starts_with("real.")) return result.real.threads > 0;
  if (figure.key.starts_with("aliases.")) return result.aliases.has_sides;
  if (figure.key.starts_with("loggers.")) return result.loggers.entries > 0;
  if (figure.key.starts_with("recovery.")) return result.recovery.samples > 0;
  if (figure.key.starts_with("store.")) {
    return result.store.reads + result.store.writes > 0;
  }
  if (figure.key.starts_with("faults.")) {
    const FaultFigures& faults = result.faults;
    return faults.kills + faults.kills_without_unit + faults.logger_kills +
               faults.kills_without_logger + faults.logger_failures +
               result.controller.failures.failures >
           0;
  }
  if (figure.key.starts_with("controller_faults.")) {
    const ControllerFaultFigures& faults = result.controller_faults;
    return faults.kills + faults.kills_in_vain > 0;
  }
  if (figure.key.starts_with("leases.")) return result.cluster.controllers > 0;
  if (figure.key.starts_with("pools.")) return result.aliases.pools > 0;
  return figure.is_in_report();
}

std::string_view TypeOf(const Figure& figure) {
  return std::visit(TypeName{figure.unit}, figure.place);
}

FigureCounts::FigureCounts(const RunResult& result) {
  static_assert(std::size(kFigures) <= kMaxFigures);
  const ReportFigures nothing_derived;
  for (size_t i = 0; i < std::size(kFigures); ++i) {
    const FigureValue value = ValueOf(kFigures[i], result, nothing_derived);
    if (const auto* count = std::get_if<uint64_t>(&value)) counts_[i] = *count;
  }
}

size_t FigureCounts::IndexOf(const FigurePlace& place) {
  const auto found = std::ranges::find(kFigures, place, &Figure::place);
  SNF_CHECK(found != std::end(kFigures));
  return static_cast<size_t>(found - std::begin(kFigures));
}

}  // namespace snf
