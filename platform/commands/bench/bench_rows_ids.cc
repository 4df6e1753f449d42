// SPDX-License-Identifier: Apache-2.0
//
// Row 15 compares rules of Snort with the pattern matcher alone.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/packet/fixture_flows.h"
#include "base/packet/packet_parser.h"
#include "base/rng.h"
#include "nfs/snort/matcher.h"
#include "platform/commands/bench/bench_rows.h"

namespace snf {
namespace {

using snort::DatabaseCache;
using snort::PatternDatabase;
using snort::RuleMatcher;

constexpr uint64_t kRules = 3'000;
constexpr size_t kPayloads = 1'000;
constexpr size_t kPayloadBytes = 1'400;

// Payloads and patterns are made of the same words, so that some patterns
// nearly match.
std::string Word(Rng& rng) {
  static constexpr std::array<const char*, 12> kParts = {
      "get",  "post", "user", "pass",  "/cgi",  "index",
      ".php", "host", "cmd",  "admin", "login", "%20"};
  return kParts[rng.Below(kParts.size())];
}

RuleMatcher MakeMatcher() {
  Rng rng(1);
  std::string rules;
  for (uint64_t i = 1; i <= kRules; ++i) {
    rules += "alert tcp any any -> any any (content:\"" + Word(rng) +
             Word(rng) + Word(rng) + std::to_string(rng.Below(100'000)) +
             "\"; nocase; sid:" + std::to_string(i) + ";)\n";
  }
  snort::RuleSetReader reader;
  SNF_CHECK(reader.ReadText(rules, "made").ok());
  auto matcher = RuleMatcher::Create(reader.Take(), DatabaseCache(""));
  SNF_CHECK(matcher.ok());
  return *std::move(matcher);
}

// Rules, the patterns by which they are found, and payloads.
struct IdsWork {
  IdsWork() {
    Rng rng(2);
    for (std::string& payload : payloads) {
      while (payload.size() < kPayloadBytes) {
        payload += Word(rng);
        payload += static_cast<char>(' ' + rng.Below(90));
      }
      payload.resize(kPayloadBytes);
    }
    std::vector<std::string> patterns;
    for (const snort::Rule& rule : matcher.rules()) {
      patterns.push_back(RuleMatcher::FastPatternOf(rule).second);
    }
    std::erase(patterns, "");
    std::ranges::sort(patterns);
    const auto [first, last] = std::ranges::unique(patterns);
    patterns.erase(first, last);
    auto compiled = PatternDatabase::Compile(patterns, DatabaseCache(""));
    SNF_CHECK(compiled.ok());
    database = std::make_unique<PatternDatabase>(*std::move(compiled));
    SNF_CHECK(scratch.Add(*database).ok());
    auto made = snort::Inspector::Create(matcher, {});
    SNF_CHECK(made.ok());
    inspector = *std::move(made);
    headers = Parse(LinkType::kEthernet, frame_bytes());
    bits.resize(matcher.set().flowbits / 8 + 1);
  }

  std::span<const std::byte> frame_bytes() const {
    return std::span(frame).first(kMadeBytes);
  }
  const std::string& Next() { return payloads[next++ % kPayloads]; }
  void Find() {
    found.clear();
    database->Find(Next(), scratch, found);
  }
  void Inspect() {
    const std::string& payload = Next();
    snort::Inspected packet;
    packet.facts = snort::PacketFacts::Of(frame_bytes(), headers);
    packet.facts.is_established = true;
    packet.payload = packet.stream = payload;
    snort::Flowbits flowbits(bits);
    alerts += inspector->Inspect(packet, flowbits).size();
  }

  RuleMatcher matcher = MakeMatcher();
  std::vector<std::string> payloads{kPayloads};
  std::unique_ptr<PatternDatabase> database;
  PatternDatabase::Scratch scratch;
  std::unique_ptr<snort::Inspector> inspector;
  MadeFrame frame =
      MakeFrame(IpProtocol::kTcp, MadeConnection::Number(0).inside,
                MadeConnection::Number(0).far);
  ParsedPacket headers;
  std::vector<std::byte> bits;
  std::vector<uint32_t> found;
  uint64_t alerts = 0;
  size_t next = 0;
};

}  // namespace

void AddIdsRow(BenchSuite& suite, std::vector<BenchRow>& rows) {
  auto work = std::make_shared<IdsWork>();
  const auto side = [&](const std::string& what, void (IdsWork::*run)()) {
    return BenchRow::Side{
        what, suite.Add(what, [&]() -> absl::StatusOr<BenchSuite::BenchCase> {
          return BenchSuite::BenchCase{.sample = [work, run](uint64_t packets) {
            return CpuNsOf(packets, [&](uint64_t count) {
              for (uint64_t i = 0; i < count; ++i) (work.get()->*run)();
              return count;
            });
          }};
        })};
  };
  rows.push_back({.number = 15,
                  .what = "rules of an IDS against the bare matcher",
                  .variant = "3 K rules",
                  .of = BenchRow::Of::kInverseRatio,
                  .must = {{.limit = 0.75, .is_least = true}},
                  .aim = {{.limit = 0.9, .is_least = true}},
                  .ours = side("inspection", &IdsWork::Inspect),
                  .base = side("Vectorscan", &IdsWork::Find),
                  .notes = {"Payloads of 1,400 bytes, in which no rule "
                            "matches; packets are parsed already."}});
}

}  // namespace snf
