// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/fixture_driven_chain.h"

#include <fmt/format.h>

#include <span>

#include "base/check.h"
#include "base/packet/ip_prefix.h"
#include "base/rng.h"
#include "controller/core/placement.h"

namespace snf {

MadeConnection DrivenChain::Connection(const Options& options,
                                       uint32_t number) {
  MadeConnection connection = MadeConnection::Number(number);
  connection.far = options.far.value_or(connection.far);
  return connection;
}

DrivenChain::DrivenChain(const Options& options) : capture_(options.capture) {
  if (capture_ != nullptr) return;
  for (uint32_t i = 0; i < options.flows; ++i) {
    const MadeConnection of = Connection(options, i);
    frames_.push_back(MakeFrame(of.protocol, of.inside, of.far));
    if (!options.both_sides) continue;
    frames_.push_back(MakeFrame(of.protocol, of.far, of.inside));
  }
  Rng rng(1);
  rng.Shuffle(std::span(frames_));
}

absl::StatusOr<std::unique_ptr<DrivenChain>> DrivenChain::Start(
    const Options& options) {
  auto nf = NfSpec::Parse(options.nf);
  SNF_CHECK(nf.ok());
  RunOptions run;
  run.controller.max_flows = 2 * options.flows;
  run.controller.flowlet_timeout = options.flowlet_timeout;
  run.controller.flow_timeout = Nanos::max();
  // All connections fit into one unit, when they begin as later on.
  run.controller.first_demand_bps = 500'000'000 / options.flows;
  if (options.capture == nullptr) run.inside = *ParsePrefixes("10.0.0.0/8");
  run.check = false;
  run.controller.seed = options.seed;
  RealOptions real = {.speed = options.speed,
                      .threads = options.threads,
                      .buffers = {.small = 4'096, .medium = 4, .large = 1},
                      .host_state = options.host_state,
                      .unpaced = true,
                      .wait_for_room = true};
  if (options.killed_at.ns >= 0) {
    run.loggers = true;
    run.faults.kills.push_back({.at = options.killed_at});
    real.isolation = Isolation::kProcess;
  }
  auto driver = RealDriver::Start(run, real, *FindPlacementPolicy("snf"), *nf,
                                  {options.observer});
  if (!driver.ok()) return driver.status();
  std::unique_ptr<DrivenChain> chain(new DrivenChain(options));
  chain->driver_ = *std::move(driver);
  if (options.capture == nullptr) chain->Begin(options);
  return chain;
}

void DrivenChain::Begin(const Options& options) {
  for (uint32_t i = 0; i < options.flows; ++i) {
    const MadeConnection of = Connection(options, i);
    const MadeFrame first =
        MakeFrame(of.protocol, of.inside, of.far, TcpHeader<std::byte>::kSyn);
    driver_->Offer({.time = Instant{1'000'000'000},
                    .bytes = std::span(first).first(kMadeBytes),
                    .original_bytes = kMadeBytes});
  }
}

CapturedPacket DrivenChain::Next() const {
  constexpr size_t kAhead = 8;  // as a replay
  if (capture_ == nullptr) {
    return {.time = Instant{1'000'000'000},
            .bytes = std::span(frames_[next_]).first(kMadeBytes),
            .original_bytes = kMadeBytes};
  }
  capture_->Prefetch(next_ + kAhead);
  return capture_->Packet(next_, 0);
}

void DrivenChain::Offer(uint64_t packets) {
  for (uint64_t i = 0; i < packets; ++i) {
    driver_->Offer(Next());
    next_ = next_ + 1 == this->packets() ? 0 : next_ + 1;
  }
}

absl::Status DrivenChain::Check(const RunResult& result) {
  if (result.violations == 0 && result.packets_released == result.packets_in) {
    return absl::OkStatus();
  }
  std::string why;
  for (size_t i = 0; i < result.dropped.size(); ++i) {
    if (result.dropped[i] == 0) continue;
    why += fmt::format(" {} {}", result.dropped[i],
                       ToString(static_cast<DropReason>(i)));
  }
  for (size_t i = 0; i < result.nf_dropped.size(); ++i) {
    if (result.nf_dropped[i] == 0) continue;
    why += fmt::format(" {} {}", result.nf_dropped[i], result.nf_drop_names[i]);
  }
  return absl::FailedPreconditionError(fmt::format(
      "of {} packets {} were released; {} dropped:{}; {} violations{}{}",
      result.packets_in, result.packets_released, result.packets_dropped(), why,
      result.violations, result.violations > 0 ? ": " : "",
      result.violations > 0 ? result.violation_messages.front() : ""));
}

}  // namespace snf
