// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FIXTURE_LOADED_UNITS_H_
#define SNF_CONTROLLER_CORE_FIXTURE_LOADED_UNITS_H_

#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/rng.h"
#include "controller/core/options.h"
#include "controller/core/placement.h"
#include "controller/units/unit_pool.h"

namespace snf {

// Units for benchmarks of decisions. Between 30 and 95 % of what the latency
// target allows waits at each, and as much comes as leaves. Owner-thread only.
class LoadedUnits {
 public:
  // If `parts` is above 0, units are leased, and `parts` of them only by a
  // half.
  explicit LoadedUnits(uint32_t units, uint32_t parts = 0,
                       uint32_t units_per_host = 1)
      : options_(OptionsFor(units, parts > 0, units_per_host)),
        units_(options_),
        policy_(FindPlacementPolicy("snf")),
        order_(units),
        rate_bps_(units) {
    Rng rng(units);
    std::iota(order_.begin(), order_.end(), uint16_t{0});
    rng.Shuffle(std::span(order_));
    for (int64_t& rate : rate_bps_) {
      rate = rng.Uniform(kCapacityBps * 30 / 100, kCapacityBps * 95 / 100);
    }
    for (uint32_t i = 0; i < units; ++i) {
      out_.clear();
      if (parts == 0) {
        units_.on_ready(now_, units_.TakeWarm(now_, out_));
      } else {
        const uint32_t share = i < units - parts ? kFullLoad : kFullLoad / 2;
        units_.on_lease(now_, UnitId{static_cast<uint16_t>(i)}, share, out_);
      }
    }
    SNF_CHECK(units_.placeable_units() == units);
    for (auto& open : open_) open = UnitId{0};
    for (const UnitId unit : open_) units_.OpenFlowlet(unit, kDemandBps);
    Fill();
  }

  Instant now() const { return now_; }
  const UnitPool& units() const { return units_; }

  // Advances time by `step`; the next unit then reports the bytes that left it
  // during `share`.
  void Drain(Nanos step, Nanos share) {
    now_ = now_ + step;
    const UnitId unit{order_[next_drained_]};
    const auto bytes = static_cast<uint32_t>(rate_bps_[next_drained_] *
                                             share.ns / 8'000'000'000);
    next_drained_ = next_drained_ + 1 == order_.size() ? 0 : next_drained_ + 1;
    SNF_CHECK(units_.TakeSlot(now_, unit, bytes) != 0);
    units_.on_drained(now_, {.unit = unit, .packets = 1, .bytes = bytes});
  }
  void Advance(Nanos step) { now_ = now_ + step; }

  UnitId Decide() {
    out_.clear();
    units_.Refresh(now_);
    const UnitId owner{order_[next_owner_]};
    next_owner_ = next_owner_ + 1 == order_.size() ? 0 : next_owner_ + 1;
    const Placement placement =
        policy_->Place(now_,
                       {.demand = units_.Quanta(kDemandBps),
                        .owner = owner,
                        .alpha = options_.alpha_1024,
                        .owner_alpha = options_.alpha_1024,
                        .gap = options_.flowlet_timeout},
                       units_, out_);
    units_.OpenFlowlet(placement.unit, kDemandBps);
    units_.CloseFlowlet(open_[oldest_], kDemandBps);
    open_[oldest_] = placement.unit;
    oldest_ = (oldest_ + 1) % kOpenFlowlets;
    return placement.unit;
  }

 private:
  static constexpr int64_t kCapacityBps = 1'000'000'000;
  static constexpr int64_t kDemandBps = 5'000'000;
  static constexpr size_t kOpenFlowlets = 8;  // few, so drains make the load

  static ControllerOptions OptionsFor(uint32_t units, bool leased,
                                      uint32_t units_per_host) {
    ControllerOptions options;
    options.max_units = units;
    options.units_per_host = units_per_host;
    options.leased = leased;
    options.warm_units = units;
    options.unit_capacity_bps = kCapacityBps;
    options.unit_idle_timeout = Seconds(86'400);  // all stay in use
    return options;
  }

  // Gives each unit what waits there from now on.
  void Fill() {
    for (size_t i = 0; i < order_.size(); ++i) {
      const UnitId unit{order_[i]};
      const auto bytes = static_cast<uint32_t>(
          rate_bps_[i] * options_.latency_target.ns / 8'000'000'000);
      SNF_CHECK(units_.TakeSlot(now_, unit, bytes) != 0);
      Drain({}, {});
    }
  }

  ControllerOptions options_;
  Instant now_{1'000'000'000};
  UnitPool units_;
  const PlacementPolicy* policy_;
  std::vector<uint16_t> order_;
  std::vector<int64_t> rate_bps_;  // of the units in `order_`, and the share
                                   // of the target that waits there
  size_t next_drained_ = 0;
  size_t next_owner_ = 0;
  std::array<UnitId, kOpenFlowlets> open_{};
  size_t oldest_ = 0;
  ControllerOut out_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FIXTURE_LOADED_UNITS_H_
