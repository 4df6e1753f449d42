// SPDX-License-Identifier: Apache-2.0
//
// The way of CHC (Khalid and Akella, NSDI 2019): what each packet did goes to
// a store, and what the store does not have is run again.
#include <algorithm>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/rng.h"
#include "platform/commands/recovery/recovery_way.h"
#include "runtime/store/round_trip.h"
#include "runtime/store/store_value.h"

namespace snf {
namespace {

// Requests go down one connection, so the store has what entries up to some
// number did. Packets do not wait for it, but where a packet took a piece of a
// pool or set an alias: run again, it might get another, so it waits until the
// store has that, and so do the packets of its flow behind it.
class DatastoreWay final : public RecoveryWay {
 public:
  DatastoreWay(const NfSpec& nf, const RunOptions& options, uint32_t max_flows)
      : spec_(nf),
        nf_(nf.create()),
        limits_(LimitsOf(*nf_)),
        options_(options),
        max_flows_(max_flows),
        rng_(options.controller.seed),
        free_(nf_->pools()) {}

  std::string_view name() const override { return "datastore"; }

  void AdvanceTo(Instant now, const Unit& unit, Release release) override;
  void BeginStep() override { kept_.BeginStep(); }
  void on_input(const UnitInput& input, BufferPool& buffers) override {
    kept_.Add(input, buffers);
  }
  void on_entry(Instant now, const LogEntryView& entry,
                std::span<const std::byte> bytes, const Unit& unit,
                Release release) override;
  void EndStep(uint64_t last_entry) override { kept_.EndStep(last_entry); }
  void NoteOutput(const KeptStep::Output& output) override {
    kept_.NoteOutput(output);
  }

  Recovered Recover(Instant now) override;

 private:
  struct Request {
    Instant there;  // the store has it
    Instant acknowledged;
    FlowId flow{};
    bool is_held = false;          // its packet waits
    std::vector<std::byte> value;  // of the flow; none: it is forgotten
    std::vector<std::byte> entry;
  };
  using Values = absl::flat_hash_map<uint64_t, std::vector<std::byte>>;

  LogEntryView ViewOf(const Request& request) const {
    const auto entry = LogEntryView::Parse(limits_, request.entry);
    SNF_CHECK(entry.has_value());
    return *entry;
  }
  void Apply(const Request& request, Values& values, FreePieces& free) const;
  bool IsHeld(FlowId flow, Clock clock) const {
    const auto held = held_.find(value(flow));
    return held != held_.end() && clock >= held->second.first;
  }

  NfSpec spec_;
  std::unique_ptr<NetworkFunction> nf_;
  LogEntryLimits limits_;
  RunOptions options_;
  uint32_t max_flows_;
  Rng rng_;
  KeptInputs kept_;
  std::deque<Request> requests_;      // that are not acknowledged
  Instant free_at_ = Instant::min();  // the server's
  Instant last_acknowledged_ = Instant::min();
  // The store's contents after the last acknowledged entry.
  Values values_;
  FreePieces free_;
  uint64_t acknowledged_ = 0;
  // The waiting packets of a flow, which are those of its last clocks.
  struct Held {
    uint32_t count = 0;
    Clock first{};
  };
  absl::flat_hash_map<uint64_t, Held> held_;
};

void DatastoreWay::on_entry(Instant now, const LogEntryView& entry,
                            std::span<const std::byte> bytes, const Unit& unit,
                            Release release) {
  const FlowId flow = entry->meta.flow;
  Request& request = requests_.emplace_back();
  request.flow = flow;
  request.entry.assign(bytes.begin(), bytes.end());
  if (entry->kind == LogEntry::Kind::kClock && !entry->is(LogEntry::kEnd)) {
    const Unit::Change whole = unit.whole(flow);
    const State state = {.flow = flow,
                         .applied = whole.clock,
                         .timer = whole.timer,
                         .schema = nf_->schema().hash(),
                         .bytes = static_cast<uint32_t>(whole.bytes.size()),
                         .link = whole.link};
    MakeStoreValue(state, whole.bytes, request.value);
  }
  const Instant arrives = now + options_.hop_delay;
  free_at_ = std::max(free_at_, arrives) + options_.store.operation;
  const Nanos trip = DrawRoundTrip(options_.store, rng_);
  const Nanos rest = {trip.ns - options_.store.operation.ns};
  request.there = free_at_;
  request.acknowledged =
      std::max(last_acknowledged_,
               free_at_ + std::max(rest, Nanos{}) + options_.hop_delay);
  last_acknowledged_ = request.acknowledged;
  if (entry->kind != LogEntry::Kind::kClock) return;
  const auto before = held_.find(value(flow));
  request.is_held = entry->pieces > 0 || entry->is(LogEntry::kHasAlias) ||
                    before != held_.end();
  if (request.is_held) {
    Held& held = held_[value(flow)];
    if (held.count++ == 0) held.first = entry->meta.clock;
  } else {
    release(entry);
  }
}

void DatastoreWay::AdvanceTo(Instant now, const Unit&, Release release) {
  while (!requests_.empty() && requests_.front().acknowledged <= now) {
    const Request request = std::move(requests_.front());
    requests_.pop_front();
    const LogEntryView entry = ViewOf(request);
    Apply(request, values_, free_);
    acknowledged_ = entry->number;
    if (!request.is_held) continue;
    const auto held = held_.find(value(request.flow));
    held->second.first = entry->meta.clock + 1;
    if (--held->second.count == 0) held_.erase(held);
    release(entry);
  }
  kept_.ForgetThrough(acknowledged_);
}

// Does to the store what a request does.
void DatastoreWay::Apply(const Request& request, Values& values,
                         FreePieces& free) const {
  const LogEntryView entry = ViewOf(request);
  free.Take(entry);
  if (entry->kind != LogEntry::Kind::kClock) return;
  if (request.value.empty()) {
    values.erase(value(request.flow));
  } else {
    values[value(request.flow)] = request.value;
  }
}

Recovered DatastoreWay::Recover(Instant now) {
  Values values = values_;
  FreePieces free = free_;
  uint64_t stored = acknowledged_;
  for (const Request& request : requests_) {
    if (request.there > now) break;
    Apply(request, values, free);
    stored = ViewOf(request)->number;
  }
  Recovered made{.heir = std::make_unique<Heir>(spec_, max_flows_, free)};
  for (const Request& request : requests_) {
    if (request.is_held) made.unreleased.push_back(request.flow);
  }
  const Nanos begin = CpuTimeOfThread();
  for (const auto& [flow, bytes] : values) {
    const auto found = ParseStoreValue(bytes, FlowId{flow});
    SNF_CHECK(found.has_value());
    SNF_CHECK(made.heir->Take(now, found->state, found->record));
    ++made.records;
    made.bytes += bytes.size();
  }
  for (const KeptStep& step : kept_.steps()) {
    if (step.last_entry <= stored) continue;
    made.heir->Replay(
        step, [&](FlowId flow, Clock clock) { return !IsHeld(flow, clock); });
  }
  made.executed = {CpuTimeOfThread().ns - begin.ns};
  made.free = made.heir->free();
  for (const KeptStep& step : kept_.steps()) {
    if (step.last_entry > stored) {
      made.service.ns += ServiceTimeOf(options_, step).ns;
    }
  }
  // A round trip, and a request for each record.
  const int64_t threads = options_.store.threads;
  const int64_t rounds =
      (static_cast<int64_t>(made.records) + threads - 1) / threads;
  made.network = {options_.store.round_trips[1].ns + options_.hop_delay.ns +
                  rounds * options_.store.operation.ns +
                  TransferTime(options_, made.bytes).ns};
  return made;
}

}  // namespace

std::unique_ptr<RecoveryWay> MakeDatastoreWay(const NfSpec& nf,
                                              const RunOptions& options,
                                              uint32_t max_flows) {
  return std::make_unique<DatastoreWay>(nf, options, max_flows);
}

}  // namespace snf
