// SPDX-License-Identifier: Apache-2.0
#include "platform/table_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace snf {
namespace {

constexpr uint64_t kRngStream = 3;  // of the fates of messages

using Value = std::array<uint64_t, TableShape::kMaxValueBytes / 8>;

std::vector<TableCopy*> TablesOf(const NetworkFunction& nf) {
  std::vector<TableCopy*> tables;
  for (const NetworkFunction::Part& part : nf.parts()) {
    for (const auto& table : part.nf->tables()) tables.push_back(table.get());
  }
  return tables;
}

}  // namespace

TableNetwork::TableNetwork(const RunOptions& options,
                           const NetworkFunction& example)
    : options_{.period = options.table_period,
               .retry_after = options.state_retry,
               .hash_seed = options.controller.hash_seed},
      hop_delay_(options.hop_delay),
      network_(options, 0, kRngStream),
      units_(options.controller.max_units) {
  for (const NetworkFunction::Part& part : example.parts()) {
    for (const auto& table : part.nf->tables()) {
      const auto number = static_cast<uint16_t>(homes_.size());
      const TableShape& shape = table->shape();
      homes_.push_back(
          {.home =
               TableHome(number, shape, options.controller.max_units, options_),
           .figures = {.nf = std::string(part.name), .name = shape.name},
           .unread = {},
           .unseen = {}});
    }
  }
}

bool TableNetwork::Unit::joined() const {
  return std::ranges::any_of(
      replicas, [](const TableReplica& one) { return one.joined(); });
}

void TableNetwork::OnReady(Instant now, UnitId id, const NetworkFunction& nf) {
  if (homes_.empty()) return;
  std::unique_ptr<Unit>& unit = units_[value(id)];
  if (unit == nullptr) {
    unit = std::make_unique<Unit>();
    unit->copies = TablesOf(nf);
    SNF_CHECK(unit->copies.size() == homes_.size());
    for (uint16_t table = 0; table < homes_.size(); ++table) {
      unit->replicas.emplace_back(table, id, *unit->copies[table], options_);
    }
  }
  if (unit->joined()) return;  // it was parked
  for (TableReplica& replica : unit->replicas) replica.on_start(now);
  ScheduleUnit(now, id);
}

void TableNetwork::NoteUpdates(Instant now, UnitId id) {
  Unit* const unit = units_[value(id)].get();
  if (unit == nullptr) return;
  for (TableReplica& replica : unit->replicas) replica.on_updates(now);
  ScheduleUnit(now, id);
}

bool TableNetwork::OnStop(Instant now, UnitId id) {
  Unit* const unit = homes_.empty() ? nullptr : units_[value(id)].get();
  if (unit == nullptr || !unit->joined()) return true;
  unit->stops = true;
  for (TableReplica& replica : unit->replicas) replica.on_stop();
  ScheduleUnit(now, id);
  return false;
}

std::vector<UnitId> TableNetwork::TakeGone() {
  return std::exchange(gone_, {});
}

void TableNetwork::RunNext(Instant now) {
  const Event event = events_.Pop();
  if (event.kind == Event::Kind::kToHome ||
      event.kind == Event::Kind::kHomeTimer) {
    AtHome(now, event);
  } else {
    AtUnit(now, event);
  }
}

void TableNetwork::AtHome(Instant now, const Event& event) {
  Home& home = homes_[event.table];
  TableMessage out;
  if (event.kind == Event::Kind::kToHome) {
    const TableMessage in = messages_[event.message];
    free_.push_back(event.message);
    const uint64_t before = home.home.version();
    if (home.home.on_message(now, in, out)) {
      Send(now, Event::Kind::kToUnit, out);
    }
    if (home.home.version() != before) {
      const Unseen update = {home.home.version(), in.oldest};
      home.unread.push_back(update);
      home.unseen.push_back(update);
    }
    FindSeen(now, home);  // nobody else may have joined, or one have left
  } else {
    if (now < home.timer) return;  // outdated
    home.timer = Instant::max();
    while (home.home.on_timers(now, out)) Send(now, Event::Kind::kToUnit, out);
  }
  ScheduleHome(now, event.table);
}

void TableNetwork::AtUnit(Instant now, const Event& event) {
  Unit& unit = *units_[value(event.unit)];
  TableMessage out;
  if (event.kind == Event::Kind::kToUnit) {
    const TableMessage in = messages_[event.message];
    free_.push_back(event.message);
    if (unit.replicas[event.table].on_message(now, in, out)) {
      Send(now, Event::Kind::kToHome, out);
    }
    FindSeen(now, homes_[event.table]);
  } else {
    if (now < unit.timer) return;  // outdated
    unit.timer = Instant::max();
    for (TableReplica& replica : unit.replicas) {
      while (replica.next_wakeup() <= now && replica.on_timers(now, out)) {
        Send(now, Event::Kind::kToHome, out);
      }
    }
  }
  ScheduleUnit(now, event.unit);
  if (!unit.stops || unit.joined()) return;
  unit.stops = false;
  gone_.push_back(event.unit);
}

void TableNetwork::Send(Instant now, Event::Kind kind,
                        const TableMessage& message) {
  TableFigures& figures = homes_[message.table].figures;
  ++figures.messages;
  figures.bytes += message.bytes(homes_[message.table].home.shape());
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
  Home& home = homes_[table];
  const Instant wakeup = std::max(home.home.next_wakeup(), now);
  if (home.home.next_wakeup() == Instant::max() || wakeup >= home.timer) return;
  home.timer = wakeup;
  events_.Push(wakeup, {.kind = Event::Kind::kHomeTimer, .table = table});
}

void TableNetwork::ScheduleUnit(Instant now, UnitId id) {
  Unit& unit = *units_[value(id)];
  Instant wakeup = Instant::max();
  for (const TableReplica& replica : unit.replicas) {
    wakeup = std::min(wakeup, replica.next_wakeup());
  }
  if (wakeup == Instant::max()) return;
  wakeup = std::max(wakeup, now);
  if (wakeup >= unit.timer) return;
  unit.timer = wakeup;
  events_.Push(wakeup, {.kind = Event::Kind::kUnitTimer, .unit = id});
}

void TableNetwork::FindSeen(Instant now, Home& home) {
  const auto find = [&](std::deque<Unseen>& updates, bool everywhere,
                        Histogram& times) {
    while (!updates.empty() &&
           IsKnown(home, updates.front().version, everywhere)) {
      times.Record((now - updates.front().oldest).ns);
      updates.pop_front();
    }
  };
  find(home.unread, true, home.figures.spread_ns);
  find(home.unseen, false, home.figures.staleness_ns);
}

bool TableNetwork::IsKnown(const Home& home, uint64_t version,
                           bool everywhere) const {
  return std::ranges::all_of(home.home.joined(), [&](UnitId unit) {
    const TableReplica& replica =
        units_[value(unit)]->replicas[home.home.table()];
    return home.home.joined_at(unit) >= version ||
           replica.complete() >= version || (!everywhere && !replica.is_read());
  });
}

void TableNetwork::Load(const TableHome& home, TableCopy& copy) const {
  for (uint32_t i = 0; i < home.size(); ++i) {
    copy.OnTold(home.key(i), home.version(), home.total(i), false);
  }
  copy.OnTold(nullptr, home.version(), home.rest(), false);
}

// In words; empty for none.
std::string TableNetwork::DifferenceOf(const TableHome& home,
                                       const TableCopy& copy) const {
  const uint32_t words = home.shape().value_words();
  if (copy.size() != home.size()) {
    return fmt::format("has {} entries, should have {}", copy.size(),
                       home.size());
  }
  Value value{};
  for (uint32_t i = 0; i < home.size(); ++i) {
    if (!copy.Read(home.key(i), value.data()) ||
        !std::equal(value.data(), value.data() + words, home.total(i))) {
      return fmt::format("differs in entry {}", i + 1);
    }
  }
  copy.ReadRest(value.data());
  const bool same = std::equal(value.data(), value.data() + words, home.rest());
  return same ? "" : "differs in the rest";
}

void TableNetwork::Finish(const NetworkFunction& nf, RunResult& result) {
  const std::vector<TableCopy*> merged = TablesOf(nf);
  for (size_t table = 0; table < homes_.size(); ++table) {
    Home& own = homes_[table];
    TableFigures& figures = own.figures;
    figures.entries = own.home.size();
    figures.max_entries = own.home.shape().max_entries;
    figures.refused = own.home.refused();
    figures.repeated = own.home.repeated();
    for (size_t i = 0; i < units_.size(); ++i) {
      const Unit* const unit = units_[i].get();
      if (unit == nullptr) continue;
      figures.updates += unit->copies[table]->updates();
      figures.refused += unit->copies[table]->refused();
      figures.repeated += unit->replicas[table].repeated();
      if (!unit->replicas[table].joined()) continue;
      const std::string wrong = DifferenceOf(own.home, *unit->copies[table]);
      if (wrong.empty()) continue;
      ++result.violations;
      result.violation_messages.push_back(fmt::format(
          "table {}: the copy of unit {} {}", figures.name, i, wrong));
    }
    Load(own.home, *merged[table]);
    result.tables.push_back(std::move(figures));
  }
}

}  // namespace snf
