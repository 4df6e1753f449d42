// SPDX-License-Identifier: Apache-2.0
#include "runtime/wire/state_relay.h"

#include <span>
#include <utility>

#include "base/ids.h"
#include "base/messages/unit_commands.h"

namespace snf {

StateRelay::StateRelay(std::vector<Loop> loops, uint32_t max_units,
                       uint32_t record_bytes, WireFaults& faults)
    : loops_(std::move(loops)) {
  const auto count = static_cast<uint32_t>(loops_.size());
  for (uint32_t i = 0; i < count; ++i) {
    words_.emplace_back(UnitsOfLoop(i, count, max_units),
                        UnitsOfLoop(0, 1, max_units), record_bytes, faults);
  }
}

bool StateRelay::Turn() {
  size_t messages = 0;
  for (size_t i = 0; i < loops_.size(); ++i) {
    LinkIn& from = loops_[i].from;
    from.ReceiveKept();
    messages += from.Handle(
        words_[i], [this](const Cell& cell, std::span<const std::byte> record) {
          const auto& command = cell.As<UnitCommand>();
          if (command.kind == UnitCommand::Kind::kSendPull &&
              may_pull_ != nullptr && !may_pull_(command.pull)) {
            ++refused_;
            return;
          }
          LinkOut& to = loops_[value(command.unit) % loops_.size()].to;
          if (to.has_room(record.size())) {
            to.Send(command, record);
          } else {
            ++lost_;
          }
        });
  }
  if (messages > 0) {
    for (Loop& loop : loops_) loop.to.Flush();
    for (Loop& loop : loops_) loop.from.Release();
  }
  CloseBrokenLinks();
  return messages > 0;
}

void StateRelay::EndLoop(size_t loop) {
  auto& [from, to] = loops_[loop];
  if (from.faults() + to.faults() == 0 && !from.is_closed()) {
    from.Reopen();
    to.Restore();
    return;
  }
  from.SkipAll();
  to.SkipAll();
}

// A link whose ring has had a position that cannot be, at either end.
void StateRelay::CloseBrokenLinks() {
  for (size_t i = 0; i < loops_.size(); ++i) {
    Loop& loop = loops_[i];
    if (loop.from.faults() + loop.to.faults() == 0 || loop.from.is_closed())
        [[likely]] {
      continue;
    }
    words_[i].Refuse("ring", "position", loop.from.received());
    loop.from.Close();
  }
}

uint64_t StateRelay::handled() const {
  uint64_t sum = 0;
  for (const Loop& loop : loops_) sum += loop.from.handled();
  return sum;
}

uint64_t StateRelay::sent() const {
  uint64_t sum = 0;
  for (const Loop& loop : loops_) sum += loop.to.sent_in_all();
  return sum;
}

}  // namespace snf
