// SPDX-License-Identifier: Apache-2.0
#include "controller/live/loop_tables.h"

#include <cstddef>
#include <span>

namespace snf {

void LoopTables::Take(Instant now, const TableMessage& message,
                      LoopLinks& links) {
  homes_.Count(message);
  homes_.on_message(now, message,
                    [&](const TableMessage& answer) { Answer(answer, links); });
}

void LoopTables::RunTimers(Instant now, LoopLinks& links) {
  for (size_t table = 0; table < homes_.size(); ++table) {
    homes_.on_timers(now, table, [&](const TableMessage& message) {
      SendToUnit(message, links);
    });
  }
}

void LoopTables::Answer(const TableMessage& answer, LoopLinks& links) {
  if (answer.kind != TableMessage::Kind::kLoggedAck) {
    return SendToUnit(answer, links);
  }
  homes_.Count(answer);
  links.loggers()[links.loop_of(answer.unit)].out->Send(
      Cell::OfTable(), std::as_bytes(std::span(&answer, 1)));
}

void LoopTables::SendToUnit(const TableMessage& message, LoopLinks& links) {
  if (controller_.units().state(message.unit) == UnitPool::State::kCrashed) {
    return;
  }
  homes_.Count(message);
  links.to(message.unit)
      .Send(Cell::OfTable(), std::as_bytes(std::span(&message, 1)));
}

}  // namespace snf
