// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_USAGE_METER_H_
#define SNF_PLATFORM_REPORT_USAGE_METER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "platform/run/run_events.h"
#include "resource_manager/core/usage_ledger.h"

namespace snf {

// Measures what a run of a chain used, for each epoch of a second since the
// run's first packet, in integers that add up to what was done:
//
//   packets, bytes    that the chain has run, by original lengths
//   processing_ns     of units, with these and with packets that carry only a
//                     clock
//   state             the bytes of a flow's record, from the first packet that
//                     was run until the flow ends; its copies do not count, so
//                     a move changes nothing
//
// In real time, processing is the time that units are busy by their capacity;
// where they have none, by the clock, in turns of up to 32 packets.
//
// Work counts in the epoch in which it ends, a packet that waits amid it in
// that of its first run; state up to each event in that of the event. State is
// added up in bytes times nanoseconds: what is below a byte-second goes on to
// the next epoch, and is left out at the end.
//
// Memory: some 40 bytes a flow at one time, and a row an epoch. Owner-thread
// only.
class UsageMeter final : public RunObserver {
 public:
  static constexpr Nanos kEpoch = Seconds(1);
  static constexpr size_t kMaxRows = 1'000'000;

  // `record_bytes` is the size of a flow's record.
  UsageMeter(uint32_t max_units, uint32_t record_bytes,
             size_t max_rows = kMaxRows)
      : record_bytes_(record_bytes), begun_(max_units), ledger_(max_rows) {}

  const UsageLedger& ledger() const { return ledger_; }
  // Counts the flows whose state is counted now.
  uint64_t live_flows() const { return live_; }
  // Returns an object a line for each epoch in which something was used:
  //
  //   {"chain":"nat","epoch":0,"packets":1,"bytes":60,"processing_ns":480,
  //    "state_byte_seconds":0}
  //
  // Error: ResourceExhausted if the ledger refused some of it.
  absl::StatusOr<std::string> JsonLines(const std::string& chain) const;

  // Adds what another one measured of the same run, of other flows.
  void Add(const UsageMeter& other);

  void on_start(Instant first_packet) override {
    start_ = state_until_ = first_packet;
  }
  void on_service_begin(Instant now, UnitId unit, const PacketMeta& meta,
                        Nanos wait) override;
  void on_service_again(Instant now, UnitId unit,
                        const PacketMeta& meta) override;
  void on_service_end(Instant now, UnitId unit,
                      const PacketMeta& meta) override;
  void on_run(Instant now, const PacketMeta& meta) override {
    Run(now, meta, Nanos{});
  }
  void on_busy(Instant now, Nanos time) override;
  void on_end_flow(Instant now, UnitId unit, const EndFlow& end) override;
  void on_end(Instant now) override;

 private:
  __extension__ using Wide = unsigned __int128;
  struct Flow {
    Clock done{};  // the last clock that was run; 0: none
    Clock last{};  // after which it ends; 0: not known yet
  };

  UsageLedger::Key KeyAt(Instant now) const {
    return {.epoch = static_cast<uint64_t>((now - start_).ns / kEpoch.ns)};
  }
  void Run(Instant now, const PacketMeta& meta, Nanos taken);
  // Counts the state of the flows that live, up to now.
  void Advance(Instant now);

  uint32_t record_bytes_;
  Instant start_;
  Instant state_until_;
  Wide byte_ns_ = 0;  // not in the ledger yet
  uint64_t live_ = 0;
  absl::flat_hash_map<uint64_t, Flow> flows_;  // by FlowId
  std::vector<Instant> begun_;                 // what each unit serves
  UsageLedger ledger_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_USAGE_METER_H_
