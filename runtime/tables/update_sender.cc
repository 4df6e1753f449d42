// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/update_sender.h"

#include <algorithm>

namespace snf {

UpdateSender::UpdateSender(UnitId unit, const TableOptions& options,
                           size_t tables)
    : unit_(unit), options_(options), tables_(tables) {}

// Merges as many updates as have room, from the first that is kept.
TableMessage UpdateSender::Make(uint16_t table, const UpdateLog& log) const {
  const TableShape& shape = log.shape(table);
  const uint32_t key_words = shape.key_words();
  const UpdateLog::Position begin = log.merged(table);
  TableMessage out = {.kind = TableMessage::Kind::kLogged,
                      .table = table,
                      .unit = unit_,
                      .incarnation = begin.incarnation,
                      .seq = begin.number,
                      .merged = begin.number};
  for (const UpdateLog::Update& update : log.updates(table)) {
    if (update.at.incarnation != begin.incarnation) break;
    const auto is_same = [&](uint32_t i) {
      if (update.is_rest || i == out.rest)
        return update.is_rest && i == out.rest;
      return std::equal(update.words.begin(), update.words.begin() + key_words,
                        out.entry(shape, i));
    };
    uint32_t at = 0;
    while (at < out.entries && !is_same(at)) ++at;
    if (at == TableMessage::MaxEntries(shape)) break;
    // The key's updates in this message would have to go into the rest.
    if (update.erases && at < out.entries) break;
    if (update.erases) out.in_rest |= uint64_t{1} << at;
    uint64_t* const entry = out.entry(shape, at);
    if (at == out.entries) {
      if (update.is_rest) out.rest = static_cast<uint8_t>(at);
      ++out.entries;
      std::copy_n(update.words.begin(), key_words, entry);
    }
    shape.MergeInto(entry + key_words, &update.words[key_words]);
    ++out.seq;
  }
  return out;
}

bool UpdateSender::on_message(Instant now, const TableMessage& in,
                              UpdateLog& log, TableMessage& out) {
  if (in.kind != TableMessage::Kind::kLoggedAck || in.unit != unit_ ||
      in.table >= tables_.size()) {
    return false;
  }
  Table& table = tables_[in.table];
  const uint64_t before = log.gone(in.table);
  log.on_merged(in.table, {.incarnation = in.incarnation, .number = in.merged});
  table.sent = std::max(table.sent, log.gone(in.table));
  // A late answer says nothing new.
  if (log.gone(in.table) == before) return false;
  if (log.updates(in.table).empty() || log.gone(in.table) >= table.round_end) {
    table.due = now + options_.period;
    return false;
  }
  table.due = now;
  return on_timers(now, log, out);
}

bool UpdateSender::on_timers(Instant now, const UpdateLog& log,
                             TableMessage& out) {
  for (uint16_t i = 0; i < tables_.size(); ++i) {
    Table& table = tables_[i];
    if (log.updates(i).empty() || now < table.due) continue;
    // Another logger, with a log of its own, begins with 0.
    table.sent = std::min(table.sent, log.added(i));
    table.round_end = std::min(table.round_end, log.added(i));
    table.repeated += log.gone(i) < table.sent ? 1 : 0;
    if (log.gone(i) >= table.round_end) table.round_end = log.added(i);
    out = Make(i, log);
    table.sent = std::max(table.sent, log.gone(i) + (out.seq - out.merged));
    table.due = now + options_.retry_after;
    return true;
  }
  return false;
}

void UpdateSender::Hurry(const UpdateLog& log) {
  for (uint16_t i = 0; i < tables_.size(); ++i) {
    tables_[i].round_end = log.added(i);
    // A message under way is repeated as ever.
    if (log.gone(i) >= tables_[i].sent) tables_[i].due = Instant::min();
  }
}

Instant UpdateSender::next_wakeup(const UpdateLog& log) const {
  Instant wakeup = Instant::max();
  for (uint16_t i = 0; i < tables_.size(); ++i) {
    if (!log.updates(i).empty()) wakeup = std::min(wakeup, tables_[i].due);
  }
  return wakeup;
}

}  // namespace snf
