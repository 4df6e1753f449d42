// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RUN_H_
#define SNF_PLATFORM_RUN_RUN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/packet/classifier.h"
#include "base/packet/flow_key.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/core/options.h"
#include "platform/run/nat_peer_emulator.h"
#include "platform/run/provisioning.h"
#include "platform/run/release_sink.h"
#include "runtime/core/state_figures.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf_report.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// What the network does to the messages about state between units (Push, State,
// Pull, Takeover, TakeoverAck), drawn from the seed. Different delays also
// reorder.
struct ChaosOptions {
  Nanos state_delay_min;  // on top of the delays of RunOptions
  Nanos state_delay_max;
  uint32_t state_loss_65536 = 0;       // messages lost, of 65,536
  uint32_t state_duplicate_65536 = 0;  // messages that arrive twice
  bool any() const {
    return state_delay_max.ns > 0 || state_loss_65536 > 0 ||
           state_duplicate_65536 > 0;
  }
};

// What a run is made of, whatever its driver.
struct RunOptions {
  ControllerOptions controller;
  FlowClassifier::Options flow;
  BufferPool::Options buffers;
  // Where an NF with two sides has its inside; empty: see NatPeerEmulator.
  std::vector<IpPrefix> inside;
  // Controller→unit, unit→controller, unit→egress; a Pull, Takeover or
  // TakeoverAck from unit to unit.
  Nanos hop_delay = Microseconds(1);
  // A record from unit to unit: base + bytes / bandwidth.
  Nanos state_delay = Microseconds(20);
  int64_t state_bandwidth_bps = 10'000'000'000;
  Nanos state_retry = Milliseconds(10);   // UnitOptions::retry_after
  uint32_t hold_packets = 1024;           // UnitOptions::hold_packets
  uint32_t max_replicas = 65'536;         // UnitOptions::max_replicas
  Nanos table_period = Milliseconds(10);  // TableOptions::period
  ChaosOptions chaos;
  Nanos unit_start_delay = Milliseconds(10);  // from stopped to ready
  Nanos warm_start_delay = Microseconds(30);  // from warm to ready
  bool check = true;                          // run the Checker
};

// What became of an NF's aliases; controller.pieces and aliases_… tell more.
struct AliasFigures {
  bool has_sides = false;           // the NF's flows are inside endpoints
  uint32_t pools = 0;               // that it has
  uint64_t packets_offered = 0;     // to the controller by alias
  uint64_t packets_found = 0;       // of these, whose alias a flow had
  uint64_t packets_hairpinned = 0;  // released to an alias, so they came again
  uint64_t at_once_max = 0;         // aliases at one time
};

// Of a shared table (runtime/core/table_replica.h).
struct TableFigures {
  std::string nf;  // its name in the chain; empty where it is alone
  std::string name;
  uint64_t entries = 0;  // at the end
  uint64_t max_entries = 0;
  uint64_t updates = 0;   // by NFs
  uint64_t refused = 0;   // … and entries that went to the rest
  uint64_t messages = 0;  // sent, in all directions
  uint64_t bytes = 0;
  uint64_t repeated = 0;  // messages, of these
  // Of each message of updates, by its first one: until all units knew it that
  // read the table; and until all did.
  Histogram staleness_ns{};
  Histogram spread_ns{};
};

// Of a run in real time.
struct RealFigures {
  uint32_t threads = 0;         // 0: the run was in virtual time
  Nanos wall;                   // from the first packet until the last had left
  Histogram schedule_error_ns;  // how late packets were taken
  uint64_t sleeps = 0;          // of workers that had nothing to do
};

// What came out of a run. By the rule of conservation
//   packets_in + packets_generated + aliases.packets_hairpinned
//     = packets_released + packets_passed_through + packets_consumed
//       + all drops.
struct RunResult {
  uint64_t packets_in = 0;
  uint64_t bytes_in = 0;  // original lengths
  uint64_t packets_generated = 0;
  uint64_t packets_released = 0;
  uint64_t packets_passed_through = 0;
  uint64_t packets_consumed = 0;
  std::array<uint64_t, kDropReasons> dropped{};
  std::vector<uint64_t> nf_dropped;  // by NetworkFunction::drop_reasons()
  std::vector<std::string> nf_drop_names;
  // What the NFs counted, summed over units (NetworkFunction::counters).
  struct NfCounter {
    std::string nf;  // its name in the chain; empty where it is alone
    std::string name;
    std::string help;
    uint64_t value = 0;
  };
  std::vector<NfCounter> nf_counters;

  std::vector<TableFigures> tables;
  // What NFs report, those that report anything.
  struct OfNf {
    std::string nf;  // as NfCounter::nf
    NfReport report;
  };
  std::vector<OfNf> nf_reports;

  Instant first_packet;
  Instant last_packet;
  uint64_t late_packets = 0;  // earlier than their predecessor; taken as equal

  ControllerCounters controller;
  ClassifierCounters classifier;
  uint64_t cold_starts = 0;
  uint64_t warm_starts = 0;
  StateFigures state;
  AliasFigures aliases;
  RealFigures real;
  uint32_t held_packets_max = 0;  // in one unit

  Histogram latency_ns;  // arrival to release, of packets that were released
  uint32_t units_max = 0;
  int64_t units_mean_1000 = 0;
  Histogram utilisation_1000;  // per unit and epoch
  std::vector<EpochSample> epochs;

  uint64_t digest = 0;
  uint64_t violations = 0;
  std::vector<std::string> violation_messages;
  // Packets that units ran and that I6 was checked of, and others
  // (reference.h).
  uint64_t i6_compared = 0;
  uint64_t i6_not_compared = 0;

  uint64_t packets_dropped() const {
    uint64_t sum = 0;
    for (const uint64_t n : dropped) sum += n;
    for (const uint64_t n : nf_dropped) sum += n;
    return sum;
  }
  uint64_t packets_begun() const {
    return packets_in + packets_generated + aliases.packets_hairpinned;
  }
  uint64_t packets_ended() const {
    return packets_released + packets_passed_through + packets_consumed +
           packets_dropped();
  }
  bool conserved() const { return packets_begun() == packets_ended(); }
};

// Sees a run happen, for telling a flow's story. Absent in ordinary runs.
class RunObserver : public DecisionObserver {
 public:
  // A packet reached the controller. What it causes there (a decision, an
  // enqueue, a drop) is reported before the next call of on_arrival.
  virtual void on_arrival(Instant now, const FlowKey& key,
                          uint32_t original_length) = 0;
  virtual void on_enqueue(Instant now, UnitId unit, const PacketMeta& meta) = 0;
  // `wait`: how long the packet was held for state (Unit::in_service_wait).
  virtual void on_service_begin(Instant now, UnitId unit,
                                const PacketMeta& meta, Nanos wait) = 0;
  // A state set out, pushed or in answer to a pull.
  virtual void on_state_sent(Instant now, UnitId sender, UnitId receiver,
                             const State& state) = 0;
  // A pull, or a state, reached a unit.
  virtual void on_pull(Instant now, UnitId asked, const Pull& pull) = 0;
  virtual void on_state(Instant now, UnitId receiver, const State& state) = 0;
  // A unit learnt that its copy of a flow's state is no longer needed.
  virtual void on_takeover(Instant now, UnitId told,
                           const Takeover& takeover) = 0;
  // What a unit did with a packet: released a hop later, taken by the NF, …
  virtual void on_released(Instant now, const PacketMeta& meta) = 0;
  virtual void on_consumed(Instant now, const PacketMeta& meta) = 0;
  // … or dropped. `flow` is kNoFlow, and `clock` 0, where the controller, or
  // the driver before it, dropped the packet that on_arrival told of.
  virtual void on_dropped(Instant now, FlowId flow, Clock clock,
                          std::string_view reason) = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RUN_H_
