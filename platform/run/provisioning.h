// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_PROVISIONING_H_
#define SNF_PLATFORM_RUN_PROVISIONING_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/time.h"
#include "controller/core/options.h"
#include "controller/core/packet_cost.h"
#include "platform/run/epoch_series.h"
#include "platform/run/run_events.h"

namespace snf {

// Theory of operation. Demanded against provisioned bandwidth over time (SNF
// Fig. 1 and 2). A unit is provisioned from the order to start it until it is
// parked. Time is cut into epochs of 100 ms; at the end of each, every unit
// that was up in it gives one sample of its utilisation: what it drained over
// what it could have drained while it was up.
//
// Example: a 1 Gbit/s unit that was up for 50 ms of an epoch and drained 3 MB
// had a utilisation of 24 Mbit / 50 Mbit = 48 %.
//
// A sparse series: a gap of years costs nothing. Totals are of the whole run,
// whatever samples are forgotten. Owner-thread only.
class Provisioning final : public RunObserver {
 public:
  static constexpr int64_t kEpochNs = 100'000'000;

  explicit Provisioning(const ControllerOptions& options)
      : capacity_bps_(options.unit_capacity_bps),
        cost_(options),
        units_(options.max_units) {
    this_epoch_.reserve(options.max_units);
  }
  // Makes room, so that nothing is allocated afterwards.
  void Reserve() { samples_.Reserve(); }

  // Epochs begin with the first packet: one at that time, others 100 ms apart.
  void on_start(Instant first_packet) override;
  // Times must not run backwards.
  void on_offered(Instant now, uint32_t bytes) {
    Advance(now);
    last_traffic_ = now;
    samples_.back().offered_bytes += cost_(bytes);
  }
  // A packet was dropped (PacketExits).
  void on_dropped(Instant now) {
    Advance(now);
    ++samples_.back().dropped_packets;
  }
  void on_arrival(Instant now, const FlowKey& /*key*/,
                  uint32_t original_length) override {
    on_offered(now, original_length);
  }
  void on_drained(Instant now, UnitId unit, uint32_t packets,
                  uint64_t bytes) override {
    Advance(now);
    last_traffic_ = now;
    samples_.back().drained_bytes += bytes;
    units_[value(unit)].drained_bytes += bytes;
    units_[value(unit)].packets += packets;
  }
  void on_unit_up(Instant now, UnitId unit) override;
  void on_unit_down(Instant now, UnitId unit) override;
  // Closes the last epoch; units still up are counted until now.
  void on_end(Instant now) override;

  // The sums of a unit until now.
  struct Total {
    bool is_up = false;
    bool was_up = false;  // ever
    uint64_t packets = 0;
    uint64_t bytes = 0;  // what they cost
  };
  Total total(UnitId unit) const {
    const Unit& u = units_[value(unit)];
    return {.is_up = u.up,
            .was_up = u.was_up,
            .packets = u.packets,
            .bytes = u.bytes + u.drained_bytes};
  }

  // Returns the samples that it still has (EpochSeries), in order.
  std::vector<EpochSample> samples() const { return samples_.InOrder(); }
  // Returns the sums of earlier ones.
  const ForgottenEpochs& forgotten() const { return samples_.forgotten(); }
  uint32_t units_max() const { return units_max_; }
  // Mean units in 1/1000, over the time from the first packet (or the first
  // event, if that is earlier) until the last packet came to the controller or
  // left a unit. After on_end.
  int64_t units_mean_1000() const;
  // Time that units were up, summed over units, until the same end: not the
  // time for which they lie idle behind all traffic. After on_end.
  int64_t unit_ns_with_traffic() const { return unit_ns_with_traffic_; }
  // Per unit and epoch, in 1/1000.
  const Histogram& utilisation() const { return utilisation_; }

 private:
  // Units can be up for years of a capture without a packet.
  static constexpr Nanos kLongIdle = Seconds(600);

  struct Unit {
    uint64_t drained_bytes = 0;  // in this epoch
    uint64_t bytes = 0;          // drained in those before
    uint64_t packets = 0;        // drained in all
    int64_t up_ns = 0;           // in this epoch, up to up_since
    Instant up_since;
    bool up = false;
    bool was_up = false;
    bool listed = false;  // in this_epoch_
  };

  // Brings the series to `now`, epoch by epoch while units are up.
  void Advance(Instant now) {
    if (samples_.empty() || IsOver(now)) AdvanceEpochs(now);
  }
  // Returns true if the epoch ended. The last one of all time never does.
  bool IsOver(Instant now) const {
    return now >= epoch_end_ && epoch_end_ != Instant::max();
  }
  void AdvanceEpochs(Instant now);
  int64_t EpochOf(Instant now) const;
  void StartEpoch(Instant now);
  void CloseEpoch(Instant end);
  // Counts whole epochs in which units are up and idle, from the end of one to
  // the start of that of `now`, which it returns. The series leaves them out.
  Instant SkipEpochs(Instant from, Instant now);
  // Counts the time since then for the units that are up; called before their
  // number changes.
  void CountUnitTime(Instant now);

  int64_t capacity_bps_;
  PacketCost cost_;
  std::vector<Unit> units_;
  std::vector<uint16_t> this_epoch_;  // units that were up in it
  uint32_t units_up_ = 0;
  uint32_t units_max_ = 0;
  int64_t phase_ns_ = 0;  // of epochs, behind whole 100 ms
  Instant epoch_end_;
  Instant began_ = Instant::max();
  Instant last_traffic_ = Instant::min();
  Instant counted_until_;
  // Until then; saturates, as the next does, which 64 units take 4 years to
  // reach.
  int64_t counted_unit_ns_ = 0;
  int64_t unit_ns_with_traffic_ = 0;
  EpochSeries samples_;
  Histogram utilisation_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_PROVISIONING_H_
