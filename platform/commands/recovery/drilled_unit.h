// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_RECOVERY_DRILLED_UNIT_H_
#define SNF_PLATFORM_COMMANDS_RECOVERY_DRILLED_UNIT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/shell/entry_maker.h"

namespace snf {

// An input of a unit from its controller. The sequence of inputs determines a
// unit's effects: its one thread runs them one by one, the time is the arrival
// of the packet, and timers and ends of flows are inputs, too.
struct UnitInput {
  enum class Kind : uint8_t { kPacket, kAliasAck, kPieces, kReclaim, kEnd };
  Kind kind{};
  Instant now;
  PacketHandle packet = kNoPacket;  // is in the unit's buffers
  union {
    PacketMeta meta;
    AliasAck alias_ack;
    PieceBlock pieces;  // kReclaim has the pool alone
    EndFlow end;
  };
};

// A unit with its NF, its buffers and, if its effects are kept, the maker of
// its entries. Owner-thread only.
class DrilledUnit {
 public:
  static constexpr uint32_t kIncarnation = 1;

  // Gets what the unit asks for. It must not call the unit meanwhile.
  class Host {
   public:
    // The command is not of an entry.
    virtual void on_command(const UnitCommand& command) = 0;
    // The bytes are valid during the call.
    virtual void on_entry(std::span<const std::byte> entry) = 0;

   protected:
    ~Host() = default;
  };

  // The unit keeps at most `max_flows` flows. The NF must be OK.
  DrilledUnit(const NfSpec& nf, uint32_t max_flows, bool makes_entries,
              const BufferPool::Options& buffers);
  // Makes a unit that continues from the state of `copy`.
  DrilledUnit(const NfSpec& nf, Unit copy, const BufferPool::Options& buffers);

  // Applies an input, and serves all packets that can run then.
  void Apply(const UnitInput& input, Host& host);
  // Tells the unit that what this clock did is kept, with the pieces that it
  // gave back.
  void on_released(Instant now, const PacketMeta& meta,
                   std::span<const PieceUse> uses, Host& host);
  // Lets the unit ask for what is due.
  void RunTimers(Instant now, Host& host);
  // The end of a flow is known to the controller: makes the entry of that.
  void NoteEnded(FlowId flow, Clock clock, Host& host);

  Unit& unit() { return unit_; }
  const Unit& unit() const { return unit_; }
  const NetworkFunction& nf() const { return *nf_; }
  BufferPool& buffers() { return buffers_; }
  // Returns the number of the newest entry.
  uint64_t entries() const { return maker_.has_value() ? maker_->number() : 0; }

 private:
  void Serve(Instant now, Host& host);
  void Drain(Host& host);
  NfContext env() { return {*nf_, buffers_}; }

  std::unique_ptr<NetworkFunction> nf_;
  Unit unit_;
  BufferPool buffers_;
  std::optional<EntryMaker> maker_;
  UnitOut out_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_RECOVERY_DRILLED_UNIT_H_
