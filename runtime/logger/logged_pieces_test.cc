// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/logged_pieces.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace snf {
namespace {

class LoggedPiecesTest : public testing::Test {
 protected:
  // Pool 0 has the pieces 10 … 130.
  LoggedPiecesTest()
      : pools_({{.name = "port", .first = 10, .last = 130}}), pieces_(pools_) {}

  static PieceBlock Block(uint32_t word, uint64_t mask) {
    return {.word = word, .pool = 0, .mask = mask};
  }
  // Makes an entry that takes, or gives, these pieces.
  LogEntryView Entry(const std::vector<PieceUse>& uses) {
    LogEntry entry;
    entry.number = 1;
    entry.meta.clock = entry.state = Clock{1};
    entry.flags = LogEntry::kWhole;
    entry.pieces = static_cast<uint16_t>(uses.size());
    bytes_.resize(sizeof entry + uses.size() * sizeof(PieceUse));
    WriteLogEntry(entry, uses, {}, nullptr, {}, bytes_);
    const auto view = LogEntryView::Parse({.pools = 1}, bytes_);
    EXPECT_TRUE(view.has_value());
    return *view;
  }
  bool IsFree(uint32_t piece) const { return pieces_.free(0).Has(piece); }

  std::vector<NetworkFunction::Pool> pools_;
  LoggedPieces pieces_;
  std::vector<std::byte> bytes_;
};

TEST_F(LoggedPiecesTest, KnowsWhichPiecesThereAre) {
  EXPECT_TRUE(pieces_.Exist(Block(0, uint64_t{1} << 10)));
  EXPECT_FALSE(pieces_.Exist(Block(0, uint64_t{1} << 9)));
  EXPECT_TRUE(pieces_.Exist(Block(2, 0b111)));
  EXPECT_FALSE(pieces_.Exist(Block(2, 0b1000)));
  EXPECT_FALSE(pieces_.Exist(Block(3, 1)));
}

TEST_F(LoggedPiecesTest, TakesAGrantOnceAndInOrder) {
  EXPECT_TRUE(pieces_.Grant(Block(1, 0b11), 5));
  EXPECT_TRUE(IsFree(64));
  EXPECT_EQ(pieces_.last_grant(), 5u);
  EXPECT_FALSE(pieces_.Grant(Block(1, 0b110), 6)) << "65 is free already";
  EXPECT_FALSE(IsFree(66));
  EXPECT_FALSE(pieces_.Grant(Block(1, 0b100), 5)) << "an earlier grant";
  EXPECT_EQ(pieces_.last_grant(), 5u);
}

TEST_F(LoggedPiecesTest, ReturnsOnlyPiecesThatAreFree) {
  pieces_.Grant(Block(1, 0b11), 1);
  EXPECT_FALSE(pieces_.Return(Block(1, 0b111)));
  EXPECT_TRUE(IsFree(65));
  EXPECT_TRUE(pieces_.Return(Block(1, 0b10)));
  EXPECT_FALSE(IsFree(65));
  EXPECT_TRUE(IsFree(64));
}

TEST_F(LoggedPiecesTest, UsesAllPiecesOfAnEntryOrNone) {
  pieces_.Grant(Block(1, 0b11), 1);
  const PieceUse take{.piece = 64, .pool = 0, .gives = 0};
  const PieceUse give{.piece = 100, .pool = 0, .gives = 1};
  EXPECT_FALSE(pieces_.Use(Entry({take, give, take}))) << "64 is taken";
  EXPECT_TRUE(IsFree(64));
  EXPECT_FALSE(IsFree(100));
  EXPECT_TRUE(pieces_.Use(Entry({take, give})));
  EXPECT_FALSE(IsFree(64));
  EXPECT_TRUE(IsFree(100));
  pieces_.Undo(Entry({take, give}));
  EXPECT_TRUE(IsFree(64));
  EXPECT_FALSE(IsFree(100));
}

TEST_F(LoggedPiecesTest, RefusesToUseAPieceThatThereIsNot) {
  EXPECT_FALSE(pieces_.Use(Entry({{.piece = 131, .pool = 0, .gives = 1}})));
  EXPECT_FALSE(pieces_.Use(Entry({{.piece = 9, .pool = 0, .gives = 1}})));
}

TEST_F(LoggedPiecesTest, RestoresFreePiecesAndTheLastGrant) {
  EXPECT_TRUE(pieces_.Restore(Block(1, 0b11), 7));
  EXPECT_TRUE(pieces_.Restore(Block(0, uint64_t{1} << 20), 7));
  EXPECT_FALSE(pieces_.Restore(Block(1, 0b1), 7)) << "it is free already";
  EXPECT_EQ(pieces_.last_grant(), 7u);
  pieces_.Begin();
  EXPECT_EQ(pieces_.last_grant(), 0u);
  EXPECT_EQ(pieces_.free(0).size(), 0u);
}

}  // namespace
}  // namespace snf
