// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/live_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "base/messages/drop_reason.h"
#include "base/text/wording.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

EarlierChain SumsOf(uint32_t number, const std::string& nf,
                    const RunResult& result) {
  return {.number = number,
          .nf = nf,
          .packets_in = result.packets_in,
          .packets_begun = result.packets_begun(),
          .packets_released = result.packets_released,
          .packets_passed_through = result.packets_passed_through,
          .packets_hairpinned = result.aliases.packets_hairpinned,
          .packets_ended = result.packets_ended(),
          .flows = result.controller.flows};
}

// Adds counts that add up to a sum.
void AddTo(FigureCounts& sum, const FigureCounts& more) {
  for (const Figure& figure : Figures()) {
    const bool has_place =
        !std::holds_alternative<std::monostate>(figure.place);
    if (figure.adds != AddUp::kSum || !has_place) continue;
    sum[figure.place] += more.of(figure);
  }
}

void AddTo(std::vector<DropCount>& sum, const std::vector<DropCount>& more) {
  for (const DropCount& drop : more) {
    const auto same = std::ranges::find_if(sum, [&drop](const DropCount& one) {
      return one.name == drop.name && one.by_nf == drop.by_nf;
    });
    if (same == sum.end()) {
      sum.push_back(drop);
    } else {
      same->packets += drop.packets;
    }
  }
}

// An NF in a chain has its name, which is a word, before those of its pools.
std::string WithoutNf(const std::string& pool) {
  const size_t dot = pool.find('.');
  const bool has_nf =
      dot != pool.npos &&
      std::ranges::all_of(std::string_view(pool).substr(0, dot),
                          [](unsigned char c) {
                            return std::isalnum(c) != 0 || c == '_' || c == '#';
                          });
  return has_nf ? pool.substr(dot + 1) : pool;
}

std::vector<std::string> PoolNamesOf(const RealDriver& driver) {
  std::vector<std::string> names;
  for (const NetworkFunction::Pool& pool : driver.pieces().pools()) {
    std::string name = WithoutNf(pool.name);
    while (std::ranges::find(names, name) != names.end()) name += '\'';
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

LiveChains::LiveChains(std::unique_ptr<RealDriver> first, std::string nf,
                       std::function<void(const std::string&)> told,
                       uint32_t number)
    : told_(std::move(told)) {
  chains_.push_back(Make(number, std::move(first), std::move(nf)));
}

LiveChains::Chain LiveChains::Make(uint32_t number,
                                   std::unique_ptr<RealDriver> driver,
                                   std::string nf) {
  Chain chain = {
      .number = number, .nf = std::move(nf), .driver = std::move(driver)};
  chain.pools = PoolNamesOf(*chain.driver);
  for (size_t pool = 0; pool < chain.pools.size(); ++pool) {
    chain.pieces.push_back(chain.driver->pieces().All(pool));
  }
  return chain;
}

std::unique_ptr<LiveChains> LiveChains::ByRules(
    std::unique_ptr<ChainRules> rules, std::vector<Named> chains,
    std::function<void(const std::string&)> told) {
  auto live = std::make_unique<LiveChains>(std::move(chains.front().driver),
                                           chains.front().nf, std::move(told));
  for (uint32_t i = 1; i < chains.size(); ++i) {
    live->chains_.push_back(
        Make(i + 1, std::move(chains[i].driver), chains[i].nf));
  }
  for (size_t i = 0; i < chains.size(); ++i) {
    Chain& chain = live->chains_[i];
    chain.name = chains[i].name;
    chain.has_own_keys =
        chain.driver->nf().create()->flow_scope() != FlowScope::kConnection;
  }
  live->rules_ = std::move(rules);
  return live;
}

LiveChains::~LiveChains() = default;

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

std::optional<uint64_t> LiveChains::inherited_flows() const {
  std::optional<uint64_t> flows;
  for (const Chain& chain : chains_) {
    const auto of_chain = chain.driver->inherited_flows();
    if (of_chain.has_value()) flows = flows.value_or(0) + *of_chain;
  }
  return flows;
}

uint64_t LiveChains::older_flows() const {
  uint64_t flows = 0;
  for (size_t i = 0; i + 1 < chains_.size(); ++i) {
    flows += chains_[i].driver->controller().flows().size();
  }
  return flows;
}

absl::Status LiveChains::Add(std::unique_ptr<RealDriver>& next, std::string nf,
                             Nanos within) {
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
  Chain chain = Make(before.number + 1, std::move(next), std::move(nf));
  KeepFree(before);
  GiveKept(chain);
  chain.driver->Begin(before.driver->clock().Now());
  chains_.push_back(std::move(chain));
  return absl::OkStatus();
}

LiveChains::Pools LiveChains::SettleOlder(RealDriver& driver) {
  const std::vector<std::string> names = PoolNamesOf(driver);
  Pools held;
  for (size_t pool = 0; pool < names.size(); ++pool) {
    const Words free = driver.pieces().Free(pool);
    Words& of_units = held[names[pool]] = driver.pieces().All(pool);
    for (size_t word = 0; word < free.size(); ++word) {
      of_units[word] &= ~free[word];
    }
    driver.pieces().Remove(pool, free);
  }
  return held;
}

void LiveChains::SettleNewest(RealDriver& driver, const Pools& held) {
  const std::vector<std::string> names = PoolNamesOf(driver);
  for (size_t pool = 0; pool < names.size(); ++pool) {
    const auto others = held.find(names[pool]);
    if (others == held.end() ||
        others->second.size() != driver.pieces().pools()[pool].words()) {
      continue;
    }
    driver.pieces().Remove(pool, others->second);
  }
}

void LiveChains::Inherit(std::unique_ptr<RealDriver> next, std::string nf,
                         uint32_t number, const Pools& held, Instant end) {
  Chain& before = chains_.back();
  before.driver->Begin(before.driver->clock().Now());
  before.driver->BecomeOlder();
  for (Chain& chain : chains_) chain.until = std::min(chain.until, end);
  for (size_t pool = 0; pool < before.pools.size(); ++pool) {
    const Words& of_units = held.at(before.pools[pool]);
    Words free = std::exchange(before.pieces[pool], of_units);
    for (size_t word = 0; word < free.size(); ++word) {
      free[word] &= ~of_units[word];
    }
    kept_[before.pools[pool]] = std::move(free);
  }
  Chain chain = Make(number, std::move(next), std::move(nf));
  GiveKept(chain);
  chains_.push_back(std::move(chain));
}

void LiveChains::KeepFree(Chain& from) {
  for (size_t pool = 0; pool < from.pieces.size(); ++pool) {
    Words free = from.driver->pieces().Free(pool);
    from.driver->pieces().Remove(pool, free);
    for (size_t word = 0; word < free.size(); ++word) {
      from.pieces[pool][word] &= ~free[word];
    }
    kept_[from.pools[pool]] = std::move(free);
  }
}

void LiveChains::GiveKept(Chain& to) {
  for (size_t pool = 0; pool < to.pieces.size(); ++pool) {
    Words& pieces = to.pieces[pool];
    const auto kept = kept_.find(to.pools[pool]);
    if (kept == kept_.end() || kept->second.size() != pieces.size()) continue;
    Words missing = pieces;
    for (size_t word = 0; word < pieces.size(); ++word) {
      missing[word] &= ~kept->second[word];
      pieces[word] &= kept->second[word];
    }
    to.driver->pieces().Remove(pool, missing);
    kept_.erase(kept);
  }
}

// Its flows have ended: so all that was its own is free.
void LiveChains::TakeBackPieces(const Chain& ended) {
  Chain& newest = chains_.back();
  for (size_t i = 0; i < ended.pieces.size(); ++i) {
    const Words& pieces = ended.pieces[i];
    const auto same = std::ranges::find(newest.pools, ended.pools[i]);
    Words* into = &kept_[ended.pools[i]];
    if (same != newest.pools.end()) {
      const auto pool = static_cast<size_t>(same - newest.pools.begin());
      kept_.erase(ended.pools[i]);
      if (newest.pieces[pool].size() != pieces.size()) continue;
      newest.driver->pieces().Add(pool, pieces);
      into = &newest.pieces[pool];
    }
    into->resize(std::max(into->size(), pieces.size()));
    for (size_t word = 0; word < pieces.size(); ++word) {
      (*into)[word] |= pieces[word];
    }
  }
}

void LiveChains::Begin(Instant now) {
  began_ = RealClock::Monotonic();
  newest().Begin(now);
  if (!has_rules()) return;
  for (size_t i = 0; i + 1 < chains_.size(); ++i) {
    chains_[i].driver->Begin(now);
    chains_[i].driver->HideFigures();
  }
}

bool LiveChains::Offer(const CapturedPacket& captured) {
  if (leases_ != nullptr) {
    leases_->on_packet(newest().controller().CostOf(captured.original_bytes));
  }
  if (given_up_.has_value()) [[unlikely]] {
    ++given_up_->packets_in;
    given_up_->bytes_in += captured.original_bytes;
    ++given_up_->dropped[static_cast<size_t>(DropReason::kUnitFailed)];
    return true;
  }
  if (has_rules()) {
    OfferByRules(captured);
    return true;
  }
  if (chains_.size() > 1 || is_retired_) [[unlikely]] {
    return OfferAmongOthers(captured);
  }
  newest().Offer(captured);
  return true;
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
    older.driver->Offer(captured);
    if (!has_asked) {
      answer_copies_ += askers;
      return true;
    }
    ++askers;
  }
  const bool has_asked = newest().MayHaveAskedFor(captured);
  if (is_retired_) {
    const bool is_own =
        now < retired_until_ && (has_asked || newest().Knows(captured));
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
  newest().Offer(captured);
  return true;
}

void LiveChains::OfferByRules(const CapturedPacket& captured) {
  uint64_t askers = 0;
  for (Chain& chain : chains_) {
    if (!chain.has_own_keys || captured.side == Side::kInside) continue;
    const bool has_asked = chain.driver->MayHaveAskedFor(captured);
    if (!has_asked && !chain.driver->Knows(captured)) continue;
    chain.driver->Offer(captured);
    ++askers;
    if (!has_asked) break;
  }
  if (askers > 0) {
    answer_copies_ += askers - 1;
    return;
  }
  const std::optional<size_t> chain =
      rules_->ChainOf(captured.time, captured.link, captured.bytes);
  if (chain.has_value()) {
    chains_[*chain].driver->Offer(captured);
  } else {
    ++without_chain_;
  }
}

LiveChains::Pools LiveChains::Retire(Nanos within) {
  const Instant now = RealClock::Monotonic();
  const Instant end = within == Nanos::max() ? Instant::max() : now + within;
  for (Chain& chain : chains_) chain.until = std::min(chain.until, end);
  Chain& last = chains_.back();
  last.driver->Poll();  // its flows are known from here on
  last.driver->BecomeOlder();
  is_retired_ = true;
  retired_until_ = end;
  KeepFree(last);
  given_ = std::exchange(kept_, {});
  return given_;
}

void LiveChains::Resume() {
  is_retired_ = false;
  Give(std::exchange(given_, {}));
}

bool LiveChains::is_over() const {
  const Chain& last = chains_.back();
  const Instant now = RealClock::Monotonic();
  if (chains_.size() > 1) return false;
  const bool has_flows = last.driver->controller().flows().size() > 0;
  if (has_flows && now < retired_until_) return false;
  return last.driver->is_idle() || now >= retired_until_ + kAtTheEnd;
}

LiveChains::Pools LiveChains::Left() {
  const Chain& last = chains_.back();
  for (size_t pool = 0; pool < last.pieces.size(); ++pool) {
    kept_[last.pools[pool]] = last.pieces[pool];
  }
  return std::exchange(kept_, {});
}

void LiveChains::BeginWith(Pools free) {
  kept_ = std::move(free);
  GiveKept(chains_.back());
}

void LiveChains::Give(const Pools& more) {
  Chain ended;
  for (const auto& [name, words] : more) {
    ended.pools.push_back(name);
    ended.pieces.push_back(words);
  }
  TakeBackPieces(ended);
}

bool LiveChains::Poll() {
  if (given_up_.has_value()) [[unlikely]]
    return false;
  bool did = leases_ != nullptr && leases_->Poll();
  for (Chain& chain : chains_) did |= chain.driver->Poll();
  if (may_renew() && AnyFailed()) [[unlikely]]
    Renew();
  if (chains_.size() > 1 && !has_rules()) [[unlikely]]
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

EarlierChain LiveChains::Note(const Chain& chain, const RunResult& result) {
  AddTo(of_ended_, FigureCounts(result));
  AddTo(drops_of_ended_, DropCounts(result));
  return SumsOf(chain.number, chain.nf, result);
}

void LiveChains::End(Chain chain) {
  const Instant begin = RealClock::Monotonic();
  const RunResult result = chain.driver->Finish();
  if (!has_rules()) TakeBackPieces(chain);
  EarlierChain sums = Note(chain, result);
  sums.violations = result.violations;
  sums.failure = result.failure;
  if (!result.violation_messages.empty()) {
    sums.violation = result.violation_messages.front();
  }
  Tell(fmt::format(
      "chain {} ({}) has ended, with {}; that took {:.1f} ms", chain.number,
      Printable(chain.nf), Plural(result.packets_in, "packet"),
      static_cast<double>((RealClock::Monotonic() - begin).ns) / 1e6));
  Keep(std::move(sums));
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
    TakeBackPieces(failed);
    EarlierChain sums = Note(failed, result);
    sums.renewed_for = result.failure;
    Tell(fmt::format("chain {} has failed: {}; its flows are lost",
                     failed.number, result.failure));
    Keep(std::move(sums));
    LetGo(std::move(failed.driver));
  }
  Chain& failed = chains_.back();
  if (!failed.driver->has_failed()) return;
  const Instant now = failed.driver->clock().Now();
  const Maker maker = maker_of_(*failed.driver);
  RunResult result = failed.driver->Finish();
  Tell(
      fmt::format("chain {} has failed: {}; it restarts, without its "
                  "flows",
                  failed.number, result.failure));
  auto next = MakeAgain(maker);
  if (!next.ok()) {
    Tell(fmt::format("chain {} cannot restart: {}", failed.number,
                     std::string(next.status().message())));
    given_up_ = std::move(result);
    return;
  }
  EarlierChain sums = Note(failed, result);
  sums.renewed_for = result.failure;
  Keep(std::move(sums));
  Chain chain = Make(failed.number, *std::move(next), failed.nf);
  for (size_t pool = 0; pool < failed.pools.size(); ++pool) {
    kept_[failed.pools[pool]] = failed.pieces[pool];
  }
  GiveKept(chain);
  chain.driver->Begin(now);
  LetGo(std::exchange(chains_.back(), std::move(chain)).driver);
  Tell(fmt::format("chain {} is back", chains_.back().number));
}

absl::StatusOr<std::unique_ptr<RealDriver>> LiveChains::MakeAgain(
    const Maker& maker) {
  const Instant now = RealClock::Monotonic();
  if (now - renewed_ > kGoodLife) pause_ = kFirstPause;
  for (int tries = 1;; ++tries) {
    if (tries > 1 || pause_ > kFirstPause) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(pause_.ns));
    }
    pause_ = std::min(Nanos{2 * pause_.ns}, kLongestPause);
    auto driver = maker();
    if (driver.ok()) renewed_ = RealClock::Monotonic();
    if (driver.ok() || absl::IsCancelled(driver.status()) ||
        tries == kMostTries) {
      return driver;
    }
    Tell(fmt::format("the chain cannot restart yet: {}",
                     std::string(driver.status().message())));
  }
}

void LiveChains::Keep(EarlierChain sums) {
  ended_.push_back(std::move(sums));
  if (ended_.size() <= kMostTold) return;
  EarlierChain& first = ended_[0];
  first.Add(ended_[1]);
  first.number = ended_[1].number;
  first.nf = "all before";
  ended_.erase(ended_.begin() + 1);
}

Nanos LiveChains::MayWait(Nanos most) const {
  for (const Chain& chain : chains_) most = chain.driver->MayWait(most);
  return most;
}

// If several chains have packets at units, waits for one of them.
void LiveChains::AwaitUnits(Nanos most,
                            absl::FunctionRef<bool()> is_other_work) {
  for (const Chain& chain : chains_) {
    if (chain.driver->MayWait().ns > 0) continue;
    chain.driver->AwaitUnits(most, is_other_work);
    return;
  }
}

bool LiveChains::takes_merged() const {
  return std::ranges::all_of(
      chains_, [](const Chain& chain) { return chain.driver->takes_merged(); });
}

bool LiveChains::has_failed() const {
  return given_up_.has_value() || (!may_renew() && AnyFailed());
}

bool LiveChains::AnyFailed() const {
  return std::ranges::any_of(
      chains_, [](const Chain& chain) { return chain.driver->has_failed(); });
}

void LiveChains::AddFigures(LiveFigures& figures) {
  figures.elapsed = RealClock::Monotonic() - began_;
  figures.chains.clear();
  for (const Chain& chain : chains_) {
    RealDriver& driver = *chain.driver;
    figures.chains.push_back({.number = chain.number,
                              .nf = chain.nf,
                              .flows = driver.controller().flows().size(),
                              .packets_in = driver.packets_in(),
                              .name = chain.name});
    if (&chain == &chains_.back()) continue;
    const LiveFigures older = driver.Look();
    AddTo(figures.counts, older.counts);
    AddTo(figures.drops, older.drops);
  }
  AddTo(figures.counts, of_ended_);
  AddTo(figures.drops, drops_of_ended_);
}

RunResult LiveChains::Finish() {
  while (chains_.size() > 1) {
    Chain older = std::move(chains_.front());
    chains_.erase(chains_.begin());
    End(std::move(older));
  }
  RunResult result = given_up_.has_value()
                         ? *std::exchange(given_up_, std::nullopt)
                         : newest().Finish();
  for (const EarlierChain& chain : ended_) {
    result.violations += chain.violations;
    if (result.failure.empty()) result.failure = chain.failure;
    if (chain.violation.empty()) continue;
    result.violation_messages.push_back(
        fmt::format("chain {}: {}", chain.number, chain.violation));
  }
  leaving_.clear();  // waits
  return result;
}

}  // namespace snf
