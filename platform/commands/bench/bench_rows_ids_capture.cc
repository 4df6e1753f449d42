// SPDX-License-Identifier: Apache-2.0
//
// Row 15 with rules of files, on the packets of a capture.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/packet/packet_parser.h"
#include "base/quantity.h"
#include "base/rng.h"
#include "nfs/snort/matcher.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/commands/bench/fixture_captured_tables.h"
#include "platform/commands/bench/fixture_driven_chain.h"

namespace snf {
namespace {

using snort::DatabaseCache;
using snort::PatternDatabase;
using snort::Rule;
using snort::RuleMatcher;

// A folder that is removed with the object.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("snf_bench_{}", getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string File(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// The rules of files, with their lines.
struct RealRules {
  snort::RuleSet set;
  std::map<std::string, std::vector<std::string>> lines;  // by file

  static absl::StatusOr<RealRules> Read(const std::string& files) {
    RealRules read;
    snort::RuleSetReader reader;
    const std::vector<std::string> names = absl::StrSplit(files, '+');
    for (const std::string& name : names) {
      if (absl::Status s = reader.ReadFile(name); !s.ok()) return s;
      std::ifstream file(name);
      for (std::string line; std::getline(file, line);) {
        read.lines[name].push_back(line);
      }
    }
    read.set = reader.Take();
    if (!read.set.rules.empty()) return read;
    return absl::NotFoundError(fmt::format("{}: no rule", files));
  }
  const std::string& LineOf(const Rule& rule) const {
    return lines.at(rule.place.file).at(rule.place.line - 1);
  }
};

// The payloads of a capture, one after another, and the patterns of some
// rules in one database: the bare matcher.
struct BarePass {
  std::vector<std::string_view> payloads;
  uint64_t bytes = 0;
  PatternDatabase database;
  PatternDatabase::Scratch scratch;
  std::vector<uint32_t> found;
  uint64_t all_found = 0;

  void Add(const LoadedCapture& capture) {
    for (size_t i = 0; i < capture.size(); ++i) {
      const CapturedPacket packet = capture.Packet(i, 0);
      const ParsedPacket headers = Parse(packet.link, packet.bytes);
      payloads.push_back({reinterpret_cast<const char*>(packet.bytes.data()) +
                              headers.payload_offset,
                          headers.payload_bytes()});
      bytes += payloads.back().size();
    }
  }
  int64_t Run() {
    const int64_t before = ThreadCpuNs();
    for (const std::string_view payload : payloads) {
      found.clear();
      database.Find(payload, scratch, found);
      all_found += found.size();
    }
    return ThreadCpuNs() - before;
  }
};

struct IdsPass {
  std::string nf;
  std::shared_ptr<const PlainCapture> capture;
  std::shared_ptr<const Folder> folder;  // of its rules, read by each pass

  // Replays the capture once, on a new platform. Returns the CPU time.
  absl::StatusOr<int64_t> Run(RunResult& result) const {
    auto chain = DrivenChain::Start({.nf = nf,
                                     .flows = capture->connections,
                                     .capture = &capture->packets});
    if (!chain.ok()) return chain.status();
    const int64_t before = ThreadCpuNs();
    (*chain)->Offer(capture->packets.size());
    const int64_t ns = ThreadCpuNs() - before;
    result = (*chain)->Finish();
    if (absl::Status s = DrivenChain::Check(result); !s.ok()) return s;
    return ns;
  }
};

uint64_t CounterOf(const RunResult& result, std::string_view name) {
  for (const RunResult::NfCounter& counter : result.nf_counters) {
    if (counter.name == name) return counter.value;
  }
  return 0;
}

double Gbps(uint64_t bytes, int64_t ns) {
  return static_cast<double>(bytes * 8) /
         static_cast<double>(std::max<int64_t>(ns, 1));
}

// Rules drawn at random until they have so many patterns; all if 0.
std::vector<const Rule*> Drawn(const RealRules& real, size_t patterns) {
  std::vector<const Rule*> rules;
  for (const Rule& rule : real.set.rules) rules.push_back(&rule);
  if (patterns == 0) return rules;
  Rng rng(15);
  rng.Shuffle(std::span(rules));
  std::set<std::string> seen;
  std::vector<const Rule*> drawn;
  for (const Rule* const rule : rules) {
    const std::string pattern = RuleMatcher::FastPatternOf(*rule).second;
    if (pattern.empty()) continue;
    seen.insert(pattern);
    drawn.push_back(rule);
    if (seen.size() == patterns) break;
  }
  return drawn;
}

struct Measured {
  std::shared_ptr<const Folder> folder;
  std::shared_ptr<const PlainCapture> capture;
  RealRules real;
};

absl::StatusOr<BenchRow> RowOf(const Measured& of, size_t patterns,
                               BenchSuite& suite) {
  const std::vector<const Rule*> rules = Drawn(of.real, patterns);
  const std::string name = of.folder->File(fmt::format("{}.rules", patterns));
  std::set<std::string> texts;
  {
    std::ofstream file(name);
    for (const Rule* const rule : rules) {
      file << of.real.LineOf(*rule) << "\n";
      texts.insert(RuleMatcher::FastPatternOf(*rule).second);
    }
  }
  texts.erase("");
  auto bare = std::make_shared<BarePass>();
  bare->Add(of.capture->packets);
  auto database =
      PatternDatabase::Compile({texts.begin(), texts.end()}, DatabaseCache(""));
  if (!database.ok()) return database.status();
  bare->database = *std::move(database);
  if (absl::Status s = bare->scratch.Add(bare->database); !s.ok()) return s;

  const auto pass = std::make_shared<IdsPass>(IdsPass{
      "ids:max_alerts=0,bad_rules=skip,cache=" + of.folder->File("cache") +
          ",rules=" + name,
      of.capture, of.folder});
  const auto nothing =
      std::make_shared<IdsPass>(IdsPass{"passthrough", of.capture, of.folder});
  RunResult first;
  if (const auto ns = pass->Run(first); !ns.ok()) return ns.status();
  const auto rate = [&](const std::string& what, auto run) {
    return BenchRow::Side{
        what,
        suite.Add(fmt::format("{} {}", what, patterns),
                  [&]() -> absl::StatusOr<BenchSuite::BenchCase> {
                    return BenchSuite::BenchCase{
                        .sample = [run, bare](uint64_t) {
                          return Gbps(bare->bytes, run());
                        }};
                  }),
        "Gbit/s"};
  };
  const auto time = [](const IdsPass& of_pass) {
    RunResult result;
    const absl::StatusOr<int64_t> ns = of_pass.Run(result);
    SNF_CHECK(ns.ok());
    return *ns;
  };
  const double scanned = static_cast<double>(CounterOf(first, "scanned"));
  const double share = 100.0 *
                       static_cast<double>(CounterOf(first, "evaluated")) /
                       std::max(scanned, 1.0);
  return BenchRow{
      .number = 15,
      .what = "rules of files on a capture, against the bare matcher",
      .variant = patterns == 0
                     ? fmt::format("all {} rules", FormatCount(rules.size()))
                     : fmt::format("{} patterns", FormatCount(patterns)),
      .of = BenchRow::Of::kRatio,
      .must = {{.limit = 0.75, .is_least = true}},
      .aim = {{.limit = 0.9, .is_least = true}},
      .ours =
          rate("ids without the platform",
               [time, pass, nothing] { return time(*pass) - time(*nothing); }),
      .base = rate("Vectorscan", [bare] { return bare->Run(); }),
      .notes = {fmt::format(
          "{} packets with {} bytes of payload, {} patterns; {} alerts; full "
          "evaluation in {:.1f} % of {} searches.",
          FormatCount(bare->payloads.size()), FormatCount(bare->bytes),
          FormatCount(texts.size()), FormatCount(CounterOf(first, "alerts")),
          share, FormatCount(CounterOf(first, "scanned")))}};
}

}  // namespace

void AddIdsCaptureRows(const BenchSizes& sizes, BenchSuite& suite,
                       std::vector<BenchRow>& rows) {
  const auto add = [&](absl::StatusOr<BenchRow> row) {
    if (row.ok()) return rows.push_back(*std::move(row));
    rows.push_back({.number = 15,
                    .what = "rules of files on a capture",
                    .not_measured = std::string(row.status().message())});
  };
  auto capture = PlainCapture::Read(std::string(sizes.capture));
  if (!capture.ok()) return add(capture.status());
  auto real = RealRules::Read(std::string(sizes.rules));
  if (!real.ok()) return add(real.status());
  const Measured of = {
      std::make_shared<const Folder>(),
      std::make_shared<const PlainCapture>(*std::move(capture)),
      *std::move(real)};
  for (const size_t patterns : {500u, 3'000u, 0u}) {
    add(RowOf(of, patterns, suite));
  }
}

}  // namespace snf
