// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_LOGGER_H_
#define SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_LOGGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/link_type.h"
#include "base/time.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_commands.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Theory of operation. The output logger of a unit in virtual time, and the
// way to it, which keeps order and loses nothing (proto/protocol.md §5). What
// one clock did is one entry: what becomes of its packet, the packets that it
// caused, what it tells the controller, the pieces that it gave back, and the
// change of the flow's record. Entries are collected from the unit's commands
// (UnitCommand::Kind::kLog), which may come in two parts where a packet waits
// for its alias. Beside entries, two things go the same way: the
// acknowledgement of a Takeover (U7), and the end of a flow.
//
// The logger keeps a copy of each flow that its unit ran last.
//
// Worked example: clock 3 of a flow puts a count and is forwarded.
// Add(kRelease) and Seal(kLog) make the entry; Take, called when it has
// arrived, changes the count in the copy of clock 2, and returns the entry,
// whose packet is released then.
//
// Owner-thread only. Grows with the entries under way and the flows kept.
class VirtualLogger {
 public:
  struct Entry {
    enum class Kind : uint8_t {
      kEntry,        // `meta` was applied
      kTakeoverAck,  // `commands` has the acknowledgement to be sent
      kEnd,          // the flow is over with meta.clock
    };
    Kind kind = Kind::kEntry;
    PacketMeta meta{};
    std::vector<UnitCommand> commands{};
    bool is_whole = false;
    LinkType link = LinkType::kEthernet;
    Instant timer = Instant::max();
    std::vector<std::byte> change{};
  };

  // The schema must outlive the logger.
  explicit VirtualLogger(const StateSchema& schema) : schema_(&schema) {}

  // The command is part of an entry, not a message.
  static bool IsPart(UnitCommand::Kind kind);

  // A part of the entry of the flow's clock that is not sealed yet.
  void Add(FlowId flow, const UnitCommand& command) {
    open_[flow].push_back(command);
  }
  // The entry is complete, and sets out.
  void Seal(const PacketMeta& meta, const Unit::Change& change);
  void SendAck(const UnitCommand& ack);
  void SendEnd(const EndFlow& end);

  // What set out first has arrived: takes it into the copies, and returns it.
  // `wrong` becomes what is wrong with it, or stays empty; a delta that does
  // not fit changes nothing.
  Entry Take(std::string& wrong);

  // Calls `differs` for each flow whose copy is not what the unit keeps, once
  // nothing is under way. The other way round, flows without a copy are not
  // looked for.
  void Compare(const Unit& unit,
               absl::FunctionRef<void(const PacketMeta&, const std::string&)>
                   differs) const;

  size_t under_way() const { return entries_.size() + open_.size(); }
  size_t copies() const { return copies_.size(); }

 private:
  struct Copy {
    Clock applied{};
    LinkType link = LinkType::kEthernet;
    Instant timer = Instant::max();
    std::vector<std::byte> record{};
  };

  std::string Apply(const Entry& entry);
  void ForgetIfOver(FlowId flow);

  const StateSchema* schema_;
  std::map<FlowId, std::vector<UnitCommand>> open_;
  std::deque<Entry> entries_;
  std::map<FlowId, Copy> copies_;
  std::map<FlowId, Clock> over_;  // has flows whose last entry is to come
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_LOGGER_H_
