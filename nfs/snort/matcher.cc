// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/matcher.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

using Protocol = Rule::Protocol;

// Vectorscan takes longer ones, but needs no more of them.
constexpr size_t kMaxPatternBytes = 64;

// Buffers that many messages have alike tell rules apart badly.
bool IsPoor(Buffer buffer) {
  return buffer == Buffer::kMethod || buffer == Buffer::kStatusCode ||
         buffer == Buffer::kStatusMessage;
}

// Pass rules come first, then rules that set bits before rules that ask for
// them; else rules keep their order.
int OrderOf(const Rule& rule) {
  if (rule.action == Rule::Action::kPass) return 0;
  const bool tests = std::ranges::any_of(
      rule.flowbits, [](const auto& one) { return one.is_test(); });
  const bool sets = std::ranges::any_of(
      rule.flowbits, [](const auto& one) { return !one.is_test(); });
  return sets ? (tests ? 2 : 1) : (tests ? 3 : 4);
}

}  // namespace

std::pair<Buffer, std::string> RuleMatcher::FastPatternOf(const Rule& rule) {
  std::tuple<bool, bool, size_t> best_rank;
  std::pair<Buffer, std::string> best = {Buffer::kPayload, ""};
  for (const PayloadTest& test : rule.payload_tests) {
    const auto* content = std::get_if<Content>(&test.test);
    if (content == nullptr || content->negated) continue;
    std::string_view bytes = content->bytes;
    if (content->fast_length > 0) {
      bytes = bytes.substr(content->fast_offset, content->fast_length);
    }
    // Vectorscan takes a literal that begins with a zero for an empty one.
    bytes.remove_prefix(std::min(bytes.find_first_not_of('\0'), bytes.size()));
    const auto rank =
        std::tuple(content->is_fast, !IsPoor(content->buffer), bytes.size());
    if (bytes.empty() || rank <= best_rank) continue;
    best_rank = rank;
    best = {content->buffer, std::string(bytes.substr(0, kMaxPatternBytes))};
  }
  absl::AsciiStrToLower(&best.second);
  return best;
}

void RuleMatcher::AddressIndex::Build(
    std::vector<std::pair<uint32_t, const AddressSet*>> sets) {
  if (sets.empty()) return;
  begins.push_back(0);
  for (const auto& [rule, set] : sets) {
    for (const auto& [first, last] : set->intervals()) {
      begins.push_back(first);
      if (last != AddressSet::kMax) begins.push_back(last + 1);
    }
  }
  std::ranges::sort(begins);
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  rules.resize(begins.size());
  for (const auto& [rule, set] : sets) {
    for (const auto& [first, last] : set->intervals()) {
      auto at = std::ranges::lower_bound(begins, first) - begins.begin();
      for (; at < std::ssize(begins) && begins[static_cast<size_t>(at)] <= last;
           ++at) {
        rules[static_cast<size_t>(at)].push_back(rule);
      }
    }
  }
}

std::span<const uint32_t> RuleMatcher::AddressIndex::At(
    AddressNumber address) const {
  if (begins.empty()) return {};
  const auto after = std::ranges::upper_bound(begins, address);
  return rules[static_cast<size_t>(after - begins.begin() - 1)];
}

absl::StatusOr<RuleMatcher> RuleMatcher::Create(RuleSet set,
                                                const DatabaseCache& cache) {
  RuleMatcher matcher;
  matcher.set_ = std::move(set);
  std::ranges::stable_sort(matcher.set_.rules, {}, OrderOf);
  const std::vector<Rule>& rules = matcher.set_.rules;
  for (const Rule& rule : rules) {
    matcher.has_pattern_.push_back(!FastPatternOf(rule).second.empty());
    matcher.fixed_contents_.push_back(FixedContentsOf(rule));
  }

  // Sets of addresses are shared by pointer; large ones would make the index
  // large, and are in front of few rules.
  constexpr size_t kMaxIntervals = 4'096;
  using Sets = std::vector<std::pair<uint32_t, const AddressSet*>>;
  for (size_t protocol = 0; protocol < kProtocols; ++protocol) {
    std::array<std::map<std::string, std::vector<uint32_t>>, kBuffers> patterns;
    Sets sources;
    Sets destinations;
    Always& always = matcher.always_[protocol];
    for (uint32_t i = 0; i < rules.size(); ++i) {
      const Rule& rule = rules[i];
      if (rule.protocol != Protocol::kIp &&
          static_cast<size_t>(rule.protocol) != protocol) {
        continue;
      }
      auto [buffer, bytes] = FastPatternOf(rule);
      if (!bytes.empty()) {
        patterns[static_cast<size_t>(buffer)][bytes].push_back(i);
        // Without HTTP the payload stands for the file.
        if (buffer == Buffer::kFileData) {
          patterns[static_cast<size_t>(Buffer::kPayload)][bytes].push_back(i);
        }
        continue;
      }
      if (static_cast<size_t>(rule.protocol) == protocol ||
          (rule.protocol == Protocol::kIp && protocol == 0)) {
        ++matcher.rules_without_pattern_;
      }
      const auto is_small = [](const AddressSet& one) {
        return !one.is_all() && one.intervals().size() <= kMaxIntervals;
      };
      if (rule.both_ways) {
        always.any.push_back(i);
      } else if (is_small(*rule.source)) {
        sources.emplace_back(i, rule.source.get());
      } else if (is_small(*rule.destination)) {
        destinations.emplace_back(i, rule.destination.get());
      } else {
        always.any.push_back(i);
      }
    }
    always.by_source.Build(std::move(sources));
    always.by_destination.Build(std::move(destinations));
    for (size_t buffer = 0; buffer < kBuffers; ++buffer) {
      Group& group = matcher.groups_[protocol][buffer];
      std::vector<std::string> texts;
      for (auto& [text, of] : patterns[buffer]) {
        texts.push_back(text);
        group.rules.push_back(std::move(of));
      }
      auto database = PatternDatabase::Compile(texts, cache);
      if (!database.ok()) return database.status();
      group.database = *std::move(database);
      matcher.patterns_ += texts.size();
      matcher.database_bytes_ += group.database.bytes();
      matcher.is_from_cache_ &=
          group.database.is_empty() || group.database.is_from_cache();
    }
  }
  return matcher;
}

std::vector<std::string> RuleMatcher::warnings() const {
  std::vector<std::string> all;
  for (size_t i = 0; i < rules().size(); ++i) {
    const Rule& rule = rules()[i];
    // Flow, flowbits and header fields are cheap to test.
    const bool is_narrow =
        has_pattern_[i] || !rule.source->is_all() ||
        !rule.source_ports->is_all() || !rule.destination->is_all() ||
        !rule.destination_ports->is_all() || !rule.packet_tests.empty() ||
        rule.flow.direction != FlowTest::Direction::kAny ||
        rule.flow.state != FlowTest::State::kAny || !rule.flowbits.empty() ||
        !fixed_contents_[i].empty();
    if (is_narrow) continue;
    all.push_back(Cat(rule.place.file, ":", rule.place.line, ": rule ",
                      rule.gid, ":", rule.sid,
                      rule.payload_tests.empty()
                          ? " matches every packet of its protocol"
                          : " has no content and is evaluated on every packet "
                            "of its protocol"));
  }
  if (all.size() > kMaxWarnings) {
    const size_t more = all.size() - kMaxWarnings;
    all.resize(kMaxWarnings);
    all.push_back(Cat(more,
                      " more rules match, or are evaluated on, every "
                      "packet of their protocol"));
  }
  return all;
}

Inspector::Inspector(const RuleMatcher& matcher, Evaluator::Limits limits)
    : matcher_(matcher),
      evaluator_(limits),
      proposed_at_(matcher.rules().size()) {}

absl::StatusOr<std::unique_ptr<Inspector>> Inspector::Create(
    const RuleMatcher& matcher, Evaluator::Limits limits) {
  std::unique_ptr<Inspector> made(new Inspector(matcher, limits));
  for (const auto& groups : matcher.groups_) {
    for (const RuleMatcher::Group& group : groups) {
      const absl::Status status = made->scratch_.Add(group.database);
      if (!status.ok()) return status;
    }
  }
  return made;
}

void Inspector::Propose(std::span<const uint32_t> rules) {
  for (const uint32_t rule : rules) {
    if (proposed_at_[rule] == packet_number_) continue;
    proposed_at_[rule] = packet_number_;
    candidates_.push_back(rule);
  }
}

void Inspector::Search(size_t protocol, Buffer buffer, std::string_view text) {
  const RuleMatcher::Group& group =
      matcher_.groups_[protocol][static_cast<size_t>(buffer)];
  found_.clear();
  group.database.Find(text, scratch_, found_);
  for (const uint32_t pattern : found_) Propose(group.rules[pattern]);
}

void Inspector::SearchStream(size_t protocol, const Inspected& packet) {
  const RuleMatcher::Group& group =
      matcher_.groups_[protocol][static_cast<size_t>(Buffer::kPayload)];
  PatternHits& hits = *packet.hits;
  const bool has_all = hits.has_all();
  const size_t overlap =
      has_all ? std::min(packet.kept, kMaxPatternBytes - 1) : packet.kept;
  found_.clear();
  group.database.Find(packet.stream.substr(packet.kept - overlap), scratch_,
                      found_);
  const auto end = static_cast<uint32_t>(packet.stream_end);
  PatternHits now;
  for (const uint32_t pattern : found_) {
    now.Add({.pattern = pattern, .end = end});
  }
  for (size_t i = 0; has_all && i < hits.number; ++i) {
    const PatternHits::Hit& hit = hits.hits[i];
    const bool is_kept = end - hit.end < packet.stream.size();
    if (!is_kept || std::ranges::find(found_, hit.pattern) != found_.end()) {
      continue;
    }
    Propose(group.rules[hit.pattern]);
    now.Add(hit);
  }
  for (const uint32_t pattern : found_) Propose(group.rules[pattern]);
  hits = now;
}

void Inspector::FindCandidates(const Inspected& packet) {
  if (++packet_number_ == 0) {
    std::ranges::fill(proposed_at_, 0);
    packet_number_ = 1;
  }
  candidates_.clear();
  const auto protocol = static_cast<size_t>(packet.facts.protocol);
  const bool is_packet = packet.view == Inspected::View::kPacket;
  if (!is_packet && packet.hits != nullptr) {
    SearchStream(protocol, packet);
  } else {
    Search(protocol, Buffer::kPayload,
           is_packet ? packet.payload : packet.stream);
  }
  for (const TrackedMessage& message : packet.messages) {
    for (size_t i = 0; i < kBuffers; ++i) {
      const auto buffer = static_cast<Buffer>(i);
      const BufferView& view = At(message.buffers, buffer);
      if (buffer != Buffer::kPayload && view.is_present) {
        Search(protocol, buffer, view.bytes);
      }
    }
  }
  const RuleMatcher::Always& always = matcher_.always_[protocol];
  Propose(always.any);
  Propose(always.by_source.At(packet.facts.source));
  Propose(always.by_destination.At(packet.facts.destination));
  std::ranges::sort(candidates_);
}

std::span<const uint32_t> Inspector::Inspect(const Inspected& packet,
                                             Flowbits& bits) {
  alerts_.clear();
  was_evaluated_ = false;
  FindCandidates(packet);
  for (const uint32_t index : candidates_) {
    const Rule& rule = matcher_.rules()[index];
    if (!Evaluator::MatchesHeader(rule, packet.facts)) continue;
    if (!MatchesViews(index, packet, bits)) continue;
    if (rule.action == Rule::Action::kPass) {
      alerts_.clear();
      break;
    }
    Evaluator::ApplyFlowbits(rule, bits);
    if (!rule.noalert) alerts_.push_back(index);
  }
  return alerts_;
}

// A rule sees the packet, the stream, or each message, by its options.
bool Inspector::MatchesViews(uint32_t index, const Inspected& packet,
                             const Flowbits& bits) {
  const Rule& rule = matcher_.rules()[index];
  bool is_evaluated = false;
  const auto matches = [&](const Buffers& buffers) {
    if (!Evaluator::MatchesPacket(rule, packet.facts, buffers, bits) ||
        !AreInPlace(matcher_.fixed_contents_[index], buffers)) {
      return false;
    }
    if (!std::exchange(is_evaluated, true)) {
      was_evaluated_ |= matcher_.has_pattern_[index];
      ++rules_evaluated_;
    }
    return evaluator_.MatchesPayload(rule, buffers);
  };
  using View = Inspected::View;
  const bool sees_packet = packet.view != View::kStream;
  const bool sees_stream = packet.view != View::kPacket;
  const bool needs_message =
      rule.needs_http() || (rule.uses(Buffer::kFileData) && packet.is_http);
  if (needs_message) {
    if (!sees_stream) return false;
    for (const TrackedMessage& message : packet.messages) {
      if (!rule.packet_only) {
        if (matches(message.buffers)) return true;
        continue;
      }
      Buffers buffers = message.buffers;
      At(buffers, Buffer::kPayload) = {packet.payload, 0, true};
      if (matches(buffers)) return true;
    }
    return false;
  }
  Buffers buffers;
  const auto matches_payload = [&](const BufferView& view) {
    At(buffers, Buffer::kPayload) = view;
    if (!packet.is_http) At(buffers, Buffer::kFileData) = view;
    return matches(buffers);
  };
  const BufferView own = {packet.payload, 0, true};
  const BufferView stream = {packet.stream, packet.kept, true};
  if (rule.packet_only || !rule.has_positive()) {
    return sees_packet && matches_payload(own);
  }
  if (!rule.is_anchored) return sees_stream && matches_payload(stream);
  if (sees_packet && matches_payload(own)) return true;
  if (!sees_stream) return false;
  // Without kept bytes, the stream is what the packet has.
  const bool is_other = packet.kept > 0 || !sees_packet;
  if (is_other && packet.stream_is_whole && matches_payload(stream)) {
    return true;
  }
  for (const TrackedMessage& message : packet.messages) {
    if (message.is_from_begin &&
        matches_payload(At(message.buffers, Buffer::kPayload))) {
      return true;
    }
  }
  return false;
}

}  // namespace snf::snort
