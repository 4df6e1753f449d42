// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_COMMANDS_H_
#define SNF_RUNTIME_CORE_UNIT_COMMANDS_H_

#include <cstdint>

#include "base/command_buffer.h"
#include "base/drop_reason.h"
#include "base/ids.h"
#include "base/messages.h"

namespace snf {

// What a unit asks of its driver.
struct UnitCommand {
  enum class Kind : uint8_t {
    kRelease,    // the NF forwards `packet`: to the release stage
    kNfDrop,     // the NF drops it; `nf_reason` indexes its drop_reasons()
    kDrop,       // the unit drops it for `reason`
    kConsume,    // the NF keeps it
    kEmit,       // `packet` is new, made by the NF while it handled `meta.flow`
    kSendPull,   // to `unit`
    kSendState,  // to `unit`
    kStopped,    // the unit keeps nothing any more and may go
  };
  Kind kind{};
  DropReason reason{};
  uint8_t nf_reason = 0;
  UnitId unit = kNoUnit;
  PacketHandle packet = kNoPacket;
  union {
    PacketMeta meta;
    Pull pull;
    State state;
  };

  static UnitCommand OfPacket(Kind kind, PacketHandle packet,
                              const PacketMeta& meta) {
    return {.kind = kind, .packet = packet, .meta = meta};
  }
  static UnitCommand Send(UnitId to, const Pull& pull) {
    return {.kind = Kind::kSendPull, .unit = to, .pull = pull};
  }
  static UnitCommand Send(UnitId to, const State& state) {
    return {.kind = Kind::kSendState, .unit = to, .state = state};
  }
  static UnitCommand Stopped() { return {.kind = Kind::kStopped, .meta = {}}; }
};

using UnitOut = CommandBuffer<UnitCommand, 64>;

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_COMMANDS_H_
