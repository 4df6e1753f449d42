// SPDX-License-Identifier: Apache-2.0
//
// The inspection of packets by rules beside Vectorscan alone on the same
// payloads: bytes a second count payload. The second argument of a name
// says how many rules there are. SNF_RULES_FILE names a file of rules to take
// instead of made ones.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/packet/packet_parser.h"
#include "base/rng.h"
#include "nfs/snort/matcher.h"

namespace snf {
namespace {

using snort::DatabaseCache;
using snort::RuleMatcher;

// Words of which payloads and patterns are made, so that some patterns nearly
// match.
std::string Word(Rng& rng) {
  static constexpr std::array<const char*, 12> kParts = {
      "get",  "post", "user", "pass",  "/cgi",  "index",
      ".php", "host", "cmd",  "admin", "login", "%20"};
  return kParts[rng.Below(kParts.size())];
}

std::string RulesText(uint64_t count) {
  Rng rng(1);
  std::string text;
  for (uint64_t i = 1; i <= count; ++i) {
    std::string pattern =
        Word(rng) + Word(rng) + Word(rng) + std::to_string(rng.Below(100'000));
    text += "alert tcp any any -> any any (content:\"" + pattern +
            "\"; nocase; sid:" + std::to_string(i) + ";)\n";
  }
  return text;
}

// 1,000 payloads of full packets.
std::vector<std::string> Payloads() {
  Rng rng(2);
  std::vector<std::string> payloads(1'000);
  for (std::string& payload : payloads) {
    while (payload.size() < 1'400) {
      payload += Word(rng);
      payload += static_cast<char>(' ' + rng.Below(90));
    }
    payload.resize(1'400);
  }
  return payloads;
}

RuleMatcher MatcherOf(uint64_t count) {
  snort::RuleSetReader reader;
  const char* const file = std::getenv("SNF_RULES_FILE");
  const absl::Status read = file != nullptr
                                ? reader.ReadFile(file)
                                : reader.ReadText(RulesText(count), "made");
  SNF_CHECK(read.ok());
  auto matcher = RuleMatcher::Create(reader.Take(), DatabaseCache(""));
  SNF_CHECK(matcher.ok());
  return *std::move(matcher);
}

void BM_Vectorscan(benchmark::State& state) {
  const RuleMatcher matcher = MatcherOf(static_cast<uint64_t>(state.range(0)));
  std::vector<std::string> patterns;
  for (const snort::Rule& rule : matcher.rules()) {
    patterns.push_back(RuleMatcher::FastPatternOf(rule).second);
  }
  std::erase(patterns, "");
  std::ranges::sort(patterns);
  patterns.erase(std::unique(patterns.begin(), patterns.end()), patterns.end());
  const auto database =
      snort::PatternDatabase::Compile(patterns, DatabaseCache(""));
  SNF_CHECK(database.ok());
  snort::PatternDatabase::Scratch scratch;
  SNF_CHECK(scratch.Add(*database).ok());
  const std::vector<std::string> payloads = Payloads();
  std::vector<uint32_t> found;
  int64_t bytes = 0;
  size_t next = 0;
  for (auto _ : state) {
    const std::string& payload = payloads[next++ % payloads.size()];
    found.clear();
    database->Find(payload, scratch, found);
    benchmark::DoNotOptimize(found.data());
    bytes += static_cast<int64_t>(payload.size());
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(BM_Vectorscan)->Arg(500)->Arg(3'000);

void BM_Inspection(benchmark::State& state) {
  const RuleMatcher matcher = MatcherOf(static_cast<uint64_t>(state.range(0)));
  auto inspector = snort::Inspector::Create(matcher, {});
  SNF_CHECK(inspector.ok());
  const std::vector<std::string> payloads = Payloads();
  // Headers of IPv4 and TCP: 10.0.0.1:5000 > 192.0.2.9:80.
  std::vector<std::byte> frame(54);
  const auto set = [&frame](size_t at, int value) {
    frame[at] = static_cast<std::byte>(value);
  };
  set(12, 0x08);
  set(14, 0x45);
  set(16, 0x05);
  set(17, 0xa0);
  set(23, 6);
  set(26, 10);
  set(29, 1);
  set(30, 192);
  set(33, 9);
  set(34, 0x13);
  set(35, 0x88);
  set(37, 80);
  set(46, 0x50);
  set(47, 0x10);
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  std::vector<std::byte> bit_bytes(matcher.set().flowbits / 8 + 1);
  int64_t bytes = 0;
  uint64_t evaluated = 0;
  size_t next = 0;
  for (auto _ : state) {
    const std::string& payload = payloads[next++ % payloads.size()];
    snort::Inspected packet;
    packet.facts = snort::PacketFacts::Of(frame, headers);
    packet.facts.is_established = true;
    packet.payload = packet.stream = payload;
    snort::Flowbits bits(bit_bytes);
    benchmark::DoNotOptimize((*inspector)->Inspect(packet, bits).data());
    evaluated += (*inspector)->was_evaluated() ? 1 : 0;
    bytes += static_cast<int64_t>(payload.size());
  }
  state.SetBytesProcessed(bytes);
  state.counters["evaluated_share"] = benchmark::Counter(
      static_cast<double>(evaluated) / static_cast<double>(state.iterations()));
}
BENCHMARK(BM_Inspection)->Arg(500)->Arg(3'000);

}  // namespace
}  // namespace snf
