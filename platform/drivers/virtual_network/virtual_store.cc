// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_network/virtual_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/counters.h"
#include "runtime/store/round_trip.h"
#include "runtime/store/store_value.h"

namespace snf {

VirtualStore::VirtualStore(const RunOptions& options, uint32_t record_bytes)
    : options_(options.store),
      hop_delay_(options.hop_delay),
      network_(options, record_bytes, 6),
      reads_(options.store),
      rng_(Rng(options.controller.seed).Fork(7)),
      free_at_(options.store.threads, Instant::min()) {
  SNF_CHECK(options.store.threads > 0);
}

void VirtualStore::Write(Instant now, const State& state,
                         std::span<const std::byte> record) {
  const bool forgets = state.applied == Clock{};
  ++(forgets ? figures_.erased : figures_.writes);
  if (!forgets) figures_.bytes_written += kStoreValueHeader + state.bytes;
  for (const Nanos delay :
       forgets ? network_.Send() : network_.SendState(state.bytes)) {
    const uint32_t kept = network_.Keep(record);
    if (kept == StateNetwork::kNoRecord) {
      ++figures_.writes_lost;
      continue;
    }
    events_.Push(now + delay, {.kind = Event::Kind::kWriteThere,
                               .record = kept,
                               .sent = now,
                               .pull = {},
                               .state = state});
  }
}

bool VirtualStore::Read(Instant now, const Pull& pull) {
  if (!reads_.Open(now, pull)) return false;
  Ask(now, pull);
  return true;
}

void VirtualStore::Ask(Instant now, const Pull& pull) {
  for (const Nanos delay : network_.Send()) {
    events_.Push(now + delay, {.kind = Event::Kind::kReadThere,
                               .sent = now,
                               .pull = pull,
                               .state = {}});
  }
}

Instant VirtualStore::next_time() const {
  return std::min(events_.next_time(), reads_.next_due());
}

std::optional<StoreAnswer> VirtualStore::RunNext(Instant now) {
  if (reads_.next_due() <= now) {
    const auto due = reads_.PopDue(now);
    if (!due.has_value()) return std::nullopt;
    Ask(now, due->pull);
    if (!due->is_silent) return std::nullopt;
    return StoreAnswer{.unit = due->pull.requester,
                       .state = {.flow = due->pull.flow}};
  }
  if (events_.next_time() > now) return std::nullopt;
  const Event event = events_.Pop();
  switch (event.kind) {
    case Event::Kind::kWriteThere:
      WriteThere(now, event);
      return std::nullopt;
    case Event::Kind::kReadThere:
      ReadThere(now, event);
      return std::nullopt;
    case Event::Kind::kAnswerHere:
      return AnswerHere(now, event);
  }
  return std::nullopt;
}

Instant VirtualStore::Serve(Instant now) {
  Instant& free = *std::ranges::min_element(free_at_);
  free = std::max(free, now) + options_.operation;
  const Nanos trip = DrawRoundTrip(options_, rng_);
  return free + Nanos{std::max(trip.ns - options_.operation.ns, int64_t{0})};
}

void VirtualStore::WriteThere(Instant now, const Event& event) {
  const uint64_t flow = value(event.state.flow);
  if (event.state.applied == Clock{}) {
    values_.erase(flow);
  } else {
    const auto record = network_.record(event.record);
    Value& kept = values_[flow];
    kept.state = event.state;
    kept.record.assign(record.begin(), record.end());
  }
  network_.Free(event.record);
  // No reply is sent: no unit waits for a write.
  const Instant done = Serve(now);
  figures_.round_trip_ns.Record((done + hop_delay_ - event.sent).ns);
}

void VirtualStore::ReadThere(Instant now, const Event& event) {
  const Instant leaves = Serve(now);
  const auto at = values_.find(value(event.pull.flow));
  const bool is_there = at != values_.end();
  const State state = is_there ? at->second.state : State{};
  for (const Nanos delay :
       is_there ? network_.SendState(state.bytes) : network_.Send()) {
    const uint32_t kept =
        is_there ? network_.Keep(at->second.record) : StateNetwork::kNoRecord;
    if (is_there && kept == StateNetwork::kNoRecord) continue;
    events_.Push(leaves + delay, {.kind = Event::Kind::kAnswerHere,
                                  .record = kept,
                                  .sent = event.sent,
                                  .pull = event.pull,
                                  .state = state});
  }
}

std::optional<StoreAnswer> VirtualStore::AnswerHere(Instant now,
                                                    const Event& event) {
  figures_.round_trip_ns.Record((now - event.sent).ns);
  std::optional<Clock> applied;
  if (event.record != StateNetwork::kNoRecord) {
    figures_.bytes_read += kStoreValueHeader + event.state.bytes;
    applied = event.state.applied;
    const auto record = network_.record(event.record);
    answer_.assign(record.begin(), record.end());
    network_.Free(event.record);
  }
  if (!reads_.on_answer(now, event.sent, event.pull.requester, event.pull.flow,
                        applied)) {
    return std::nullopt;
  }
  StoreAnswer answer{.unit = event.pull.requester,
                     .state = event.state,
                     .record = answer_,
                     .is_there = true};
  answer.state.pushed = false;
  return answer;
}

void VirtualStore::AddTotals(RunResult& result) const {
  AddTo(result.store, figures_);
  AddCounters<StoreCounters>(result.store, reads_.counters());
  result.state.messages_lost += network_.lost();
  result.state.messages_duplicated += network_.duplicated();
}

}  // namespace snf
