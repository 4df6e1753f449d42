// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_CHAINS_CHAIN_SET_H_
#define SNF_PLATFORM_DAEMON_CHAINS_CHAIN_SET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/rules/chain_rules.h"
#include "base/time.h"
#include "platform/daemon/chains/live_chains.h"
#include "platform/daemon/chains/pool_exchange.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/outcome/earlier_chain.h"
#include "platform/run/figures/live_figures.h"
#include "platform/run/run.h"
#include "traces/capture_reader.h"

namespace snf {

// Theory of operation. The chains of a live run: a single one, or several side
// by side, of which rules choose (ChainRules). Each is replaced, fails and
// restarts by itself (live_chains.h); the numbers of all generations differ.
//
//   frame ─► Offer ─┬─ a chain has the flow by a key of its own ─► that chain
//                   └─ else ─ rule ─► the rule's chain
//
// A packet from the outside takes a chain that has its flow by a key of its
// own, as by a NAT's alias: rules know inside ends alone. Chains share one
// PoolExchange: an address that moves from one chain to another moves with the
// pieces that are free.
//
// Figures are sums over all chains, each with the times and units of its own.
// Times of packets are by Now(), the first chain's clock; each chain gets them
// by its own.
//
// Owner-thread only. A driver may have been made by another thread.
class ChainSet {
 public:
  struct Member {
    std::string name;  // "": there is a single chain
    std::unique_ptr<LiveChains> chains;
    // The newest generation's flows are not connections. The set sets it.
    bool has_own_keys = false;
    bool had_unit = false;  // has once had one. The set sets it
  };
  explicit ChainSet(std::unique_ptr<LiveChains> only);
  // Members are in the order of the rules' numbers. Not empty.
  ChainSet(std::unique_ptr<ChainRules> rules, std::vector<Member> members);

  // Any thread.
  bool has_rules() const { return has_rules_; }
  // Returns the only chain. Requires !has_rules().
  LiveChains& only() { return *members_.front().chains; }
  std::vector<Member>& members() { return members_; }
  // Returns the chain of this name; "" names the only one. NotFound tells the
  // names that there are. Any thread; the member is the owner's.
  absl::StatusOr<Member*> Find(std::string_view name);
  // Makes chains fail and restart (LiveChains::set_renewal).
  void set_renewal(const LiveChains::MakerOf& maker_of);
  // Gets the figures of all chains, every LiveBoard::kPeriod, if there are
  // rules.
  void set_publish(std::function<void(LiveFigures)> publish) {
    publish_ = std::move(publish);
  }

  // Gets each packet that is dropped because no rule names a chain.
  void set_on_no_chain(std::function<void(const CapturedPacket&)> on_no_chain) {
    on_no_chain_ = std::move(on_no_chain);
  }

  // As LiveChains::Add, of this member, with the next free number.
  absl::Status Add(Member& member, std::unique_ptr<RealDriver>& next,
                   std::string nf, Nanos within);
  // Chooses by these rules from now on.
  void SetRules(std::unique_ptr<ChainRules> rules) {
    rules_ = std::move(rules);
  }

  // As the calls of LiveChains, for all chains.
  void Begin(Instant now);
  bool Offer(const CapturedPacket& captured);
  uint64_t answer_copies() const;
  bool Poll();
  Nanos MayWait(Nanos most) const;
  void AwaitUnits(Nanos most, absl::FunctionRef<bool()> is_other_work);
  bool takes_merged() const;
  // Returns true if packets have to wait for units: a single chain has none, or
  // one of several has not had any yet.
  bool has_no_unit() const;
  Instant Now() const { return members_.front().chains->Now(); }
  bool has_failed() const;
  std::optional<uint32_t> FirstFrom(uint32_t number) const;
  RealDriver* FindDriver(uint32_t number);
  std::optional<uint64_t> inherited_flows() const;
  uint64_t flows() const;
  // Counts packets that were dropped, for no rule names a chain.
  uint64_t packets_without_chain() const { return without_chain_; }
  void AddFigures(LiveFigures& figures);

  // As the calls of LiveChains. Retire returns the free pieces of pools. After
  // Finish, Left returns the pieces that the chains had.
  PoolExchange::Pools Retire(Nanos within);
  void Resume();
  bool is_over() const;
  PoolExchange::Pools Left();
  // Call before Begin: of the newest chains' pools, pieces are used that are
  // among these, and all of pools that are not. Later they get these as well.
  void BeginWith(PoolExchange::Pools free);
  void Give(const PoolExchange::Pools& more) { pools_.TakeBack(more); }

  // Ends all; returns the result of the last member's newest chain, with all
  // violations. Call once.
  RunResult Finish();
  // Returns what became of the others, in order; after Finish of all of them.
  const std::vector<EarlierChain>& earlier() const { return ended_; }

 private:
  void Begin();
  bool OfferTo(Member& member, const CapturedPacket& captured);
  bool OfferByRules(const CapturedPacket& captured);
  void Publish();

  std::vector<Member> members_;
  PoolExchange pools_;
  const bool has_rules_;
  std::unique_ptr<ChainRules> rules_;  // null without rules
  std::function<void(LiveFigures)> publish_;
  std::function<void(const CapturedPacket&)> on_no_chain_;
  Instant next_publish_;
  LiveTimes latency_;
  uint32_t last_number_ = 0;
  bool is_retired_ = false;
  PoolExchange::Pools given_;  // by Retire
  uint64_t answer_copies_ = 0;
  uint64_t without_chain_ = 0;
  std::vector<EarlierChain> ended_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_CHAINS_CHAIN_SET_H_
