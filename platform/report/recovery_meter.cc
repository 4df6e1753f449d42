// SPDX-License-Identifier: Apache-2.0
#include "platform/report/recovery_meter.h"

#include <algorithm>

namespace snf {
namespace {

constexpr int64_t kHeaderBytes = 40;  // of a State

Nanos operator+(Nanos a, Nanos b) { return {a.ns + b.ns}; }

Nanos NotBelowZero(Nanos time) { return {std::max(time.ns, int64_t{0})}; }

uint64_t QuantileOf(const Histogram& times, uint32_t per_100000) {
  return static_cast<uint64_t>(times.Quantile(per_100000));
}

}  // namespace

RecoveryMeter::RecoveryMeter(const RunOptions& options, uint32_t record_bytes)
    : options_(options),
      record_bytes_(record_bytes),
      service_(options.controller.unit_capacity_bps,
               options.controller.unit_packets_ps),
      units_(options.controller.max_units),
      store_free_at_(options.store.threads, Instant::min()) {}

void RecoveryMeter::on_start(Instant first_packet) {
  next_checkpoint_ = first_packet + kCheckpointEvery;
  next_sample_ = first_packet + kSampleEvery;
}

void RecoveryMeter::AdvanceTo(Instant now) {
  while (std::min(next_checkpoint_, next_sample_) <= now) {
    if (next_checkpoint_ <= next_sample_) {
      TakeCheckpoints(next_checkpoint_);
      next_checkpoint_ = next_checkpoint_ + kCheckpointEvery;
    } else {
      Sample(next_sample_);
      next_sample_ = next_sample_ + kSampleEvery;
    }
    if (!unit_of_.empty()) continue;
    // Nothing is anywhere: no need to go through a long pause step by step.
    while (next_checkpoint_ <= now) {
      const int64_t steps = (now - next_checkpoint_).ns / kCheckpointEvery.ns;
      next_checkpoint_ =
          next_checkpoint_ + Nanos{(steps + 1) * kCheckpointEvery.ns};
    }
    while (next_sample_ <= now) {
      const int64_t steps = (now - next_sample_).ns / kSampleEvery.ns;
      next_sample_ = next_sample_ + Nanos{(steps + 1) * kSampleEvery.ns};
    }
  }
}

void RecoveryMeter::TakeCheckpoints(Instant now) {
  for (Unit& unit : units_) {
    unit.since_checkpoint = Nanos{};
    unit.flows_at_checkpoint = unit.flows;
    if (unit.flows == 0) continue;
    unit.copied = now + BytesTime(unit.flows);
    ++counts_.checkpoints;
    counts_.checkpoint_bytes +=
        static_cast<uint64_t>(unit.flows) * (record_bytes_ + kHeaderBytes);
  }
}

void RecoveryMeter::Sample(Instant now) {
  for (Unit& unit : units_) {
    if (unit.flows == 0) continue;
    ++counts_.samples;
    logger_.recovery_ns.Record((options_.hop_delay + Transfer(unit.flows)).ns);
    checkpoint_.recovery_ns.Record((Transfer(unit.flows_at_checkpoint) +
                                    unit.since_checkpoint + unit.queued)
                                       .ns);
    const int64_t threads = options_.store.threads;
    const int64_t rounds = (unit.flows + threads - 1) / threads;
    const Nanos fetch = options_.store.round_trips[1] +
                        Nanos{rounds * options_.store.operation.ns} +
                        Transfer(unit.flows) + options_.hop_delay;
    const Nanos not_stored = unit.stored > now ? unit.not_in_store : Nanos{};
    datastore_.recovery_ns.Record((fetch + unit.queued + not_stored).ns);
  }
}

void RecoveryMeter::on_enqueue(Instant now, UnitId unit,
                               const PacketMeta& meta) {
  // Of the time in which nothing but timers run there is nothing to tell.
  if (!meta.has_payload()) return;
  AdvanceTo(now);
  Nanos& queued = units_[value(unit)].queued;
  queued = queued + service_.ServiceTime(meta.original_length);
}

void RecoveryMeter::on_payload_dropped(Instant now, UnitId unit,
                                       const PacketMeta& meta) {
  AdvanceTo(now);
  Nanos& queued = units_[value(unit)].queued;
  const Nanos service = service_.ServiceTime(meta.original_length);
  queued = NotBelowZero({queued.ns - service.ns});
}

void RecoveryMeter::on_service_end(Instant now, UnitId id,
                                   const PacketMeta& meta) {
  if (meta.has_payload()) AdvanceTo(now);
  const auto [at, is_new] = unit_of_.try_emplace(value(meta.flow), id);
  if (!is_new) --units_[value(at->second)].flows;
  at->second = id;
  Unit& unit = units_[value(id)];
  ++unit.flows;
  if (!meta.has_payload()) return;
  const Nanos service = service_.ServiceTime(meta.original_length);
  unit.queued = NotBelowZero({unit.queued.ns - service.ns});
  unit.since_checkpoint = unit.since_checkpoint + service;
  NotePath(now, unit, service);
}

void RecoveryMeter::NotePath(Instant now, Unit& unit, Nanos service) {
  logger_.path_ns.Record(options_.logger_delay.ns);
  const Nanos copying = NotBelowZero(unit.copied - now);
  checkpoint_.path_ns.Record(
      (options_.logger_delay + options_.logger_delay + copying).ns);
  ++counts_.datastore_requests;
  const Instant there = now + options_.hop_delay;
  if (unit.stored <= now) unit.not_in_store = Nanos{};
  unit.not_in_store = unit.not_in_store + service;
  Instant& free = *std::ranges::min_element(store_free_at_);
  const int64_t behind =
      NotBelowZero(free - there).ns -
      kBuffered * std::max(options_.store.operation.ns, int64_t{1});
  datastore_.path_ns.Record(std::max(behind, int64_t{0}));
  free = std::max(free, there) + options_.store.operation;
  unit.stored = std::max(unit.stored, free + options_.hop_delay);
}

void RecoveryMeter::on_end_flow(Instant /*now*/, UnitId /*unit*/,
                                const EndFlow& end) {
  const auto at = unit_of_.find(value(end.flow));
  if (at == unit_of_.end()) return;
  --units_[value(at->second)].flows;
  unit_of_.erase(at);
}

Nanos RecoveryMeter::BytesTime(int64_t flows) const {
  const auto bytes =
      static_cast<unsigned __int128>(flows) * (record_bytes_ + kHeaderBytes);
  return {static_cast<int64_t>(
      bytes * 8'000'000'000 /
      static_cast<uint64_t>(options_.state_bandwidth_bps))};
}

Nanos RecoveryMeter::Transfer(int64_t flows) const {
  return options_.state_delay + BytesTime(flows);
}

void RecoveryMeter::Apply(RunResult& result) const {
  RecoveryFigures& figures = result.recovery;
  figures = counts_;
  figures.logger_p50 = QuantileOf(logger_.recovery_ns, 50'000);
  figures.logger_p99 = QuantileOf(logger_.recovery_ns, 99'000);
  figures.checkpoint_p50 = QuantileOf(checkpoint_.recovery_ns, 50'000);
  figures.checkpoint_p99 = QuantileOf(checkpoint_.recovery_ns, 99'000);
  figures.datastore_p50 = QuantileOf(datastore_.recovery_ns, 50'000);
  figures.datastore_p99 = QuantileOf(datastore_.recovery_ns, 99'000);
  figures.logger_path_p50 = QuantileOf(logger_.path_ns, 50'000);
  figures.logger_path_p99 = QuantileOf(logger_.path_ns, 99'000);
  figures.checkpoint_path_p50 = QuantileOf(checkpoint_.path_ns, 50'000);
  figures.checkpoint_path_p99 = QuantileOf(checkpoint_.path_ns, 99'000);
  figures.datastore_path_p50 = QuantileOf(datastore_.path_ns, 50'000);
  figures.datastore_path_p99 = QuantileOf(datastore_.path_ns, 99'000);
}

}  // namespace snf
