// SPDX-License-Identifier: Apache-2.0
//
// Compares random chains with a plain interpreter (test_chain_oracle.h).
// SNF_LONG_TESTS=1 runs 50 times as many; SNF_TEST_SEED=n runs the one with
// that seed.
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "runtime/sdk/test_chain_oracle.h"

namespace snf {
namespace {

using Tree = ChainOracle::Tree;
using Counts = std::map<std::string, uint64_t>;

constexpr size_t kFlows = 3;

bool Chance(Rng& rng, uint32_t percent) { return rng.Below(100) < percent; }

// --- Chains -----------------------------------------------------------------

struct AnyChain {
  explicit AnyChain(Rng& from) : rng(from) {
    has_pools = Chance(rng, 60);
    has_timers = Chance(rng, 60);
    left = 1 + rng.Below(10);
    const bool is_sided = Chance(rng, 50);
    if (is_sided) sided_at = rng.Below(left);
    tree = Sequence(0);
    // The tree must be a chain, and have two sides if it should.
    while (tree.size() < 2) tree.push_back(Node(0));
    if (is_sided && !has_sides) {
      sided_at = ids.size();
      tree.push_back(Node(0));
    }
  }

  ChainOracle::Node Node(int depth) {
    ChainOracle::Node node;
    node.id = static_cast<char>('a' + ids.size());
    node.options = std::string("id=") + node.id;
    const bool has_state = Chance(rng, 85);
    if (!has_state) node.options += ",state=false";
    std::string verbs = "drop other consume suspicious odd idle end alias ";
    if (has_state) verbs += "parity emit emit note forget log ";
    if (has_state && has_pools && Chance(rng, 50)) {
      node.options += ",pool=" + std::to_string(1 + rng.Below(4));
      if (Chance(rng, 50)) node.options += ",holder=true";
      verbs += "take take take take give ";
    }
    if (has_timers && Chance(rng, 60)) {
      node.options += ",timer=true";
      verbs += "timer timer cancel again bye ";
    }
    const bool is_sided = depth == 0 && !has_sides && sided_at <= ids.size();
    if (is_sided) node.options += ",sided=true";
    has_sides |= is_sided;
    ids.push_back(verbs);
    if (!is_sided && depth < 3 && left > 0 && Chance(rng, 45)) {
      AddArms(node, depth + 1);
    }
    return node;
  }
  void AddArms(ChainOracle::Node& node, int depth) {
    std::vector<std::string> labels = {"clean", "suspicious", "odd"};
    rng.Shuffle(std::span(labels));
    labels.resize(rng.Below(4));
    if (labels.empty() || Chance(rng, 30)) labels.push_back("*");
    for (const std::string& label : labels) {
      node.arms.emplace_back(label, Tree());
      if (Chance(rng, 80)) node.arms.back().second = Sequence(depth);
    }
  }
  Tree Sequence(int depth) {
    Tree sequence;
    do {
      if (left == 0) break;
      --left;
      sequence.push_back(Node(depth));
    } while (Chance(rng, depth == 0 ? 85 : 45));
    return sequence;
  }

  Rng& rng;
  bool has_pools;
  bool has_timers;
  bool has_sides = false;
  size_t left = 0;
  size_t sided_at = 1000;
  std::vector<std::string> ids;  // by NF, what it may be asked
  Tree tree;
};

// --- What happens -----------------------------------------------------------

class RandomRun {
 public:
  RandomRun(Rng& rng, Counts& counts)
      : rng_(rng),
        counts_(counts),
        any_(rng),
        connections_(1 + static_cast<uint32_t>(rng.Below(4))) {
    text_ = "[connections=" + std::to_string(connections_) + "]" +
            ChainOracle::TextOf(any_.tree);
    chain_ = MakeChain(text_);
    // A spec's own text parses to the same spec.
    EXPECT_EQ(NfSpec::Parse(NfSpec::Parse(text_)->text())->text(),
              NfSpec::Parse(text_)->text());
    const auto pieces = static_cast<uint32_t>(rng.Below(5));
    world_.AddPools(*chain_, pieces);
    oracle_world_.AddPools(*chain_, pieces);
    for (size_t i = 0; i < kFlows; ++i) {
      flows_.emplace_back(*chain_);
      oracles_.push_back(
          std::make_unique<ChainOracle>(any_.tree, connections_));
    }
  }

  void Go() {
    SCOPED_TRACE(text_);
    for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
      now_ = now_ + Nanos{rng_.Uniform(0, 4'000'000)};
      RunTimers();
      Step();
      ExpectSame();
    }
    for (size_t i = 0; i < kFlows; ++i) EndFlow(i);
    ExpectSame();
    counts_[any_.has_sides ? "chains with two sides"
                           : "chains of connections"]++;
  }

 private:
  void Step() {
    const size_t flow = rng_.Below(kFlows);
    const uint64_t what = rng_.Below(100);
    if (what < 3) {
      EndFlow(flow);
    } else if (what < 6) {
      ++counts_["aliases refused"];
      ASSERT_EQ(flows_[flow].on_alias_refused(*chain_, world_, now_),
                oracles_[flow]->on_alias_refused(oracle_world_, now_));
    } else {
      Send(flow);
    }
  }

  ChainPacket AnyPacket() {
    ChainPacket packet = {.bytes = std::string(rng_.Below(14) + 1, '.'),
                          .now = now_};
    if (any_.has_sides) {
      packet.side = Chance(rng_, 50) ? Side::kInside : Side::kOutside;
      packet.far_end = static_cast<uint8_t>(rng_.Below(6));
    }
    const uint64_t words = rng_.Below(6);
    for (uint64_t i = 0; i < words; ++i) {
      const size_t nf = rng_.Below(any_.ids.size());
      packet.bytes += ' ';
      packet.bytes += static_cast<char>('a' + nf);
      packet.bytes += ':' + AnyVerb(any_.ids[nf]);
    }
    return packet;
  }
  std::string AnyVerb(const std::string& verbs) {
    std::vector<std::string> words;
    for (size_t at = 0; at < verbs.size(); at = verbs.find(' ', at) + 1) {
      words.push_back(verbs.substr(at, verbs.find(' ', at) - at));
    }
    std::string verb = words[rng_.Below(words.size())];
    // Words that end a packet's way are chosen less often.
    if (words[0] == verb || verb == "other" || verb == "consume") {
      verb = words[rng_.Below(words.size())];
    }
    static constexpr std::string_view kNumbered[] = {"idle", "alias", "log",
                                                     "timer", "again"};
    if (std::ranges::find(kNumbered, verb) != std::end(kNumbered)) {
      verb += std::to_string(1 + rng_.Below(9));
    }
    return verb;
  }

  void Send(size_t flow) {
    const ChainPacket packet = AnyPacket();
    SCOPED_TRACE(packet.bytes);
    for (int tries = 0; tries < 4; ++tries) {
      const ChainFlow::Outcome got = flows_[flow].Send(*chain_, world_, packet);
      const ChainFlow::Outcome expected =
          oracles_[flow]->Send(oracle_world_, packet);
      ASSERT_EQ(got.verdict, expected.verdict);
      ASSERT_EQ(got.bytes, expected.bytes);
      ASSERT_EQ(got.said.frames, expected.said.frames);
      ASSERT_EQ(got.said, expected.said);
      Count(got);
      if (!got.verdict.starts_with("wait")) break;
      const auto pool = static_cast<uint16_t>(std::stoi(got.verdict.substr(6)));
      if (Chance(rng_, 50)) {
        world_.exhausted = oracle_world_.exhausted = pool;
      } else {
        world_.pools[pool].insert(next_piece_);
        oracle_world_.pools[pool].insert(next_piece_++);
      }
      ExpectSame();
    }
    world_.exhausted = oracle_world_.exhausted = std::nullopt;
  }
  void Count(const ChainFlow::Outcome& outcome) {
    ++counts_["packets"];
    ++counts_["  " + outcome.verdict.substr(0, outcome.verdict.find(':'))];
    counts_["frames emitted"] += outcome.said.frames.size();
    counts_["aliases"] += outcome.said.alias_group.has_value() ? 1 : 0;
    counts_["notes that it is over"] += outcome.said.is_over ? 1 : 0;
  }

  void RunTimers() {
    for (size_t i = 0; i < kFlows; ++i) {
      for (int n = 0; n < 20 && flows_[i].timer <= now_; ++n) {
        ++counts_["timers"];
        ExpectSorted(flows_[i].on_timer(*chain_, world_),
                     oracles_[i]->on_timer(oracle_world_));
        ExpectSame();
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  void EndFlow(size_t i) {
    ++counts_["flows ended"];
    ExpectSorted(flows_[i].on_end(*chain_, world_, now_),
                 oracles_[i]->on_end(oracle_world_, now_));
  }
  // Compares without order, since the order of connections is the chain's
  // choice.
  static void ExpectSorted(ChainWorld::Said got, ChainWorld::Said expected) {
    // If there is no room for all frames, the order decides which are lost.
    if (got.frames.size() == FlowState::kMaxEmits) {
      ASSERT_EQ(expected.frames.size(), got.frames.size());
      return;
    }
    std::ranges::sort(got.frames);
    std::ranges::sort(expected.frames);
    ASSERT_EQ(got.frames, expected.frames);
  }

  void ExpectSame() {
    ASSERT_EQ(world_.pools, oracle_world_.pools);
    uint64_t forgotten = 0;
    for (size_t i = 0; i < kFlows; ++i) {
      oracles_[i]->ExpectIsKept(*chain_, flows_[i]);
      forgotten += oracles_[i]->forgotten();
    }
    const auto parts = chain_->parts();
    for (size_t nf = 0; nf < any_.ids.size(); ++nf) {
      uint64_t count = 0;
      for (const auto& oracle : oracles_) count += oracle->count(nf);
      ASSERT_EQ(parts[nf].nf->counts()[0], count) << parts[nf].name;
    }
    if (parts.size() > any_.ids.size()) {
      ASSERT_EQ(parts.back().nf->counts()[0], forgotten);
    }
    counts_["connections forgotten"] += forgotten - forgotten_;
    forgotten_ = forgotten;
  }

  Rng& rng_;
  Counts& counts_;
  AnyChain any_;
  uint32_t connections_;
  std::string text_;
  std::unique_ptr<NetworkFunction> chain_;
  ChainWorld world_;
  ChainWorld oracle_world_;
  std::vector<ChainFlow> flows_;
  std::vector<std::unique_ptr<ChainOracle>> oracles_;
  Instant now_{1'000'000'000};
  uint32_t next_piece_ = 20;
  uint64_t forgotten_ = 0;
};

TEST(ChainRandom, IsWhatAWalkThroughTheTreeIs) {
  const TestSeeds seeds(400, 20'000);
  Counts counts;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    RandomRun(rng, counts).Go();
    if (HasFailure()) return;
  }
  std::cout << "seeds " << seeds.first << " to " << seeds.last << "\n";
  for (const auto& [name, count] : counts) {
    std::cout << "  " << name << ": " << count << "\n";
    if (seeds.is_part) continue;
    EXPECT_GE(count, 100u) << name;
  }
}

}  // namespace
}  // namespace snf
