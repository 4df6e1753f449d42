// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_TABLE_REPLICA_H_
#define SNF_RUNTIME_TABLES_TABLE_REPLICA_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/time.h"
#include "runtime/sdk/table_copy.h"
#include "runtime/tables/table_message.h"

namespace snf {

// Theory of operation. Keeps a unit's copy of a shared table and the table's
// home (table_home.h) in step: eventual consistency of global state that many
// write (Serpens §III-B). Two conversations, each with one message under way
// that is repeated until it is answered:
//
//   unit ─ kUpdate  seq, key + delta …  ─► home    merges it if seq is new
//        ◄ kMerged  seq, totals         ─          of just those keys
//   home ─ kTold    seq, key + total …  ─► unit    takes the newer totals
//        ◄ kToldAck seq                 ─
//
// The home remembers of each unit the last seq merged, so an update counts
// once, however often it comes. Totals bear the home's version, so an older one
// never takes the place of a newer, in whichever order they come; and they say
// which updates of the unit are in them, so that a read has each once. Of an
// entry that has gone the copy keeps no version, so each kTold is taken once,
// in order: no earlier one brings the entry back.
//
// A unit that has something to send does so once a period, in as many messages
// as it takes, one after the other; the home likewise, in one sweep over what
// others changed for the unit. Where nothing changes, nothing is sent and no
// timer runs.
//
// Most tables are written all the time and read at the end. So a unit that did
// not read its copy since its last sweep began is told only once in
// kUnreadPeriods. Every message of a unit says how often it has read; a unit
// that begins to read says so in its next update, which may be empty. Of a
// table for reports a unit tells the home as rarely.
//
// Staleness: an update waits for the unit's period and the messages before it,
// goes over, and waits for the home's period and its messages before it. So,
// where nothing is lost, every unit that reads sees it after at most
//
//     2 · period + (messages to the home + messages to a unit) · round trip
//
// if a round takes no longer than a period; a longer round counts in place of
// the period. An update of a unit that said that it leaves, and then continues,
// also waits for the answer to that message. The home's timers add a tick
// (timing_wheel.h) to its period. A copy that was not read for a while lags by
// kUnreadPeriods at most; it is up to date at most a period and a round trip
// after its first read. Of a table for reports the unit's period is
// kUnreadPeriods as long.
//
// A unit joins with its first update, which may be empty, and then gets all
// totals. A unit that stops sends all pending updates at once, leaves with the
// last message, and is stopped when that is answered. Each life of a unit has
// its own incarnation, given by its starter, so that no old message is taken
// for a new one, even when processes are replaced. If a stop is withdrawn, the
// unit keeps its incarnation and the numbers of its messages. If it has already
// said that it leaves, it joins again with the next message, and sees none of
// the home's totals until they are sent again.
//
// Worked example: period 10 ms, a hop 1 µs. At 0 A counts 3 for k, and has sent
// nothing for long: kUpdate(1, k 3) goes at once, and at 1 µs the home has k 3.
// kMerged(1, k 3) reaches A, and kTold(1, k 3) B, which has joined, at 2 µs. At
// 4 ms A counts 2 more: they go at 10 ms, and the home may tell B again from
// 10.001 ms on, if B has read its copy, else from 1 s on. Had kUpdate(1) been
// lost, A would send the same at 10 ms.
//
// Serpens' calls and these: create_table with global | write | eventual is
// declare_shared, put_state is update(), get_state is get(). split: each unit
// begins with nothing of its own to add to the totals. merge: the table's hook,
// in the home. update: kTold. timer: `period`, and SharedTable::every. trigger:
// SharedTable::when, whose hook the home calls. No packet waits for a table; of
// state that packets wait for, pools, the trigger is Verdict::wait.
//
// Owner-thread only; nothing is allocated after construction. Memory: 8 bytes
// an entry in use, and 1 KB.
class TableReplica {
 public:
  // `copy` must outlive the replica.
  TableReplica(uint16_t table, UnitId unit, TableCopy& copy,
               const TableOptions& options);

  // Begins a life of the unit. Its incarnation must not be lower than earlier
  // ones: the home ignores lower incarnations. While a life is ending,
  // withdraws its stop; a life with the same incarnation as the last one
  // continues its numbers.
  void on_start(Instant now, uint32_t incarnation);
  // Begins the end of this life. No more updates may come until the next
  // on_start.
  void on_stop();
  // Returns true from on_start until, after on_stop, all updates are merged.
  bool joined() const { return state_ != State::kStopped; }

  // The NF was called, and may have updated something.
  void on_updates(Instant now) {
    for (; stamped_ != copy_.dirty_end(); ++stamped_) {
      stamps_[stamped_ % stamps_.size()] = now;
    }
  }
  // Takes a message of the home. Returns true if it filled `out` with a message
  // to be sent.
  bool on_message(Instant now, const TableMessage& in, TableMessage& out);
  // Does one thing that is due. Returns as on_message; the caller calls it
  // until it returns false.
  bool on_timers(Instant now, TableMessage& out);
  // Returns when on_timers wants to be called; Instant::max() for never.
  Instant next_wakeup() const;

  // Returns the home's version of which this copy knows all totals.
  uint64_t complete() const { return complete_; }
  // Returns the number of the last kTold that was taken.
  uint64_t told_seq() const { return told_seq_; }
  // Nothing is under way or to be sent.
  bool settled() const { return !waits_ && !must_send_ && !has_news(); }
  // Notes that the copy is read, so that the home updates it every period.
  bool is_read() const { return !unread_ && joined(); }
  uint64_t repeated() const { return repeated_; }

 private:
  enum class State : uint8_t { kStopped, kRunning, kLeaving };

  void on_told(const TableMessage& in, TableMessage& out);
  void on_merged(Instant now, const TableMessage& in);
  void Join(Instant now);
  bool SendNext(Instant now, TableMessage& out);
  bool IsSound(const TableMessage& in) const;
  uint32_t reads() const { return static_cast<uint32_t>(copy_.reads()); }
  bool is_read_again() const { return unread_ && reads() != said_reads_; }
  bool has_news() const { return copy_.dirty() || is_read_again(); }

  uint16_t table_;
  UnitId unit_;
  TableCopy& copy_;
  TableOptions options_;

  State state_ = State::kStopped;
  uint32_t incarnation_ = 0;
  bool must_send_ = false;  // send an update even if it is empty
  bool returns_ = false;    // it joins again once the home knows that it left
  bool unread_ = true;      // not read between the home's last two messages
  uint32_t said_reads_ = 0;
  uint64_t told_seq_ = 0;  // is that of the last kTold taken
  bool waits_ = false;     // last_ has no answer yet
  Instant due_;            // is when last_ is repeated, or a round begins
  Instant next_round_ = Instant::min();
  uint64_t round_end_ = 0;  // is the first dirty entry of the next round
  uint64_t complete_ = 0;
  uint64_t repeated_ = 0;
  TableMessage last_;  // is the last update, and has its seq

  // Times at which entries became dirty, for entries before stamped_.
  LazyArray<Instant> stamps_;
  uint64_t stamped_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_TABLE_REPLICA_H_
