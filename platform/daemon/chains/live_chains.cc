// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/live_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/messages/drop_reason.h"
#include "base/text/wording.h"

namespace snf {
namespace {

// Adds a chain's part of the hosts' units. A host that is silent for a chain,
// or has left with units of a chain, is told as such.
void AddHosts(const std::vector<LiveFigures::Host>& of_chain,
              LiveFigures& figures) {
  for (const LiveFigures::Host& host : of_chain) {
    const auto known = std::ranges::find_if(
        figures.hosts, [&host](const LiveFigures::Host& other) {
          return other.name == host.name && other.address == host.address;
        });
    if (known == figures.hosts.end()) {
      figures.hosts.push_back(host);
      continue;
    }
    known->units += host.units;
    if (host.state != "joined") known->state = host.state;
  }
}

}  // namespace

LiveChains::LiveChains(std::unique_ptr<RealDriver> first, std::string nf,
                       std::function<void(const std::string&)> told,
                       uint32_t number)
    : told_(std::move(told)), restarter_(told_) {
  chains_.push_back(Make(number, std::move(first), std::move(nf)));
  own_pools_.Add([this] { return chains_.back().holder(); });
}

LiveChains::Chain LiveChains::Make(uint32_t number,
                                   std::unique_ptr<RealDriver> driver,
                                   std::string nf) {
  Chain chain = {
      .number = number, .nf = std::move(nf), .driver = std::move(driver)};
  chain.pools = PoolExchange::AllOf(*chain.driver);
  return chain;
}

PoolExchange::Pools LiveChains::ExchangeBy(PoolExchange& exchange) {
  pools_ = &exchange;
  exchange.Add([this] { return chains_.back().holder(); });
  return own_pools_.TakeKept();
}

// Waits for the next driver if it is in the making: its thread uses this.
LiveChains::~LiveChains() {
  restarter_.End();
  outage_.reset();
}

std::optional<uint32_t> LiveChains::FirstFrom(uint32_t number) const {
  const auto found = std::ranges::find_if(
      chains_, [number](const Chain& chain) { return chain.number >= number; });
  if (found == chains_.end()) return std::nullopt;
  return found->number;
}

RealDriver* LiveChains::Find(uint32_t number) {
  const auto found = std::ranges::find(chains_, number, &Chain::number);
  return found == chains_.end() ? nullptr : found->driver.get();
}

void LiveChains::AddInherited(std::optional<uint64_t>& flows) const {
  for (const Chain& chain : chains_) {
    const auto of_chain = chain.driver->inherited_flows();
    if (of_chain.has_value()) flows = flows.value_or(0) + *of_chain;
  }
}

uint64_t LiveChains::older_flows() const {
  uint64_t flows = 0;
  for (size_t i = 0; i + 1 < chains_.size(); ++i) {
    flows += chains_[i].driver->controller().flows().size();
  }
  return flows;
}

absl::Status LiveChains::Add(std::unique_ptr<RealDriver>& next, std::string nf,
                             Nanos within, uint32_t number) {
  if (is_down()) {
    return absl::FailedPreconditionError(fmt::format(
        "chain {} has failed and restarts: try again", newest_number()));
  }
  const Instant now = RealClock::Monotonic();
  const Instant end = within == Nanos::max() ? Instant::max() : now + within;
  const auto stays = [&](const Chain& chain) {
    return std::min(chain.until, end) > now;
  };
  if (std::ranges::count_if(chains_, stays) >=
          static_cast<ptrdiff_t>(kMostChains) ||
      chains_.size() == 2 * kMostChains) {
    return absl::FailedPreconditionError(fmt::format(
        "{} older chains still have {}; --within=0s lets these begin anew",
        chains_.size() - 1, Plural(older_flows(), "flow")));
  }
  Chain& before = chains_.back();
  before.driver->Poll();  // its flows are known from here on
  before.driver->BecomeOlder();
  for (Chain& chain : chains_) chain.until = std::min(chain.until, end);
  Chain chain = Make(number, std::move(next), std::move(nf));
  pools_->KeepFree(before.holder());
  pools_->GiveKept(chain.holder());
  chain.driver->Begin(before.driver->clock().Now());
  if (hides_figures_) chain.driver->HideFigures();
  chains_.push_back(std::move(chain));
  chains_.back().driver->Poll();  // figures have the chain from here on
  return absl::OkStatus();
}

void LiveChains::Inherit(std::unique_ptr<RealDriver> next, std::string nf,
                         uint32_t number, const PoolExchange::Pools& held,
                         Instant end) {
  Chain& before = chains_.back();
  before.driver->Begin(before.driver->clock().Now());
  before.driver->BecomeOlder();
  for (Chain& chain : chains_) chain.until = std::min(chain.until, end);
  pools_->KeepBut(held, before.pools);
  Chain chain = Make(number, std::move(next), std::move(nf));
  pools_->GiveKept(chain.holder());
  chains_.push_back(std::move(chain));
}

void LiveChains::Begin(Instant now) {
  began_ = RealClock::Monotonic();
  newest().Begin(now);
  if (hides_figures_) newest().HideFigures();
}

void LiveChains::HideFigures() {
  hides_figures_ = true;
  newest().HideFigures();
}

Nanos LiveChains::elapsed() const { return RealClock::Monotonic() - began_; }

bool LiveChains::Offer(const CapturedPacket& captured) {
  if (leases_ != nullptr) {
    leases_->on_packet(newest().controller().CostOf(captured.original_bytes));
  }
  if (chains_.size() > 1 || is_retired_) [[unlikely]] {
    return OfferAmongOthers(captured);
  }
  OfferToNewest(captured);
  return true;
}

void LiveChains::OfferToNewest(const CapturedPacket& captured) {
  if (!outage_.has_value()) [[likely]] {
    newest().Offer(captured);
    return;
  }
  RunResult& result = outage_->result;
  ++result.packets_in;
  result.bytes_in += captured.original_bytes;
  ++result.dropped[static_cast<size_t>(DropReason::kUnitFailed)];
}

LiveChains::Claim LiveChains::ClaimOf(const CapturedPacket& captured) {
  const Instant now = RealClock::Monotonic();
  Claim claim = Claim::kNone;
  for (const Chain& chain : chains_) {
    if (IsDown(chain) || now >= chain.until) continue;
    if (chain.driver->MayHaveAskedFor(captured)) {
      claim = Claim::kAnswer;
    } else if (chain.driver->Knows(captured)) {
      return Claim::kFlow;
    }
  }
  return claim;
}

// An answer goes to each chain that may have asked, for no chain keeps a flow
// of its own packets.
bool LiveChains::OfferAmongOthers(const CapturedPacket& captured) {
  const Instant now = RealClock::Monotonic();
  uint64_t askers = 0;
  for (size_t i = 0; i + 1 < chains_.size(); ++i) {
    Chain& older = chains_[i];
    if (now >= older.until) continue;
    const bool has_asked = older.driver->MayHaveAskedFor(captured);
    if (!has_asked && !older.driver->Knows(captured)) continue;
    older.driver->Offer(
        ByClock(captured, ahead(), older.driver->clock().offset()));
    if (!has_asked) {
      answer_copies_ += askers;
      return true;
    }
    ++askers;
  }
  const bool has_asked = !is_down() && newest().MayHaveAskedFor(captured);
  if (is_retired_) {
    const bool is_own = !is_down() && now < retired_until_ &&
                        (has_asked || newest().Knows(captured));
    if (is_own) newest().Offer(captured);
    // Another process may have asked as well.
    const bool is_passed_on = !is_own || has_asked;
    const uint64_t takers = askers + (is_own ? 1 : 0);
    answer_copies_ += is_passed_on ? takers : takers - 1;
    return !is_passed_on;
  }
  if (askers > 0 && !has_asked) {
    answer_copies_ += askers - 1;
    return true;
  }
  answer_copies_ += askers;
  OfferToNewest(captured);
  return true;
}

void LiveChains::Retire(Nanos within) {
  const Instant now = RealClock::Monotonic();
  const Instant end = within == Nanos::max() ? Instant::max() : now + within;
  for (Chain& chain : chains_) chain.until = std::min(chain.until, end);
  Chain& last = chains_.back();
  if (!is_down()) last.driver->Poll();  // its flows are known from here on
  last.driver->BecomeOlder();
  is_retired_ = true;
  retired_until_ = end;
  pools_->KeepFree(last.holder());
}

bool LiveChains::is_over() const {
  const Chain& last = chains_.back();
  const Instant now = RealClock::Monotonic();
  if (chains_.size() > 1) return false;
  const bool has_flows = last.driver->controller().flows().size() > 0;
  if (has_flows && now < retired_until_) return false;
  return last.driver->is_idle() || now >= retired_until_ + kAtTheEnd;
}

bool LiveChains::Poll() {
  bool did = leases_ != nullptr && leases_->Poll();
  for (Chain& chain : chains_) {
    if (!IsDown(chain)) did |= chain.driver->Poll();
  }
  if (may_renew() && AnyFailed()) [[unlikely]]
    Renew();
  if (outage_.has_value()) [[unlikely]]
    did |= EndOutage();
  if (chains_.size() > 1) [[unlikely]]
    EndOlder();
  return did;
}

// One at a time: packets wait meanwhile.
void LiveChains::EndOlder() {
  const Instant now = RealClock::Monotonic();
  for (size_t i = 0; i + 1 < chains_.size(); ++i) {
    const Chain& older = chains_[i];
    if (older.driver->has_failed()) continue;
    const bool has_flows = older.driver->controller().flows().size() > 0;
    const bool is_over = !has_flows || now >= older.until;
    if (!is_over) continue;
    // Packets under way come to their end first, while other chains go on.
    if (!older.driver->is_idle() &&
        (older.until == Instant::max() || now < older.until + kAtTheEnd)) {
      continue;
    }
    Chain ended = std::move(chains_[i]);
    chains_.erase(chains_.begin() + static_cast<ptrdiff_t>(i));
    End(std::move(ended));
    return;
  }
}

void LiveChains::End(Chain chain) {
  const Instant begin = RealClock::Monotonic();
  const RunResult result = chain.driver->Finish();
  pools_->TakeBack(chain.pools);
  ended_.Add(chain.number, chain.nf, result);
  Tell(fmt::format(
      "chain {} ({}) has ended, with {}; that took {:.1f} ms", chain.number,
      Printable(chain.nf), Plural(result.packets_in, "packet"),
      static_cast<double>((RealClock::Monotonic() - begin).ns) / 1e6));
  LetGo(std::move(chain.driver));
}

void LiveChains::LetGo(std::unique_ptr<RealDriver> driver) {
  std::erase_if(leaving_, [](const std::future<void>& one) {
    return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  leaving_.push_back(
      std::async(std::launch::async,
                 [ended = std::move(driver)]() mutable { ended.reset(); }));
}

// Ends older chains that have failed; the newest gets their flows as new ones.
void LiveChains::Renew() {
  for (size_t i = 0; i + 1 < chains_.size();) {
    if (!chains_[i].driver->has_failed()) {
      ++i;
      continue;
    }
    Chain failed = std::move(chains_[i]);
    chains_.erase(chains_.begin() + static_cast<ptrdiff_t>(i));
    const RunResult result = failed.driver->Finish();
    pools_->TakeBack(failed.pools);
    ended_.AddRenewed(failed.number, failed.nf, result);
    Tell(fmt::format("chain {} has failed: {}; its flows are lost",
                     failed.number, result.failure));
    LetGo(std::move(failed.driver));
  }
  Chain& failed = chains_.back();
  if (!failed.driver->has_failed()) return;
  outage_ = {.result = {},
             .began = failed.driver->clock().Now(),
             .began_at = RealClock::Monotonic()};
  Maker maker = maker_of_(*failed.driver);
  outage_->result = failed.driver->Finish();
  Tell(
      fmt::format("chain {} has failed: {}; it restarts, without its "
                  "flows",
                  failed.number, outage_->result.failure));
  outage_->next = std::async(
      std::launch::async,
      [this, maker = std::move(maker)] { return restarter_.Make(maker); });
  if (!is_beside_) outage_->next.wait();
}

// Returns true if the next driver has taken its place.
bool LiveChains::EndOutage() {
  if (!outage_->next.valid() || outage_->next.wait_for(std::chrono::seconds(
                                    0)) != std::future_status::ready) {
    return false;
  }
  Chain& failed = chains_.back();
  Made next = outage_->next.get();
  if (!next.ok()) {
    Tell(fmt::format("chain {} cannot restart: {}", failed.number,
                     std::string(next.status().message())));
    return false;
  }
  ended_.AddRenewed(failed.number, failed.nf, outage_->result);
  Chain chain = Make(failed.number, *std::move(next), failed.nf);
  pools_->Keep(failed.pools);
  pools_->GiveKept(chain.holder());
  chain.driver->Begin(outage_->Now());
  if (hides_figures_) chain.driver->HideFigures();
  LetGo(std::exchange(failed, std::move(chain)).driver);
  outage_.reset();
  Tell(fmt::format("chain {} is back", failed.number));
  return true;
}

Nanos LiveChains::MayWait(Nanos most) const {
  for (const Chain& chain : chains_) {
    if (!IsDown(chain)) most = chain.driver->MayWait(most);
  }
  return most;
}

// If several chains have packets at units, waits for one of them.
void LiveChains::AwaitUnits(Nanos most,
                            absl::FunctionRef<bool()> is_other_work) {
  for (const Chain& chain : chains_) {
    if (IsDown(chain) || chain.driver->MayWait().ns > 0) continue;
    chain.driver->AwaitUnits(most, is_other_work);
    return;
  }
}

bool LiveChains::takes_merged() const {
  return std::ranges::all_of(
      chains_, [](const Chain& chain) { return chain.driver->takes_merged(); });
}

bool LiveChains::has_failed() const {
  if (outage_.has_value()) return !outage_->next.valid();
  return !may_renew() && AnyFailed();
}

bool LiveChains::AnyFailed() const {
  return std::ranges::any_of(
      chains_, [](const Chain& chain) { return chain.driver->has_failed(); });
}

void LiveChains::AddFiguresOf(Chain& chain, LiveFigures& figures) {
  if (IsDown(chain)) return AddCounts(outage_->result, figures);
  AddCounts(chain.driver->look().Look(), figures);
}

void LiveChains::AddFigures(LiveFigures& figures) {
  for (Chain& chain : chains_) {
    RealDriver& driver = *chain.driver;
    const uint64_t packets =
        IsDown(chain) ? outage_->result.packets_in : driver.packets_in();
    figures.chains.push_back({.number = chain.number,
                              .nf = chain.nf,
                              .flows = driver.controller().flows().size(),
                              .packets_in = packets,
                              .is_down = IsDown(chain)});
    if (&chain != &chains_.back()) AddFiguresOf(chain, figures);
  }
  ended_.AddFigures(figures);
}

void LiveChains::AddAllFigures(LiveFigures& figures, Histogram& latency) {
  AddFigures(figures);
  AddFiguresOf(chains_.back(), figures);
  latency.Merge(ended_.latency());
  for (const Chain& chain : chains_) {
    latency.Merge(IsDown(chain) ? outage_->result.latency_ns
                                : chain.driver->latency());
  }
  if (is_down()) return;
  LiveFigures newest = chains_.back().driver->look().Look();
  LiveFigures::Chain& told = figures.chains.back();
  told.units = std::move(newest.units);
  AddHosts(newest.hosts, figures);
  told.latency = LiveTimes().Take(chains_.back().driver->latency());
  for (LiveFigures::NfObject& object :
       chains_.back().driver->look().LookAtObjects()) {
    figures.nf_objects.push_back(std::move(object));
  }
}

RunResult LiveChains::FinishNewest() {
  restarter_.End();
  while (chains_.size() > 1) {
    Chain older = std::move(chains_.front());
    chains_.erase(chains_.begin());
    End(std::move(older));
  }
  const bool was_down = is_down();
  RunResult result = was_down ? std::move(outage_->result) : newest().Finish();
  outage_.reset();  // waits
  return result;
}

EarlierChain LiveChains::FinishBeside() {
  const RunResult result = FinishNewest();
  leaving_.clear();  // waits
  const Chain& chain = chains_.back();
  return InShort(chain.number, chain.nf, result);
}

RunResult LiveChains::Finish() {
  RunResult result = FinishNewest();
  AddViolations(ended_.list(), result);
  leaving_.clear();  // waits
  return result;
}

}  // namespace snf
