// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/unit_links.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace snf {

UnitLinks::UnitLinks(const UnitLoopOptions& options, uint32_t tables,
                     uint32_t record_bytes, UnitLoopLinks links)
    : links_(std::move(links)),
      index_(options.index),
      loops_(options.loops),
      words_(UnitsOfLoop(options.index, options.loops, options.max_units),
             {.max_units = options.max_units, .tables = tables}, links_.buffers,
             *links_.faults) {
  const auto units_of = [&](uint32_t loop) {
    return UnitsOfLoop(loop, options.loops, options.max_units);
  };
  const UnitsOfLoop own = units_of(options.index);
  const auto add_words = [&](const UnitsOfLoop& from) {
    unit_words_.emplace_back(from, own, record_bytes, *links_.faults);
  };
  if (links_.is_relayed) {
    SNF_CHECK(links_.from_loops.size() == 2 && links_.to_loops.size() == 2);
    add_words(own);
    add_words(UnitsOfLoop(0, 1, options.max_units));
  } else {
    for (uint32_t i = 0; i < links_.from_loops.size(); ++i) {
      add_words(units_of(i));
    }
  }
}

bool UnitLinks::has_mail() {
  if (links_.from_controller.has_items()) return true;
  if (links_.from_loggers.has_value() && links_.from_loggers->has_items()) {
    return true;
  }
  return std::ranges::any_of(links_.from_loops,
                             [](LinkIn& link) { return link.has_items(); });
}

void UnitLinks::Receive() {
  links_.from_controller.Receive();
  for (LinkIn& link : links_.from_loops) link.ReceiveKept();
  if (links_.from_loggers.has_value()) links_.from_loggers->Receive();
  CloseBroken();
}

void UnitLinks::CloseBroken() {
  const auto is_broken = [](const LinkIn& in, const LinkOut& out) {
    return in.faults() + out.faults() > 0 && !in.is_closed();
  };
  if (is_broken(links_.from_controller, links_.to_controller)) [[unlikely]] {
    Refuse("ring", "position", links_.from_controller.received());
  }
  for (size_t i = 0; i < links_.from_loops.size(); ++i) {
    LinkIn& in = links_.from_loops[i];
    if (!is_broken(in, links_.to_loops[i])) [[likely]]
      continue;
    unit_words_[i].Refuse("ring", "position", in.received());
    in.Close();
  }
}

bool UnitLinks::SendToUnit(const UnitCommand& command,
                           std::span<const std::byte> record) {
  size_t to = value(command.unit) % loops_;
  if (links_.is_relayed) to = to == index_ ? 0 : 1;
  LinkOut& link = links_.to_loops[to];
  if (!link.has_room(record.size())) return false;
  link.Send(command, record);
  return true;
}

uint64_t UnitLinks::sent() const {
  uint64_t sent = links_.to_controller.sent_in_all();
  for (const LinkOut& link : links_.to_loops) sent += link.sent_in_all();
  return sent;
}

uint64_t UnitLinks::handled() const {
  uint64_t handled = links_.from_controller.handled();
  for (const LinkIn& link : links_.from_loops) handled += link.handled();
  if (links_.from_loggers.has_value()) {
    handled += links_.from_loggers->handled();
  }
  return handled;
}

}  // namespace snf
