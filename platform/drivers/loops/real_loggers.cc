// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/real_loggers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/logger/logger_commands.h"
#include "runtime/logger/output_logger.h"
#include "runtime/ring/real_clock.h"
#include "runtime/sdk/state_schema.h"

namespace snf {
namespace {

std::optional<std::string> CompareFlow(const Unit& unit,
                                       const OutputLogger& logger,
                                       const LoggerCommand::Applied& logged) {
  const Unit::Change whole = unit.whole(logged.flow);
  if (whole.clock != logged.clock || logged.ended) {
    return fmt::format("flow {}: clock {}{} instead of {}", value(logged.flow),
                       value(logged.clock), logged.ended ? ", the end" : "",
                       value(whole.clock));
  }
  const auto bytes = StateSchema::WithoutZeros(logger.state_bytes(logged.flow));
  if (std::ranges::equal(bytes, whole.bytes)) return std::nullopt;
  return fmt::format("flow {}: another record at clock {}", value(logged.flow),
                     value(logged.clock));
}

std::optional<std::string> CompareFlows(const Unit& unit,
                                        OutputLogger& logger) {
  logger.Seal();
  LoggerOut out;
  while (logger.has_more()) {
    out.clear();
    logger.Resume(out);
    for (const LoggerCommand& command : out.commands()) {
      if (command.kind != LoggerCommand::Kind::kApplied) continue;
      auto difference = CompareFlow(unit, logger, command.applied);
      if (difference.has_value()) return difference;
    }
  }
  if (logger.flows() == unit.own_copies()) return std::nullopt;
  return fmt::format("{} flows instead of {}", logger.flows(),
                     unit.own_copies());
}

}  // namespace

RealLoggers::RealLoggers(LoggerLoopOptions options, const NfSpec& nf,
                         LoopRegion::LoggersSide side)
    : bells_(std::move(side.bells)), control_(side.control) {
  for (LoggerLoopLinks& of_loop : side.loops) {
    loops_.push_back(
        std::make_unique<LoggerLoop>(options, nf, std::move(of_loop)));
    ++options.index;
  }
  for (const auto& loop : loops_) loop->Know(loops_);
}

void RealLoggers::Run() {
  const auto has_work = [this] {
    return control_->stops.load(std::memory_order_seq_cst) ||
           std::ranges::any_of(
               loops_, [](const auto& loop) { return loop->has_items(); });
  };
  while (!control_->stops.load(std::memory_order_relaxed)) {
    // Who dies between a word and the bell rings nobody.
    if (!Turn()) {
      Doorbell::WaitAtAll(bells_, has_work, Milliseconds(10),
                          RealClock::Monotonic());
    }
  }
}

std::thread& RealLoggers::StartThread() {
  thread_ = std::thread([this] { Run(); });
  return thread_;
}

void RealLoggers::Stop() {
  control_->stops.store(true, std::memory_order_seq_cst);
  bells_[0]->Ring();
  if (thread_.joinable()) thread_.join();
}

bool RealLoggers::Turn() {
  bool did = false;
  for (const auto& loop : loops_) did |= loop->Turn();
  return did;
}

std::optional<std::string> RealLoggers::DifferenceFrom(const Unit& unit,
                                                       size_t pools) {
  OutputLogger* const logger =
      loops_[value(unit.id()) % loops_.size()]->logger(unit.id());
  if (logger == nullptr) {
    if (unit.own_copies() == 0) return std::nullopt;
    return fmt::format("no flows instead of {}", unit.own_copies());
  }
  if (auto difference = CompareFlows(unit, *logger); difference.has_value()) {
    return difference;
  }
  for (uint16_t pool = 0; pool < pools; ++pool) {
    const uint32_t logged = logger->pieces(pool).size();
    if (logged == unit.pieces(pool)) continue;
    return fmt::format("{} free pieces of pool {} instead of {}", logged, pool,
                       unit.pieces(pool));
  }
  return std::nullopt;
}

}  // namespace snf
