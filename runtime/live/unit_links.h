// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_UNIT_LINKS_H_
#define SNF_RUNTIME_LIVE_UNIT_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/byte_order.h"
#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/unit_commands.h"
#include "runtime/core/host_records.h"
#include "runtime/live/unit_loop_options.h"
#include "runtime/live/unit_turns.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/thread_link.h"
#include "runtime/store/state_store.h"
#include "runtime/tables/table_message.h"
#include "runtime/wire/decoder.h"
#include "runtime/wire/link_payload.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// Holds what connects a loop to a controller and to all loops of units. Where
// it points to outlives the loop.
struct UnitLoopLinks {
  BufferPool buffers;  // as a party of its own
  Doorbell* bell;      // the loop's; all who send to it ring it
  LoopProgress* progress;
  LoopControl* control;
  WireFaults* faults;  // gets what is wrong in words of others
  LinkIn from_controller;
  LinkOut to_controller;
  // By index, the own among them. If is_relayed: the own, and that of a relay
  // to all other loops.
  std::vector<LinkIn> from_loops;
  std::vector<LinkOut> to_loops;
  bool is_relayed = false;
  StateStore* store = nullptr;  // with UnitOptions::has_store
  // Set if units show each other the states of flows.
  HostRecords* host = nullptr;
  // Set if units have loggers, which keep the state of units that have failed.
  std::optional<LinkOut> to_loggers{};
  std::optional<LinkIn> from_loggers{};
  // Set if the loggers' process may end: the next one gets what units keep.
  std::optional<LinkOut> to_new_loggers{};
  // Set if loops of other controllers run the same units, on the same thread.
  UnitTurns* turns = nullptr;
  // Set if the controller may fail; units have loggers then.
  const ControllerEpoch* controllers = nullptr;
};

// The links of a loop of units (unit_loop.h) to its controller, to all loops of
// units, and from their loggers. Each word that comes passes a decoder first. A
// bad word is added to WireFaults and closes its link, as does a ring with a
// position that cannot be: nothing more is taken from the sender.
//
// Messages of other loops stay in their ring until they are handled, so that
// the next process that runs the loop begins with a whole one.
//
// Owner-thread only. Allocates nothing for a packet.
class UnitLinks {
 public:
  // `tables` is the number of the NF's shared tables.
  UnitLinks(const UnitLoopOptions& options, uint32_t tables,
            uint32_t record_bytes, UnitLoopLinks links);

  // Names the parts that are not links between loops.
  UnitLoopLinks& all() { return links_; }
  const UnitLoopLinks& all() const { return links_; }
  BufferPool& buffers() { return links_.buffers; }
  LinkOut& to_controller() { return links_.to_controller; }

  // Returns true if a message is in a ring.
  bool has_mail();
  // Takes a burst from each link.
  void Receive();
  // Handle the messages that were taken, and return their number. `inbox` is
  // called for each: on_order(ControllerCommand), on_table(TableMessage),
  // on_name(UnitId, FlowName) and on_state(ControllerCommand, record) for the
  // controller's, on_message(UnitCommand, record) for messages of units and
  // loggers.
  template <typename Inbox>
  size_t HandleController(Inbox inbox);
  template <typename Inbox>
  size_t HandleUnits(Inbox inbox);
  // The controller's word is bad.
  void Refuse(std::string_view kind, std::string_view field, uint64_t value) {
    words_.Refuse(kind, field, value);
    links_.from_controller.Close();
  }

  // Sends to the loop of command.unit; returns false if there is no room.
  bool SendToUnit(const UnitCommand& command,
                  std::span<const std::byte> record);
  // Hands over the messages to other loops.
  void FlushToUnits() {
    for (LinkOut& link : links_.to_loops) link.Flush();
  }

  // Counts for LoopProgress.
  uint64_t sent() const;
  uint64_t handled() const;

 private:
  void CloseBroken();

  UnitLoopLinks links_;
  const uint32_t index_;
  const uint32_t loops_;
  WordsToUnits words_;                         // of the controller
  std::vector<WordsBetweenUnits> unit_words_;  // of links_.from_loops
};

template <typename Inbox>
size_t UnitLinks::HandleController(Inbox inbox) {
  return links_.from_controller.Handle(
      words_, [&](const Cell& cell, std::span<const std::byte> payload) {
        if (payload.empty()) [[likely]] {
          inbox.on_order(cell.As<ControllerCommand>());
        } else if (!words_.IsSound(cell, payload)) {
          links_.from_controller.Close();
        } else if (cell.is_table()) {
          inbox.on_table(LoadAs<TableMessage>(payload.data()));
        } else if (const auto& order = cell.As<ControllerCommand>();
                   order.kind == ControllerCommand::Kind::kTakeState) {
          inbox.on_state(order, payload);
        } else {
          inbox.on_name(cell.As<ControllerCommand>().unit,
                        LoadAs<FlowName>(payload.data()));
        }
      });
}

template <typename Inbox>
size_t UnitLinks::HandleUnits(Inbox inbox) {
  const auto handle = [&](const Cell& cell, std::span<const std::byte> record) {
    inbox.on_message(cell.As<UnitCommand>(), record);
  };
  size_t messages = 0;
  for (size_t i = 0; i < links_.from_loops.size(); ++i) {
    messages += links_.from_loops[i].Handle(unit_words_[i], handle);
    links_.from_loops[i].Release();
  }
  if (links_.from_loggers.has_value()) {
    messages += links_.from_loggers->Handle(
        unit_words_[links_.is_relayed ? 0 : index_], handle);
  }
  return messages;
}

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_UNIT_LINKS_H_
