// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_LOGGER_COMMANDS_H_
#define SNF_RUNTIME_LOGGER_LOGGER_COMMANDS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/command_buffer.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"

namespace snf {

// The message of an entry to the controller, which acknowledges it by the
// entry's number (proto/protocol.md U13).
struct LoggerTell {
  uint64_t number = 0;
  union {
    FlowNote note;      // unless is_return
    PieceBlock pieces;  // go back to the controller
  };
  bool is_return = false;
  bool ended = false;  // the flow's end has run at note.clock (U11)
};
static_assert(sizeof(LoggerTell) == 48);

// A command of a logger to its driver.
struct LoggerCommand {
  enum class Kind : uint8_t {
    // The outcome of a packet that an entry brought.
    kRelease,
    kNfDrop,  // for `nf_reason`
    kDrop,    // for `reason`
    kConsume,
    kEmit,  // `packet` was made at the clock of `meta`; it leaves before its
            // packet
    // Messages to the logger's unit.
    kReleased,  // the changes of its clock `meta.clock` are in the logger
    kAskAgain,  // for the entries ask.first … ask.last
    kAskWhole,  // for a whole entry in place of ask.first
    // Messages to `unit`.
    kSendState,  // takes the first bytes of OutputLogger::state_bytes along
    kSendTakeoverAck,
    // Messages to the controller, after a Seal and in this order.
    kTell,
    kFreePieces,  // were free at the unit
    kApplied,     // `applied.clock` is the flow's (F3)
    kSealed,      // that was all; sealed.grant is the last that was logged
  };
  struct Ask {
    uint64_t first;
    uint64_t last;
    FlowId flow;
  };
  struct Applied {
    FlowId flow;
    Clock clock;
    bool ended;
  };
  struct Sealed {
    uint64_t grant;
    uint64_t lost;  // entries behind a gap that was never filled
    uint32_t incarnation;
  };

  Kind kind{};
  DropReason reason{};
  uint8_t nf_reason = 0;
  UnitId unit = kNoUnit;
  PacketHandle packet = kNoPacket;
  union {
    PacketMeta meta;
    Ask ask;
    State state;
    TakeoverAck takeover_ack;
    LoggerTell tell;
    PieceBlock pieces;
    Applied applied;
    Sealed sealed;
  };
};

using LoggerOut = CommandBuffer<LoggerCommand, 128>;

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_LOGGER_COMMANDS_H_
