// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_CHAIN_H_
#define SNF_RUNTIME_SDK_CHAIN_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sdk/chain_connections.h"
#include "runtime/sdk/chain_undo.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Theory of operation. A chain makes several NFs into one NetworkFunction: a
// packet goes through them by calls, one after the other, in one unit, and
// their state of a flow is one record (Serpens §III-C).
//
// Branches are cut off (Fig. 6b): the NFs stand in one row, in the order of the
// text, and each packet goes to one of them at a time. The label that an NF
// gives the packet says which NF is next. An NF that drops or consumes the
// packet is the last one.
//
// Worked example: firewall | {suspicious: ids, clean: monitor} | policer. The
// row is 0 firewall, 1 ids, 2 monitor, 3 policer; the labels of the firewall
// lead to 1 and 2, those of both ids and monitor to 3, and that of the policer
// out. A packet that the firewall finds suspicious goes through 0, 1 and 3, a
// clean one through 0, 2 and 3.
//
// Two sides. In A | nat | B, where nat's flows are inside endpoints, packets
// from the outside go through B, nat and A, the NFs of A and of B each in their
// order: A sees only inside addresses, B only external ones. The NFs of A and B
// nevertheless keep state per connection: the flow's record has a table of
// records, one for each of the `connections` connections used last, by the end
// outside. A new connection replaces the one unused for longest, for which
// on_end is called. In such an NF FlowState::end ends the connection, and
// set_idle_timeout, which concerns the endpoint, does nothing.
//
// An NF with flow keys of its own (NetworkFunction::flow_key) is such an NF
// too, if its answers name sides: the chain's flows are then its flows, and the
// NFs of A and B keep their state of the same flow.
//
// State. An NF's slots are called "nat.mapping"; their place in the record is
// that in the NF's own record plus a shift (NfPart). If only one NF has a
// timer, it is the flow's. Otherwise each timer has a slot "nat timer", and the
// flow's timer is the earliest of them.
//
// Waiting. A packet that is to wait must have changed nothing (Verdict::wait),
// but NFs before the one that waits may have changed their state. So if
// may_wait says that an NF might wait, the chain saves the state before the
// call and delays requests to the unit until its end (chain_undo.h).
//
// Emitted packets leave as they are: they do not go through the chain. The
// limits on what one call may emit and take (FlowState) hold for all NFs of the
// chain together.
//
// Budget: ≤ 4 ns for each NF besides its own time, if flows are connections;
// nothing is allocated after construction. Owner-thread only.
class Chain final : public NetworkFunction {
 public:
  static constexpr size_t kMaxNfs = 16;
  static constexpr uint32_t kDefaultConnections = 8;
  // The most drop reasons of all NFs together; one NF has at most
  // kMaxDropReasons.
  static constexpr size_t kMaxReasons = 255;

  // The NFs of a chain and the ways between them.
  struct Plan {
    // Packets with this label, "*" for all others, go to the NF `next`.
    struct Arm {
      std::string label;
      uint8_t next;
    };
    struct Nf {
      const NfRegistration* registered;
      std::string name;  // unique in the chain
      std::unique_ptr<NetworkFunction> nf;
      std::vector<Arm> arms;
      uint8_t after;  // the next NF of packets that take no arm; a later one
      bool in_braces;
    };
    std::vector<Nf> nfs;
    uint32_t connections = kDefaultConnections;
  };
  // Makes a chain. InvalidArgument, naming the NF, if the NFs cannot be one
  // chain.
  static absl::StatusOr<std::unique_ptr<NetworkFunction>> Make(Plan plan);

  Verdict process_packet(Packet& packet, FlowState& flow) override;
  void on_timer(FlowState& flow) override;
  void on_end(FlowState& flow) override;
  void on_alias_refused(FlowState& flow, AliasResult why) override;

  FlowScope flow_scope() const override {
    return sided_.has_value()   ? FlowScope::kInsideEndpoint
           : keyed_.has_value() ? FlowScope::kOwnKey
                                : FlowScope::kConnection;
  }
  bool is_barrier() const override {
    return std::ranges::any_of(
        steps_, [](const Step& step) { return step.nf->is_barrier(); });
  }
  bool needs_first_fragment() const override {
    return std::ranges::any_of(steps_, [](const Step& step) {
      return step.nf->needs_first_fragment();
    });
  }
  bool takes_merged() const override {
    return std::ranges::all_of(
        steps_, [](const Step& step) { return step.nf->takes_merged(); });
  }
  OwnFlow flow_key(const KeyedPacket& packet) const override;
  bool tells_inside_ends() const override {
    return turn().has_value() && steps_[*turn()].nf->tells_inside_ends();
  }
  // The reasons of all NFs, as "firewall.denied". Valid as long as the chain.
  std::span<const std::string_view> drop_reasons() const override {
    return reasons_;
  }
  bool has_timer() const override { return has_timer_; }
  // The NFs in order, and behind them the chain itself, as "chain", for its own
  // counters.
  std::vector<Part> parts() const override;

 private:
  // One NF of the chain; steps stand in the order of the text.
  struct Step {
    NetworkFunction* nf = nullptr;
    NfPart place;
    uint8_t first_reason = 0;
    uint8_t reasons = 0;
    uint8_t labels = 1;  // 1 if the NF has none
    bool has_timer = false;
    bool in_connection = false;
    TimerSlot timer;  // if it does not exist, its timer is the flow's
  };
  // The way that packets from one side go.
  struct Way {
    std::vector<uint8_t> order;  // indexes of steps
    // For each step the next one, kOut, or kByLabel: then by_label names it.
    std::array<uint8_t, kMaxNfs> next;
    std::array<std::array<uint8_t, 256>, kMaxNfs> by_label;
    std::vector<uint8_t> may_wait;  // steps that may wait after a change
  };
  struct Connection;
  struct Call;

  explicit Chain(Plan plan);
  absl::Status Build();
  absl::Status FindTurn();
  absl::Status AddState();
  absl::Status AddReasonsAndPools();
  absl::Status AddLabels();
  void AddWays();
  // The NF that has two sides, or keys of its own.
  std::optional<size_t> turn() const { return keyed_ ? keyed_ : sided_; }

  const Way& WayOf(const Packet& packet) const {
    const Side side = keyed_.has_value() ? OwnSideOf(packet) : packet.side();
    return ways_[side == Side::kOutside ? 1 : 0];
  }
  Side OwnSideOf(const Packet& packet) const;
  bool MayWait(const Way& way, const Packet& packet, FlowState& flow);
  Verdict Try(const Way& way, Packet& packet, FlowState& flow);
  Verdict GoThrough(const Way& way, Packet& packet, Call& call);
  Verdict Run(const Step& step, Packet& packet, Call& call);
  Verdict RunWithTimer(const Step& step, Packet& packet, Call& call,
                       FlowState& flow);
  // Returns the step after step `index`, which returned `found`; kOut for none.
  static uint8_t NextOf(const Way& way, const Step& step, uint8_t index,
                        Verdict found);
  Verdict Last(const Way& way, const Step& step, Verdict found,
               const Call& call) const;
  static bool HasChanged(const Step& step, const Call& call);
  // Calls `hook` with the flow as the NF sees it.
  template <typename Hook>
  void With(const Step& step, Call& call, FlowState& flow, Hook hook);
  void RunTimer(const Step& step, Call& call, FlowState& flow);
  void Finish(Call& call);
  Instant Earliest(const FlowState& flow) const;

  void OpenConnection(Call& call);
  void CloseConnection(Call& call);
  void EndConnection(Call& call, uint32_t entry);

  static constexpr uint8_t kOut = 255;
  static constexpr uint8_t kByLabel = 254;

  Plan plan_;
  std::vector<Step> steps_;
  std::array<Way, 2> ways_;  // from the inside, from the outside
  // The NF whose flows are inside endpoints, and the one with keys of its own:
  // at most one of the two exists.
  std::optional<size_t> sided_;
  std::optional<size_t> keyed_;
  bool has_timer_ = false;
  bool connections_have_timers_ = false;
  std::optional<ConnectionTable> connections_;
  std::optional<Counter> forgotten_;
  std::vector<std::string> reason_names_;
  std::vector<std::string_view> reasons_;
  std::optional<ChainUndo> undo_;  // if some NF may wait
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_CHAIN_H_
