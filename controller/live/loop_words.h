// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_LOOP_WORDS_H_
#define SNF_CONTROLLER_LIVE_LOOP_WORDS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "controller/live/controller_events.h"
#include "controller/live/loop_commands.h"
#include "controller/live/loop_links.h"
#include "controller/live/loop_tables.h"

namespace snf {

class LoopRecovery;
class UnledLoop;

// Turns words of units and of their loggers, except for the ends of packets,
// into calls of the controller, which leave its commands in `out`. A bad word
// closes the link that it came by (LoopLinks::Refuse).
//
// Owner-thread only.
class LoopWords {
 public:
  struct Parts {
    Controller& controller;
    LoopLinks& links;
    LoopTables& tables;
    LoopCommands& commands;
    // Parts that not each loop has.
    std::optional<LoopRecovery>& recovery;
    std::optional<UnledLoop>& unled;
    ControllerOut& out;
  };

  // All references must outlive the object.
  explicit LoopWords(const Parts& parts) : parts_(parts) {}

  // Takes a word that the loop, or its loggers, sent.
  void Take(Instant now, size_t loop, bool of_logger, const Cell& cell,
            std::span<const std::byte> payload, ControllerEvents& events);
  // Takes a note of a flow, or of its end.
  void TakeTell(Instant now, const UnitCommand& word, ControllerEvents& events);

  // Returns the leased units in which nothing of the controller is left, since
  // the last call.
  std::vector<UnitId> TakeLeft() { return std::exchange(left_, {}); }

 private:
  void on_alias(const Alias& alias, ControllerEvents& events);
  void on_stopped(Instant now, UnitId unit, ControllerEvents& events);

  const Parts parts_;
  std::vector<UnitId> left_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_WORDS_H_
