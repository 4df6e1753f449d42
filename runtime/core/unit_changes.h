// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_CHANGES_H_
#define SNF_RUNTIME_CORE_UNIT_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "runtime/core/flow_store.h"
#include "runtime/core/nf_calls.h"

namespace snf {

// Theory of operation. The changes of flows that a unit tells its output logger
// (proto/protocol.md U6, L1): a kLog command ends each entry, and the change of
// the last one can be read until the next. An entry after the flow's first has
// only the delta that the NF left; an entry whose base the logger lacks has the
// whole record.
//
// Worked example: flow 7 comes to the unit with clock 4, and runs clocks 5 and
// 6. The change of 5 is whole, since the logger has nothing of the flow; that
// of 6 is the delta from 5.
//
// The store has the records, and comes with each call. A value; owner-thread
// only; nothing is allocated.
class UnitChanges {
 public:
  // The change of an entry.
  struct Change {
    // The record is `bytes` and zeros, whatever it was; else the delta
    // (delta.h) leads to it from that of the clock before.
    bool is_whole = false;
    Clock clock{};  // of the record
    Instant timer = Instant::max();
    LinkType link = LinkType::kEthernet;
    std::span<const std::byte> bytes{};
  };
  // A flow of which the logger has a record. If it waits for its alias, its
  // record is the one after the waiting clock.
  struct LoggedFlow {
    FlowId flow;
    Change record;
    bool is_parked = false;
  };

  // Ends the entry of a packet of the flow.
  void Log(uint32_t slot, const PacketMeta& meta, FlowStore& flows,
           UnitOut& out) {
    is_whole_ = flows.AddEntry(slot);
    logged_slot_ = slot;
    out.push(UnitCommand::OfPacket(UnitCommand::Kind::kLog, kNoPacket, meta));
  }
  // Ends the entry of the flow's end.
  void LogEnd(Instant now, uint32_t slot, FlowStore& flows, UnitOut& out);

  // Returns the change of the last entry; `nf` has its delta.
  Change last(const FlowStore& flows, const NfCalls& nf) const;
  // Returns the flow's whole record. Its clock is 0 if there is none but a
  // replica, or while the flow waits for its alias.
  static Change Whole(FlowId flow, const FlowStore& flows);
  // Returns the next flow of which the logger has a record, and advances `at`,
  // which is 0 at first; nothing after the last flow.
  static std::optional<LoggedFlow> NextLogged(uint32_t& at,
                                              const FlowStore& flows);

 private:
  static constexpr uint32_t kNone = FlowStore::kNone;

  static Change WholeOf(uint32_t slot, const FlowStore& flows);

  uint32_t logged_slot_ = kNone;  // unless it is a flow's end
  bool is_whole_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_CHANGES_H_
