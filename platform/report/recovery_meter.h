// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_RECOVERY_METER_H_
#define SNF_PLATFORM_REPORT_RECOVERY_METER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "base/time.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"
#include "runtime/core/service_model.h"

namespace snf {

// Theory of operation. Thinks through, again and again during a run in virtual
// time, that a unit's host dies now, and how long it would take from then on,
// detection apart, until another unit could go on: with SNF's output logger,
// and with the two ways that SNF is compared with (SNF §9.4). It changes
// nothing in the run, so all three meet the same units, flows and queues. The
// new unit is there at once, as in the paper. The models, in which `transfer`
// is state_delay and the time of all records of the unit's flows, of full
// length, at state_bandwidth:
//
//   logger      a hop and the transfer: the logger has the newest state, and
//               nothing is replayed. A packet waits for its entry to be at the
//               logger: logger_delay.
//   checkpoint  (FTMB) every 50 ms each unit copies the records of all of its
//               flows at state_bandwidth, and stands still for it. Recovery is
//               the transfer of the last copy, then the service time of all
//               packets that have come since, over again. A packet waits for
//               the input logger before it runs and for the log of its order
//               after that, logger_delay each, and for a copy that is made.
//   datastore   (CHC) each packet's update goes to a store, which serves one
//               request per thread at a time, for `operation`; what is released
//               does not wait for it, but as many updates as kBuffered may be
//               under way, and then packets do. Recovery is a round trip, p50,
//               a request for each flow, and the time of the records; then the
//               service time of what was in transit: queued, or run and not yet
//               in the store.
//
// `snf recovery` runs the same ways on one unit (platform/recovery/), and its
// test holds these models against that. Queues, the wait for a copy and the
// bound of updates under way are here alone.
//
// Worked example: a unit of 1 Gbit/s is half busy, with 100 flows of 96 bytes.
// 30 ms after its last checkpoint it has 15 ms of packets to replay; its 9,600
// bytes take 28 µs to another unit at 10 Gbit/s. So it takes 29 µs, 15.03 ms,
// and with a store of 2 µs a request and 23 µs a round trip 231 µs.
//
// Memory: some 32 bytes a flow. Owner-thread only.
class RecoveryMeter final : public RunObserver {
 public:
  static constexpr Nanos kCheckpointEvery = Milliseconds(50);
  // No multiple of it is one of kCheckpointEvery for long.
  static constexpr Nanos kSampleEvery = Nanos{7'300'000};
  static constexpr int64_t kBuffered = 1'000;

  // `record_bytes` is the size of a flow's record.
  RecoveryMeter(const RunOptions& options, uint32_t record_bytes);

  // Puts what was found into result.recovery.
  void Apply(RunResult& result) const;

  void on_start(Instant first_packet) override;
  void on_enqueue(Instant now, UnitId unit, const PacketMeta& meta) override;
  void on_service_end(Instant now, UnitId unit,
                      const PacketMeta& meta) override;
  void on_payload_dropped(Instant now, UnitId unit,
                          const PacketMeta& meta) override;
  void on_end_flow(Instant now, UnitId unit, const EndFlow& end) override;

 private:
  struct Unit {
    int64_t flows = 0;
    int64_t flows_at_checkpoint = 0;
    Nanos queued;                     // of packets that have come and not run
    Nanos since_checkpoint;           // of those that have run since
    Nanos not_in_store;               // of those that have run, until `stored`
    Instant copied = Instant::min();  // when the last copy is made
    Instant stored = Instant::min();  // when the store has all of its updates
  };
  struct Way {
    Histogram recovery_ns;
    Histogram path_ns;
  };

  void AdvanceTo(Instant now);
  void TakeCheckpoints(Instant now);
  void Sample(Instant now);
  void NotePath(Instant now, Unit& unit, Nanos service);
  Nanos BytesTime(int64_t flows) const;
  Nanos Transfer(int64_t flows) const;

  RunOptions options_;
  uint32_t record_bytes_;
  ServiceModel service_;
  std::vector<Unit> units_;
  absl::flat_hash_map<uint64_t, UnitId> unit_of_;  // by flow
  Instant next_checkpoint_ = Instant::max();
  Instant next_sample_ = Instant::max();
  std::vector<Instant> store_free_at_;  // by thread of the server
  Way logger_;
  Way checkpoint_;
  Way datastore_;
  RecoveryFigures counts_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_RECOVERY_METER_H_
