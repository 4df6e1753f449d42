// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/packet/ip_address.h"
#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

struct Use {
  uint64_t packets;
  uint64_t bytes;
  friend bool operator==(const Use&, const Use&) = default;
};
struct Peak {
  uint32_t rate;
  friend bool operator==(const Peak&, const Peak&) = default;
};
// A key of three bytes, which is filled up to a word.
struct Odd {
  std::array<uint8_t, 3> bytes;
  friend auto operator<=>(const Odd&, const Odd&) = default;
};

class Tables final : public NetworkFunction {
 public:
  explicit Tables(uint32_t max_entries = 100)
      : hosts(declare_shared<uint64_t, Use>("hosts", max_entries)),
        peaks(declare_shared<Odd, Peak>(
            "peaks", 10, [](Peak& value, const Peak& more) {
              value.rate = std::max(value.rate, more.rate);
            })) {}
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  TableCopy& copy(size_t i) { return *tables()[i]; }
  std::map<uint64_t, Use> All() const {
    std::map<uint64_t, Use> all;
    hosts.for_each([&](uint64_t key, const Use& use) { all[key] = use; });
    return all;
  }

  SharedTable<uint64_t, Use> hosts;
  SharedTable<Odd, Peak> peaks;
};

TEST(SharedTable, SumsByTheWord) {
  Tables nf;
  nf.hosts.update(7, {1, 100});
  nf.hosts.update(7, {2, 50});
  nf.hosts.update(8, {1, 1});
  EXPECT_EQ(nf.hosts.get(7), (Use{3, 150}));
  EXPECT_EQ(nf.hosts.get(9), Use{});
  EXPECT_EQ(nf.hosts.size(), 2u);
  EXPECT_EQ(nf.copy(0).updates(), 3u);
}

TEST(SharedTable, MergesByTheHook) {
  Tables nf;
  const Odd key = {{1, 2, 3}};
  nf.peaks.update(key, {5});
  nf.peaks.update(key, {9});
  nf.peaks.update(key, {7});
  nf.peaks.update({{1, 2, 4}}, {1});
  EXPECT_EQ(nf.peaks.get(key), Peak{9});
  EXPECT_EQ(nf.peaks.get({{1, 2, 4}}), Peak{1});
}

TEST(SharedTable, SaysWhatItIsLike) {
  Tables nf;
  EXPECT_EQ(nf.tables().size(), 2u);
  EXPECT_EQ(nf.copy(0).shape().name, "hosts");
  EXPECT_EQ(nf.copy(0).shape().max_entries, 100u);
  EXPECT_EQ(nf.copy(0).shape().merge, nullptr);
  EXPECT_EQ(nf.copy(1).shape().key_bytes, 3u);
  EXPECT_EQ(nf.copy(1).shape().value_bytes, 4u);
}

TEST(SharedTable, AFullOneLosesNothing) {
  Tables nf(3);
  for (uint64_t key = 0; key < 5; ++key) nf.hosts.update(key, {1, key});
  nf.hosts.update(2, {1, 2});
  EXPECT_EQ(nf.hosts.size(), 3u);
  EXPECT_EQ(nf.hosts.rest(), (Use{2, 7}));
  EXPECT_EQ(nf.hosts.get(2), (Use{2, 4}));
  EXPECT_EQ(nf.hosts.get(4), Use{});
  EXPECT_EQ(nf.copy(0).refused(), 2u);
}

TEST(SharedTable, NotesThatAnNfReads) {
  Tables nf;
  nf.hosts.update(1, {1, 1});
  EXPECT_EQ(nf.copy(0).reads(), 0u);
  nf.hosts.get(1);
  EXPECT_EQ(nf.copy(0).reads(), 1u);
  EXPECT_EQ(nf.copy(1).reads(), 0u);
}

// Keys that lie together under one seed do not under another.
TEST(SharedTable, HashesKeysByASeed) {
  constexpr uint64_t kBuckets = 1 << 10;
  const KeyedHash known(1);
  const KeyedHash other(2);
  const auto bucket = [](const KeyedHash& hash, uint64_t key) {
    return hash(&key, 1) >> 54;
  };
  uint64_t together = 0;
  std::vector<uint64_t> elsewhere(kBuckets);
  for (uint64_t key = 0; key < 500 * kBuckets; ++key) {
    if (bucket(known, key) != 5) continue;
    ++together;
    ++elsewhere[bucket(other, key)];
  }
  EXPECT_GT(together, 400u);
  EXPECT_LT(*std::ranges::max_element(elsewhere), 20u);
}

TEST(SharedTable, IsTheSameUnderAnySeed) {
  std::vector<std::pair<uint64_t, uint64_t>> first;
  for (const uint64_t seed : {1, 2, 3}) {
    Tables nf;
    nf.copy(0).set_hash(KeyedHash(seed));
    for (uint64_t i = 0; i < 150; ++i) nf.hosts.update(i * i % 140, {1, i});
    std::vector<std::pair<uint64_t, uint64_t>> all;
    nf.hosts.for_each([&](uint64_t key, const Use& use) {
      all.push_back({key, use.bytes});
    });
    if (seed == 1) first = all;
    EXPECT_EQ(all, first);
  }
}

TEST(SharedTable, UndoesWhatIsNotKept) {
  Tables nf(3);
  nf.hosts.update(1, {1, 1});
  nf.BeginTentative();
  nf.hosts.update(1, {5, 5});
  nf.hosts.update(1, {5, 5});
  nf.hosts.update(2, {6, 6});
  nf.hosts.update(3, {7, 7});
  nf.hosts.update(4, {8, 8});
  nf.peaks.update({{1, 1, 1}}, {3});
  EXPECT_EQ(nf.hosts.get(1), (Use{11, 11}));
  EXPECT_EQ(nf.hosts.rest(), (Use{8, 8}));
  nf.EndTentative(false);
  EXPECT_EQ(nf.All(), (std::map<uint64_t, Use>{{1, {1, 1}}}));
  EXPECT_EQ(nf.hosts.rest(), Use{});
  EXPECT_EQ(nf.peaks.size(), 0u);
  EXPECT_EQ(nf.copy(0).updates(), 1u);
  EXPECT_EQ(nf.copy(0).refused(), 0u);
  EXPECT_EQ(nf.copy(0).dirty_end(), 1u);
  EXPECT_FALSE(nf.copy(1).dirty());
}

TEST(SharedTable, KeepsWhatIsKept) {
  Tables nf;
  nf.BeginTentative();
  nf.hosts.update(1, {5, 5});
  nf.EndTentative(true);
  nf.BeginTentative();
  nf.hosts.update(1, {1, 1});
  nf.hosts.update(2, {1, 1});
  nf.EndTentative(false);
  EXPECT_EQ(nf.All(), (std::map<uint64_t, Use>{{1, {5, 5}}}));
}

TEST(SharedTable, ErasesKeysIntoTheRest) {
  Tables nf(3);
  nf.hosts.update(1, {5, 50});
  nf.hosts.erase(1);
  EXPECT_EQ(nf.hosts.get(1), Use{});
  EXPECT_EQ(nf.hosts.rest(), (Use{5, 50}));
  nf.hosts.update(1, {1, 10});
  EXPECT_EQ(nf.hosts.get(1), (Use{1, 10}));
  nf.hosts.erase(2);  // others may know it
  EXPECT_EQ(nf.hosts.get(2), Use{});
  EXPECT_EQ(nf.copy(0).refused(), 0u);
  nf.hosts.update(3, {1, 1});
  nf.hosts.erase(4);
  EXPECT_EQ(nf.copy(0).refused(), 1u);
}

TEST(SharedTable, UndoesErasures) {
  Tables nf(3);
  nf.hosts.update(1, {1, 1});
  nf.BeginTentative();
  nf.hosts.erase(1);
  nf.hosts.update(1, {7, 7});
  nf.hosts.erase(2);
  nf.EndTentative(false);
  EXPECT_EQ(nf.All(), (std::map<uint64_t, Use>{{1, {1, 1}}}));
  EXPECT_EQ(nf.hosts.rest(), Use{});
  EXPECT_EQ(nf.copy(0).dirty_end(), 1u);
  uint64_t key = 0;
  Use delta{};
  EXPECT_EQ(nf.copy(0).Take(&key, &delta.packets), TableCopy::Taken::kEntry);
  EXPECT_EQ(delta, (Use{1, 1}));
}

TEST(SharedTable, HandsErasuresToALog) {
  Tables nf(3);
  nf.copy(0).BeginLogging();
  for (int call = 0; call < 10; ++call) {
    nf.hosts.update(1, {5, 5});
    nf.hosts.erase(1);
    nf.hosts.update(1, {2, 2});
    std::map<TableCopy::Taken, Use> taken;
    uint64_t key = 0;
    Use delta{};
    while (true) {
      const auto kind = nf.copy(0).TakeLogged(&key, &delta.packets);
      if (kind == TableCopy::Taken::kNothing) break;
      taken[kind] = delta;
    }
    EXPECT_EQ(taken, (std::map<TableCopy::Taken, Use>{
                         {TableCopy::Taken::kErased, {2, 2}},
                         {TableCopy::Taken::kRest, {5, 5}}}));
    EXPECT_FALSE(nf.copy(0).dirty());
  }
}

class Limited final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  SharedTable<uint64_t, int64_t> open =
      declare_shared<uint64_t, int64_t>("open", 10);
};

TEST(SharedTable, HasATimer) {
  class Timed final : public NetworkFunction {
   public:
    Timed() {
      hosts.every(Seconds(1), [](Use& use, uint64_t periods) {
        use.packets /= 2 * periods;
        return use.packets > 0;
      });
    }
    Verdict process_packet(Packet&, FlowState&) override {
      return Verdict::forward();
    }
    SharedTable<uint64_t, Use> hosts =
        declare_shared<uint64_t, Use>("hosts", 10);
  };
  const Timed nf;
  const TableShape& shape = nf.tables()[0]->shape();
  EXPECT_EQ(shape.timer_period, Seconds(1));
  Use use = {8, 100};
  EXPECT_TRUE(shape.on_timer(&use.packets, 2));
  EXPECT_EQ(use, (Use{2, 100}));
  EXPECT_FALSE(shape.on_timer(&use.packets, 2));
}

TEST(SharedTable, AddsBelowALimit) {
  Limited nf;
  EXPECT_TRUE(nf.open.add_if_below(7, 2));
  EXPECT_TRUE(nf.open.add_if_below(7, 2));
  EXPECT_FALSE(nf.open.add_if_below(7, 2));
  EXPECT_TRUE(nf.open.add_if_below(8, 2, 5));
  EXPECT_EQ(nf.open.get(8), 5);
  nf.open.update(7, -3);
  EXPECT_EQ(nf.open.get(7), -1);
  EXPECT_TRUE(nf.open.add_if_below(7, 2));
  EXPECT_FALSE(nf.open.add_if_below(9, 0));
  EXPECT_EQ(nf.open.size(), 2u);
}

using Logged = std::map<std::vector<uint64_t>, Use>;  // the rest: {}

// Takes the updates of a call out of a copy that is logging.
Logged TakeLogged(TableCopy& copy) {
  Logged logged;
  uint64_t key = 0;
  std::array<uint64_t, 2> delta{};
  while (true) {
    const TableCopy::Taken taken = copy.TakeLogged(&key, delta.data());
    if (taken == TableCopy::Taken::kNothing) return logged;
    std::vector<uint64_t> at;
    if (taken == TableCopy::Taken::kEntry) at.push_back(key);
    logged[at] = {delta[0], delta[1]};
  }
}

TEST(SharedTable, HandsTheUpdatesOfEachCallToALog) {
  Tables nf(3);
  nf.copy(0).BeginLogging();
  for (uint64_t call = 1; call <= 1'000; ++call) {
    nf.hosts.update(call, {1, 1});
    nf.hosts.update(7, {1, call});
    nf.hosts.update(call, {1, 2});
    if (call == 7) {
      EXPECT_EQ(TakeLogged(nf.copy(0)), (Logged{{{7}, {3, 10}}}));
    } else {
      EXPECT_EQ(TakeLogged(nf.copy(0)),
                (Logged{{{call}, {2, 3}}, {{7}, {1, call}}}));
    }
    EXPECT_EQ(nf.hosts.size(), 0u);
    EXPECT_FALSE(nf.copy(0).dirty());
  }
  // A call with too many keys merges further ones into the rest.
  for (uint64_t key = 1; key <= 5; ++key) nf.hosts.update(key, {1, key});
  EXPECT_EQ(
      TakeLogged(nf.copy(0)),
      (Logged{{{1}, {1, 1}}, {{2}, {1, 2}}, {{3}, {1, 3}}, {{}, {2, 9}}}));
  EXPECT_EQ(nf.hosts.rest(), Use{});
  EXPECT_EQ(TakeLogged(nf.copy(0)), Logged{});
}

TEST(SharedTable, LogsNothingThatIsUndone) {
  Tables nf(3);
  nf.copy(0).BeginLogging();
  for (int call = 0; call < 100; ++call) {
    nf.BeginTentative();
    for (uint64_t key = 1; key <= 5; ++key) nf.hosts.update(key, {1, 1});
    nf.EndTentative(false);
    EXPECT_EQ(TakeLogged(nf.copy(0)), Logged{});
    nf.BeginTentative();
    nf.hosts.update(4, {1, 1});
    nf.EndTentative(true);
    nf.hosts.update(4, {1, 0});
    EXPECT_EQ(TakeLogged(nf.copy(0)), (Logged{{{4}, {2, 1}}}));
    EXPECT_FALSE(nf.copy(0).dirty());
  }
}

TEST(SharedTable, PutsWhatACallUpdatesBeyondItsLimitIntoTheRest) {
  constexpr uint64_t kMany = TableCopy::kMaxTentative + 10;
  for (const bool keep : {false, true}) {
    Tables nf(1'000);
    nf.hosts.update(5'000, {1, 1});
    nf.BeginTentative();
    for (uint64_t key = 0; key < kMany; ++key) nf.hosts.update(key, {1, 1});
    nf.hosts.update(5'000, {1, 1});
    nf.hosts.update(0, {1, 1});
    nf.EndTentative(keep);
    EXPECT_EQ(nf.hosts.size(), keep ? TableCopy::kMaxTentative + 1 : 1);
    EXPECT_EQ(nf.hosts.rest(), (keep ? Use{11, 11} : Use{}));
    EXPECT_EQ(nf.hosts.get(0), (keep ? Use{2, 2} : Use{}));
    EXPECT_EQ(nf.hosts.get(5'000), (Use{1, 1}));
  }
}

// Random calls, kept or not, against a map; what is pending is taken between
// them.
TEST(SharedTable, IsAsIfWhatIsNotKeptHadNotBeen) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto room = static_cast<uint32_t>(rng.Uniform(1, 60));
    const uint64_t keys = rng.Chance(32'768) ? room : 2 * room;
    Tables nf(room);
    Tables expected(room);
    uint64_t version = 0;
    for (int call = 0; call < 200; ++call) {
      const bool tentative = rng.Chance(40'000);
      const bool keep = !tentative || rng.Chance(32'768);
      if (tentative) nf.BeginTentative();
      for (int64_t n = rng.Uniform(0, 6); n > 0; --n) {
        const uint64_t key = rng.Below(keys);
        const Use use = {1, rng.Below(100)};
        const bool erases = rng.Chance(6'000);
        for (Tables* const side : {&nf, &expected}) {
          if (side == &expected && !keep) continue;
          if (erases) {
            side->hosts.erase(key);
          } else {
            side->hosts.update(key, use);
          }
        }
      }
      if (tentative) nf.EndTentative(keep);
      ASSERT_EQ(nf.All(), expected.All());
      ASSERT_EQ(nf.hosts.rest(), expected.hosts.rest());
      if (!rng.Chance(8'000)) continue;
      ++version;
      // A home with less room than the copies.
      std::array<uint64_t, TableCopy::kMaxSent> taken{};
      for (Tables* side : {&nf, &expected}) {
        TableCopy& copy = side->copy(0);
        uint32_t count = 0;
        Use delta{};
        while (copy.dirty() && count < TableCopy::kMaxSent) {
          uint64_t* const words = &delta.packets;
          if (copy.Take(&taken[count], words) != TableCopy::Taken::kNothing) {
            ++count;
          }
        }
        for (uint32_t i = 0; i < count; ++i) {
          const Use total = {version, version};
          copy.on_merged(i, &taken[i], taken[i] % 3 == 0, version,
                         &total.packets);
        }
        copy.EndSent();
      }
      ASSERT_EQ(nf.All(), expected.All());
    }
  }
}

}  // namespace
}  // namespace snf
