// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_TABLE_NETWORK_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_TABLE_NETWORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "platform/drivers/virtual_network/event_queue.h"
#include "platform/drivers/virtual_network/state_network.h"
#include "platform/drivers/virtual_network/unit_sharing.h"
#include "platform/run/figures/table_spread.h"
#include "platform/run/run.h"
#include "runtime/logger/update_log.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/table_message.h"
#include "runtime/tables/unit_tables.h"
#include "runtime/tables/update_sender.h"

namespace snf {

// Finds the updates of shared tables in the loggers of units, for a
// TableNetwork.
class LoggedTables {
 public:
  // Returns the updates in the unit's logger; null while that is not there.
  virtual UpdateLog* UpdatesOf(UnitId unit) = 0;
  // The homes have merged some of them.
  virtual void on_updates_merged(UnitId unit) = 0;

 protected:
  ~LoggedTables() = default;
};

// Theory of operation. The shared tables of a run in virtual time: their homes,
// a replica for each table and unit, and the messages between them, which take
// a hop and suffer what chaos does to messages about state. The driver says
// when a unit is ready, was called, or is to stop, and lets this run whenever
// something is due. Without tables all of it costs nothing.
//
// Several controllers have the same homes (ClusterTables), and a network each
// for their own units. The updates of another controller's units may make a
// message due; so the network asks the homes, whenever it is asked when the
// next thing is due.
//
// If anything may fail, units' updates come from their loggers
// (update_sender.h). Replicas then only take totals, of tables that packets
// read.
//
// At the end the home's totals are the tables of the run, and every copy must
// be equal to them.
//
// Owner-thread only. The same input, options and seed give the same run.
class TableNetwork final : private TableReaders {
 public:
  // The tables are those of the NFs that `example` is made of. `logs` must
  // outlive the object, and so must `common`, which is null for a single
  // controller.
  TableNetwork(const RunOptions& options, const NetworkFunction& example,
               LoggedTables& logs, ClusterTables* common = nullptr);
  TableNetwork(const TableNetwork&) = delete;
  TableNetwork& operator=(const TableNetwork&) = delete;

  // Returns true if the updates of such a run come from units' loggers.
  static bool AreLogged(const RunOptions& options,
                        const NetworkFunction& example) {
    return options.faults.any() && !TablesOf(example).empty();
  }
  bool any() const { return homes_.size() > 0; }

  // The unit's NF is about to be called, until on_stop. It must outlive this.
  void on_ready(Instant now, UnitId unit, uint32_t incarnation,
                const NetworkFunction& nf);
  // A log entry of the unit has these updates (table_update.h).
  void on_updates(UnitId unit, std::span<const std::byte> updates) {
    Unit* const reader = ReaderOf(unit);
    if (reader != nullptr) reader->tables.on_logged(updates);
  }
  // The unit has failed: the homes wait for its replicas no longer.
  void on_unit_failed(UnitId unit);
  // Its NF was called.
  void on_called(Instant now, UnitId unit) {
    if (homes_.size() > 0) NoteUpdates(now, unit);
  }
  // Returns true if units' updates come from their loggers.
  bool is_logged() const { return is_logged_; }
  // Its logger may have got updates, or been replaced.
  void on_logged(Instant now, UnitId unit) {
    if (is_logged_) NoteLogged(now, unit);
  }
  // It is to go, once its updates have reached the homes: true if they have,
  // else `gone` will name it.
  bool on_stop(Instant now, UnitId unit);

  // When something is due; Instant::max() for nothing.
  Instant next_time() const;
  // Does the next thing that is due.
  void RunNext(Instant now);
  // Units that could go since the last call.
  std::vector<UnitId> TakeGone();

  // Call once nothing is due any more: adds the figures, and what is wrong. The
  // tables of `nf`, which ran nothing, become those of the run, unless other
  // controllers have the same (AddTables).
  void Finish(const NetworkFunction& nf, RunResult& result);

 private:
  struct Event {
    enum class Kind : uint8_t {
      kToHome,
      kToUnit,
      kToLogger,
      kHomeTimer,
      kUnitTimer,
      kLoggerTimer,
    };
    Kind kind{};
    uint16_t table = 0;
    UnitId unit = kNoUnit;
    uint32_t message = 0;  // in messages_
  };
  struct Unit {
    UnitTables tables;
    Instant timer = Instant::max();
    uint32_t incarnation = 0;
    bool has_failed = false;
  };

  // The logger of a unit, if updates are logged.
  struct Sender {
    UpdateSender sender;
    Instant timer = Instant::max();
    bool stops = false;  // its unit goes once the updates are merged
  };

  void NoteUpdates(Instant now, UnitId unit);
  void NoteLogged(Instant now, UnitId unit);
  Sender& SenderOf(UnitId unit);
  // Returns the unit's replicas; null if it has none, or has failed.
  Unit* ReaderOf(UnitId unit) const {
    Unit* const reader = units_[value(unit)].get();
    return reader == nullptr || reader->has_failed ? nullptr : reader;
  }
  bool IsOfReader(const TableMessage& message) const;
  void AtLogger(Instant now, const Event& event);
  void AtHome(Instant now, const Event& event);
  void AtUnit(Instant now, const Event& event);
  void Send(Instant now, Event::Kind kind, const TableMessage& message);
  void ScheduleHome(Instant now, uint16_t table);
  void ScheduleUnit(Instant now, UnitId unit);
  void RunHomes(Instant now);
  void NoteCall(Instant now) {
    if (common_ != nullptr) common_->latest = std::max(common_->latest, now);
  }
  const TableReplica& ReplicaOf(size_t table, UnitId unit) const override {
    return *units_[value(unit)]->tables.replica(table);
  }

  const bool is_logged_;
  TableOptions options_;
  Nanos hop_delay_;
  StateNetwork network_;
  ClusterTables* const common_;  // null for a single controller
  TableHomes homes_;
  std::optional<TableSpread> own_spread_;  // of a single controller
  TableSpread& spread_;
  // By table: the earliest kHomeTimer under way.
  std::vector<Instant> home_timers_;
  LoggedTables& logs_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<Sender>> senders_;  // by unit
  std::vector<UnitId> gone_;
  EventQueue<Event> events_;
  std::vector<TableMessage> messages_;
  std::vector<uint32_t> free_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_TABLE_NETWORK_H_
