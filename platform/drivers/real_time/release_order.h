// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_RELEASE_ORDER_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_RELEASE_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/ids.h"
#include "base/large_pages.h"
#include "base/messages/unit_commands.h"

namespace snf {

// Theory of operation. Units say on several threads what became of the packets
// of a flow; a ReleaseOrder brings this into the order of the flow's clocks
// (proto/protocol.md I3). Each clock ends once: released, dropped, consumed,
// or, of a packet without payload, applied. A packet that comes before all
// earlier clocks have ended waits. A packet that the NF emitted meanwhile goes
// ahead of the clock that it comes with, or, if the flow's end emitted it,
// behind that clock, which has ended.
//
// Units are not trusted. Enqueue says which clocks there are: what names
// another flow or clock, or ends a clock twice, is refused.
//
// Worked example: clocks 1 and 2 ran at one unit, 3 at another, and 3 is read
// first, with a packet emitted before it. Both wait. Then come 1 and 2: out go
// 1, 2, the emitted one, 3.
//
// A flow's first clock is 1, of a packet with kNewFlow. Of flows that share a
// slot of a controller's table the newest is at hand, others are looked up:
// their packets may still be under way. They are forgotten when the last clock,
// which End tells, has ended. What their NF emits later still goes out.
//
// Of a flow that is given up some clocks never end. What waits for them goes
// out, and what comes later goes as it comes; that each clock ends once is
// known elsewhere then (PacketsUnderWay).
//
// Owner-thread only. Memory: 32 bytes a flow slot of each controller; nothing
// is allocated while fewer than kReserve commands wait, no flow has lost its
// slot, and all flows are of controller 0 or one that had flows before.
class ReleaseOrder {
 public:
  explicit ReleaseOrder(uint32_t max_flows) : max_flows_(max_flows) {
    Reserve(flows_[0]);
    nodes_.reserve(kReserve);
    free_.reserve(kReserve);
  }

  // The controller gives a packet, of the newest flow in its slot, to a unit;
  // perhaps one that it has given to a unit before, which has failed.
  [[gnu::always_inline]] void Enqueue(const PacketMeta& meta) {
    if ((meta.flags & PacketMeta::kNewFlow) != 0) [[unlikely]]
      Begin(meta.flow);
    Flow& flow = flows_[controller_of(meta.flow)][slot_of(meta.flow)];
    if (value(meta.clock) > flow.newest()) [[likely]] {
      flow.given = value(meta.clock) | (flow.given & Flow::kOver);
    } else if (has_inherited_ && value(meta.clock) <= flow.ended) {
      flow.ended = value(meta.clock) - 1;  // its packet was lost before
    }
  }
  // A flow begins that was another controller's: all of its clocks up to this
  // one have ended.
  void Take(FlowId flow, Clock last);
  // A controller goes on, behind Succeed, with what another process had given
  // to units: this clock has not ended, nor have later ones. What is left of a
  // flow that is not in its slot any more goes as it comes.
  void Inherit(const PacketMeta& meta) {
    has_inherited_ = true;
    Flow* const flow = Find(meta.flow);
    if (flow == nullptr) {
      if (forsaken_.size() < kMaxForsaken) forsaken_.insert(meta.flow);
      return;
    }
    flow->given = std::max(flow->newest(), value(meta.clock)) |
                  (flow->given & Flow::kOver);
    flow->ended = std::min(flow->ended, value(meta.clock) - 1);
  }
  // Takes a unit's command about a packet, kDropPayload apart. Calls
  // handle(command) for it, if it may go, and for each that waited for it.
  // Returns false, and does not handle it, if there is no such clock, or it has
  // ended before. handle() may not call On.
  template <typename HandleOne>
  bool On(const UnitCommand& command, const HandleOne& handle) {
    std::vector<Flow>& flows = flows_[controller_of(command.meta.flow)];
    const uint32_t slot = slot_of(command.meta.flow);
    if (slot < flows.size() && flows[slot].flow == command.meta.flow)
        [[likely]] {
      return on_flow(flows[slot], command, handle);
    }
    return on_other(command, handle);
  }
  // Says that no clock of the flow comes after this one. Call it before
  // anything of another flow comes that has the flow's slot.
  void End(FlowId flow, Clock last);
  // Says that no clock of the flow comes any more, and that some of those given
  // never end. Calls handle(command) for each command that waits for them.
  // Words of more than kMaxForsaken such flows are refused.
  template <typename HandleOne>
  void Forsake(FlowId flow, const HandleOne& handle) {
    if (Flow* const known = Find(flow); known != nullptr) {
      known->ended = known->newest();
      known->given |= Flow::kOver;
      while (known->first != kNone) {
        UnitCommand next = nodes_[known->first].command;
        TakeFirst(*known, next);
        handle(next);
      }
      earlier_.erase(flow);
    }
    if (forsaken_.size() < kMaxForsaken) forsaken_.insert(flow);
  }
  // Another controller goes on with the flows that it knows, in so many slots
  // of its table: newest(slot) names the one there, which may be kNoFlow, and
  // its newest clock. Of flows that are not known any more no clock comes, and
  // what of theirs was given and not sent never ends. Of those that are new
  // here all clocks have ended, but for what Inherit tells and what is given
  // after that.
  template <typename Newest>
  void Succeed(uint8_t controller, uint32_t slots, const Newest& newest) {
    std::vector<Flow>& flows = flows_[controller];
    if (slots > flows.size()) MakeSlots(flows, slots);
    for (uint32_t slot = 0; slot < flows.size(); ++slot) {
      const auto [flow, clock] = newest(slot);
      Resume(flows[slot], flow, clock);
    }
    absl::erase_if(earlier_, [&](const auto& flow) {
      return controller_of(flow.first) == controller &&
             flow.second.first == kNone;
    });
  }
  // Returns a command that ended a clock a second time after it had waited, or
  // null.
  const UnitCommand* repeated() const {
    return repeated_.has_value() ? &*repeated_ : nullptr;
  }

  // Returns how many commands wait.
  size_t waiting() const { return nodes_.size() - free_.size(); }
  // Returns how many flows have lost their slot and not yet ended all clocks.
  size_t earlier() const { return earlier_.size(); }

 private:
  static constexpr size_t kReserve = 4'096;
  static constexpr size_t kMaxWaiting = 8 << 20;  // more are refused
  static constexpr size_t kMaxForsaken = 1 << 20;
  static constexpr uint32_t kNone = 0xffff'ffff;
  struct alignas(32) Flow {
    FlowId flow = kNoFlow;
    uint64_t ended = 0;      // all clocks up to this
    uint64_t given = 0;      // the newest clock, and kOver
    uint32_t first = kNone;  // of those that wait, in the order of coming
    uint32_t last = kNone;

    static constexpr uint64_t kOver = uint64_t{1} << 63;  // no other comes
    uint64_t newest() const { return given & ~kOver; }
    bool is_over() const { return (ended | kOver) == given; }
  };
  static_assert(sizeof(Flow) == 32);
  struct Node {
    UnitCommand command;
    uint32_t next;
  };

  void Reserve(std::vector<Flow>& flows) const {
    flows.reserve(max_flows_);
    AskForPages(Pages::kGrowing, flows.data(), max_flows_ * sizeof(Flow));
  }
  static bool Ends(const UnitCommand& command) {
    return command.kind != UnitCommand::Kind::kEmit;
  }
  template <typename HandleOne>
  bool on_flow(Flow& flow, const UnitCommand& command,
               const HandleOne& handle) {
    const uint64_t clock = value(command.meta.clock);
    if (clock > flow.newest()) [[unlikely]]
      return false;
    if (Ends(command) && clock <= flow.ended) [[unlikely]] {
      if (!forsaken_.contains(flow.flow)) return false;
      handle(command);
      return true;
    }
    if (clock > flow.ended + 1) {
      return Append(flow, command);
    }
    if (Ends(command)) flow.ended = clock;
    handle(command);
    if (flow.first != kNone) [[unlikely]]
      HandleWaiting(flow, handle);
    return true;
  }
  // The same for a flow that is not at hand.
  template <typename HandleOne>
  [[gnu::noinline]] bool on_other(const UnitCommand& command,
                                  const HandleOne& handle) {
    Flow* const flow = OtherFlow(command.meta.flow);
    if (flow == nullptr) {
      if (Ends(command) && !forsaken_.contains(command.meta.flow)) return false;
      handle(command);
      return true;
    }
    const bool is_first = on_flow(*flow, command, handle);
    if (flow->is_over()) earlier_.erase(command.meta.flow);
    return is_first;
  }
  void MakeSlots(std::vector<Flow>& flows, uint32_t least) const;
  void Begin(FlowId flow);
  void Resume(Flow& here, FlowId flow, Clock newest);
  // Finds a flow. Returns null if it is over, and has lost its slot.
  Flow* Find(FlowId flow);
  // Finds a flow that has lost its slot. Returns null if it is over.
  Flow* OtherFlow(FlowId flow);
  bool Append(Flow& flow, const UnitCommand& command);
  template <typename HandleOne>
  [[gnu::noinline]] void HandleWaiting(Flow& flow, const HandleOne& handle) {
    UnitCommand next = nodes_[flow.first].command;
    while (TakeNext(flow, next)) handle(next);
  }
  bool TakeNext(Flow& flow, UnitCommand& next);
  bool TakeFirst(Flow& flow, UnitCommand& next);

  uint32_t max_flows_;
  bool has_inherited_ = false;
  std::array<std::vector<Flow>, 256> flows_;  // by controller, and by slot
  absl::flat_hash_map<FlowId, Flow> earlier_;
  absl::flat_hash_set<FlowId> forsaken_;  // few, and never forgotten
  std::vector<Node> nodes_;
  std::vector<uint32_t> free_;
  std::optional<UnitCommand> repeated_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_RELEASE_ORDER_H_
