// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/test_table_world.h"

#include <algorithm>

namespace snf {
namespace {

TableShape ShapeOf(const TableWorldOptions& options) {
  return {.name = "t",
          .key_bytes = 8,
          .value_bytes = options.value_words * 8,
          .max_entries = options.max_entries,
          .merge = options.merge,
          .for_reports = options.for_reports,
          .expires_after = options.expires_after,
          .on_timer = options.on_timer,
          .timer_period = options.timer_period};
}

std::string Text(const std::vector<uint64_t>& value) {
  std::string text;
  for (const uint64_t word : value) text += " " + std::to_string(word);
  return text;
}

}  // namespace

TableWorld::TableWorld(const TableWorldOptions& options)
    : options_(options),
      shape_(ShapeOf(options)),
      home_(0, shape_, options.units, options.table),
      rng_(options.seed) {
  for (uint16_t i = 0; i < options.units; ++i) {
    units_.emplace_back(i, shape_, options.table);
  }
}

void TableWorld::Start(uint32_t unit) {
  units_[unit].incarnation = ++incarnation_;
  units_[unit].own.clear();
  units_[unit].seen.clear();
  Withdraw(unit);
}

void TableWorld::Withdraw(uint32_t unit) {
  Unit& own = units_[unit];
  own.returns = own.leaving && own.replica.joined();
  own.leaving = false;
  if (!own.replica.joined()) {
    own.own.clear();
    own.seen.clear();
  }
  own.replica.on_start(now_, own.incarnation);
  Settle();
}

void TableWorld::Stop(uint32_t unit) {
  units_[unit].leaving = true;
  units_[unit].replica.on_stop();
  Settle();
}

void TableWorld::Update(uint32_t unit, uint64_t key, const Value& delta) {
  Unit& own = units_[unit];
  if (shape_.value_words() == 2) {
    own.copy.Update<1, 2>(&key, delta.data());
  } else {
    own.copy.Update<1, 1>(&key, delta.data());
  }
  own.own[key] = Merged(std::move(own.own[key]), delta);
  all_[key] = Merged(std::move(all_[key]), delta);
  own.replica.on_updates(now_);
  Settle();
}

void TableWorld::Erase(uint32_t unit, uint64_t key) {
  Unit& own = units_[unit];
  own.copy.Erase(&key);
  own.own.erase(key);
  erased_.insert(key);
  own.replica.on_updates(now_);
  Settle();
}

void TableWorld::Look(uint32_t unit) {
  units_[unit].copy.NoteRead();
  Settle();
}

TableWorld::Value TableWorld::Read(uint32_t unit, uint64_t key) const {
  Value value(shape_.value_words());
  units_[unit].copy.Read(&key, value.data());
  return value;
}

TableWorld::Value TableWorld::ReadRest(uint32_t unit) const {
  Value value(shape_.value_words());
  units_[unit].copy.ReadRest(value.data());
  return value;
}

TableWorld::Value TableWorld::Merged(Value a, const Value& b) const {
  a.resize(shape_.value_words());
  shape_.MergeInto(a.data(), b.data());
  return a;
}

void TableWorld::Send(bool to_home, const TableMessage& message) {
  ++messages;
  words = std::max<uint64_t>(words, message.bytes(shape_) / 8);
  const bool is_lost = rng_.Chance(options_.loss_65536);
  const bool is_twice = rng_.Chance(options_.duplicate_65536);
  lost += is_lost ? 1 : 0;
  duplicated += is_twice ? 1 : 0;
  const int copies = (is_lost ? 0 : 1) + (is_twice ? 1 : 0);
  for (int i = 0; i < copies; ++i) {
    const Nanos delay = {
        rng_.Uniform(options_.delay_min.ns, options_.delay_max.ns)};
    under_way_[{now_ + delay, ++sent_}] = {to_home, message};
  }
}

void TableWorld::Deliver(const UnderWay& sent) {
  TableMessage out;
  const TableMessage& in = sent.message;
  if (!sent.to_home) {
    Unit& unit = units_[value(in.unit)];
    if (unit.replica.on_message(now_, in, out)) Send(true, out);
    if (unit.returns && in.kind == TableMessage::Kind::kMerged) {
      unit.own.clear();
      unit.seen.clear();
    }
    return;
  }
  const uint64_t before = home_.version();
  if (home_.on_message(now_, in, out)) Send(false, out);
  if (home_.version() == before) return;
  unread_.push_back({before + 1, in.oldest, in.unit});
  unseen_.push_back({before + 1, in.oldest, in.unit});
}

bool TableWorld::RunTimers() {
  bool any = false;
  TableMessage out;
  while (home_.on_timers(now_, out)) {
    Send(false, out);
    any = true;
  }
  for (Unit& unit : units_) {
    while (unit.replica.next_wakeup() <= now_ &&
           unit.replica.on_timers(now_, out)) {
      Send(true, out);
      any = true;
    }
  }
  return any;
}

// What is due now; and who knows what.
void TableWorld::Settle() {
  while (RunTimers()) continue;
  FindKnown(unread_, true, spread_max_);
  FindKnown(unseen_, false, staleness_max_);
}

void TableWorld::FindKnown(std::deque<Unseen>& updates, bool everywhere,
                           Nanos& longest) {
  while (!updates.empty()) {
    const auto [version, oldest, writer] = updates.front();
    const bool known = std::ranges::all_of(home_.joined(), [&](UnitId unit) {
      const TableReplica& replica = units_[value(unit)].replica;
      return unit == writer || home_.joined_at(unit) >= version ||
             replica.complete() >= version ||
             (!everywhere && !replica.is_read());
    });
    if (!known) return;
    longest = std::max(longest, now_ - oldest);
    updates.pop_front();
  }
}

Instant TableWorld::NextTime() const {
  Instant next = home_.next_wakeup();
  for (const Unit& unit : units_) {
    next = std::min(next, unit.replica.next_wakeup());
  }
  if (!under_way_.empty())
    next = std::min(next, under_way_.begin()->first.first);
  return next;
}

void TableWorld::RunUntil(Instant time) {
  while (NextTime() <= time) {
    now_ = std::max(now_, NextTime());
    if (!under_way_.empty() && under_way_.begin()->first.first <= now_) {
      const UnderWay sent = under_way_.begin()->second;
      under_way_.erase(under_way_.begin());
      Deliver(sent);
    }
    Settle();
  }
  now_ = std::max(now_, time);
}

bool TableWorld::RunToTheEnd() {
  const Instant patience = now_ + Seconds(10'000);
  while (NextTime() < patience) RunUntil(NextTime());
  return NextTime() == Instant::max();
}

std::string TableWorld::Differences(bool exactly) const {
  std::string wrong;
  const uint32_t words_each = shape_.value_words();
  Value sum(home_.rest(), home_.rest() + words_each);
  const Value zeros(words_each);
  for (uint32_t i = 0; i < home_.slots(); ++i) {
    if (!home_.IsEntry(i)) continue;
    const Value total(home_.total(i), home_.total(i) + words_each);
    sum = Merged(std::move(sum), total);
    const auto mine = all_.find(*home_.key(i));
    if (mine == all_.end()) {
      wrong += "nobody wrote to " + std::to_string(*home_.key(i)) + "\n";
    } else if (exactly && !erased_.contains(mine->first) &&
               mine->second != total) {
      wrong += "home: " + std::to_string(*home_.key(i)) + " is" + Text(total) +
               ", should be" + Text(mine->second) + "\n";
    }
  }
  Value expected(words_each);
  for (const auto& [key, total] : all_) {
    expected = Merged(std::move(expected), total);
  }
  if (sum != expected) {
    wrong += "home: all is" + Text(sum) + ", should be" + Text(expected) + "\n";
  }
  const bool has_all = std::ranges::all_of(all_, [&](const auto& of) {
    return erased_.contains(of.first) || home_.Find(&of.first) != nullptr;
  });
  if (exactly && !has_all) wrong += "home: lacks a key\n";
  for (uint32_t u = 0; u < units_.size(); ++u) {
    if (!joined(u)) {
      if (units_[u].copy.size() != 0) wrong += "a stopped copy has entries\n";
      continue;
    }
    const std::string who = "copy " + std::to_string(u) + ": ";
    if (units_[u].copy.size() != home_.size()) {
      wrong += who + std::to_string(units_[u].copy.size()) + " entries\n";
    }
    for (uint32_t i = 0; i < home_.slots(); ++i) {
      if (!home_.IsEntry(i)) continue;
      const Value total(home_.total(i), home_.total(i) + words_each);
      if (const Value read = Read(u, *home_.key(i)); read != total) {
        wrong += who + std::to_string(*home_.key(i)) + " is" + Text(read) +
                 ", should be" + Text(total) + "\n";
      }
    }
    if (ReadRest(u) != Value(home_.rest(), home_.rest() + words_each)) {
      wrong += who + "another rest\n";
    }
  }
  return wrong;
}

std::string TableWorld::CheckReads(uint32_t unit, uint64_t key) {
  Unit& own = units_[unit];
  if (!own.replica.joined()) return "";
  const Value read = Read(unit, key);
  const auto word = [](const std::map<uint64_t, Value>& values, uint64_t at) {
    const auto found = values.find(at);
    return found == values.end() || found->second.empty()
               ? 0
               : found->second.front();
  };
  if (erased_.contains(key)) return "";
  std::string wrong;
  if (read[0] < word(own.own, key)) wrong += " misses an update of its own";
  if (read[0] > word(all_, key)) wrong += " has something twice";
  if (read[0] < word(own.seen, key)) wrong += " goes back";
  own.seen[key] = read;
  return wrong;
}

}  // namespace snf
