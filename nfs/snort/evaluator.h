// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_EVALUATOR_H_
#define SNF_NFS_SNORT_EVALUATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/packet/packet_parser.h"
#include "nfs/snort/regex.h"
#include "nfs/snort/rule.h"

namespace snf::snort {

// One of the buffers (rule.h) of a packet.
struct BufferView {
  std::string_view bytes;
  // Bytes before this one were there when an earlier packet was looked at. A
  // rule matches only if one of its tests reads bytes behind it.
  size_t fresh_from = 0;
  bool is_present = false;

  bool is_fresh() const { return fresh_from < bytes.size(); }
};
using Buffers = std::array<BufferView, kBuffers>;
inline BufferView& At(Buffers& buffers, Buffer which) {
  return buffers[static_cast<size_t>(which)];
}
inline const BufferView& At(const Buffers& buffers, Buffer which) {
  return buffers[static_cast<size_t>(which)];
}

// The facts of a packet's headers and flow that rules ask for.
struct PacketFacts {
  std::span<const std::byte> frame;
  const ParsedPacket* headers = nullptr;
  AddressNumber source = 0;
  AddressNumber destination = 0;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  bool has_ports = false;
  Rule::Protocol protocol = Rule::Protocol::kIp;
  uint32_t payload_bytes = 0;
  bool to_server = true;
  bool is_established = false;
  // False if the headers belong to another packet: tests of headers fail.
  bool has_headers = true;

  // Fills in all but the flow's two.
  static PacketFacts Of(std::span<const std::byte> frame,
                        const ParsedPacket& headers);
};

// The flowbits of a flow: a bit for each, as bytes. A view.
class Flowbits {
 public:
  explicit Flowbits(std::span<std::byte> bits) : bits_(bits) {}
  bool Has(uint32_t bit) const {
    return (bits_[bit / 8] & std::byte{1} << (bit % 8)) != std::byte{0};
  }
  void Set(uint32_t bit, bool on);
  void Clear();
  bool has_changed() const { return has_changed_; }

 private:
  std::span<std::byte> bits_;
  bool has_changed_ = false;
};

// Tests whole rules. Owner-thread only: holds memory for searches.
class Evaluator {
 public:
  struct Limits {
    uint32_t steps = 20'000;        // attempts of one rule on one packet
    uint32_t regex_steps = 10'000;  // of one search of one expression
  };
  explicit Evaluator(Limits limits)
      : limits_(limits), regexes_(limits.regex_steps) {}
  Evaluator() : Evaluator(Limits{}) {}

  // Addresses, ports, protocol and direction. Budget: ≤ 30 ns.
  static bool MatchesHeader(const Rule& rule, const PacketFacts& facts);
  // Options on headers, sizes and the flow's bits.
  static bool MatchesPacket(const Rule& rule, const PacketFacts& facts,
                            const Buffers& buffers, const Flowbits& bits);
  // Options on payload, in the rule's order, with going back where an option
  // is relative to a test that matches at several places.
  bool MatchesPayload(const Rule& rule, const Buffers& buffers);

  // Sets the bits that a rule that matched sets.
  static void ApplyFlowbits(const Rule& rule, Flowbits& bits);

  // Counts rules that were given up at a limit, and so did not match.
  uint64_t limits_reached() const {
    return limits_reached_ + regexes_.limits_reached();
  }

 private:
  // The state between two tests.
  struct Cursor {
    std::array<uint32_t, kBuffers> at = {};  // behind the last match there
    std::array<int64_t, kMaxVariables> variables = {};
    Buffer last = Buffer::kPayload;  // that of the last match
    bool is_fresh = false;           // a test ended in fresh bytes
  };
  struct Job {
    const Rule& rule;
    const Buffers& buffers;
    uint32_t steps_left;
  };

  bool From(size_t index, const Cursor& cursor, Job& job);
  bool MatchContent(const Content& content, bool is_chained, size_t index,
                    const Cursor& cursor, Job& job);
  bool MatchRegex(const RegexTest& test, bool is_chained, size_t index,
                  const Cursor& cursor, Job& job);

  Limits limits_;
  RegexMatcher regexes_;
  uint64_t limits_reached_ = 0;
};

// Returns false if a content is not at its place; then the rule does not match.
// Budget: ≤ 10 ns a content.
bool AreInPlace(const std::vector<FixedContent>& contents,
                const Buffers& buffers);

// Returns the first place of the content at `from` or later so that it ends at
// `end` at most; npos if there is none. For a content with nocase, `bytes` are
// lower-case.
size_t FindContent(std::string_view text, std::string_view bytes, bool nocase,
                   size_t from, size_t end);

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_EVALUATOR_H_
