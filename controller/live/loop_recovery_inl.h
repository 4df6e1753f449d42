// SPDX-License-Identifier: Apache-2.0
//
// Bodies of the functions that know the type of the loop's host;
// controller_loop_inl.h includes it.
#ifndef SNF_CONTROLLER_LIVE_LOOP_RECOVERY_INL_H_
#define SNF_CONTROLLER_LIVE_LOOP_RECOVERY_INL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/live/controller_loop.h"
#include "controller/live/loop_recovery.h"

namespace snf {

template <ControllerHost Host>
void LoopRecovery::End(size_t loop, Host& host) {
  loop_.links_.ReceiveFromDead(
      loop, [&] { return loop_.HandleLink(loop, /*of_logger=*/false, host); });
  loop_.ReportDrained(host);
  loop_.links_.CloseBroken();  // what follows forgets what was wrong
  EndChannels(loop);
  // When a unit fails, other units of the process may get packets, or be
  // started: these fail as well, and the next process does not get what was
  // sent to them. But if no other process has units, a unit that is started
  // waits for the next process.
  const bool keeps_started = !HasOther(loop);
  std::vector<ControllerCommand> kept;
  for (bool has_failed = true; has_failed;) {
    has_failed = false;
    for (uint32_t unit = static_cast<uint32_t>(loop);
         FailNext(loop, unit, host);) {
      if (keeps_started) TakeStarted(loop, kept);
      loop_.ExecuteAll(host);
      has_failed = true;
    }
  }
  loop_.links_.loops()[loop].out.SkipAll();
  for (const ControllerCommand& command : kept) {
    loop_.out_.clear();
    loop_.out_.push(command);
    loop_.ExecuteAll(host);
  }
  loop_.FlushAll();
}

template <typename IsLost, typename Lost>
void LoopRecovery::TakeLost(const IsLost& is_lost, const AliasTable& aliases,
                            ControllerEvents& events, const Lost& lost) {
  loop_.links_.packets().TakeOut(
      is_lost, [&](const PacketsUnderWay::Sent& sent) {
        loop_.slots_.Leave(sent.meta);
        if (aliases.clock(slot_of(sent.meta.flow)) == sent.meta.clock) {
          events.on_alias_over(sent.meta.flow, sent.meta.clock);
        }
        if (sent.packet == kNoPacket) ++null_packets_lost_;
        lost(sent);
      });
}

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_RECOVERY_INL_H_
