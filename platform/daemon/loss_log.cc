// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/loss_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/run/figures/figures.h"

namespace snf {

namespace {

// The end of the names of drop reasons for a limit that an NF has reached.
constexpr std::string_view kExhausted = "_exhausted";

bool IsLoss(const DropCount& drop) {
  return !drop.by_nf || drop.name.ends_with(kExhausted);
}

// The counts of copies for others that cannot be used (FlowHeirs::named).
bool IsLostState(std::string_view name) {
  return name == "states_untaken" || name == "states_evicted" ||
         name == "states_malformed" || name == "states_too_long" ||
         name == "states_ungiven" || name == "states_unreturned";
}

}  // namespace

void LossLog::Look(const LiveFigures& figures) {
  const Instant now = {figures.elapsed.ns};
  for (const DropCount& drop : figures.drops) {
    if (!IsLoss(drop)) continue;
    Look(drop.name, drop.packets, now);
  }
  for (const PortFigures& port : figures.live.ports) {
    const auto look = [&](std::string_view what, uint64_t count) {
      Look(fmt::format("port {} ({}): {}", port.name, port.interface, what),
           count, now);
    };
    look("refused by the port", port.refused);
    look("dropped by the kernel", port.kernel_drops);
    look(port.router.empty() ? "not taken by the kernel"
                             : "not sent (snf status names the reasons)",
         port.send_drops - std::min(port.send_drops, port.too_long));
    look("longer than the MTU", port.too_long);
  }
  if (figures.group.has_value()) {
    for (const NamedCount& count : figures.group->counts) {
      if (count.name == "forwarded" || count.name == "taken") continue;
      const bool is_state = count.name.starts_with("states_");
      if (is_state && !IsLostState(count.name)) continue;
      Look("group: " + count.name, count.count, now,
           is_state ? "flow" : "frame");
    }
  }
  constexpr std::string_view kRecord = "log record";
  const FigureCounts& counts = figures.counts;
  Look("no_room", counts[&NfLogFigures::no_room], now, kRecord);
  Look("queue_full", counts[&NfLogFigures::queue_full], now, kRecord);
  Look("write_failed", counts[&NfLogFigures::write_failed], now, kRecord);
}

void LossLog::Look(std::string_view what, uint64_t count, Instant now,
                   std::string_view noun) {
  const auto at = losses_.find(what);
  Loss& loss = at != losses_.end()
                   ? at->second
                   : losses_.emplace(what, Loss{}).first->second;
  if (count <= loss.told || now < loss.next) return;
  // A pause without a loss resets the time between lines.
  const bool has_rested = now >= loss.next + loss.pause;
  loss.pause =
      has_rested ? kFirstPause : std::min(Nanos{2 * loss.pause.ns}, kLastPause);
  loss.next = now + loss.pause;
  notice_(fmt::format("{} lost: {}; {} in all",
                      Plural(count - loss.told, std::string(noun)), what,
                      FormatCount(count)));
  loss.told = count;
}

}  // namespace snf
