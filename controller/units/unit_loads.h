// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_UNIT_LOADS_H_
#define SNF_CONTROLLER_UNITS_UNIT_LOADS_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "controller/units/fill_limit.h"
#include "controller/units/host_map.h"
#include "controller/units/load_meter.h"
#include "controller/units/pool_options.h"
#include "controller/units/unit_channel.h"
#include "controller/units/unit_index.h"
#include "controller/units/unit_ranks.h"
#include "controller/units/unit_set.h"

namespace snf {

// Theory of operation. The units as a decision sees them: which are placeable,
// how loaded each is, and up to which load it may be filled. A load comes from
// the packets in the unit's channel, the demand of its open flowlets, and the
// drained rate (LoadMeter). UnitPool, which derives from this class, says which
// units are placeable: they live and die there.
//
// Placeable units are in the index by load. A leased unit of which the
// controller holds less than the whole is a part: a load is the portion of that
// share in use. Parts, which are few (proto/protocol.md §7), are not in the
// index: they are examined one by one.
//
// With signals other than LoadSignal::kWait loads fade with time. The index is
// brought up to date for a unit whenever something drains from it; besides,
// kRefreshPerBucket units are brought up to date in turn in each load bucket in
// which there are decisions. So a decision costs the same whatever the number
// of units. With up to 64 units every decision sees exact loads. With more, the
// load of a unit from which nothing drains may be as old as units / 64 buckets
// (10,000 units: 78 ms), or units / 8 decisions if there are fewer than eight a
// bucket: it is then too high, because loads fade. The queued bytes of a unit
// are as of its last drain or flowlet.
//
// Worked example, a target of 350 µs at 1 Gbit/s: 17,500 bytes wait in the
// channel of unit 0, a load of 410 quanta. Unit 1 is a part of 512/1024 in
// whose channel 8,750 bytes wait: half the bytes, of half a unit, are 410
// quanta as well.
//
// A value; owner-thread only; nothing is allocated after construction.
class UnitLoads {
 public:
  static constexpr uint32_t kRefreshPerBucket = 64;
  // The most units refreshed per decision if there are more than
  // kRefreshPerBucket.
  static constexpr uint32_t kRefreshPerDecision = 8;

  uint32_t max_units() const { return max_units_; }
  const HostMap& hosts() const { return hosts_; }
  bool placeable(UnitId unit) const {
    return index_.contains(unit) || is_part(unit);
  }
  uint32_t placeable_units() const { return ranks_.size(); }
  // Returns the placeable unit that has `rank` placeable units of lower id, for
  // rank < placeable_units(). O(1).
  UnitId Ranked(uint32_t rank) const { return ranks_.At(rank); }
  // True if the unit is placeable with a share of less than the whole.
  bool is_part(UnitId unit) const {
    return parts_.size() > 0 && parts_.Has(unit);
  }
  // The share of a leased unit in 1/1024 of its capacity; 0 without a lease.
  uint32_t share(UnitId unit) const { return units_[value(unit)].share; }
  // True if the unit takes nothing more, whatever is open on it: a leased unit
  // after on_revoke at once, or a parked unit.
  bool is_shut(UnitId unit) const { return channel(unit).is_shut(); }
  // Returns the number of the newest packet that was given to the unit.
  uint64_t channel_number(UnitId unit) const { return channel(unit).number(); }

  // Returns the room that a demand needs, in quanta (LoadMeter). With
  // LoadSignal::kWait a unit at which nothing waits has room for any demand.
  uint32_t Quanta(int64_t rate_bps) const {
    const uint32_t quanta = meter_.Quanta(rate_bps);
    return by_wait() ? std::min(quanta, limit()) : quanta;
  }
  // True if loads are waits (LoadSignal::kWait).
  bool by_wait() const { return !meter_.fades(); }
  // The load up to which units are filled, at most kFullLoad.
  uint32_t limit() const { return fill_.value(); }
  // The load up to which a flow may stay at its owner. It is beyond the limit,
  // because moves cost state, and further beyond if no other unit has the
  // flow's state: then a move costs a hold as well (proto/decisions.md 13).
  uint32_t limit_of_owner(bool has_replicas) const {
    if (!by_wait()) return limit();
    return limit() + (has_replicas ? kFullLoad / 8 : kFullLoad / 4);
  }
  // The wait that a load stands for, if loads are waits.
  Nanos WaitOf(uint32_t load) const {
    return {latency_target_.ns * int64_t{load} / kFullLoad};
  }
  int64_t open_demand_bps(UnitId unit) const {
    return meter_.open_demand_bps(unit);
  }
  uint32_t open_flowlets(UnitId unit) const {
    return meter_.open_flowlets(unit);
  }
  // The same at that unit: of a smaller share a demand needs a larger part.
  uint32_t QuantaAt(UnitId unit, uint32_t quanta) const {
    if (!is_part(unit)) return quanta;
    const uint32_t scaled = OfShare(unit, quanta);
    return by_wait() ? std::min(scaled, limit()) : scaled;
  }
  // The load of a placeable unit, as the index has it.
  uint32_t load(UnitId unit) const {
    return is_part(unit) ? PartLoad(unit) : index_.load(unit);
  }
  // The next three count only units that are not parts.
  uint64_t total_load() const { return index_.total_load(); }
  UnitId FullestAtMost(uint32_t limit) const {
    return index_.FullestAtMost(limit);
  }
  // Does the same among the units of the unit's host.
  UnitId FullestOnHostOf(UnitId unit, uint32_t limit) const {
    const HostMap::Range range = hosts_.OnHostOf(unit);
    return index_.FullestIn(range.first, range.end, limit);
  }
  UnitId LeastLoaded() const {
    const UnitId least = index_.LeastLoaded();
    return parts_.size() == 0 ? least : LeastLoadedWithParts(least);
  }
  // Calls `visit` for each part, in the order of their ids.
  template <typename Visit>
  void ForEachPart(const Visit& visit) const {
    for (uint32_t i = 0; i < part_ids_.size(); ++i) visit(part_ids_.At(i));
  }
  // Returns true if a placeable unit other than `unit` has a load up to a
  // limit, for which FullestAtMost returned `fullest`.
  bool HasOther(UnitId fullest, UnitId unit) const {
    if (fullest == kNoUnit) return false;
    return fullest != unit || index_.LeastLoaded() != unit;
  }

  // Takes a slot of the unit's channel for a packet of `bytes` (original
  // length). Returns its channel number, or 0 if no slot is free.
  uint64_t TakeSlot(Instant now, UnitId unit, uint32_t bytes) {
    Unit& u = units_[value(unit)];
    u.channel.Use(now);
    const uint32_t slots =
        u.channel.is_buffer() ? start_buffer_packets_ : queue_packets_;
    if (!u.channel.HasSlot(slots)) return 0;
    const uint64_t queued = u.channel.queued_bytes();
    fill_.Count(u.share == 0 ? queued : queued * kFullLoad / u.share);
    // The index learns of these bytes with the next drain or flowlet, since an
    // update for each packet would cost too much.
    return u.channel.Take(bytes);
  }
  // Takes one for what is re-routed after a failure, as TakeSlot.
  uint64_t TakeRecoverySlot(Instant now, UnitId unit, uint32_t bytes) {
    UnitChannel& channel = units_[value(unit)].channel;
    channel.Use(now);
    if (!channel.HasSlot(queue_packets_ + recovery_slots_)) return 0;
    return channel.Take(bytes);
  }
  // Returns false, and changes nothing, if more has drained than was queued.
  bool on_drained(Instant now, const DrainReport& report);
  // Record that a flowlet of this demand opens or closes on a unit.
  void OpenFlowlet(UnitId unit, int64_t demand_bps);
  void CloseFlowlet(UnitId unit, int64_t demand_bps);

 protected:
  explicit UnitLoads(const UnitPoolOptions& options);

  UnitChannel& channel(UnitId unit) { return units_[value(unit)].channel; }
  const UnitChannel& channel(UnitId unit) const {
    return units_[value(unit)].channel;
  }
  // While the unit is not placeable: the share is of the next time that it is.
  void set_share(UnitId unit, uint32_t share) {
    units_[value(unit)].share = share;
  }
  // Makes a unit placeable that is not.
  void Insert(Instant now, UnitId unit);
  // Makes a unit placeable no more, if it is.
  void Erase(UnitId unit) {
    if (!placeable(unit)) return;
    if (parts_.Erase(unit)) {
      part_ids_.Erase(unit);
    } else {
      index_.Erase(unit);
    }
    ranks_.Erase(unit);
  }
  // Brings loads that fade up to `now`, within the bounds above. Units from
  // `first_untouched` on were never placeable.
  void RefreshFading(Instant now, uint32_t first_untouched);

 private:
  struct Unit {
    UnitChannel channel;
    uint32_t share;
  };

  // Converts quanta of a whole unit into quanta of the unit's share.
  uint32_t OfShare(UnitId unit, uint32_t quanta) const {
    const uint32_t share = units_[value(unit)].share;
    const uint64_t scaled = (uint64_t{quanta} * kFullLoad + share - 1) / share;
    return static_cast<uint32_t>(std::min<uint64_t>(scaled, kMaxLoad));
  }
  uint32_t PartLoad(UnitId unit) const {
    return OfShare(unit, meter_.LastLoad(unit, channel(unit).queued_bytes()));
  }
  UnitId LeastLoadedWithParts(UnitId least) const;
  void Touch(Instant now, UnitId unit) {
    if (!index_.contains(unit)) return;
    index_.Update(unit, meter_.Load(now, unit, channel(unit).queued_bytes()));
  }
  // Does the same without bringing the load's window up to date.
  void TouchSameTime(UnitId unit) {
    if (!index_.contains(unit)) return;
    index_.Update(unit, meter_.LastLoad(unit, channel(unit).queued_bytes()));
  }

  uint32_t max_units_;
  HostMap hosts_;
  uint32_t queue_packets_;
  uint32_t recovery_slots_;
  uint32_t start_buffer_packets_;
  Nanos latency_target_;
  uint64_t refresh_bucket_ = 0;  // the bucket of the last RefreshFading
  uint32_t refresh_next_ = 0;    // the unit refreshed last
  uint32_t refresh_left_ = 0;    // units still to refresh in this bucket
  LazyArray<Unit> units_;
  LoadMeter meter_;
  FillLimit fill_;
  UnitIndex index_;
  UnitSet parts_;       // the placeable units that are not in the index …
  UnitRanks part_ids_;  // … in the order of their ids
  UnitRanks ranks_;     // of the placeable units
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_UNIT_LOADS_H_
