// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/host_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace snf {
namespace {

HostPlace Host(const std::string& name, uint32_t units) {
  return *HostPlace::Of(name, "10.0.0." + std::to_string(name[0] - 'a') + ":7",
                        units);
}

std::string NameOf(const std::optional<HostPlace>& host) {
  return host.has_value() ? host->name.data() : "";
}

// Names hosts of places by their first letter; "." is the own host, or none.
std::string Hosts(const HostAssignment& of, size_t places) {
  std::string text;
  for (size_t i = 0; i < places; ++i) {
    const HostPlace* const host = of.HostOf(i);
    text += host == nullptr ? '.' : host->name[0];
  }
  return text;
}

std::string Open(const HostAssignment& of, size_t places) {
  std::string text;
  for (size_t i = 0; i < places; ++i) text += of.is_open(i) ? '1' : '0';
  return text;
}

// --- Shares of several chains and controllers. ---

class FixedHosts final : public HostSource {
 public:
  explicit FixedHosts(std::vector<HostPlace> hosts)
      : hosts_(std::move(hosts)) {}
  uint64_t version() const override { return 7; }
  std::vector<HostPlace> Hosts() const override { return hosts_; }

 private:
  const std::vector<HostPlace> hosts_;
};

// Counts the units of each host that a sharer has.
std::map<std::string, uint32_t> UnitsOf(const HostSource& source,
                                        HostShare::Sharer chain,
                                        HostShare::Sharer controller) {
  const HostShare share(source, chain, controller);
  EXPECT_EQ(share.version(), source.version());
  std::map<std::string, uint32_t> units;
  for (const HostPlace& host : share.Hosts()) {
    EXPECT_GT(host.processes, 0u);
    units[host.name.data()] = host.processes;
  }
  return units;
}

TEST(HostShare, OfAllTogetherAreTheHostsUnits) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    std::vector<HostPlace> hosts;
    for (char name = 'a'; name < 'e'; ++name) {
      hosts.push_back(Host({name}, 1 + static_cast<uint32_t>(rng.Below(8))));
    }
    const FixedHosts source(hosts);
    const auto chains = 1 + static_cast<uint32_t>(rng.Below(5));
    const auto controllers = 1 + static_cast<uint32_t>(rng.Below(4));
    std::vector<std::map<std::string, uint32_t>> of_controller(controllers);
    for (uint32_t i = 0; i < chains * controllers; ++i) {
      const uint32_t controller = i % controllers;
      const auto units =
          UnitsOf(source, {i / controllers, chains}, {controller, controllers});
      for (const auto& [host, count] : units) {
        of_controller[controller][host] += count;
      }
    }
    for (const HostPlace& host : hosts) {
      uint32_t sum = 0;
      uint32_t least = host.processes, most = 0;
      for (auto& units : of_controller) {
        const uint32_t count = units[host.name.data()];
        sum += count;
        least = std::min(least, count);
        most = std::max(most, count);
      }
      EXPECT_EQ(sum, host.processes);
      EXPECT_LE(most - least, 1u);
    }
  }
}

// Hosts with a unit each: no controller, and none of its chains, goes without.
TEST(HostShare, OfSmallHostsIsOneEach) {
  const FixedHosts source(
      {Host("a", 1), Host("b", 1), Host("c", 1), Host("d", 1)});
  for (uint32_t chain = 0; chain < 2; ++chain) {
    for (uint32_t controller = 0; controller < 2; ++controller) {
      EXPECT_EQ(UnitsOf(source, {chain, 2}, {controller, 2}).size(), 1u);
    }
  }
}

TEST(HostShare, OfOneAloneIsAll) {
  const FixedHosts source({Host("a", 3), Host("b", 1)});
  EXPECT_EQ(HostShare(source, {}, {}).Hosts(), source.Hosts());
}

TEST(HostShare, StaysAsItIsWhenAnotherHostJoins) {
  const FixedHosts one({Host("b", 1)});
  const FixedHosts two({Host("a", 1), Host("b", 1)});
  for (uint32_t part = 0; part < 2; ++part) {
    for (const bool is_chain : {false, true}) {
      const HostShare::Sharer sharer = {part, 2};
      const auto of = [&](const FixedHosts& source) {
        return is_chain ? UnitsOf(source, sharer, {})
                        : UnitsOf(source, {}, sharer);
      };
      EXPECT_EQ(of(one).contains("b"), of(two).contains("b"));
      // Each has one of the two hosts.
      EXPECT_EQ(of(two).size(), 1u);
    }
  }
}

// --- Places. ---

class Places : public testing::Test {
 protected:
  HostAssignment of_{{.own = 1, .placed = 5, .places = 6}};
  const Instant now_{1'000'000'000};
};

TEST_F(Places, OfTheOwnHostAloneAreOpenWithoutOthers) {
  EXPECT_EQ(Open(of_, 6), "100001");
  EXPECT_EQ(NameOf(of_.Start(now_, 1)), "");
  EXPECT_FALSE(of_.is_open(1));
}

TEST_F(Places, AreFilledHostByHost) {
  of_.Set({Host("b", 2), Host("c", 1)});
  EXPECT_EQ(Hosts(of_, 6), ".bbc..");
  EXPECT_EQ(Open(of_, 6), "111101");
  EXPECT_EQ(NameOf(of_.Start(now_, 1)), "b");
  EXPECT_EQ(NameOf(of_.Start(now_, 3)), "c");
  EXPECT_EQ(NameOf(of_.Start(now_, 0)), "");
  EXPECT_EQ(NameOf(of_.Start(now_, 5)), "");
}

TEST_F(Places, KeepTheirHostAndTakeAHostThatJoinsLater) {
  of_.Set({Host("c", 2)});
  of_.Start(now_, 1);
  of_.Set({Host("b", 2), Host("c", 2)});
  EXPECT_EQ(Hosts(of_, 6), ".ccbb.");
  EXPECT_FALSE(of_.is_misplaced(1));
}

TEST_F(Places, OfAHostThatHasLeftCloseUntilTheirProcessHasEnded) {
  of_.Set({Host("b", 2), Host("c", 4)});
  of_.Start(now_, 1);
  of_.on_ready(1);
  of_.Set({Host("c", 4)});
  EXPECT_EQ(Hosts(of_, 6), ".bccc.");
  EXPECT_EQ(Open(of_, 6), "101111");
  EXPECT_TRUE(of_.is_misplaced(1));
  of_.on_end(now_, 1, false);
  EXPECT_TRUE(of_.is_open(1));
  EXPECT_EQ(NameOf(of_.Start(now_, 1)), "c");
  of_.Set({});
  EXPECT_EQ(Open(of_, 6), "100001");
}

TEST_F(Places, OnTheOwnHostMoveToAHostThatJoins) {
  of_.Start(now_, 2);  // for what its last process has left undone
  of_.on_ready(2);
  of_.Set({Host("b", 4)});
  EXPECT_TRUE(of_.is_misplaced(2));
  EXPECT_EQ(Open(of_, 6), "110111");
  of_.on_end(now_, 2, false);
  EXPECT_EQ(NameOf(of_.Start(now_, 2)), "b");
}

TEST_F(Places, OfASilentHostAreTriedOneAtATimeAfterPausesThatDouble) {
  of_.Set({Host("b", 2), Host("c", 1)});
  for (const size_t place : {1, 2, 3}) of_.Start(now_, place);
  for (const size_t place : {1, 2}) of_.on_end(now_, place, true);
  EXPECT_EQ(Open(of_, 6), "100101");
  EXPECT_EQ(NameOf(of_.Start(now_, 1)), "") << "recovers on the own host";
  EXPECT_TRUE(of_.is_misplaced(1));
  EXPECT_EQ(of_.NextTry(now_), std::nullopt);
  Instant now = now_ + HostAssignment::kFirstPause;
  for (const int pause : {2, 4, 8, 8}) {
    ASSERT_EQ(of_.NextTry(now), 2);
    EXPECT_EQ(NameOf(of_.Start(now, 2)), "b");
    EXPECT_EQ(of_.NextTry(now), std::nullopt);
    of_.on_end(now, 2, true);
    EXPECT_EQ(of_.NextTry(now + Nanos{Seconds(pause).ns - 1}), std::nullopt);
    now = now + Seconds(pause);
  }
  EXPECT_EQ(NameOf(of_.Start(now, 2)), "b");
  EXPECT_FALSE(of_.is_open(2));
  of_.on_ready(2);
  EXPECT_EQ(Open(of_, 6), "101101") << "place 1 is misplaced";
}

TEST_F(Places, OfASilentHostGoElsewhereOnceItHasLeft) {
  of_.Set({Host("b", 1)});
  of_.Start(now_, 1);
  of_.on_end(now_, 1, true);
  of_.Set({Host("b", 1), Host("c", 4)});
  EXPECT_EQ(Open(of_, 6), "101111");
  of_.Set({Host("c", 4)});
  EXPECT_EQ(Open(of_, 6), "111111");
  of_.Set({Host("b", 1)});
  EXPECT_TRUE(of_.is_open(1)) << "joined again";
}

TEST(HostAssignment, NeverExceedsWhatHostsCanRun) {
  const uint64_t seed = 20'261'129;
  Rng rng(seed);
  SCOPED_TRACE(seed);
  constexpr size_t kPlaces = 12;
  HostAssignment of({.own = 2, .placed = 11, .places = kPlaces});
  std::vector<bool> runs(kPlaces);
  Instant now{1};
  for (int step = 0; step < 20'000; ++step) {
    now = now + Milliseconds(static_cast<int64_t>(rng.Below(500)));
    if (rng.Below(10) == 0) {
      std::vector<HostPlace> hosts;
      for (const char* const name : {"a", "b", "c"}) {
        if (rng.Below(3) == 0) continue;
        hosts.push_back(Host(name, 1 + static_cast<uint32_t>(rng.Below(5))));
      }
      of.Set(hosts);
    }
    const size_t place = rng.Below(kPlaces);
    if (!runs[place]) {
      const auto host = of.Start(now, place);
      if (host.has_value()) {
        EXPECT_TRUE(place >= 2 && place < 11);
      }
      if (rng.Below(2) == 0) of.on_ready(place);
    } else {
      of.on_end(now, place, rng.Below(3) == 0);
    }
    runs[place] = !runs[place];
    for (const HostPlace& host : of.hosts()) {
      uint32_t open = 0;
      for (size_t i = 0; i < kPlaces; ++i) {
        const HostPlace* const on = of.HostOf(i);
        open += on != nullptr && on->name == host.name && of.is_open(i) ? 1 : 0;
      }
      ASSERT_LE(open, host.processes) << "at step " << step;
    }
    ASSERT_TRUE(of.is_open(0) && of.is_open(11));
  }
}

}  // namespace
}  // namespace snf
