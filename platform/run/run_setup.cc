// SPDX-License-Identifier: Apache-2.0
#include "platform/run/run_setup.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "controller/core/options.h"
#include "fmt/format.h"
#include "runtime/core/piece_part.h"

namespace snf {
namespace {

// Slots of each channel for what is re-routed after failures.
constexpr uint32_t kRecoverySlots = 64;

// At most kMaxUnderWay, which no run comes near.
uint32_t SlotsOfAllChannels(const ControllerOptions& options) {
  constexpr uint64_t kMaxUnderWay = 1 << 22;
  return static_cast<uint32_t>(std::min(
      uint64_t{options.max_units} *
          (uint64_t{options.unit_queue_packets} + options.recovery_slots),
      kMaxUnderWay));
}

}  // namespace

UnitOptions UnitOptionsOf(const RunOptions& options, uint32_t replicas) {
  const ControllerOptions& c = options.controller;
  return {.max_flows = c.max_flows,
          .queue_packets = c.unit_queue_packets + c.recovery_slots,
          .packets_elsewhere = SlotsOfAllChannels(c),
          .hold_packets = options.hold_packets,
          .replicas = replicas,
          .push_after = {c.flowlet_timeout.ns / 2},
          .max_replicas = options.max_replicas,
          .push_bases = options.push_bases,
          .replica_lifetime = c.flow_timeout,
          .retry_after = options.state_retry,
          .has_logger = options.loggers,
          .has_store = options.state == StateMode::kExternal,
          .nf_logs = options.nf_logs,
          .large_pages = c.max_units <= UnitOptions::kMostWithLargePages};
}

TableOptions TableOptionsOf(const RunOptions& options, bool are_logged) {
  return {.period = options.table_period,
          .retry_after = options.state_retry,
          .forget_after = options.controller.flow_timeout,
          .hash_seed = options.controller.hash_seed,
          .are_logged = are_logged};
}

// A run of clocks for each packet that can be in a queue: none is forgotten.
void AddSpareUnits(ControllerOptions& options) {
  if (options.spare_units > 0) return;
  options.spare_units =
      std::min<uint32_t>(kSpareUnits, kMaxUnits - options.max_units);
  options.max_units += options.spare_units;
}

void AwaitEnds(bool units_may_fail, bool controller_may_fail,
               ControllerOptions& options) {
  options.awaits_ends = units_may_fail || controller_may_fail;
  options.names_flows = controller_may_fail;
  options.forgets_copies = units_may_fail && controller_may_fail;
}

void PrepareForFailures(ControllerOptions& options) {
  options.recovery_slots = kRecoverySlots;
  options.max_owner_runs = static_cast<uint32_t>(std::min<uint64_t>(
      uint64_t{options.unit_queue_packets} * options.max_units +
          options.max_flows,
      UINT32_MAX));
}

bool HasSides(const NetworkFunction& nf) {
  return nf.flow_scope() == FlowScope::kInsideEndpoint;
}

RunResult EmptyResult(const NetworkFunction& example) {
  RunResult result;
  for (const std::string_view name : example.drop_reasons()) {
    result.nf_drop_names.emplace_back(name);
  }
  result.nf_dropped.resize(result.nf_drop_names.size());
  for (NfLog& log : LogsOf(example)) {
    result.nf_logs.push_back({.name = std::move(log.name)});
  }
  result.aliases.has_sides = HasSides(example);
  result.aliases.pools = static_cast<uint32_t>(example.pools().size());
  return result;
}

std::optional<PieceRange> PartOf(const NetworkFunction::Pool& pool, uint32_t i,
                                 uint32_t count) {
  const auto part = PiecePart(pool, i, count);
  if (!part.has_value()) return std::nullopt;
  return PieceRange{part->first, part->last};
}

absl::Status CheckParts(const NetworkFunction& example, uint32_t controllers) {
  for (const NetworkFunction::Pool& pool : example.pools()) {
    for (uint32_t i = 0; i < controllers; ++i) {
      if (PartOf(pool, i, controllers).has_value()) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{} controllers need at least 64 pieces each of the pool {}",
          controllers, pool.name));
    }
  }
  return absl::OkStatus();
}

std::vector<std::vector<PieceRange>> PartsOf(
    std::span<const NetworkFunction::Pool> pools, uint32_t controllers) {
  std::vector<std::vector<PieceRange>> parts(controllers);
  for (uint32_t i = 0; i < controllers; ++i) {
    for (const NetworkFunction::Pool& pool : pools) {
      const PieceRange part = *PartOf(pool, i, controllers);
      if (std::ranges::find(parts[i], part) != parts[i].end()) continue;
      parts[i].push_back(part);
    }
  }
  return parts;
}

void AddPiecePools(const NetworkFunction& example, Controller& controller,
                   uint32_t i, uint32_t count) {
  for (const NetworkFunction::Pool& pool : example.pools()) {
    const auto part = PartOf(pool, i, count);
    SNF_CHECK(part.has_value());
    controller.AddPiecePool(part->first, part->last);
  }
}

}  // namespace snf
