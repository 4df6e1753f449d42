// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_network/table_network.h"

#include <algorithm>
#include <utility>

#include "platform/run/figures/table_totals.h"
#include "platform/run/run_setup.h"

namespace snf {
namespace {

constexpr uint64_t kRngStream = 3;  // of the fates of messages

}  // namespace

TableNetwork::TableNetwork(const RunOptions& options,
                           const NetworkFunction& example, LoggedTables& logs,
                           ClusterTables* common)
    : is_logged_(AreLogged(options, example)),
      options_(TableOptionsOf(options, is_logged_)),
      hop_delay_(options.hop_delay),
      network_(options, 0, kRngStream),
      common_(common),
      homes_(common == nullptr
                 ? TableHomes(example, options.controller.max_units, options_)
                 : TableHomes(common->homes, options.controller.controller_id)),
      own_spread_(common == nullptr
                      ? std::make_optional<TableSpread>(
                            homes_.size(), options.controller.max_units)
                      : std::nullopt),
      spread_(common == nullptr ? *own_spread_ : common->spread),
      home_timers_(homes_.size(), Instant::max()),
      logs_(logs),
      units_(options.controller.max_units),
      senders_(options.controller.max_units) {
  spread_.Add(*this);
}

void TableNetwork::on_ready(Instant now, UnitId id, uint32_t incarnation,
                            const NetworkFunction& nf) {
  if (homes_.size() == 0) return;
  if (is_logged_) SenderOf(id).stops = false;
  std::unique_ptr<Unit>& unit = units_[value(id)];
  // A unit with another log has a new process and NF.
  if (unit == nullptr || unit->has_failed ||
      (is_logged_ && unit->incarnation != incarnation)) {
    unit = std::make_unique<Unit>(
        Unit{.tables = UnitTables(id, nf, options_, is_logged_)});
  }
  unit->incarnation = incarnation;
  unit->tables.on_ready(now, incarnation);
  ScheduleUnit(now, id);
}

void TableNetwork::on_unit_failed(UnitId id) {
  Unit* const unit = homes_.size() == 0 ? nullptr : ReaderOf(id);
  if (unit == nullptr) return;
  unit->has_failed = true;
  homes_.on_unit_failed(id);
}

// Messages of a unit that has failed are void: a home that took one would
// repeat totals without end.
bool TableNetwork::IsOfReader(const TableMessage& message) const {
  const Unit* const unit = ReaderOf(message.unit);
  return unit != nullptr && unit->incarnation == message.incarnation;
}

void TableNetwork::NoteUpdates(Instant now, UnitId id) {
  Unit* const unit = ReaderOf(id);
  if (unit == nullptr) return;
  unit->tables.on_called(now);
  ScheduleUnit(now, id);
}

TableNetwork::Sender& TableNetwork::SenderOf(UnitId id) {
  std::unique_ptr<Sender>& sender = senders_[value(id)];
  if (sender == nullptr) {
    sender = std::make_unique<Sender>(
        Sender{.sender = UpdateSender(id, options_, homes_.size())});
  }
  return *sender;
}

void TableNetwork::NoteLogged(Instant now, UnitId id) {
  const UpdateLog* const log = logs_.UpdatesOf(id);
  if (log == nullptr) return;
  Sender& sender = SenderOf(id);
  const Unit* const reader = ReaderOf(id);
  const bool is_gone =
      log->empty() && (reader == nullptr || !reader->tables.joined());
  if (is_gone && std::exchange(sender.stops, false)) gone_.push_back(id);
  const Instant next = sender.sender.next_wakeup(*log);
  const Instant wakeup = std::max(next, now);
  if (next == Instant::max() || wakeup >= sender.timer) return;
  sender.timer = wakeup;
  events_.Push(wakeup, {.kind = Event::Kind::kLoggerTimer, .unit = id});
}

void TableNetwork::AtLogger(Instant now, const Event& event) {
  Sender& sender = SenderOf(event.unit);
  UpdateLog* const log = logs_.UpdatesOf(event.unit);
  TableMessage out;
  bool has_out = false;
  if (event.kind == Event::Kind::kToLogger) {
    const TableMessage in = messages_[event.message];
    free_.push_back(event.message);
    if (log == nullptr) return;
    has_out = sender.sender.on_message(now, in, *log, out);
    logs_.on_updates_merged(event.unit);
  } else {
    if (now < sender.timer) return;  // outdated
    sender.timer = Instant::max();
    if (log == nullptr) return;
    has_out = sender.sender.on_timers(now, *log, out);
  }
  for (; has_out; has_out = sender.sender.on_timers(now, *log, out)) {
    Send(now, Event::Kind::kToHome, out);
  }
  NoteLogged(now, event.unit);
}

bool TableNetwork::on_stop(Instant now, UnitId id) {
  Unit* const unit = homes_.size() == 0 ? nullptr : ReaderOf(id);
  bool waits = unit != nullptr && unit->tables.joined();
  if (waits) {
    unit->tables.on_stop();
    ScheduleUnit(now, id);
  }
  if (is_logged_) {
    const UpdateLog* const log = logs_.UpdatesOf(id);
    waits = waits || log == nullptr || !log->empty();
    SenderOf(id).stops = waits;
  }
  return !waits;
}

std::vector<UnitId> TableNetwork::TakeGone() {
  return std::exchange(gone_, {});
}

Instant TableNetwork::next_time() const {
  if (common_ == nullptr) return events_.next_time();
  const Instant homes = std::max(homes_.next_wakeup(), common_->latest);
  return std::min(events_.next_time(), homes_.next_wakeup() == Instant::max()
                                           ? Instant::max()
                                           : homes);
}

void TableNetwork::RunNext(Instant now) {
  NoteCall(now);
  if (events_.next_time() > now) return RunHomes(now);
  const Event event = events_.Pop();
  if (event.kind == Event::Kind::kToHome ||
      event.kind == Event::Kind::kHomeTimer) {
    AtHome(now, event);
  } else if (event.kind == Event::Kind::kToLogger ||
             event.kind == Event::Kind::kLoggerTimer) {
    AtLogger(now, event);
  } else {
    AtUnit(now, event);
  }
}

// Does what is due at the homes of several controllers for units of this one.
void TableNetwork::RunHomes(Instant now) {
  for (size_t table = 0; table < homes_.size(); ++table) {
    homes_.on_timers(now, table, [&](const TableMessage& message) {
      Send(now, Event::Kind::kToUnit, message);
    });
  }
}

void TableNetwork::AtHome(Instant now, const Event& event) {
  const auto send = [&](const TableMessage& message) {
    const bool to_logger = message.kind == TableMessage::Kind::kLoggedAck;
    Send(now, to_logger ? Event::Kind::kToLogger : Event::Kind::kToUnit,
         message);
  };
  const TableHome& home = homes_.home(event.table);
  if (event.kind == Event::Kind::kToHome) {
    const TableMessage in = messages_[event.message];
    free_.push_back(event.message);
    const bool is_loggers = in.kind == TableMessage::Kind::kLogged;
    if (is_logged_ && !is_loggers && !IsOfReader(in)) return;
    const uint64_t before = home.version();
    homes_.on_message(now, in, send);
    if (home.version() != before && !is_logged_) {
      spread_.on_merged(event.table, home.version(), in.oldest);
    }
    // Nobody else may have joined, or one have left.
    spread_.Find(now, event.table, home);
  } else {
    if (now < home_timers_[event.table]) return;  // outdated
    home_timers_[event.table] = Instant::max();
    homes_.on_timers(now, event.table, send);
  }
  ScheduleHome(now, event.table);
}

void TableNetwork::AtUnit(Instant now, const Event& event) {
  Unit* const reader = ReaderOf(event.unit);
  const bool is_message = event.kind == Event::Kind::kToUnit;
  if (reader == nullptr) {
    if (is_message) free_.push_back(event.message);
    return;
  }
  Unit& unit = *reader;
  const auto send = [&](const TableMessage& message) {
    Send(now, Event::Kind::kToHome, message);
  };
  if (is_message) {
    const TableMessage in = messages_[event.message];
    free_.push_back(event.message);
    unit.tables.on_message(now, in, send);
    spread_.Find(now, event.table, homes_.home(event.table));
  } else {
    if (now < unit.timer) return;  // outdated
    unit.timer = Instant::max();
    unit.tables.on_timers(now, send);
  }
  ScheduleUnit(now, event.unit);
  if (!unit.tables.TakeGone()) return;
  if (is_logged_) {
    NoteLogged(now, event.unit);
  } else {
    gone_.push_back(event.unit);
  }
}

void TableNetwork::Send(Instant now, Event::Kind kind,
                        const TableMessage& message) {
  homes_.Count(message);
  for (const Nanos delay : network_.Send()) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(messages_.size()));
      messages_.emplace_back();
    }
    const uint32_t kept = free_.back();
    free_.pop_back();
    messages_[kept] = message;
    events_.Push(now + delay, {.kind = kind,
                               .table = message.table,
                               .unit = message.unit,
                               .message = kept});
  }
}

void TableNetwork::ScheduleHome(Instant now, uint16_t table) {
  if (common_ != nullptr) return;
  const Instant next = homes_.home(table).next_wakeup();
  const Instant wakeup = std::max(next, now);
  if (next == Instant::max() || wakeup >= home_timers_[table]) return;
  home_timers_[table] = wakeup;
  events_.Push(wakeup, {.kind = Event::Kind::kHomeTimer, .table = table});
}

void TableNetwork::ScheduleUnit(Instant now, UnitId id) {
  Unit& unit = *units_[value(id)];
  const Instant next = unit.tables.next_wakeup();
  const Instant wakeup = std::max(next, now);
  if (next == Instant::max() || wakeup >= unit.timer) return;
  unit.timer = wakeup;
  events_.Push(wakeup, {.kind = Event::Kind::kUnitTimer, .unit = id});
}

void TableNetwork::Finish(const NetworkFunction& nf, RunResult& result) {
  std::vector<std::vector<TableCopyFigures>> units(units_.size());
  for (size_t i = 0; i < units.size(); ++i) {
    const auto id = UnitId{static_cast<uint16_t>(i)};
    const Unit* const unit = ReaderOf(id);
    if (unit != nullptr) units[i] = FiguresOf(unit->tables);
    for (size_t table = 0; senders_[i] != nullptr && table < homes_.size();
         ++table) {
      TableCopyFigures& figures = units[i].emplace_back();
      const TableReplica* const replica =
          unit == nullptr ? nullptr : unit->tables.replica(table);
      // A unit that has stopped may have lost its NF.
      if (replica != nullptr && replica->joined()) {
        figures = FiguresOf(*replica, unit->tables.copy(table));
      }
      figures.updates = homes_.logged(table, id);
      figures.refused = 0;  // the home counts them
      figures.repeated += senders_[i]->sender.repeated(table);
    }
  }
  AddTables(homes_, units, nf, result);
  if (own_spread_.has_value()) own_spread_->AddTimes(result);
}

}  // namespace snf
