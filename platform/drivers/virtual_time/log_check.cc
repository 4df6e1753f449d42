// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/log_check.h"

#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "runtime/logger/logger_commands.h"
#include "runtime/logger/output_logger.h"
#include "runtime/sdk/state_schema.h"

namespace snf {
namespace {

// Returns how a flow's copies differ; empty if they do not.
std::string DifferenceOf(const Unit& unit, const OutputLogger& logger,
                         const LoggerCommand::Applied& logged) {
  const Unit::Change whole = unit.whole(logged.flow);
  if (whole.clock != logged.clock || logged.ended) {
    return fmt::format("is kept by the logger{}; its unit has clock {}",
                       logged.ended ? " as ended" : "", value(whole.clock));
  }
  const auto bytes = StateSchema::WithoutZeros(logger.state_bytes(logged.flow));
  if (std::ranges::equal(bytes, whole.bytes)) return {};
  return "left another record at the logger than at its unit";
}

// Returns the flows that the logger has of an earlier process, though they are
// over or others have newer clocks of them.
uint32_t CompareFlows(Instant now, const VirtualUnit& shell,
                      OutputLogger& logger,
                      absl::FunctionRef<bool(FlowId, Clock)> is_old,
                      Checker& checker) {
  const Unit& unit = shell.unit;
  const bool is_first = shell.process.life == 1;
  uint32_t left = 0;
  logger.Seal();
  LoggerOut out;
  while (logger.has_more()) {
    out.clear();
    logger.Resume(out);
    for (const LoggerCommand& command : out.commands()) {
      if (command.kind != LoggerCommand::Kind::kApplied) continue;
      const FlowId flow = command.applied.flow;
      if (!is_first && unit.whole(flow).clock == Clock{} &&
          is_old(flow, command.applied.clock)) {
        ++left;
        continue;
      }
      const std::string difference =
          DifferenceOf(unit, logger, command.applied);
      if (difference.empty()) continue;
      PacketMeta meta;
      meta.flow = command.applied.flow;
      meta.clock = command.applied.clock;
      checker.on_copy_differs(now, unit.id(), meta, difference);
    }
  }
  return left;
}

}  // namespace

uint64_t CompareLoggers(Instant now, size_t pools, VirtualUnits& units,
                        absl::FunctionRef<bool(FlowId, Clock)> is_old,
                        Checker& checker) {
  uint64_t all_left = 0;
  units.ForEach([&](VirtualUnit& shell) {
    if (!shell.process.lives()) return;
    if (!shell.log->empty() || shell.log->is_broken) return;
    const Unit& unit = shell.unit;
    OutputLogger& logger = shell.log->logger();
    const uint32_t left = CompareFlows(now, shell, logger, is_old, checker);
    all_left += left;
    if (logger.flows() - left != unit.own_copies()) {
      checker.on_copy_differs(
          now, unit.id(), {},
          fmt::format("keeps {} flows; its logger {}", unit.own_copies(),
                      logger.flows() - left));
    }
    for (uint16_t pool = 0; pool < pools; ++pool) {
      if (logger.pieces(pool).size() == unit.pieces(pool)) continue;
      checker.on_copy_differs(
          now, unit.id(), {},
          fmt::format("keeps {} free pieces of pool {}; its logger {}",
                      unit.pieces(pool), pool, logger.pieces(pool).size()));
    }
  });
  return all_left;
}

}  // namespace snf
