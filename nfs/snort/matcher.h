// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_MATCHER_H_
#define SNF_NFS_SNORT_MATCHER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nfs/snort/evaluator.h"
#include "nfs/snort/http_tracker.h"
#include "nfs/snort/pattern_database.h"
#include "nfs/snort/rule_set.h"

namespace snf::snort {

// Theory of operation. Most rules name a content that few packets have. Stage 1
// looks for one such content of every rule at once, its fast pattern: the
// content that the rule names, or its longest. Stage 2 tests whole rules, but
// only those whose fast pattern was there (Pigasus, OSDI 2020 §4). A rule
// without a content that must be there is tested on each packet that its
// addresses allow.
//
// Databases of stage 1 differ by protocol and by buffer (rule.h). All patterns
// have the same flags, without regard to case: mixed flags cost Vectorscan much
// more than a few candidates that stage 2 refuses. Rules with equal patterns
// share one.
//
// Before stage 2, a candidate is refused by its cheap tests: addresses, ports,
// flow, header fields, sizes and flowbits, and contents that can match at one
// place only (FixedContent). Only rules that are left are evaluated.
//
// Example: alert tcp any any -> any 80 (content:"/cgi"; http_uri; content:"id";
// …) has the pattern "/cgi" in the database of TCP and http_uri. A request for
// /CGI/x makes it a candidate, and stage 2 finds that the case differs.
//
// Immutable; all units of a process share one.
class RuleMatcher {
 public:
  // Fails if Vectorscan does.
  static absl::StatusOr<RuleMatcher> Create(RuleSet set,
                                            const DatabaseCache& cache);

  const RuleSet& set() const { return set_; }
  const std::vector<Rule>& rules() const { return set_.rules; }
  // Rules that are tested on every packet of their addresses.
  uint64_t rules_without_pattern() const { return rules_without_pattern_; }
  uint64_t patterns() const { return patterns_; }
  uint64_t database_bytes() const { return database_bytes_; }
  bool is_from_cache() const { return is_from_cache_; }

  // Returns a sentence about each rule that matches all packets, or that is
  // evaluated on all packets since it has no pattern; the first kMaxWarnings,
  // and how many more there are.
  std::vector<std::string> warnings() const;
  static constexpr size_t kMaxWarnings = 5;

  // The pattern of stage 1: lower-case, and the buffer where it is sought; ""
  // if the rule has none.
  static std::pair<Buffer, std::string> FastPatternOf(const Rule& rule);

 private:
  friend class Inspector;

  static constexpr size_t kProtocols = 4;  // IP without a known one, TCP, …
  struct Group {
    PatternDatabase database;
    std::vector<std::vector<uint32_t>> rules;  // by pattern
  };
  // Rules by one of their addresses: elementary intervals of all addresses
  // that they name.
  struct AddressIndex {
    std::vector<AddressNumber> begins;
    std::vector<std::vector<uint32_t>> rules;  // of begins[i] … begins[i+1] - 1
    void Build(std::vector<std::pair<uint32_t, const AddressSet*>> sets);
    std::span<const uint32_t> At(AddressNumber address) const;
  };
  struct Always {
    std::vector<uint32_t> any;
    AddressIndex by_source;
    AddressIndex by_destination;
  };

  RuleSet set_;
  std::array<std::array<Group, kBuffers>, kProtocols> groups_;
  std::array<Always, kProtocols> always_;
  std::vector<bool> has_pattern_;                          // by rule
  std::vector<std::vector<FixedContent>> fixed_contents_;  // by rule
  uint64_t rules_without_pattern_ = 0;
  uint64_t patterns_ = 0;
  uint64_t database_bytes_ = 0;
  bool is_from_cache_ = true;
};

// The patterns that were found in the bytes that are kept of a stream, so that
// these need no other search. Bytes without padding, so that it can be part of
// a slot of a flow.
//
// Example: window of 2,048 bytes, a new segment of 100: 163 bytes are searched,
// since a pattern over the border has at most 63 of the kept ones.
struct PatternHits {
  static constexpr size_t kMost = 12;
  struct Hit {
    uint32_t pattern = 0;
    uint32_t end = 0;  // offset in the stream, modulo 2^32; no match ends later
    friend bool operator==(const Hit&, const Hit&) = default;
  };
  uint64_t number = 0;  // above kMost: too many, so all is searched again
  std::array<Hit, kMost> hits{};

  bool has_all() const { return number <= kMost; }
  void Add(Hit hit) {
    if (number < kMost) hits[number] = hit;
    if (has_all()) ++number;
  }
  friend bool operator==(const PatternHits&, const PatternHits&) = default;
};
static_assert(sizeof(PatternHits) == 104);

// A packet, and the bytes of its stream that came with it.
struct Inspected {
  // Rules see the packet itself (dsize, flow:no_stream, positions from the
  // begin of the payload, no content at all), the stream, or both.
  enum class View : uint8_t { kBoth, kPacket, kStream };
  View view = View::kBoth;
  PacketFacts facts;
  std::string_view payload;  // the packet's own
  // For TCP, the payload behind the bytes of the stream that were kept, which
  // are `kept`; else the payload.
  std::string_view stream;
  size_t kept = 0;
  uint64_t stream_end = 0;  // offset behind its last byte
  // Patterns found in the kept bytes. Updated; null if they are not known.
  PatternHits* hits = nullptr;
  bool stream_is_whole = false;  // begins with the connection's first byte
  bool is_http = false;
  std::span<const TrackedMessage> messages;
};

// Inspects packets by the rules of a matcher, which must outlive it.
// Owner-thread only.
class Inspector {
 public:
  static absl::StatusOr<std::unique_ptr<Inspector>> Create(
      const RuleMatcher& matcher, Evaluator::Limits limits);

  // Returns the indices of the rules that alert, in order, each once; none if
  // a pass rule matches. Bits of rules that match are set. Valid until the
  // next call.
  std::span<const uint32_t> Inspect(const Inspected& packet, Flowbits& bits);

  // Returns true if the last packet came to stage 2 by a rule with a pattern.
  bool was_evaluated() const { return was_evaluated_; }
  uint64_t rules_evaluated() const { return rules_evaluated_; }
  uint64_t limits_reached() const { return evaluator_.limits_reached(); }

 private:
  Inspector(const RuleMatcher& matcher, Evaluator::Limits limits);

  void FindCandidates(const Inspected& packet);
  void Search(size_t protocol, Buffer buffer, std::string_view text);
  // Searches a stream's new bytes; proposes also the patterns of kept bytes.
  void SearchStream(size_t protocol, const Inspected& packet);
  void Propose(std::span<const uint32_t> rules);
  bool MatchesViews(uint32_t index, const Inspected& packet,
                    const Flowbits& bits);

  const RuleMatcher& matcher_;
  Evaluator evaluator_;
  PatternDatabase::Scratch scratch_;
  std::vector<uint32_t> found_;
  std::vector<uint32_t> proposed_at_;  // the number of the packet, by rule
  uint32_t packet_number_ = 0;
  std::vector<uint32_t> candidates_;
  std::vector<uint32_t> alerts_;
  bool was_evaluated_ = false;
  uint64_t rules_evaluated_ = 0;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_MATCHER_H_
