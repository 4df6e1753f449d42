// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LIVE_CHAINS_H_
#define SNF_PLATFORM_DAEMON_LIVE_CHAINS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/rules/chain_rules.h"
#include "base/time.h"
#include "platform/daemon/live_leases.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/outcome/earlier_chain.h"
#include "platform/run/figures/figures.h"
#include "platform/run/figures/live_figures.h"
#include "platform/run/figures/report_figures.h"
#include "platform/run/run.h"
#include "traces/capture_reader.h"

namespace snf {

// Theory of operation. The chains of a live run, which come one after the
// other: each has a driver of its own, so a controller and units of its own,
// and shares no state with the others. New flows belong to the newest chain.
// A flow stays with its chain until the flow ends or times out, and keeps its
// state and its NAT's port until then. A chain ends when it has no flows, or at
// a named time: flows that it still has then restart in the newest chain.
//
//   frame ─► Offer ─┬─ an older chain has the flow ─► its driver ─┬─► release
//                   └─ else ───────────► the newest one's driver ─┘
//
// An answer to a packet of an NF's own, as a health check, goes to each chain
// whose NF may have asked (OwnFlow::is_answer), a copy each.
//
// Pieces of a pool, as a NAT's ports, are at one chain each. The newest gets
// those that the one before has not given to units; when an older chain ends,
// the newest gets its pieces as well. Pools are told apart by their NFs' names
// for them, and those that the newest has not are kept for a later one. A NAT
// whose ports are others than before of the same address has a pool of another
// name, and may give a port that a flow of an older chain has.
//
// Worked example: chain 1 is a NAT, of whose ports 1024 … 65535 its units have
// 1024 … 1151. Chain 2, set then, begins with 1152 … 65535. Packets to port
// 1030 go to chain 1, a new connection gets 1152. When the last flow of chain 1
// has ended, 1024 … 1151 come to chain 2.
//
// With rules (ByRules), chains run side by side instead, for as long as the run
// goes on. A rule chooses the chain of a packet (ChainRules), except that a
// packet from the outside takes a chain that has its flow by a key of its own,
// as by a NAT's alias: rules know inside ends alone. No chain replaces another,
// and if a chain fails, the run fails.
//
//   frame ─► Offer ─┬─ a chain has the flow by a key of its own ─► its driver
//                   └─ else ─ rule ─► the rule's chain's driver
//
// A chain fails, for example, if the launcher of its units ends. If the newest
// chain fails, a new driver replaces its driver: the chain loses its flows and
// has all of its pieces again. Packets wait meanwhile. If the chain fails
// often, the driver waits longer each time.
//
// Owner-thread only. A driver may have been made by another thread.
class LiveChains {
 public:
  // Chains that keep their flows, at one time; with those that end just now,
  // there may be twice as many.
  static constexpr size_t kMostChains = 4;

  // Of so many that ended, sums are told; those of earlier ones as one.
  static constexpr size_t kMostTold = 64;

  // `told`, which may be null, gets a line of each chain that ends.
  LiveChains(std::unique_ptr<RealDriver> first, std::string nf,
             std::function<void(const std::string&)> told = nullptr,
             uint32_t number = 1);
  // Ends what runs, without waiting for packets.
  ~LiveChains();

  // Makes a driver like the failed one; may be called several times. Error:
  // Cancelled, the run is to end.
  using Maker = std::function<absl::StatusOr<std::unique_ptr<RealDriver>>()>;
  // Lets a failed newest chain restart, unless its units are leased or it is
  // retired. `maker_of` gets the failed driver. Without it the run fails with
  // its chain.
  void set_renewal(std::function<Maker(const RealDriver& failed)> maker_of) {
    maker_of_ = std::move(maker_of);
  }
  // A chain with a name, to run beside others.
  struct Named {
    std::string name;
    std::string nf;
    std::unique_ptr<RealDriver> driver;
  };
  // Returns chains that run side by side, numbered from 1 on. Not empty.
  static std::unique_ptr<LiveChains> ByRules(
      std::unique_ptr<ChainRules> rules, std::vector<Named> chains,
      std::function<void(const std::string&)> told);
  bool has_rules() const { return rules_ != nullptr; }
  // Counts packets that were dropped, for no rule names a chain.
  uint64_t packets_without_chain() const { return without_chain_; }

  // The units are leased; then there is one chain all along. Before Begin; it
  // must outlive all calls.
  void LeaseBy(LiveLeases& leases) { leases_ = &leases; }
  // Packets have to wait: there is no unit for them.
  bool has_no_unit() const {
    return leases_ != nullptr && !leases_->has_unit();
  }

  RealDriver& newest() { return *chains_.back().driver; }
  const RealDriver& newest() const { return *chains_.back().driver; }
  const std::string& newest_nf() const { return chains_.back().nf; }
  uint32_t newest_number() const { return chains_.back().number; }
  // Returns the least number of a chain that is `number` or more, if there is
  // one.
  std::optional<uint32_t> FirstFrom(uint32_t number) const;
  // Returns the driver of the chain, or null if it has ended.
  RealDriver* Find(uint32_t number);
  // As that of RealDriver, of all chains.
  std::optional<uint64_t> inherited_flows() const;
  // Counts the flows that older chains have.
  uint64_t older_flows() const;
  uint64_t newest_flows() const { return newest().controller().flows().size(); }

  // Lets this chain have the flows that begin from now on. The driver takes no
  // packet before. Flows of older chains stay there for as long as `within`
  // says, Nanos::max() for as long as they live. Error: FailedPrecondition,
  // there are too many; then `next` stays as it is.
  absl::Status Add(std::unique_ptr<RealDriver>& next, std::string nf,
                   Nanos within);

  // Pieces of pools, by the pool's name.
  using Words = std::vector<uint64_t>;
  using Pools = std::map<std::string, Words>;

  // Goes on with chains of a run that was killed: call it for each behind the
  // first, in order, before Begin. The driver of the chain before has taken
  // over processes, whose units have these pieces (SettleOlder). Flows of those
  // before begin anew after `end`, on the machine's monotonic clock.
  void Inherit(std::unique_ptr<RealDriver> next, std::string nf,
               uint32_t number, const Pools& held, Instant end);
  // Settle the pools of a driver that takes over processes
  // (RealOptions::Keep::settle). An older one's has no pieces but those that
  // its units have, which it returns; the newest none of these.
  static Pools SettleOlder(RealDriver& driver);
  static void SettleNewest(RealDriver& driver, const Pools& held);

  // As those of RealDriver, of all chains together.
  void Begin(Instant now);
  // Returns false if another process is to have the packet, which is only after
  // Retire.
  bool Offer(const CapturedPacket& captured);
  // Counts copies of packets that several chains or processes got.
  uint64_t answer_copies() const { return answer_copies_; }
  bool Poll();
  Nanos MayWait(Nanos most) const;
  void AwaitUnits(Nanos most, absl::FunctionRef<bool()> is_other_work);
  // Returns true if all chains take frames of several packets whole.
  bool takes_merged() const;
  Instant Now() const { return newest().clock().Now(); }
  // Returns true if a chain has failed and does not restart.
  bool has_failed() const;

  // The following let another process have the flows that begin from now on
  // (live_traffic.h). After Retire, which returns the pieces of pools that are
  // free, packets are taken of flows that are known, for as long as `within`
  // says; Resume undoes that. All is over once no chain has
  // flows or packets. After Finish, Left returns the pieces that these had.
  Pools Retire(Nanos within);
  void Resume();
  bool is_over() const;
  Pools Left();
  // Call before Begin: of the newest chain's pools, pieces are used that are
  // among these, and all of pools that are not. Later it gets these as well.
  void BeginWith(Pools free);
  void Give(const Pools& more);

  // Adds to the newest chain's figures those of the others.
  void AddFigures(LiveFigures& figures);

  // Ends all; returns the result of the newest, with all violations. Call once.
  RunResult Finish();
  // Returns what became of the others, in order; after Finish of all of them.
  const std::vector<EarlierChain>& earlier() const { return ended_; }

 private:
  struct Chain {
    uint32_t number = 1;
    std::string nf;
    std::unique_ptr<RealDriver> driver;
    Instant until = Instant::max();  // its flows begin anew from then on
    // By pool: its name, and the pieces that the chain has, by word.
    std::vector<std::string> pools{};
    std::vector<std::vector<uint64_t>> pieces{};
    // The following are set with rules alone.
    std::string name{};
    bool has_own_keys = false;  // its flows are not connections
  };

  static constexpr Nanos kAtTheEnd = Seconds(1);
  // The pause before a chain restarts; it doubles while restarts are frequent.
  static constexpr Nanos kFirstPause = Milliseconds(100);
  static constexpr Nanos kLongestPause = Seconds(5);
  static constexpr Nanos kGoodLife = Seconds(10);
  static constexpr int kMostTries = 16;  // to make a driver

  static Chain Make(uint32_t number, std::unique_ptr<RealDriver> driver,
                    std::string nf);
  bool OfferAmongOthers(const CapturedPacket& captured);
  void OfferByRules(const CapturedPacket& captured);
  void KeepFree(Chain& from);
  void GiveKept(Chain& to);
  void TakeBackPieces(const Chain& ended);
  void EndOlder();
  void End(Chain chain);
  EarlierChain Note(const Chain& chain, const RunResult& result);
  bool may_renew() const {
    return maker_of_ != nullptr && leases_ == nullptr && !is_retired_ &&
           !has_rules() && !given_up_.has_value();
  }
  bool AnyFailed() const;
  void LetGo(std::unique_ptr<RealDriver> driver);
  void Renew();
  absl::StatusOr<std::unique_ptr<RealDriver>> MakeAgain(const Maker& maker);
  void Tell(const std::string& line) {
    if (told_) told_(line);
  }
  void Keep(EarlierChain sums);

  std::function<void(const std::string&)> told_;
  LiveLeases* leases_ = nullptr;
  std::function<Maker(const RealDriver&)> maker_of_;
  Instant renewed_ = Instant::min();  // by the machine's monotonic clock
  Nanos pause_ = kFirstPause;
  // The result of the newest chain, if it could not restart.
  std::optional<RunResult> given_up_;
  Instant began_;
  std::vector<Chain> chains_;  // the newest is the last
  // Free pieces of pools that the newest chain has not, by the pool's name.
  Pools kept_;
  Pools given_;  // by Retire
  bool is_retired_ = false;
  Instant retired_until_ = Instant::max();
  uint64_t answer_copies_ = 0;
  std::unique_ptr<ChainRules> rules_;  // null: chains come one after the other
  uint64_t without_chain_ = 0;
  std::vector<EarlierChain> ended_;
  FigureCounts of_ended_;
  std::vector<DropCount> drops_of_ended_;
  // Each lets go of a driver that has ended, whose processes take their time.
  std::vector<std::future<void>> leaving_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LIVE_CHAINS_H_
