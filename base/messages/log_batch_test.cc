// SPDX-License-Identifier: Apache-2.0
#include "base/messages/log_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The records of a batch in order, and the counts of lost ones.
struct Contents {
  std::vector<std::pair<int, std::string>> records;
  std::map<int, int> lost;
  bool is_sound = false;
};
Contents ContentsOf(std::span<const std::byte> batch) {
  Contents contents;
  contents.is_sound = LogBatch::Read(
      batch,
      [&](LogId log, std::span<const std::byte> bytes) {
        contents.records.emplace_back(
            static_cast<int>(log),
            std::string(reinterpret_cast<const char*>(bytes.data()),
                        bytes.size()));
      },
      [&](LogId log, uint16_t n) { contents.lost[static_cast<int>(log)] = n; });
  return contents;
}

class LogBatchTest : public ::testing::Test {
 protected:
  std::vector<std::byte> room_ = std::vector<std::byte>(LogBatch::kMaxBytes);
  LogBatch batch_{room_};
};

TEST_F(LogBatchTest, KeepsRecordsInOrder) {
  EXPECT_TRUE(batch_.empty());
  EXPECT_TRUE(batch_.Add(LogId{3}, Bytes("one")));
  EXPECT_TRUE(batch_.Add(LogId{0}, Bytes("")));
  EXPECT_TRUE(batch_.Add(LogId{3}, Bytes("two")));
  EXPECT_FALSE(batch_.empty());
  const Contents read = ContentsOf(batch_.bytes());
  EXPECT_TRUE(read.is_sound);
  EXPECT_THAT(read.records,
              ElementsAre(Pair(3, "one"), Pair(0, ""), Pair(3, "two")));
  EXPECT_THAT(read.lost, IsEmpty());
}

TEST_F(LogBatchTest, CountsByLogWhatFindsNoRoom) {
  const std::string long_record(LogBatch::kMaxRecordBytes, 'x');
  EXPECT_TRUE(batch_.Add(LogId{1}, Bytes(long_record)));
  EXPECT_FALSE(batch_.Add(LogId{1}, Bytes(long_record + "y")));  // too long
  EXPECT_FALSE(batch_.Add(LogId{2}, Bytes(long_record)));        // no room
  EXPECT_TRUE(batch_.Add(LogId{2}, Bytes("short")));
  const Contents read = ContentsOf(batch_.bytes());
  EXPECT_TRUE(read.is_sound);
  EXPECT_EQ(read.records.size(), 2u);
  EXPECT_THAT(read.lost, ElementsAre(Pair(1, 1), Pair(2, 1)));
  EXPECT_LE(batch_.bytes().size(), LogBatch::kMaxBytes);
}

TEST_F(LogBatchTest, AppendsAnotherWithWhatThatLost) {
  std::vector<std::byte> room(LogBatch::kMaxBytes);
  LogBatch other(room);
  other.Add(LogId{5}, Bytes("one"));
  other.Add(LogId{6}, Bytes(std::string(LogBatch::kMaxRecordBytes + 1, 'x')));
  batch_.Append(other);
  EXPECT_TRUE(std::ranges::equal(batch_.bytes(), other.bytes()));
}

// Nothing behind the end is read, whatever the bytes are.
TEST_F(LogBatchTest, RefusesBytesThatAreNoBatch) {
  batch_.Add(LogId{1}, Bytes("record"));
  const std::vector<std::byte> good(batch_.bytes().begin(),
                                    batch_.bytes().end());
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    const std::vector<std::byte> cut(good.begin(),
                                     good.begin() + static_cast<long>(bytes));
    const bool is_empty_batch = bytes == 2 * LogBatch::kMaxLogs;
    EXPECT_EQ(ContentsOf(cut).is_sound, is_empty_batch) << bytes << " bytes";
  }
  for (const size_t at : {size_t{33}, size_t{35}}) {  // its log, its length
    std::vector<std::byte> wrong = good;
    wrong[at] = std::byte{0xff};
    EXPECT_FALSE(ContentsOf(wrong).is_sound) << "byte " << at;
  }
  EXPECT_FALSE(ContentsOf(std::vector<std::byte>(4'096)).is_sound);
}

}  // namespace
}  // namespace snf
