// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/path_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Outcome = PathSearch::Outcome;

constexpr size_t kChannels = 2;
// Long enough for any answer.
constexpr Nanos kLong = {2 * PathSearch::kAnswerTime.ns};

class PathSearchTest : public testing::Test {
 protected:
  // Lets both channels ask, and answers what a path of this length takes.
  void AskAndAnswer(size_t kernel, size_t path) {
    for (size_t channel = 0; channel < kChannels; ++channel) {
      AskAndAnswer(channel, kernel, path);
    }
  }
  void AskAndAnswer(size_t channel, size_t kernel, size_t path) {
    for (const size_t bytes : search_.Ask(now_, channel, kernel)) {
      if (bytes <= path) search_.on_answer(now_, channel, bytes);
    }
  }
  // Searches a path of this length from the start.
  void Find(size_t path) {
    search_.Begin(now_);
    AskAndAnswer(path, path);
    ASSERT_EQ(search_.Look(now_), Outcome::kFound);
    ASSERT_EQ(search_.bytes(), path);
  }
  void After(Nanos time) { now_ = now_ + time; }

  Instant now_{1'000'000'000};
  PathSearch search_{kChannels};
};

// --- The search of the start. ---

TEST_F(PathSearchTest, IsOfTheLeastLengthBeforeTheSearch) {
  EXPECT_EQ(search_.bytes(), PathSearch::kLeast);
  EXPECT_EQ(search_.due(), Instant::max());
  EXPECT_THAT(search_.Ask(now_, 0, 1'500), IsEmpty());
}

TEST_F(PathSearchTest, IsFoundAtOnceIfTheKernelsLengthIsAnswered) {
  search_.Begin(now_);
  EXPECT_LE(search_.due(), now_);
  EXPECT_THAT(search_.Ask(now_, 0, 1'500),
              ElementsAre(1'500, 1'400, 1'280, 576));
  EXPECT_EQ(search_.Look(now_), Outcome::kPending);
  EXPECT_THAT(search_.Ask(now_, 1, 65'535),
              ElementsAre(65'000, 9'000, 4'000, 1'500, 1'400, 1'280, 576));
  search_.on_answer(now_, 0, 1'500);
  EXPECT_EQ(search_.Look(now_), Outcome::kPending);
  search_.on_answer(now_, 1, 65'000);
  EXPECT_EQ(search_.Look(now_), Outcome::kFound);
  EXPECT_EQ(search_.bytes(), 1'500u);  // of both channels the least
  EXPECT_EQ(search_.due(), Instant::max());
}

TEST_F(PathSearchTest, OfATunnelIsFoundOnceLongerPacketsHadTheirTime) {
  search_.Begin(now_);
  AskAndAnswer(9'000, 1'450);
  EXPECT_EQ(search_.Look(now_), Outcome::kPending);
  After(PathSearch::kAnswerTime);
  EXPECT_EQ(search_.Look(now_), Outcome::kPending);
  After(Nanos{1});
  EXPECT_EQ(search_.Look(now_), Outcome::kFound);
  EXPECT_EQ(search_.bytes(), 1'400u);
}

TEST_F(PathSearchTest, IsAskedForAgainIfQuestionsWereLost) {
  search_.Begin(now_);
  AskAndAnswer(0, 1'500, 1'500);
  EXPECT_EQ(search_.Ask(now_, 1, 1'500).size(), 4u);  // all are lost
  EXPECT_FALSE(search_.is_due(now_, 1));
  EXPECT_THAT(search_.Ask(now_, 1, 1'500), IsEmpty());
  EXPECT_EQ(search_.due(), now_ + PathSearch::kPause);
  After(PathSearch::kPause);
  EXPECT_TRUE(search_.is_due(now_, 1));
  AskAndAnswer(1, 1'500, 1'500);
  EXPECT_EQ(search_.Look(now_), Outcome::kFound);
  EXPECT_EQ(search_.bytes(), 1'500u);
}

TEST_F(PathSearchTest, IsSilentIfAChannelHasNoAnswer) {
  search_.Begin(now_);
  AskAndAnswer(0, 1'500, 1'500);
  search_.Ask(now_, 1, 1'500);
  After(PathSearch::kPatience);
  EXPECT_EQ(search_.Look(now_), Outcome::kPending);
  After(Nanos{1});
  EXPECT_EQ(search_.Look(now_), Outcome::kSilent);
  EXPECT_EQ(search_.due(), Instant::max());
}

TEST_F(PathSearchTest, TakesAnAnswerForNoMoreThanWasAsked) {
  search_.Begin(now_);
  search_.on_answer(now_, 0, 9'000);  // before anything was asked
  search_.Ask(now_, 0, 1'500);
  search_.Ask(now_, 1, 1'500);
  EXPECT_EQ(search_.Look(now_), Outcome::kPending);
  search_.on_answer(now_, 0, 9'000);
  search_.on_answer(now_, 1, 9'000);
  EXPECT_EQ(search_.Look(now_), Outcome::kFound);
  EXPECT_EQ(search_.bytes(), 1'500u);
}

// The kernel learns of a shorter path between two questions.
TEST_F(PathSearchTest, IsNoLongerThanTheKernelSaysAtLast) {
  search_.Begin(now_);
  AskAndAnswer(0, 9'000, 9'000);
  AskAndAnswer(1, 9'000, 4'000);
  After(PathSearch::kPause);
  AskAndAnswer(1'500, 1'500);
  EXPECT_EQ(search_.Look(now_), Outcome::kFound);
  EXPECT_EQ(search_.bytes(), 1'500u);
}

// --- Later. ---

TEST_F(PathSearchTest, BecomesShorterOnceTheKernelSaysSo) {
  Find(1'500);
  EXPECT_FALSE(search_.Limit(1'500));
  EXPECT_FALSE(search_.Limit(9'000));
  EXPECT_TRUE(search_.Limit(1'450));
  EXPECT_EQ(search_.bytes(), 1'450u);
  EXPECT_TRUE(search_.Limit(68));
  EXPECT_EQ(search_.bytes(), PathSearch::kLeast);
}

TEST_F(PathSearchTest, ThatIsABlackHoleForLongPacketsBecomesShorter) {
  Find(1'500);
  EXPECT_FALSE(search_.Suspect(now_, 1));
  EXPECT_THAT(search_.Ask(now_, 1, 1'500), ElementsAre(1'500, 1'280, 576));
  EXPECT_THAT(search_.Ask(now_, 0, 1'500), IsEmpty());  // is not suspect
  After(Milliseconds(100));
  search_.on_answer(now_, 1, 576);
  search_.on_answer(now_, 1, 1'280);
  EXPECT_EQ(search_.answered(1), now_);
  // The answer of the long packet may be late.
  After(Nanos{PathSearch::kAnswerTime.ns - 1});
  EXPECT_FALSE(search_.Suspect(now_, 1));
  After(Nanos{1});
  EXPECT_TRUE(search_.Suspect(now_, 1));
  EXPECT_EQ(search_.bytes(), 1'280u);
  EXPECT_EQ(search_.answered(1), std::nullopt);
  EXPECT_EQ(search_.due(), Instant::max());
}

TEST_F(PathSearchTest, StaysIfItsLengthIsAnsweredThoughDataAreNot) {
  Find(1'500);
  EXPECT_FALSE(search_.Suspect(now_, 0));
  AskAndAnswer(0, 1'500, 1'500);
  After(kLong);
  EXPECT_FALSE(search_.Suspect(now_, 0));
  EXPECT_EQ(search_.bytes(), 1'500u);
}

// A peer that stands still answers nothing, then everything.
TEST_F(PathSearchTest, StaysWhileThePeerStandsStill) {
  Find(1'500);
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(search_.Suspect(now_, 0));
    search_.Ask(now_, 0, 1'500);
    ASSERT_EQ(search_.answered(0), std::nullopt);
    After(PathSearch::kPause);
  }
  search_.on_answer(now_, 0, 576);
  EXPECT_FALSE(search_.Suspect(now_, 0));
  search_.on_answer(now_, 0, 1'500);
  After(kLong);
  EXPECT_FALSE(search_.Suspect(now_, 0));
  EXPECT_EQ(search_.bytes(), 1'500u);
}

TEST_F(PathSearchTest, StaysIfPacketsAreAcknowledgedMeanwhile) {
  Find(1'500);
  EXPECT_FALSE(search_.Suspect(now_, 0));
  AskAndAnswer(0, 1'500, 1'280);
  search_.Trust(0);
  EXPECT_EQ(search_.due(), Instant::max());
  search_.on_answer(now_, 0, 1'280);  // late
  EXPECT_EQ(search_.answered(0), std::nullopt);
  After(kLong);
  // The next check begins at its own time.
  EXPECT_FALSE(search_.Suspect(now_, 0));
  EXPECT_EQ(search_.bytes(), 1'500u);
}

TEST_F(PathSearchTest, MayBecomeShorterAgainAndAgain) {
  Find(9'000);
  for (const size_t path : {size_t{1'300}, PathSearch::kLeast}) {
    ASSERT_FALSE(search_.Suspect(now_, 0));
    AskAndAnswer(0, 9'000, path);
    After(PathSearch::kAnswerTime);
    ASSERT_TRUE(search_.Suspect(now_, 0));
  }
  EXPECT_EQ(search_.bytes(), PathSearch::kLeast);
}

// Paths that lose packets, and become shorter at any time. A channel is suspect
// while its path takes no packet of the size in use.
TEST_F(PathSearchTest, EndsAtWhatAnyPathTakes) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    PathSearch search(kChannels);
    std::vector<size_t> paths;
    for (size_t i = 0; i < kChannels; ++i) {
      paths.push_back(PathSearch::kLeast + rng.Below(9'000));
    }
    const auto turn = [&] {
      for (size_t i = 0; i < kChannels; ++i) {
        for (const size_t bytes : search.Ask(now_, i, 9'000)) {
          if (bytes > paths[i] || rng.Chance(20'000)) continue;
          search.on_answer(now_, i, bytes);
        }
      }
      After(Milliseconds(1 + static_cast<int64_t>(rng.Below(20))));
    };
    search.Begin(now_);
    Outcome outcome = Outcome::kPending;
    while (outcome == Outcome::kPending) {
      turn();
      outcome = search.Look(now_);
    }
    ASSERT_EQ(outcome, Outcome::kFound);
    ASSERT_LE(search.bytes(), std::ranges::min(paths));
    for (int change = 0; change < 4; ++change) {
      const size_t before = search.bytes();
      paths[rng.Below(kChannels)] = PathSearch::kLeast + rng.Below(9'000);
      const auto is_short = [&](size_t i) { return paths[i] < search.bytes(); };
      int turns = 0;
      for (; is_short(0) || is_short(1); ++turns) {
        ASSERT_LT(turns, 1'000);
        for (size_t i = 0; i < kChannels; ++i) {
          if (!is_short(i)) {
            search.Trust(i);
          } else {
            search.Suspect(now_, i);
          }
        }
        turn();
      }
      ASSERT_LE(search.bytes(), before);
      ASSERT_GE(search.bytes(), PathSearch::kLeast);
      if (turns == 0) {
        ASSERT_EQ(search.bytes(), before);
      }
    }
  }
}

}  // namespace
}  // namespace snf
