// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_UNIT_LOGS_H_
#define SNF_RUNTIME_LIVE_UNIT_LOGS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/messages/unit_commands.h"
#include "runtime/core/unit.h"
#include "runtime/live/growing_ring.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/log_keeper.h"
#include "runtime/ring/thread_link.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/sdk/table_copy.h"
#include "runtime/shell/entry_maker.h"
#include "runtime/shell/log_figures.h"

namespace snf {

// Theory of operation. The end of a loop of units of the ring to their output
// loggers (logger_loop.h). What a unit did in a call becomes entries, which go
// into the ring. There they stay until the logger has applied and released
// them: so the ring's released position tells the units which of their entries
// are (proto/protocol.md L1), and nothing else comes back. What a unit has to
// know of an entry by then is kept here.
//
// The ring has no holes (U10), so no entry is sent twice. How many entries are
// here is bounded by the ring and what one turn of the units adds.
//
// Worked example: a packet's entry takes the cells 40 to 43 of the ring. The
// loggers' loop reads and applies it, hands the packet to the controller, and
// gives the cells back. NextReleased returns it once `released` is 44.
//
// Owner-thread only. Allocates with the first call of a unit, and nothing for a
// packet.
class UnitLogs {
 public:
  // An entry that the units' loop sent.
  struct Sent {
    uint64_t end = 0;  // position behind it
    PacketMeta meta;   // of a clock; flow and clock of others
    UnitId unit = kNoUnit;
    UnitId taker = kNoUnit;  // of a kForget: sent the Takeover
    LogEntry::Kind kind{};
    uint16_t gives = 0;  // pieces that are free once it is released
    bool is_end() const { return (meta.flags & PacketMeta::kEnd) != 0; }
    // Returns true if somebody is told once it is released.
    bool is_awaited() const {
      return kind == LogEntry::Kind::kForget || is_end() || gives > 0 ||
             Unit::TakesOver(meta, unit);
    }
  };

  // The schema is that of the units' NF, and must outlive the object.
  // `incarnation` is that of all units. If the loggers' process may end, more
  // is kept of units, whose NF has these pools, from the first entry on; and
  // entries have updates of these tables.
  UnitLogs(LinkOut link, uint32_t max_units, uint32_t incarnation,
           const StateSchema& schema);
  void KeepForLoggers(std::span<const NetworkFunction::Pool> pools,
                      std::vector<TableShape> tables = {});

  // Takes the next command of a unit's call; returns false if it is not for the
  // logger.
  bool Take(const UnitCommand& command, const Unit& unit);
  // All commands of the unit's call were taken.
  void EndCall(UnitId unit) { MakerOf(unit).EndCall(); }
  // The controller's answer is on its way to the unit.
  void on_alias_ack(UnitId unit, const AliasAck& ack) {
    MakerOf(unit).on_alias_ack(ack);
  }
  // Homes have merged all updates in the unit's entries up to this one.
  void on_updates_merged(UnitId unit, uint64_t entry) {
    LogKeeper* const keeper = keepers_[value(unit)].get();
    if (keeper != nullptr) keeper->on_updates_merged(entry);
  }
  // The controller knows of the flow's end, of which the logger keeps a mark.
  void SendEnded(UnitId unit, FlowId flow, Clock clock);
  // The unit has stopped: the controller hears of it behind its entries.
  void SendStopped(UnitId unit);
  // The units have reported to the controller with this epoch: their loggers
  // do so once they have all entries up to here.
  void SendReport(uint32_t epoch);
  // The unit was told what only a controller knows of a flow, which is to be
  // known of what the logger keeps when the unit has failed.
  void SendName(UnitId unit, const FlowName& name);
  // Asks the logger of `unit`, which has failed, for the state of a flow.
  void SendPull(UnitId unit, const Pull& pull);
  // Hands over what there is room for; returns true if that was all.
  bool Flush() {
    const bool is_all = link_.Flush();
    figures_.full += is_all ? 0 : 1;
    return is_all;
  }

  // Sees how far the loggers have come; NextReleased goes by that.
  void LookForReleased() { released_ = link_.released(); }
  // Returns the oldest entry, or null if it is not released; PopReleased takes
  // it out.
  const Sent* NextReleased() const {
    const bool is = !sent_.empty() && sent_.front().end <= released_;
    return is ? &sent_.front() : nullptr;
  }
  void PopReleased() {
    ++numbers_released_[value(sent_.front().unit)];
    awaited_ -= sent_.front().is_awaited() ? 1 : 0;
    sent_.pop();
  }
  // Returns true if entries were sent that are not known to be released, or
  // awaited ones among them.
  bool has_unreleased() const { return !sent_.empty(); }
  bool has_awaited() const { return awaited_ > 0; }
  // Returns the next of the pieces that the entry gives, which must have some.
  PieceBlock TakeGiven();
  // Calls visit(sent) for each entry that is not known to be released.
  template <typename Visit>
  void ForEachUnreleased(const Visit& visit) const {
    sent_.ForEach(visit);
  }
  // Returns what is kept of a unit, beside its flows' records, for another
  // process of loggers; null if it has logged nothing.
  const LogKeeper* keeper(UnitId unit) const {
    return keepers_[value(unit)].get();
  }
  // Return the number of the unit's newest entry that is released, and of its
  // newest entry.
  uint64_t released(UnitId unit) const {
    return numbers_released_[value(unit)];
  }
  uint64_t made(UnitId unit) const {
    const EntryMaker* const maker = makers_[value(unit)].get();
    return maker != nullptr ? maker->number() : 0;
  }
  uint32_t incarnation() const { return incarnation_; }
  // Returns the updates of shared tables in the entry of the unit that the last
  // Take made; none if it made no entry.
  std::span<const std::byte> updates(UnitId unit) {
    return made_ ? MakerOf(unit).updates() : std::span<const std::byte>();
  }
  // True if the loggers have come further. For Doorbell::Wait.
  bool has_released() { return released_ != link_.released(); }

  // Counts what was sent, and what of it is known to be released, as
  // LinkOut::sent_in_all() does.
  uint64_t sent() const { return link_.sent_in_all(); }
  uint64_t acknowledged() const { return released_; }
  // Returns true once if the ring has had a released position that cannot be.
  bool TakeFault() {
    return link_.faults() > 0 && !std::exchange(is_broken_, true);
  }
  const UnitLogFigures& figures() const { return figures_; }

 private:
  EntryMaker& MakerOf(UnitId unit) {
    std::unique_ptr<EntryMaker>& maker = makers_[value(unit)];
    if (maker == nullptr) [[unlikely]]
      Make(maker);
    return *maker;
  }
  void Make(std::unique_ptr<EntryMaker>& maker);
  void Send(UnitId unit);
  void CountClock(const LogEntry& entry, std::span<const std::byte> bytes,
                  Sent& sent);
  void Keep(UnitId unit, std::span<const std::byte> bytes);

  LinkOut link_;
  const StateSchema* schema_;
  uint32_t incarnation_;
  bool made_ = false;  // the last Take made an entry
  std::vector<std::unique_ptr<EntryMaker>> makers_;  // by unit
  std::vector<uint64_t> numbers_released_;           // by unit
  std::optional<LogEntryLimits> limits_;  // of entries, if more is kept
  std::span<const NetworkFunction::Pool> pools_;
  std::vector<TableShape> tables_;
  std::vector<std::unique_ptr<LogKeeper>> keepers_;  // by unit
  GrowingRing<Sent> sent_;
  GrowingRing<PieceBlock> given_;
  uint64_t released_ = 0;
  uint64_t awaited_ = 0;
  bool is_broken_ = false;
  UnitLogFigures figures_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_UNIT_LOGS_H_
