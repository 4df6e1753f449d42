// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/chain_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/histogram.h"
#include "base/text/wording.h"
#include "platform/run/figures/live_board.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

bool HasOwnKeys(const RealDriver& driver) {
  return driver.nf().create()->flow_scope() != FlowScope::kConnection;
}

}  // namespace

ChainSet::ChainSet(std::unique_ptr<LiveChains> only) : has_rules_(false) {
  members_.push_back({.name = "", .chains = std::move(only)});
  Begin();
}

ChainSet::ChainSet(std::unique_ptr<ChainRules> rules,
                   std::vector<Member> members)
    : members_(std::move(members)), has_rules_(true), rules_(std::move(rules)) {
  SNF_CHECK(!members_.empty() && rules_ != nullptr);
  Begin();
  for (Member& member : members_) member.chains->RunBeside();
}

void ChainSet::Begin() {
  std::vector<PoolExchange::Pools> kept;
  for (Member& member : members_) {
    std::optional<uint64_t> inherited;
    member.chains->AddInherited(inherited);
    kept.push_back(member.chains->ExchangeBy(pools_));
    // Older generations, which another daemon left, may have such flows.
    member.has_own_keys =
        HasOwnKeys(member.chains->newest()) || inherited.has_value();
    last_number_ = std::max(last_number_, member.chains->newest_number());
  }
  for (const PoolExchange::Pools& pools : kept) pools_.TakeBack(pools);
}

absl::StatusOr<ChainSet::Member*> ChainSet::Find(std::string_view name) {
  const auto found = std::ranges::find(members_, name, &Member::name);
  if (found != members_.end()) return &*found;
  if (!has_rules()) return &members_.front();
  std::string names;
  for (const Member& member : members_) {
    names += (names.empty() ? "" : ", ") + Printable(member.name);
  }
  return absl::NotFoundError(
      name.empty()
          ? fmt::format("there are several chains: name one of {}", names)
          : fmt::format("there is no chain \"{}\", but {}",
                        Printable(std::string(name)), names));
}

void ChainSet::set_renewal(const LiveChains::MakerOf& maker_of) {
  for (Member& member : members_) member.chains->set_renewal(maker_of);
}

absl::Status ChainSet::Add(Member& member, std::unique_ptr<RealDriver>& next,
                           std::string nf, Nanos within) {
  const bool has_own_keys = HasOwnKeys(*next);
  absl::Status added =
      member.chains->Add(next, std::move(nf), within, last_number_ + 1);
  if (!added.ok()) return added;
  ++last_number_;
  // Flows of older generations are found by keys of their own as well.
  member.has_own_keys |= has_own_keys;
  if (has_rules() && publish_ != nullptr) {
    next_publish_ = {};  // figures have the chain from here on
    Publish();
  }
  return absl::OkStatus();
}

void ChainSet::Begin(Instant now) {
  for (Member& member : members_) {
    if (has_rules()) member.chains->HideFigures();
    member.chains->Begin(now);
  }
}

bool ChainSet::Offer(const CapturedPacket& captured) {
  if (!has_rules()) [[likely]]
    return members_.front().chains->Offer(captured);
  return OfferByRules(captured);
}

// Chains begin one after the other, and chains of a run that was killed have
// clocks of their own.
bool ChainSet::OfferTo(Member& member, const CapturedPacket& captured) {
  return member.chains->Offer(ByClock(
      captured, members_.front().chains->ahead(), member.chains->ahead()));
}

// An answer goes to each chain that may have asked, for no chain keeps a flow
// of its own packets. Of a run that is retired, another process may have asked.
bool ChainSet::OfferByRules(const CapturedPacket& captured) {
  uint64_t takers = 0;
  bool is_passed_on = false;
  for (Member& member : members_) {
    if (!member.has_own_keys || captured.side == Side::kInside) continue;
    const LiveChains::Claim claim = member.chains->ClaimOf(captured);
    if (claim == LiveChains::Claim::kNone) continue;
    if (OfferTo(member, captured)) {
      ++takers;
    } else {
      is_passed_on = true;
    }
    if (claim == LiveChains::Claim::kFlow) break;
  }
  if (takers > 0 || is_passed_on) {
    answer_copies_ += takers + (is_passed_on ? 1 : 0) - 1;
    return !is_passed_on;
  }
  const std::optional<size_t> chain =
      rules_->ChainOf(captured.time, captured.link, captured.bytes);
  if (chain.has_value()) return OfferTo(members_[*chain], captured);
  if (is_retired_) return false;  // the other process has rules of its own
  ++without_chain_;
  if (on_no_chain_) on_no_chain_(captured);
  return true;
}

uint64_t ChainSet::answer_copies() const {
  uint64_t copies = answer_copies_;
  for (const Member& member : members_)
    copies += member.chains->answer_copies();
  return copies;
}

bool ChainSet::Poll() {
  bool did = false;
  for (Member& member : members_) {
    did |= member.chains->Poll();
    member.had_unit |= !member.chains->has_no_unit();
  }
  if (has_rules() && publish_ != nullptr) Publish();
  return did;
}

void ChainSet::Publish() {
  const Instant now = RealClock::Monotonic();
  if (now < next_publish_) return;
  next_publish_ = now + LiveBoard::kPeriod;
  publish_({});
}

Nanos ChainSet::MayWait(Nanos most) const {
  for (const Member& member : members_) most = member.chains->MayWait(most);
  return most;
}

// If several chains have packets at units, waits for one of them.
void ChainSet::AwaitUnits(Nanos most, absl::FunctionRef<bool()> is_other_work) {
  for (Member& member : members_) {
    if (member.chains->MayWait(most).ns > 0) continue;
    member.chains->AwaitUnits(most, is_other_work);
    return;
  }
}

bool ChainSet::takes_merged() const {
  return std::ranges::all_of(members_, [](const Member& member) {
    return member.chains->takes_merged();
  });
}

bool ChainSet::has_no_unit() const {
  return std::ranges::any_of(members_, [this](const Member& member) {
    const bool may_wait_alone = has_rules() && member.had_unit;
    return !may_wait_alone && member.chains->has_no_unit();
  });
}

bool ChainSet::has_failed() const {
  return std::ranges::any_of(members_, [](const Member& member) {
    return member.chains->has_failed();
  });
}

std::optional<uint32_t> ChainSet::FirstFrom(uint32_t number) const {
  std::optional<uint32_t> first;
  for (const Member& member : members_) {
    const auto found = member.chains->FirstFrom(number);
    if (found.has_value()) first = std::min(first.value_or(*found), *found);
  }
  return first;
}

RealDriver* ChainSet::FindDriver(uint32_t number) {
  for (Member& member : members_) {
    RealDriver* const driver = member.chains->Find(number);
    if (driver != nullptr) return driver;
  }
  return nullptr;
}

std::optional<uint64_t> ChainSet::inherited_flows() const {
  std::optional<uint64_t> flows;
  for (const Member& member : members_) member.chains->AddInherited(flows);
  return flows;
}

uint64_t ChainSet::flows() const {
  uint64_t flows = 0;
  for (const Member& member : members_) {
    flows += member.chains->older_flows() + member.chains->newest_flows();
  }
  return flows;
}

void ChainSet::AddFigures(LiveFigures& figures) {
  figures.chains.clear();
  figures.elapsed = members_.front().chains->elapsed();
  if (!has_rules()) {
    members_.front().chains->AddFigures(figures);
    return;
  }
  Histogram latency;
  for (Member& member : members_) {
    const size_t first = figures.chains.size();
    const size_t first_object = figures.nf_objects.size();
    member.chains->AddAllFigures(figures, latency);
    for (size_t i = first; i < figures.chains.size(); ++i) {
      figures.chains[i].name = member.name;
    }
    for (size_t i = first_object; i < figures.nf_objects.size(); ++i) {
      figures.nf_objects[i].nf = member.name + " " + figures.nf_objects[i].nf;
    }
  }
  figures.latency = latency_.Take(latency);
}

PoolExchange::Pools ChainSet::Retire(Nanos within) {
  is_retired_ = true;
  for (Member& member : members_) member.chains->Retire(within);
  given_ = pools_.TakeKept();
  return given_;
}

void ChainSet::Resume() {
  is_retired_ = false;
  for (Member& member : members_) member.chains->Resume();
  Give(std::exchange(given_, {}));
}

bool ChainSet::is_over() const {
  return std::ranges::all_of(
      members_, [](const Member& member) { return member.chains->is_over(); });
}

PoolExchange::Pools ChainSet::Left() {
  for (Member& member : members_) member.chains->KeepAllPieces();
  return pools_.TakeKept();
}

void ChainSet::BeginWith(PoolExchange::Pools free) {
  pools_.Keep(std::move(free));
  for (Member& member : members_) member.chains->BeginWithKept();
}

RunResult ChainSet::Finish() {
  const size_t last = members_.size() - 1;
  for (size_t i = 0; i < last; ++i) {
    LiveChains& chains = *members_[i].chains;
    EarlierChain newest = chains.FinishBeside();
    ended_.insert(ended_.end(), chains.earlier().begin(),
                  chains.earlier().end());
    ended_.push_back(std::move(newest));
  }
  RunResult result = members_[last].chains->Finish();
  AddViolations(ended_, result);
  const auto& of_last = members_[last].chains->earlier();
  ended_.insert(ended_.end(), of_last.begin(), of_last.end());
  std::ranges::stable_sort(ended_, {}, &EarlierChain::number);
  return result;
}

}  // namespace snf
