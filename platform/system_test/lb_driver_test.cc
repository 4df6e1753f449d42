// SPDX-License-Identifier: Apache-2.0
//
// The load balancer in runs whose units and loggers die. SNF_LONG_TESTS=1 runs
// 20 times as many; SNF_TEST_SEED=n runs the one with that seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/test_packet_text.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/run/run_setup.h"
#include "platform/system_test/test_run.h"

namespace snf {
namespace {

constexpr int kClients = 30;
constexpr char kServers[] =
    "10.0.0.1:8080+10.0.0.2:8080+10.0.0.3:8080+10.0.0.4:8080";
constexpr char kFewer[] = "10.0.0.1:8080+10.0.0.2:8080+10.0.0.4:8080";
const IpAddress kVirtual = V4(192, 0, 2, 10);
const IpAddress kRemoved = V4(10, 0, 0, 3);

NfSpec Lb(const std::string& more) {
  const auto spec = NfSpec::Parse(
      fmt::format("lb(virtual=192.0.2.10:80,servers={}{})", kServers, more));
  EXPECT_TRUE(spec.ok() && spec->check().ok());
  return *spec;
}

std::string EndOf(const IpAddress& address, be16 port) {
  return NfOptions::ToText({address, port});
}

struct Traffic {
  std::vector<OfferedFrame> packets;
  void Add(Nanos at, const std::string& text) {
    const auto packet = ParsePacket(text);
    ASSERT_TRUE(packet.ok()) << packet.status();
    packets.push_back({.time = Instant{} + at, .bytes = packet->bytes});
  }
};

std::string Client(int i) {
  return fmt::format("203.0.113.{}:{}", 1 + i, 5'000 + i);
}

FlowKey EndsOf(const ReleasedFrame& frame) {
  return FiveTuple(frame.bytes, Parse(frame.link, frame.bytes), false);
}

// The server that each client's connection gets, by protocol and client.
std::map<std::string, std::string> ServersOf(const NfSpec& nf) {
  Traffic traffic;
  for (int i = 0; i < kClients; ++i) {
    for (const char* const protocol : {"tcp", "udp"}) {
      traffic.Add(Milliseconds(i),
                  fmt::format("{} {} > 192.0.2.10:80{}", protocol, Client(i),
                              *protocol == 't' ? " SYN" : ""));
    }
  }
  std::map<std::string, std::string> servers;
  for (const ReleasedFrame& frame :
       RunFrames(SmallTables(), nf, traffic.packets).released) {
    const FlowKey key = EndsOf(frame);
    const char* const protocol =
        key.protocol == IpProtocol::kTcp ? "tcp " : "udp ";
    servers[protocol + EndOf(key.source, key.source_port)] =
        EndOf(key.destination, key.destination_port);
  }
  EXPECT_EQ(servers.size(), 2 * kClients);
  return servers;
}

// Connections in both directions, with errors about them in between.
Traffic AnyTraffic(const std::map<std::string, std::string>& servers,
                   Rng& rng) {
  Traffic traffic;
  Nanos at{};
  for (int i = 0; i < kClients; ++i) {
    traffic.Add(at, fmt::format("tcp {} > 192.0.2.10:80 SYN seq=7", Client(i)));
    traffic.Add(at, fmt::format("udp {} > 192.0.2.10:80", Client(i)));
  }
  for (int n = 0; n < 600; ++n) {
    at.ns += static_cast<int64_t>(rng.Below(400'000));
    const std::string client = Client(static_cast<int>(rng.Below(kClients)));
    const std::string protocol = rng.Below(2) == 0 ? "tcp" : "udp";
    const std::string& server = servers.at(protocol + " " + client);
    switch (rng.Below(5)) {
      case 0:
      case 1:
        traffic.Add(at, fmt::format("{} {} > 192.0.2.10:80 \"{}\"", protocol,
                                    client, n));
        break;
      case 2:
      case 3:
        traffic.Add(
            at, fmt::format("{} {} > {} \"{}\"", protocol, server, client, n));
        break;
      default:
        traffic.Add(at, fmt::format("icmp 198.51.100.7 > 192.0.2.10 "
                                    "unreachable about {{{} 192.0.2.10:80 > "
                                    "{}}}",
                                    protocol, client));
    }
  }
  return traffic;
}

void AddKills(Rng& rng, Nanos end, RunOptions& options) {
  using Victim = Kill::Victim;
  options.loggers = true;
  options.controller.max_units = 2 + static_cast<uint32_t>(rng.Below(6));
  options.controller.warm_units = options.controller.max_units;
  options.logger_delay = Microseconds(50);
  for (const Victim victim :
       {Victim::kUnit, Victim::kUnit, Victim::kUnit, Victim::kLoggerHost}) {
    options.faults.kills.push_back({.victim = victim,
                                    .at = Nanos{static_cast<int64_t>(rng.Below(
                                        static_cast<uint64_t>(end.ns)))}});
  }
  AddSpareUnits(options.controller);
  PrepareForFailures(options.controller);
}

// Expects that all packets of a connection go to the server that it had first,
// but UDP of the removed one, and that all answers bear the virtual address.
void ExpectUnbroken(const Outcome& outcome,
                    const std::map<std::string, std::string>& servers) {
  uint64_t there = 0, back = 0, moved = 0;
  for (const ReleasedFrame& frame : outcome.released) {
    const FlowKey key = EndsOf(frame);
    if (IsIcmp(key.protocol) || key.form != FlowKeyForm::kIpv4) continue;
    if (key.source == kVirtual) {
      ++back;
      continue;
    }
    ASSERT_NE(key.source.ipv4().host() >> 24, 10u);
    ++there;
    const bool is_tcp = key.protocol == IpProtocol::kTcp;
    const std::string& server = servers.at((is_tcp ? "tcp " : "udp ") +
                                           EndOf(key.source, key.source_port));
    const std::string found = EndOf(key.destination, key.destination_port);
    if (found == server) continue;
    EXPECT_EQ(server, EndOf(kRemoved, be16(8080)));
    EXPECT_FALSE(is_tcp);
    ++moved;
  }
  EXPECT_GT(there, 100u);
  EXPECT_GT(back, 100u);
  EXPECT_GT(moved, 0u);
}

// Each packet's second half comes before its first one, both ways.
TEST(LbDriver, BringsFragmentsToTheirServerThatComeBeforeTheirFirst) {
  const std::map<std::string, std::string> servers = ServersOf(Lb(""));
  Traffic traffic;
  const auto halves = [&](int i, const std::string& from, const std::string& to,
                          int id) {
    const std::string late = fmt::format("17 {} > {} ip_id={} offset=32 x'01'",
                                         from.substr(0, from.find(':')),
                                         to.substr(0, to.find(':')), id);
    traffic.Add(Milliseconds(i), late);
    traffic.Add(Milliseconds(i),
                fmt::format("udp {} > {} ip_id={} more len=24", from, to, id));
  };
  for (int i = 0; i < kClients; ++i) {
    halves(i, Client(i), "192.0.2.10:80", i + 1);
    halves(i, servers.at("udp " + Client(i)), Client(i), i + 1);
  }
  // No first one follows.
  traffic.Add(Milliseconds(kClients),
              "17 203.0.113.1 > 192.0.2.10 ip_id=999 offset=32 x'01'");
  const Outcome outcome = RunFrames(SmallTables(), Lb(""), traffic.packets);
  EXPECT_EQ(outcome.run.violations, 0u);
  EXPECT_TRUE(outcome.run.conserved());
  EXPECT_EQ(outcome.run.fragments_kept, 2u * kClients + 1);
  EXPECT_EQ(outcome.run.fragments_kept_matched, 2u * kClients);
  std::map<std::string, int> fragments;
  for (const ReleasedFrame& frame : outcome.released) {
    const FlowKey key = EndsOf(frame);
    const std::string from = EndOf(key.source, be16(0));
    const std::string to = EndOf(key.destination, be16(0));
    ++fragments[from.substr(0, from.find(':')) + " > " +
                to.substr(0, to.find(':'))];
  }
  for (int i = 0; i < kClients; ++i) {
    const std::string& server = servers.at("udp " + Client(i));
    const std::string client = Client(i).substr(0, Client(i).find(':'));
    EXPECT_EQ(fragments[client + " > " + server.substr(0, server.find(':'))],
              2);
    EXPECT_EQ(fragments["192.0.2.10 > " + client], 2);
  }
  EXPECT_EQ(outcome.released.size(), 4u * kClients);
}

TEST(LbDriver, BreaksNoConnectionWhateverDies) {
  const std::map<std::string, std::string> servers = ServersOf(Lb(""));
  const NfSpec nf = Lb(fmt::format(
      ",drain@30ms=10.0.0.2,servers@60ms={},tcp_opening_timeout=10s", kFewer));
  const TestSeeds seeds(40, 800);
  uint64_t kills = 0, moves = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const Traffic traffic = AnyTraffic(servers, rng);
    RunOptions options = SmallTables();
    AddKills(rng, Milliseconds(120), options);
    const Outcome outcome = RunFrames(options, nf, traffic.packets, "rotate");
    for (const std::string& message : outcome.run.violation_messages) {
      ADD_FAILURE() << message;
    }
    EXPECT_EQ(outcome.run.violations, 0u);
    EXPECT_TRUE(outcome.run.conserved());
    EXPECT_EQ(outcome.run.controller.failures.flows_given_up, 0u);
    ExpectUnbroken(outcome, servers);
    kills += outcome.run.faults.kills;
    moves += outcome.run.controller.flowlets_moved;
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%llu kills, %llu moves\n",
              static_cast<unsigned long long>(kills),
              static_cast<unsigned long long>(moves));
  EXPECT_GT(kills, seeds.count());
  EXPECT_GT(moves, 100 * seeds.count());
}

}  // namespace
}  // namespace snf
