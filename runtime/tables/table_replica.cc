// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/table_replica.h"

#include <algorithm>

namespace snf {

TableReplica::TableReplica(uint16_t table, UnitId unit, TableCopy& copy,
                           const TableOptions& options)
    : table_(table),
      unit_(unit),
      copy_(copy),
      options_(options),
      stamps_(size_t{copy.shape().max_entries} + 1) {
  copy_.set_hash(KeyedHash(options.hash_seed));
  if (copy.shape().for_reports) {
    options_.period.ns *= TableOptions::kUnreadPeriods;
  }
}

void TableReplica::on_start(Instant now, uint32_t incarnation) {
  if (state_ == State::kRunning) return;
  if (state_ == State::kLeaving) {
    returns_ = waits_ && last_.leaves;
    if (!returns_) state_ = State::kRunning;
    return;
  }
  if (incarnation != incarnation_) last_.seq = told_seq_ = 0;
  incarnation_ = incarnation;
  Join(now);
}

void TableReplica::Join(Instant now) {
  state_ = State::kRunning;
  unread_ = true;
  complete_ = 0;
  must_send_ = true;
  next_round_ = now;
}

void TableReplica::on_stop() {
  returns_ = false;
  if (state_ != State::kRunning) return;
  state_ = State::kLeaving;
  must_send_ = true;
}

bool TableReplica::IsSound(const TableMessage& in) const {
  return state_ != State::kStopped && in.table == table_ && in.unit == unit_ &&
         in.incarnation == incarnation_ &&
         in.entries <= TableMessage::MaxEntries(copy_.shape());
}

bool TableReplica::on_message(Instant now, const TableMessage& in,
                              TableMessage& out) {
  if (!IsSound(in)) return false;
  if (in.kind == TableMessage::Kind::kTold) {
    on_told(in, out);
    on_updates(now);  // an entry may have made way
    return true;
  }
  if (in.kind != TableMessage::Kind::kMerged || !waits_ ||
      in.seq != last_.seq || in.entries != last_.entries) {
    return false;
  }
  on_merged(now, in);
  on_updates(now);
  return SendNext(now, out);
}

void TableReplica::on_told(const TableMessage& in, TableMessage& out) {
  const TableShape& shape = copy_.shape();
  const bool with_sent = waits_ && in.merged == last_.seq;
  for (uint32_t i = 0; i < in.entries && in.seq > told_seq_; ++i) {
    const uint64_t* const entry = in.entry(shape, i);
    if ((in.in_rest >> i & 1) != 0) {
      copy_.on_gone(entry, in.version, with_sent);
    } else {
      copy_.on_told(i == in.rest ? nullptr : entry, in.version,
                    entry + shape.key_words(), with_sent);
    }
  }
  told_seq_ = std::max(told_seq_, in.seq);
  complete_ = std::max(complete_, in.complete);
  unread_ = reads() == said_reads_;
  said_reads_ = reads();
  out = {.kind = TableMessage::Kind::kToldAck,
         .table = table_,
         .unit = unit_,
         .incarnation = incarnation_,
         .reads = said_reads_,
         .seq = in.seq};
}

void TableReplica::on_merged(Instant now, const TableMessage& in) {
  const TableShape& shape = copy_.shape();
  for (uint32_t i = 0; i < in.entries; ++i) {
    copy_.on_merged(i, last_.entry(shape, i), (in.in_rest >> i & 1) != 0,
                    in.version, in.entry(shape, i) + shape.key_words());
  }
  copy_.EndSent();
  complete_ = std::max(complete_, in.complete);
  waits_ = false;
  if (!last_.leaves) return;
  state_ = State::kStopped;
  const bool returns = returns_;
  if (!returns && !copy_.dirty()) return copy_.Clear();
  copy_.ForgetTotals();
  Join(now);
  if (!returns) on_stop();  // updates made meanwhile are sent, too
  returns_ = false;
}

// The next update, if one is to be sent now.
bool TableReplica::SendNext(Instant now, TableMessage& out) {
  if (state_ == State::kStopped || waits_) return false;
  const bool leaving = state_ == State::kLeaving;
  if (copy_.dirty_begin() >= round_end_ || leaving) {
    if (!must_send_ && (!has_news() || now < next_round_)) return false;
    must_send_ |= is_read_again();
    round_end_ = copy_.dirty_end();
    next_round_ = now + options_.period;
  }
  const TableShape& shape = copy_.shape();
  const uint64_t seq = last_.seq + 1;
  last_ = {.kind = TableMessage::Kind::kUpdate,
           .table = table_,
           .unit = unit_,
           .incarnation = incarnation_,
           .reads = reads(),
           .seq = seq,
           .oldest = now};
  if (copy_.dirty()) {
    last_.oldest = stamps_[copy_.dirty_begin() % stamps_.size()];
  }
  while (copy_.dirty_begin() < round_end_ &&
         last_.entries < TableMessage::MaxEntries(shape)) {
    uint64_t* const entry = last_.entry(shape, last_.entries);
    const TableCopy::Taken taken = copy_.Take(entry, entry + shape.key_words());
    if (taken == TableCopy::Taken::kNothing) continue;
    if (taken == TableCopy::Taken::kRest) last_.rest = last_.entries;
    if (taken == TableCopy::Taken::kErased) {
      last_.in_rest |= uint64_t{1} << last_.entries;
    }
    ++last_.entries;
  }
  last_.leaves = leaving && !copy_.dirty();
  if (last_.entries == 0 && !must_send_) {
    last_.seq = seq - 1;
    return false;
  }
  must_send_ = leaving && !last_.leaves;
  if (said_reads_ != last_.reads) unread_ = false;
  said_reads_ = last_.reads;
  waits_ = true;
  due_ = now + options_.retry_after;
  out = last_;
  return true;
}

bool TableReplica::on_timers(Instant now, TableMessage& out) {
  if (!waits_) return SendNext(now, out);
  if (now < due_) return false;
  ++repeated_;
  due_ = now + options_.retry_after;
  out = last_;
  return true;
}

Instant TableReplica::next_wakeup() const {
  if (waits_) return due_;
  if (must_send_) return Instant::min();
  return state_ != State::kStopped && has_news() ? next_round_ : Instant::max();
}

}  // namespace snf
