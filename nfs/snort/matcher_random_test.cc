// SPDX-License-Identifier: Apache-2.0
//
// Random rules on random payloads, beside a matcher that shares no code with
// the real one: it has no text of rules, no stage 1, and goes through all
// places of all contents.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "nfs/snort/test_inspection.h"

namespace snf::snort {
namespace {

// A content as the naive matcher knows it.
struct Piece {
  std::string bytes;
  bool nocase = false;
  bool negated = false;
  bool relative = false;
  std::optional<int> begin;
  std::optional<int> span;
};
using Pieces = std::vector<Piece>;

bool SameAt(const std::string& text, int at, const Piece& piece) {
  for (size_t i = 0; i < piece.bytes.size(); ++i) {
    int a = static_cast<unsigned char>(text[static_cast<size_t>(at) + i]);
    int b = static_cast<unsigned char>(piece.bytes[i]);
    if (piece.nocase && a >= 'A' && a <= 'Z') a += 32;
    if (piece.nocase && b >= 'A' && b <= 'Z') b += 32;
    if (a != b) return false;
  }
  return true;
}

bool NaiveMatch(const Pieces& pieces, size_t index, int last_end,
                const std::string& text) {
  if (index == pieces.size()) return true;
  const Piece& piece = pieces[index];
  const int size = static_cast<int>(text.size());
  const int length = static_cast<int>(piece.bytes.size());
  const int first = (piece.relative ? last_end : 0) + piece.begin.value_or(0);
  bool is_there = false;
  for (int at = 0; at + length <= size; ++at) {
    if (at < first) continue;
    if (piece.span.has_value() && at + length > first + *piece.span) continue;
    if (!SameAt(text, at, piece)) continue;
    is_there = true;
    if (!piece.negated && NaiveMatch(pieces, index + 1, at + length, text)) {
      return true;
    }
  }
  if (!piece.negated) return false;
  return !is_there && NaiveMatch(pieces, index + 1, last_end, text);
}

constexpr char kAlphabet[] = {'a', 'b', 'A', 'B', '\0', '\xff'};

std::string RandomBytes(Rng& rng, size_t least, size_t most) {
  std::string bytes(least + rng.Below(most - least + 1), ' ');
  for (char& c : bytes) c = kAlphabet[rng.Below(sizeof kAlphabet)];
  return bytes;
}

std::string HexOf(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    char two[4];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    text += two;
  }
  return text;
}

Pieces RandomPieces(Rng& rng) {
  Pieces pieces(1 + rng.Below(4));
  for (Piece& piece : pieces) {
    const bool is_first = &piece == &pieces[0];
    piece.bytes = RandomBytes(rng, 1, is_first ? 4 : 2);
    piece.nocase = rng.Below(2) == 0;
    piece.negated = rng.Below(5) == 0;
    piece.relative = !is_first && rng.Below(2) == 0;
    if (rng.Below(2) == 0) {
      piece.begin = static_cast<int>(rng.Below(6)) - (piece.relative ? 3 : 0);
    }
    if (rng.Below(3) == 0) {
      piece.span = static_cast<int>(piece.bytes.size() + rng.Below(6));
    }
    // Without distance and within, a content is not relative.
    if (!piece.begin && !piece.span) piece.relative = false;
  }
  return pieces;
}

std::string TextOf(const Pieces& pieces, uint32_t sid) {
  std::string text = "alert udp any any -> any any (";
  for (const Piece& piece : pieces) {
    text += std::string("content:") + (piece.negated ? "!" : "") + "\"|" +
            HexOf(piece.bytes) + "|\"; ";
    if (piece.nocase) text += "nocase; ";
    if (piece.begin) {
      text += (piece.relative ? "distance:" : "offset:") +
              std::to_string(*piece.begin) + "; ";
    }
    if (piece.span) {
      text += (piece.relative ? "within:" : "depth:") +
              std::to_string(*piece.span) + "; ";
    }
  }
  return text + "sid:" + std::to_string(sid) + ";)\n";
}

TEST(MatcherRandom, AgreesWithANaiveMatcher) {
  uint64_t matches = 0;
  const TestSeeds seeds(20);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    std::vector<Pieces> all(200);
    std::string rules;
    for (uint32_t i = 0; i < all.size(); ++i) {
      all[i] = RandomPieces(rng);
      rules += TextOf(all[i], i + 1);
    }
    TestInspection test(rules);
    ASSERT_EQ(test.matcher().rules().size(), all.size());
    for (int packet = 0; packet < 100; ++packet) {
      const std::string payload = RandomBytes(rng, 0, 40);
      std::vector<uint32_t> want;
      for (uint32_t i = 0; i < all.size(); ++i) {
        // Negated contents alone match a payload without bytes as well.
        if (NaiveMatch(all[i], 0, 0, payload)) want.push_back(i + 1);
      }
      matches += want.size();
      EXPECT_EQ(
          test.Send("udp 10.0.0.1:5 > 192.0.2.9:53 x'" + HexOf(payload) + "'"),
          want)
          << "payload " << HexOf(payload);
      if (HasFailure()) return;
    }
  }
  EXPECT_TRUE(seeds.is_part || matches > 10'000) << matches;
}

}  // namespace
}  // namespace snf::snort
