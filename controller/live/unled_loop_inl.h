// SPDX-License-Identifier: Apache-2.0
//
// Bodies of the functions that know the type of the loop's host;
// controller_loop_inl.h includes it.
#ifndef SNF_CONTROLLER_LIVE_UNLED_LOOP_INL_H_
#define SNF_CONTROLLER_LIVE_UNLED_LOOP_INL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "controller/live/controller_loop.h"
#include "controller/live/unled_loop.h"

namespace snf {

template <ControllerHost Host>
void UnledLoop::Fail(Rng& rng, Host& host) {
  loop_.ReportDrained(host);
  std::vector<Arrival>& batch = loop_.batch_;
  const size_t handled = rng.Below(batch.size() + 1);
  const std::span<const Arrival> first = std::span(batch).first(handled);
  for (size_t done = 0; done < handled;) {
    loop_.out_.clear();
    done += loop_.controller_.on_packets(loop_.now_, first.subspan(done),
                                         loop_.out_);
    loop_.ExecuteAll(host);
  }
  for (size_t i = handled; i < batch.size(); ++i) {
    LosePacket(batch[i].packet, host);
  }
  batch.clear();
  FailController();
  for (size_t i = 0; i < returns_.size(); ++i) CutLink(i, &rng, host);
  AbandonRecovery(host);
  MakeNext();
}

template <ControllerHost Host>
bool UnledLoop::Turn(Host& host) {
  const size_t loops = returns_.size();
  size_t messages =
      loop_.links_.relay().has_value() && loop_.links_.relay()->Turn() ? 1 : 0;
  const auto for_each_awaited = [&](const auto& visit) {
    for (size_t i = 0; i < loops; ++i) {
      for (const bool of_logger : {false, true}) {
        if (reports_.awaits(i, of_logger)) visit(i, of_logger);
      }
    }
  };
  for (uint32_t burst = 0; burst < kReportBursts; ++burst) {
    const size_t before = messages;
    for_each_awaited([&](size_t loop, bool of_logger) {
      loop_.links_.Receive(loop_.links_.in(loop, of_logger));
    });
    loop_.links_.CloseBroken();
    loop_.ReadClock();
    for_each_awaited([&](size_t loop, bool of_logger) {
      messages += HandleLink(loop, of_logger, host);
    });
    loop_.links_.FlushToLoggers();
    loop_.links_.ReleaseHandled(true);
    if (messages == before) break;
  }
  HoldBatch(host);
  if (!CanBegin()) return messages > 0;
  BeginSuccessor(host);
  for (const UnitCommand& word : reports_.TakeKept()) {
    loop_.words_.TakeTell(loop_.now_, word, host);
    loop_.ExecuteAll(host);
  }
  Mend(host);
  return true;
}

template <ControllerHost Host>
size_t UnledLoop::HandleLink(size_t loop, bool of_logger, Host& host) {
  return loop_.links_.in(loop, of_logger)
      .Handle(loop_.links_.words(loop, of_logger),
              [&](const Cell& cell, std::span<const std::byte> payload) {
                const auto& command = cell.As<UnitCommand>();
                if (command.kind > UnitCommand::Kind::kDropPayload) {
                  HandleWord(loop, of_logger, cell, payload);
                } else if (is_heir()) {
                  LoseWord(loop, command);
                } else if (loop_.links_.knows_packets() &&
                           !loop_.links_.Take(loop, command)) {
                  loop_.Refuse(command.unit, "end of a packet", "packet",
                               value(command.packet));
                } else {
                  host.on_packet(loop_.now_, command);
                }
              });
}

template <ControllerHost Host>
void UnledLoop::Mend(Host& host) {
  loop_.out_.clear();
  const bool is_done =
      succession_.Mend(loop_.controller_, loop_.now_, loop_.out_);
  loop_.ExecuteAll(host);
  loop_.FlushAll();
  std::vector<Arrival>& batch = loop_.batch_;
  const uint64_t in_units = loop_.in_channels();
  const bool is_crowded =
      in_units > 0 && in_units + waiting() + batch.size() > room_;
  if (!is_done || is_crowded) return;
  const std::vector<Arrival> later = std::exchange(batch, {});
  batch = succession_.Finish();
  batch.insert(batch.end(), later.begin(), later.end());
  loop_.HandleBatch(host);
}

template <ControllerHost Host>
void UnledLoop::EndLoop(size_t loop, Host& host) {
  const Phase phase = succession_.phase();
  if (phase == Phase::kMending) FailAgain(host);
  if (phase == Phase::kGathering) {
    succession_.Restart();
    reports_.Restart();
  }
  loop_.links_.Resume();
  loop_.links_.ReceiveFromDead(
      loop, [&] { return HandleLink(loop, /*of_logger=*/false, host); });
  loop_.links_.CloseBroken();
  EndUnits(loop, host);
  if (phase != Phase::kDead) Succeed();
}

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_UNLED_LOOP_INL_H_
