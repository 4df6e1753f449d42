// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_CHAINS_LIVE_CHAINS_H_
#define SNF_PLATFORM_DAEMON_CHAINS_LIVE_CHAINS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/histogram.h"
#include "base/time.h"
#include "platform/daemon/chains/chain_restarter.h"
#include "platform/daemon/chains/ended_chains.h"
#include "platform/daemon/chains/live_leases.h"
#include "platform/daemon/chains/pool_exchange.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/outcome/earlier_chain.h"
#include "platform/run/figures/live_figures.h"
#include "platform/run/run.h"
#include "runtime/ring/real_clock.h"
#include "traces/capture_reader.h"

namespace snf {

// Returns the packet with its time by another clock. Both are told by how far
// they are ahead of the same clock. A driver waits for a packet whose time is
// still to come by its own clock.
inline CapturedPacket ByClock(CapturedPacket captured, Nanos from, Nanos to) {
  captured.time = captured.time + Nanos{to.ns - from.ns};
  return captured;
}

// Theory of operation. The generations of a chain of a live run, each of which
// is a chain by itself: it has a driver of its own, so a controller and units
// of its own, and shares no state with the others. New flows belong to the
// newest generation. A flow stays with its generation until the flow ends or
// times out, and keeps its state and its NAT's port until then. A generation
// ends when it has no flows, or at a named time: flows that it still has then
// restart in the newest one. Pieces of pools move on (pool_exchange.h).
//
//   frame ─► Offer ─┬─ an older one has the flow ─► its driver ─┬─► release
//                   └─ else ─────────► the newest one's driver ─┘
//
// An answer to a packet of an NF's own, as a health check, goes to each
// generation whose NF may have asked (OwnFlow::is_answer), a copy each.
//
// A generation fails, for example, if the launcher of its units ends. If the
// newest fails, a new driver replaces its driver: the generation loses its
// flows and has all of its pieces again. Packets wait meanwhile, or, if other
// chains run beside this one, are dropped (kUnitFailed). If the generation
// fails often, the new driver waits longer each time.
//
// Owner-thread only. A driver may have been made by another thread.
class LiveChains {
 public:
  // Chains that keep their flows, at one time; with those that end just now,
  // there may be twice as many.
  static constexpr size_t kMostChains = 4;

  // `told`, which may be null, gets a line of each chain that ends.
  LiveChains(std::unique_ptr<RealDriver> first, std::string nf,
             std::function<void(const std::string&)> told = nullptr,
             uint32_t number = 1);
  LiveChains(const LiveChains&) = delete;
  LiveChains& operator=(const LiveChains&) = delete;
  // Ends what runs, without waiting for packets.
  ~LiveChains();

  using Maker = ChainRestarter::Maker;
  // Lets a failed newest chain restart, unless its units are leased or it is
  // retired. `maker_of` gets the failed driver. Without it the run fails with
  // its chain.
  using MakerOf = std::function<Maker(const RealDriver& failed)>;
  void set_renewal(MakerOf maker_of) { maker_of_ = std::move(maker_of); }
  // Other chains run beside this one: nothing waits while the newest restarts.
  // Before Begin.
  void RunBeside() { is_beside_ = true; }
  // Moves pieces of pools by the exchange, which several chains share, from now
  // on. It must outlive all calls. Returns the pieces that were kept so far.
  PoolExchange::Pools ExchangeBy(PoolExchange& exchange);

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
  // Adds RealDriver::inherited_flows of all chains. Adds nothing, not 0, if no
  // chain inherited any.
  void AddInherited(std::optional<uint64_t>& flows) const;
  // Counts the flows that older chains have.
  uint64_t older_flows() const;
  uint64_t newest_flows() const { return newest().controller().flows().size(); }
  // Returns true while the newest chain, which has failed, restarts.
  bool is_down() const { return outage_.has_value(); }

  // Lets this chain have the flows that begin from now on. The driver takes no
  // packet before. Flows of older chains stay there for as long as `within`
  // says, Nanos::max() for as long as they live. Error: FailedPrecondition,
  // there are too many, or the newest restarts; then `next` stays as it is.
  absl::Status Add(std::unique_ptr<RealDriver>& next, std::string nf,
                   Nanos within, uint32_t number);

  // Adds chains of a run that was killed: call it for each behind the
  // first, in order, before Begin. The driver of the chain before has taken
  // over processes, whose units have these pieces (SettleOlder). Flows of those
  // before begin anew after `end`, on the machine's monotonic clock.
  void Inherit(std::unique_ptr<RealDriver> next, std::string nf,
               uint32_t number, const PoolExchange::Pools& held, Instant end);

  // As the calls of RealDriver, for all chains together. Times of packets are
  // by Now().
  void Begin(Instant now);
  // Returns false if another process is to have the packet, which is only after
  // Retire.
  bool Offer(const CapturedPacket& captured);
  // Tells whose a packet is, if flows are found by keys of their own.
  enum class Claim : uint8_t {
    kNone,
    kFlow,    // it is of a flow that a chain has
    kAnswer,  // it may answer a packet of an NF's own
  };
  Claim ClaimOf(const CapturedPacket& captured);
  // Counts copies of packets that several chains or processes got.
  uint64_t answer_copies() const { return answer_copies_; }
  bool Poll();
  Nanos MayWait(Nanos most) const;
  void AwaitUnits(Nanos most, absl::FunctionRef<bool()> is_other_work);
  // Returns true if all chains take frames of several packets whole.
  bool takes_merged() const;
  Instant Now() const {
    return is_down() ? outage_->Now() : newest().clock().Now();
  }
  // Returns how far Now() is ahead of the machine's monotonic clock.
  Nanos ahead() const {
    return is_down() ? outage_->began - outage_->began_at
                     : newest().clock().offset();
  }
  // Returns true if a chain has failed and does not restart.
  bool has_failed() const;

  // The following let another process have the flows that begin from now on
  // (live_traffic.h). After Retire, which keeps the pieces of pools that are
  // free, packets are taken of flows that are known, for as long as `within`
  // says; Resume undoes that, except for the pieces. All is over once no chain
  // has flows or packets.
  void Retire(Nanos within);
  void Resume() { is_retired_ = false; }
  bool is_over() const;
  // Keeps all pieces of the newest chain, after Finish, for another process.
  void KeepAllPieces() { pools_->Keep(chains_.back().pools); }
  // Call before Begin: gives the newest chain kept pieces.
  void BeginWithKept() { pools_->GiveKept(chains_.back().holder()); }

  // Adds the figures of the other chains to those of the newest.
  void AddFigures(LiveFigures& figures);
  // Publishes no figures from now on: AddAllFigures adds the figures of the
  // newest chain as well.
  void HideFigures();
  // Adds the latencies of all chains so far to the histogram.
  void AddAllFigures(LiveFigures& figures, Histogram& latency);
  Nanos elapsed() const;

  // Ends all; returns the result of the newest, with all violations. Call once.
  RunResult Finish();
  // As Finish, of a chain beside others: returns the result in short.
  EarlierChain FinishBeside();
  // Returns what became of the others, in order; after Finish of all of them.
  const std::vector<EarlierChain>& earlier() const { return ended_.list(); }

 private:
  struct Chain {
    uint32_t number = 1;
    std::string nf;
    std::unique_ptr<RealDriver> driver;
    Instant until = Instant::max();  // its flows begin anew from then on
    PoolExchange::Share pools{};
    PoolExchange::Holder holder() { return {driver.get(), &pools}; }
  };
  using Made = ChainRestarter::Made;
  // A newest chain that has failed, and is still in its place.
  struct Outage {
    RunResult result;  // of the failed driver, and of packets since
    Instant began;     // by the driver's clock, which Finish sets forward
    Instant began_at;  // at the same time, by the machine's monotonic clock
    // Returns the time by the clock, as if it were not set forward.
    Instant Now() const { return began + (RealClock::Monotonic() - began_at); }
    // Makes the next driver; invalid if the chain does not restart.
    std::future<Made> next{};
  };

  static constexpr Nanos kAtTheEnd = Seconds(1);

  static Chain Make(uint32_t number, std::unique_ptr<RealDriver> driver,
                    std::string nf);
  bool OfferAmongOthers(const CapturedPacket& captured);
  void OfferToNewest(const CapturedPacket& captured);
  bool IsDown(const Chain& chain) const {
    return outage_.has_value() && &chain == &chains_.back();
  }
  void AddFiguresOf(Chain& chain, LiveFigures& figures);
  void EndOlder();
  void End(Chain chain);
  RunResult FinishNewest();
  bool may_renew() const {
    return maker_of_ != nullptr && leases_ == nullptr && !is_retired_ &&
           !outage_.has_value();
  }
  bool AnyFailed() const;
  void LetGo(std::unique_ptr<RealDriver> driver);
  void Renew();
  bool EndOutage();
  void Tell(const std::string& line) {
    if (told_) told_(line);
  }

  std::function<void(const std::string&)> told_;
  LiveLeases* leases_ = nullptr;
  MakerOf maker_of_;
  bool is_beside_ = false;
  bool hides_figures_ = false;
  ChainRestarter restarter_;
  std::optional<Outage> outage_;
  Instant began_;
  std::vector<Chain> chains_;  // the newest is the last
  PoolExchange own_pools_;
  PoolExchange* pools_ = &own_pools_;
  bool is_retired_ = false;
  Instant retired_until_ = Instant::max();
  uint64_t answer_copies_ = 0;
  EndedChains ended_;
  // Each destroys a driver that has ended, whose processes take their time.
  std::vector<std::future<void>> leaving_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_CHAINS_LIVE_CHAINS_H_
