// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/log_check.h"

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

void CompareFlows(Instant now, const Unit& unit, OutputLogger& logger,
                  Checker& checker) {
  logger.Seal();
  LoggerOut out;
  while (logger.has_more()) {
    out.clear();
    logger.Resume(out);
    for (const LoggerCommand& command : out.commands()) {
      if (command.kind != LoggerCommand::Kind::kApplied) continue;
      const std::string difference =
          DifferenceOf(unit, logger, command.applied);
      if (difference.empty()) continue;
      PacketMeta meta;
      meta.flow = command.applied.flow;
      meta.clock = command.applied.clock;
      checker.on_copy_differs(now, unit.id(), meta, difference);
    }
  }
}

}  // namespace

void CompareLoggers(Instant now, size_t pools, VirtualUnits& units,
                    Checker& checker) {
  units.ForEach([&](VirtualUnit& shell) {
    if (!shell.log->empty() || shell.log->is_broken) return;
    const Unit& unit = shell.unit;
    OutputLogger& logger = shell.log->logger();
    CompareFlows(now, unit, logger, checker);
    if (logger.flows() != unit.own_copies()) {
      checker.on_copy_differs(now, unit.id(), {},
                              fmt::format("keeps {} flows; its logger {}",
                                          unit.own_copies(), logger.flows()));
    }
    for (uint16_t pool = 0; pool < pools; ++pool) {
      if (logger.pieces(pool).size() == unit.pieces(pool)) continue;
      checker.on_copy_differs(
          now, unit.id(), {},
          fmt::format("keeps {} free pieces of pool {}; its logger {}",
                      unit.pieces(pool), pool, logger.pieces(pool).size()));
    }
  });
}

}  // namespace snf
