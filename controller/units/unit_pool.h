// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_UNIT_POOL_H_
#define SNF_CONTROLLER_UNITS_UNIT_POOL_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/controller_commands.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "controller/units/fill_limit.h"
#include "controller/units/host_map.h"
#include "controller/units/load_meter.h"
#include "controller/units/pool_options.h"
#include "controller/units/unit_index.h"
#include "controller/units/unit_ranks.h"
#include "controller/units/unit_set.h"

namespace snf {

// Theory of operation. A controller's units: their life, their loads, and the
// index by which they are placed on.
//
//   stopped ──► starting ──ready──► active ──idle──► warm ──unused──► stopping
//      ▲            ▲                                 │                  │
//      │            └─────────── taken again ─────────┘                  │
//      └──────────────────────────────────────────────────────────stopped┘
//
// A unit that has failed while it had a process is crashed until its flows are
// moved away (failover.h); then it is stopped.
//
// A start that takes longer than start_timeout has failed (F11): it is counted,
// and nothing new waits for the unit, unless there is no other. After a
// back-off, which doubles with each failure in a row, cold starts continue,
// first with units whose starts have not failed. The unit itself is started
// again where packets wait in its channel, or flows are its own; else it is
// stopped.
//
// A unit is placeable (is in the index) when it is active. A warm unit is
// placeable as soon as it is taken, since it needs only microseconds; a started
// one only when it is ready, unless there is no other unit: then its channel is
// the buffer in which packets wait.
//
// A unit is idle when it got no packet for `unit_idle_timeout`, has none left
// and no flowlet is open on it. A warm unit stops `keep_warm` later. If it owns
// flows then, it is leaving: it must be relieved of them one by one (U8), and
// is no longer taken. But if no unit is placeable, its flows have nowhere to
// go, and it stays warm until one is, or until it owns no flow.
//
// With LoadSignal::kWait a unit is closed before it is idle. The unit of the
// highest id is closed when for `unit_idle_timeout` every flowlet that was
// placed on it had found room elsewhere as well: it is not placeable any more,
// so its flows move to other units with their next flowlets, and it is parked
// once nothing waits there. If a flowlet that is open there continues, it is
// placed again. One unit is closed in each such time. A closing unit is
// placeable again before a warm one is taken. So the lowest ids are in use, and
// as few as would be if no flow preferred the unit that has its state
// (proto/decisions.md 12).
//
// A pool of leased units (UnitPoolOptions::leased) starts and parks none.
// Each is active from on_lease to on_revoke, with a share of its capacity: a
// load is the part of that share in use. Units with less than the whole of it,
// which are few (proto/protocol.md §7), are not in the index: they are examined
// one by one. A revoked unit gets no more flowlets, and stops once its open
// flowlets have ended and nothing waits there, or at once; then it is leaving
// as above.
//
// With other signals loads fade with time. The index is brought up to date for
// a unit whenever something drains from it; besides, kRefreshPerBucket units
// are brought up to date in turn in each load bucket in which there are
// decisions. So a decision costs the same whatever the number of units. With up
// to 64 units every decision sees exact loads. With more, the load of a unit
// from which nothing drains may be as old as units / 64 buckets (10,000 units:
// 78 ms), or units / 8 decisions if there are fewer than eight a bucket: it is
// then too high, because loads fade. The queued bytes of a unit are as of its
// last drain or flowlet.
//
// A unit that was drained, or lies beyond a newly set limit of units, is
// barred: it gets no flowlet. Once it is empty it stops, whether it is idle or
// not, and its flows move away; if they have nowhere to go, another unit is
// taken for them.
//
// A value; owner-thread only; nothing is allocated after construction.
class UnitPool {
 public:
  // kFailed: its last start failed. Packets wait from kStarting on.
  enum class State : uint8_t {
    kStopped,
    kActive,
    kWarm,
    kStopping,
    kCrashed,
    kStarting,
    kFailed
  };
  // The time after the first of several failed starts until the next start, and
  // the longest.
  static constexpr Nanos kFirstBackOff = Milliseconds(100);
  static constexpr Nanos kMaxBackOff = Seconds(10);
  static constexpr uint32_t kRefreshPerBucket = 64;
  // The most units refreshed per decision if there are more than
  // kRefreshPerBucket.
  static constexpr uint32_t kRefreshPerDecision = 8;

  explicit UnitPool(const UnitPoolOptions& options);

  uint32_t max_units() const { return max_units_; }
  // Returns the first spare unit (UnitPoolOptions::spare_units).
  uint32_t first_spare() const { return first_spare_; }
  const HostMap& hosts() const { return hosts_; }
  State state(UnitId unit) const { return units_[value(unit)].state; }
  bool placeable(UnitId unit) const {
    return index_.contains(unit) || is_part(unit);
  }
  // True if the unit is active, but gets no more flowlets.
  bool closing(UnitId unit) const { return closing_.Has(unit); }
  uint32_t placeable_units() const { return ranks_.size(); }
  // True if the unit is placeable with a share of less than the whole.
  bool is_part(UnitId unit) const {
    return parts_.size() > 0 && parts_.Has(unit);
  }
  // The share of a leased unit in 1/1024 of its capacity; 0 without a lease.
  uint32_t share(UnitId unit) const { return units_[value(unit)].share; }
  // True if the unit takes nothing more, whatever is open on it: a leased unit
  // after on_revoke at once, or a parked unit.
  bool is_shut(UnitId unit) const {
    return (units_[value(unit)].slots_used & kShut) != 0;
  }
  // Returns the number of units that start and are not placeable yet, without
  // those whose last start failed.
  uint32_t starting_units() const { return units_awaited_; }
  uint64_t failed_starts() const { return failed_starts_; }
  // Counts the units that start, or are to be started again.
  uint32_t pending_starts() const { return pending_starts_; }
  // Returns true if packets for the unit wait until it is ready.
  bool is_starting(UnitId unit) const {
    return state(unit) >= State::kStarting;
  }
  uint64_t cold_starts() const { return cold_starts_; }
  uint64_t warm_starts() const { return warm_starts_; }

  // True if one is warm, or closing, and can be taken at once.
  bool has_spare() const {
    if (has_bars()) [[unlikely]]
      return HasSpareBesideBarred();
    return units_warm_ > 0 || closing_.size() > 0;
  }

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
  uint64_t total_load() const { return index_.total_load(); }
  // Counts only units that are not parts.
  UnitId FullestAtMost(uint32_t limit) const {
    return index_.FullestAtMost(limit);
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

  // Returns the placeable unit that has `rank` placeable units of lower id, for
  // rank < placeable_units(). O(1).
  UnitId Ranked(uint32_t rank) const { return ranks_.At(rank); }

  // Brings loads up to `now` before a decision, within the bounds above, and
  // closes a unit that is not needed.
  void Refresh(Instant now);
  // Records that a flowlet is placed on the unit because no other had room, or
  // because its flow may not move.
  void MarkNeeded(Instant now, UnitId unit) {
    units_[value(unit)].needed = now;
  }
  // Makes the closing unit of the lowest id placeable again. Returns kNoUnit if
  // none is closing.
  UnitId Reopen(Instant now);

  // Takes a warm unit, or starts a stopped one, lowest id first, and pushes one
  // command. Returns kNoUnit, and pushes nothing, if there is none, or if a
  // start has just failed.
  UnitId TakeWarm(Instant now, ControllerOut& out);
  UnitId StartStopped(Instant now, ControllerOut& out);
  // Makes a starting unit placeable, lowest id first; for when no unit is
  // placeable. Returns kNoUnit if none is starting.
  UnitId UseStarting(Instant now);
  // The same for a unit whose start has failed.
  UnitId UseFailed(Instant now);
  // Does the same for a unit that is to stop: withdraws its Stop by a warm
  // start (U8). If the unit reports meanwhile that it has stopped, the report
  // is refused.
  UnitId WithdrawStop(Instant now, ControllerOut& out);

  // Returns a barred or spare unit, for when there is no other: one that runs
  // or starts, otherwise starts one. The unit leaves when it is ready.
  UnitId UseBarred(Instant now, ControllerOut& out);

  // Makes that unit placeable, whatever its load, with at most one command.
  // Returns false if the unit is stopping, or barred.
  bool Use(Instant now, UnitId unit, ControllerOut& out);

  // The controller holds this share of the unit from now on, more or less than
  // before. If it was none of its units, or is leaving, one command is pushed.
  // Returns false, and changes nothing, if the share is not 1 … kFullLoad, or
  // the unit has failed.
  bool on_lease(Instant now, UnitId unit, uint32_t share, ControllerOut& out);
  // Ends the use of a leased unit. With `at_once`, its open flowlets move to
  // other units with their next packet, and one command is pushed. Returns
  // false, and changes nothing, if there is no lease, or if it is revoked
  // already and not to be left at once.
  bool on_revoke(Instant now, UnitId unit, bool at_once, ControllerOut& out);

  // Each returns false, and changes nothing, for an impossible message: the
  // unit is not starting, or not stopping; more has drained than was queued.
  bool on_ready(Instant now, UnitId unit);
  bool on_stopped(UnitId unit);
  bool on_drained(Instant now, const DrainReport& report);

  // Called when the unit has failed: the packets in its channel are lost, and
  // it gets no more. Returns false, and changes nothing, if it is stopped or
  // crashed.
  bool on_failed(UnitId unit);
  // Called once a failed unit owns no flows any more: it may be started again.
  void EndFailure(UnitId unit);
  // Returns true if the unit has a process, which may keep state.
  // Packets may be under way to it, or in it.
  bool has_channel(UnitId unit) const {
    return state(unit) != State::kStopped && state(unit) != State::kCrashed;
  }
  bool has_process(UnitId unit) const {
    const Unit& u = units_[value(unit)];
    return u.state >= State::kStarting
               ? u.was_warm
               : u.state != State::kStopped && u.state != State::kCrashed;
  }
  // Returns that of the unit's last start; 0 if it was never started.
  // The number of the newest packet that was given to it.
  uint64_t channel_number(UnitId unit) const {
    return units_[value(unit)].channel_number;
  }
  uint32_t incarnation(UnitId unit) const {
    return units_[value(unit)].incarnation;
  }
  // A pool that continues another controller's has the unit like this. Once for
  // each unit, before the first packet; each is stopped or warm until then. A
  // leased unit that is used needs its lease as well.
  void Restore(Instant now, const UnitReport& report);
  // Takes one for what is re-routed after a failure, as TakeSlot.
  uint64_t TakeRecoverySlot(Instant now, UnitId unit, uint32_t bytes) {
    Unit& u = units_[value(unit)];
    u.last_packet = std::max(u.last_packet, now);
    if (u.slots_used >= queue_packets_ + recovery_slots_) return 0;
    ++u.slots_used;
    u.queued_bytes += bytes;
    return ++u.channel_number;
  }

  // Record that a flowlet of this demand opens or closes on a unit.
  void OpenFlowlet(UnitId unit, int64_t demand_bps);
  void CloseFlowlet(UnitId unit, int64_t demand_bps);

  // Takes a slot of the unit's channel for a packet of `bytes` (original
  // length). Returns its channel number, or 0 if no slot is free.
  uint64_t TakeSlot(Instant now, UnitId unit, uint32_t bytes) {
    Unit& u = units_[value(unit)];
    // The idle clock restarts at every packet, even if the packet finds no
    // slot.
    u.last_packet = std::max(u.last_packet, now);
    const uint32_t limit =
        u.state >= State::kStarting ? start_buffer_packets_ : queue_packets_;
    if (u.slots_used >= limit) return 0;
    ++u.slots_used;
    fill_.Count(u.share == 0 ? u.queued_bytes
                             : u.queued_bytes * kFullLoad / u.share);
    // The index learns of these bytes with the next drain or flowlet, since an
    // update for each packet would cost too much.
    u.queued_bytes += bytes;
    return ++u.channel_number;
  }

  // Record that the unit owns one flow more or less. RemoveOwned returns true
  // if this was the last flow of a unit that is leaving.
  void AddOwned(UnitId unit) { ++units_[value(unit)].owned_flows; }
  bool RemoveOwned(Instant now, UnitId unit);
  uint32_t owned_flows(UnitId unit) const {
    return units_[value(unit)].owned_flows;
  }
  // Flows that must be moved away from units that are stopping.
  uint64_t leaving_flows() const { return leaving_flows_; }

  // Bars a unit, or bars it no more. Drain returns false, and changes nothing,
  // if no other unit could be used then that is not about to stop itself.
  // O(max_units).
  bool Drain(Instant now, UnitId unit);
  void Undrain(UnitId unit) { drained_.Erase(unit); }
  bool drained(UnitId unit) const { return drained_.Has(unit); }
  // Takes over the options of units that may change (Controller::Tune).
  // Returns false, and changes nothing, if no unit could be used then.
  bool Tune(Instant now, const UnitPoolOptions& options);
  // Returns the number of units, from the lowest ids on, that may be used
  // unless drained.
  uint32_t usable_units() const { return usable_; }

  Instant next_wakeup() const { return timers_.next_wakeup(); }
  // Handles one timer that is due and pushes at most one command. Returns false
  // if no timer is due.
  bool on_timer(Instant now, ControllerOut& out);

 private:
  friend class Rebuild;

  struct Unit {
    State state;
    bool waits;        // keep_warm is over, but its flows have nowhere to go
    bool awaited;      // is in units_awaited_
    bool was_warm;     // where it is starting
    uint8_t failures;  // failed starts since it last was ready
    bool revoked;
    uint32_t slots_used;  // plus kShut where no more is to be
    uint32_t incarnation;
    uint32_t owned_flows;
    uint32_t share;  // of a leased unit
    Instant last_packet;
    Instant needed;  // the last MarkNeeded, or when it became placeable
    uint64_t channel_number;
    uint64_t queued_bytes;  // of the packets in used slots
  };

  bool has_bars() const { return usable_ < max_units_ || drained_.size() > 0; }
  bool IsBarred(UnitId unit) const {
    return value(unit) >= usable_ || drained_.Has(unit);
  }
  bool HasSpareBesideBarred() const;
  UnitId NextClosing() const;
  bool HasUsable(uint32_t usable, UnitId beside) const;
  void LeaveBarred(Instant now, UnitId unit);
  void UseAnother(Instant now, ControllerOut& out);
  static constexpr uint32_t kShut = uint32_t{1} << 31;

  // Converts quanta of a whole unit into quanta of the unit's share.
  uint32_t OfShare(UnitId unit, uint32_t quanta) const {
    const uint32_t share = units_[value(unit)].share;
    const uint64_t scaled = (uint64_t{quanta} * kFullLoad + share - 1) / share;
    return static_cast<uint32_t>(std::min<uint64_t>(scaled, kMaxLoad));
  }
  uint32_t PartLoad(UnitId unit) const {
    return OfShare(unit,
                   meter_.LastLoad(unit, units_[value(unit)].queued_bytes));
  }
  UnitId LeastLoadedWithParts(UnitId least) const;
  void Leave(UnitId unit, ControllerOut& out);
  void EndUse(Unit& unit);
  void CloseUnneeded(Instant now);
  void Park(Instant now, UnitId unit, ControllerOut& out);
  UnitId LowestIn(State state) const;
  UnitId NextStopped() const;
  void Take(Instant now, UnitId unit, ControllerOut& out);
  void Start(Instant now, UnitId unit, ControllerOut& out);
  void FailStart(Instant now, UnitId unit, ControllerOut& out);
  void EndBackOff(Instant now, UnitId unit, ControllerOut& out);
  void EraseFailed();
  void PushStart(UnitId unit, bool warm, ControllerOut& out) {
    const uint32_t incarnation = next_incarnation_++;
    units_[value(unit)].incarnation = incarnation;
    units_[value(unit)].slots_used &= ~kShut;
    out.push(ControllerCommand::Start(unit, warm, incarnation));
  }
  void MakePlaceable(Instant now, UnitId unit);
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
  void SetAwaited(Unit& unit, bool awaited) {
    units_awaited_ += uint32_t{awaited} - uint32_t{unit.awaited};
    unit.awaited = awaited;
  }
  void SetWaits(Unit& unit, bool waits) {
    units_waiting_ += uint32_t{waits} - uint32_t{unit.waits};
    unit.waits = waits;
  }
  void Touch(Instant now, UnitId unit) {
    if (!index_.contains(unit)) return;
    index_.Update(unit,
                  meter_.Load(now, unit, units_[value(unit)].queued_bytes));
  }
  // Does the same without bringing the load's window up to date.
  void TouchSameTime(UnitId unit) {
    if (!index_.contains(unit)) return;
    index_.Update(unit,
                  meter_.LastLoad(unit, units_[value(unit)].queued_bytes));
  }

  uint32_t max_units_;
  uint32_t first_spare_;
  HostMap hosts_;
  uint32_t queue_packets_;
  uint32_t recovery_slots_;
  uint32_t start_buffer_packets_;
  Nanos idle_timeout_;
  Nanos keep_warm_;
  Nanos start_timeout_;
  uint32_t units_awaited_ = 0;
  uint32_t pending_starts_ = 0;
  uint32_t next_incarnation_;
  Nanos latency_target_;
  bool leased_;
  uint32_t first_untouched_ = 0;  // units from here on were never started
  uint32_t units_warm_ = 0;
  uint32_t units_stopped_ = 0;
  uint32_t units_waiting_ = 0;
  uint64_t leaving_flows_ = 0;
  uint64_t cold_starts_ = 0;
  uint64_t warm_starts_ = 0;
  uint64_t failed_starts_ = 0;
  uint32_t failed_in_a_row_ = 0;
  Instant start_not_before_ = Instant::min();  // the end of the back-off

  uint64_t refresh_bucket_ = 0;  // the bucket of the last Refresh
  uint32_t refresh_next_ = 0;    // the unit refreshed last
  uint32_t refresh_left_ = 0;    // units still to refresh in this bucket

  Instant closed_at_ = Instant::min();  // of the unit closed last
  UnitSet closing_;  // active, but not placeable: to be parked once empty
  UnitSet drained_;
  uint32_t usable_;  // units from here on are barred

  LazyArray<Unit> units_;
  LoadMeter meter_;
  FillLimit fill_;
  UnitIndex index_;
  UnitSet parts_;       // the placeable units that are not in the index …
  UnitRanks part_ids_;  // … in the order of their ids
  UnitRanks ranks_;     // of the placeable units
  TimingWheel timers_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_UNIT_POOL_H_
