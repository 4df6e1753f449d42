// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_TEST_UNIT_STATES_H_
#define SNF_RUNTIME_CORE_TEST_UNIT_STATES_H_

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/host_records.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {

// An item goes down a channel.
struct Item {
  enum class Kind : uint8_t { kPacket, kEnd, kStop, kStart };
  Kind kind = Kind::kPacket;
  uint8_t flow = 0;
  uint8_t clock = 0;          // is the last one where the flow ends
  uint8_t source = kNowhere;  // is a unit, or kLoggerOf and a dead unit
  bool is_first = false;
  bool is_null = false;
  bool is_timer = false;  // of a null packet
  uint8_t set = 0;        // has a bit for each unit to push to, or names none

  static constexpr uint8_t kLoggerOf = 3;
  static constexpr uint8_t kNowhere = 7;
  uint16_t Code() const;
  static Item Of(uint16_t code);
};

// A message goes from unit to unit.
struct Message {
  enum class Kind : uint8_t {
    kPush,
    kState,
    kNamed,  // is a State without bytes, which `peer` shows (U16)
    kShown,  // is no message but what `peer` shows
    kPull,
    kTakeover,
    kTakeoverAck
  };
  Kind kind = Kind::kPush;
  uint8_t to = 0;
  uint8_t flow = 0;
  uint8_t clock = 0;
  uint8_t peer = 0;                  // pulls, took, acknowledges or shows
  bool by_bytes = false;             // is of a Pull
  bool has_timer = false;            // means that a State brings one
  std::array<uint64_t, 2> record{};  // comes with a Push or State
  auto operator<=>(const Message&) const = default;
};

// Returns what the NF below makes of its digest when it is shown a clock of a
// flow, or, as clock kTimerClock, when its timer runs.
uint64_t Extended(uint64_t digest, uint8_t flow, uint8_t clock);
inline constexpr uint8_t kTimerClock = 15;

// An effect is something that one input made a unit do.
struct Effect {
  enum class Kind : uint8_t {
    kSend,         // `message` leaves
    kShow,         // the unit shows `message`
    kServe,        // `flow` and `clock` are in service
    kRan,          // the NF saw the packet, on state `value`
    kRanTimer,     // the NF's timer ran, on state `value`
    kAskTimer,     // the unit asks for a timer packet after `clock`
    kDone,         // the clock is applied; the packet left
    kLogged,       // its entry sets out; `message` is the packet as an item
    kDuplicate,    // the packet was dropped as one
    kDropPayload,  // the packet became a tombstone
    kStopped,
    kEvicted,
    kExpired,
    kForgotten,  // a Pull of another unit was
    kRepeated,   // a Pull or Takeover was
  };
  Kind kind;
  uint8_t flow = 0;
  uint8_t clock = 0;
  bool waited = false;      // the packet of kServe was held
  bool sets_timer = false;  // the NF of kRan did
  bool is_moved = false;    // the flow of kServe ran elsewhere before
  uint16_t message = 0;
  uint64_t value = 0;
};

// Theory of operation. Of all worlds that an explorer sees, each unit has few
// states, for a unit depends on its own inputs alone. So each state of a unit
// is kept once, by a number, and each input to it is tried once. The states
// themselves are not kept, but how they were first reached: a unit is made anew
// by repeating its inputs, which takes microseconds.
//
// Two units are one state if their fingerprints are equal. The time at a unit
// stands still but for the input kTimer, which lets it pass until something
// happens.
//
// Units of a host read what others show (U16). The input kSee is what is shown
// to the next input, and is forgotten after that.
//
// The NF is a chronicle: its one slot is a digest of the clocks it has seen. If
// it has timers, the first clock of a flow sets one.
class UnitStates {
 public:
  using StateId = uint32_t;
  // Is what each unit shows of each flow: 1 + a message's number, or 0.
  using Shown = std::array<std::array<uint16_t, 2>, 3>;
  enum class Input : uint8_t {
    kItem,
    kMessage,
    kBegin,
    kFinish,
    kTimer,
    kReleased,  // the logger let out the packet that an item was
    kSee,
  };
  struct Step {
    StateId next;
    uint32_t first_effect;
    uint32_t effects;
  };
  struct Facts {
    uint64_t fingerprint;
    uint32_t parent;  // is the state from which `input` led here first
    uint32_t input;
    uint8_t unit;
    uint8_t flows;
    uint8_t replicas;
    uint8_t held;
    bool busy;
  };

  // With `begins_late`, begin() is an input of its own; else it follows on all
  // others, as drivers do it. Without `merges` each history is a state.
  // With `has_host`, all units are on one host.
  UnitStates(const UnitOptions& options, uint8_t units, bool begins_late,
             bool has_timers, bool has_host, bool merges);
  UnitStates(const UnitStates&) = delete;
  UnitStates& operator=(const UnitStates&) = delete;

  StateId start(uint8_t unit) const { return unit; }
  const Facts& facts(StateId state) const { return states_[state]; }
  size_t size() const { return states_.size(); }

  // Returns what an input leads to. `what` is an Item's code or a message's
  // number, or that of NumberOf(shown).
  Step Take(StateId state, Input input, uint16_t what = 0);
  std::span<const Effect> effects(const Step& step) const {
    return std::span(effects_).subspan(step.first_effect, step.effects);
  }

  uint16_t NumberOf(const Message& message);
  uint16_t NumberOf(const Shown& shown);
  const Message& message(uint16_t number) const { return messages_[number]; }

 private:
  class Chronicle final : public NetworkFunction {
   public:
    Verdict process_packet(Packet& packet, FlowState& flow) override;
    void on_timer(FlowState& flow) override;
    bool has_timer() const override { return true; }

    bool has_timers = false;
    // The last call saw this digest, set a timer, and was a timer of this flow.
    uint64_t seen = 0;
    bool set_timer = false;
    uint8_t timer_of = kNoFlow;
    static constexpr uint8_t kNoFlow = 0xff;

   private:
    Slot<uint64_t> digest_ = declare<uint64_t>("digest");
  };
  struct Live {
    Unit unit;
    Instant now;
  };
  // Host has what a unit sees, and what the unit shows.
  class Host final : public HostRecords {
   public:
    explicit Host(const UnitStates& states) : states_(states) {}
    void on_report(uint32_t) override {}
    bool has(UnitId) const override { return true; }
    bool Show(UnitId unit, uint32_t slot, const State& state,
              std::span<const std::byte> bytes) override;
    // Returns what is shown of the flow, whatever its clock is.
    std::optional<HostRecord> Read(UnitId unit, FlowId flow,
                                   Clock clock) override;
    HostMiss miss() const override { return HostMiss::kUnknown; }

    Shown seen{};
    std::vector<Message> shown;  // by the present input

   private:
    const UnitStates& states_;
    std::array<uint64_t, 2> read_;
  };

  Live Make(StateId state) const;
  void Run(Live& live, Input input, uint16_t what);
  static PacketMeta MetaOf(const Item& item);
  void RunItem(Live& live, const Item& item);
  void RunMessage(Live& live, const Message& message);
  void Begin(Live& live);
  void LetTimePass(Live& live);
  void Count(const UnitCounters& before, const UnitCounters& after);
  void Drain(const Live& live);
  Message MessageOf(const Live& live, const UnitCommand& command) const;
  void Add(const Effect& effect) { made_.push_back(effect); }
  Facts FactsOf(const Unit& unit) const;

  Chronicle nf_;
  bool has_host_;
  Host host_{*this};
  BufferPool pool_;
  std::vector<PacketHandle> packets_;  // has one for each clock
  bool begins_late_;
  bool merges_;
  std::vector<Live> roots_;
  std::vector<Facts> states_;
  absl::flat_hash_map<uint64_t, StateId> by_fingerprint_;
  absl::flat_hash_map<uint64_t, Step> steps_;  // has keys of state and input
  std::vector<Effect> effects_;
  std::vector<Message> messages_;
  std::map<Message, uint16_t> numbers_;
  std::vector<Shown> views_;
  std::map<Shown, uint16_t> view_numbers_;
  UnitOut out_;
  std::vector<Effect> made_;  // has those of the present input
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_TEST_UNIT_STATES_H_
