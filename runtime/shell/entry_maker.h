// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SHELL_ENTRY_MAKER_H_
#define SNF_RUNTIME_SHELL_ENTRY_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "runtime/core/unit.h"
#include "runtime/logger/log_entry.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// Theory of operation. Makes the entries for a unit's output logger
// (log_entry.h) from the unit's commands to its driver. The commands of one
// clock are collected, and become one entry at the clock's kLog, so that the
// logger gets all of it or nothing (proto/protocol.md U12). A clock whose
// packet waits for its alias spans two calls of the unit.
//
// Worked example: clock 3 of a flow takes port 7 and forwards its packet. The
// unit pushes kRelease and kLog; the first is a part, and the second completes
// an entry with the packet, the piece and the delta.
//
// Owner-thread only. Allocates nothing after construction, except for packets
// that wait for their alias.
class EntryMaker {
 public:
  // The outcome of a command.
  enum class Taken : uint8_t {
    kNot,    // not for the logger: the driver executes it
    kPart,   // part of a later entry
    kEntry,  // entry() is complete
  };

  // The schema is that of the unit's NF; it must outlive the maker. Clocks
  // have updates of these tables (Unit::LogTables).
  EntryMaker(uint32_t incarnation, const StateSchema& schema,
             std::span<const TableShape> tables = {});

  // Takes the next command of the unit's present call.
  Taken Take(const UnitCommand& command, const Unit& unit);
  // All commands of the call were taken.
  void EndCall();
  // The controller's answer is on its way to the unit: call it ahead of
  // Unit::on_alias_ack.
  void on_alias_ack(const AliasAck& ack);
  // Make an entry: the controller has acknowledged the messages of entries up
  // to `number`, or the end of the flow at `clock`.
  void MakeTold(uint64_t number);
  void MakeEnded(FlowId flow, Clock clock);

  // Returns the newest entry, whose number is number(). Valid until the next
  // one is made.
  std::span<const std::byte> entry() const {
    return std::span(bytes_).first(size_);
  }
  // Returns its header.
  const LogEntry& header() const {
    return *reinterpret_cast<const LogEntry*>(bytes_.data());
  }
  uint64_t number() const { return number_; }
  // Returns its updates of shared tables; valid as entry().
  std::span<const std::byte> updates() const;

  // Calls `visit` for each frame that a packet made which waits for its alias.
  template <typename Visit>
  void ForEachWaiting(const Visit& visit) const {
    for (const auto& [flow, parts] : waiting_) {
      for (const PacketHandle packet : parts.emitted) visit(packet);
    }
  }

  // Returns an entry to send in place of a lost or refused one (L4): with the
  // flow's present record if the unit keeps one, otherwise the same entry.
  std::vector<std::byte> StandIn(const LogEntryView& entry,
                                 const Unit& unit) const;

 private:
  // The unit's commands of a clock so far.
  struct Parts {
    std::vector<PieceUse> pieces;
    std::vector<PacketHandle> emitted;
    std::vector<std::byte> updates;  // of shared tables
    std::optional<Alias> alias;
    Nanos idle_timeout{-1};
    bool over = false;
    PacketHandle packet = kNoPacket;
    LogEntry::Outcome outcome = LogEntry::Outcome::kNone;
    DropReason reason{};
    uint8_t nf_reason = 0;
  };

  void Append(const Unit& unit);
  void NumberUpdates();
  void Join(FlowId flow);
  LogEntry& Begin(LogEntry::Kind kind, FlowId flow, Clock clock);
  void MakeClock(const PacketMeta& meta, const Unit::Change& change);
  void MakeBlock(LogEntry::Kind kind, const PieceBlock& block);
  void End();

  const StateSchema* schema_;
  uint32_t incarnation_;
  uint64_t number_ = 0;
  uint64_t grants_ = 0;
  Parts parts_;              // of the present call
  FlowId parked_ = kNoFlow;  // the present call asks for this flow's alias
  std::map<FlowId, Parts> waiting_;  // for the answer
  std::vector<std::byte> bytes_;     // begins with a LogEntry
  uint32_t size_ = 0;
  std::vector<uint64_t> updates_;  // the newest number, by table
};

}  // namespace snf

#endif  // SNF_RUNTIME_SHELL_ENTRY_MAKER_H_
