// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/pattern_database.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace snf::snort {
namespace {

class Folder {
 public:
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    if (!std::filesystem::exists(path_)) return found;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      found.push_back(file.path());
    }
    return found;
  }

 private:
  std::string path_ = testing::TempDir() + "database_cache_" +
                      std::to_string(::getpid()) + "/inner";
};

std::vector<uint32_t> Found(const PatternDatabase& database,
                            const std::string& text) {
  PatternDatabase::Scratch scratch;
  EXPECT_TRUE(scratch.Add(database).ok());
  std::vector<uint32_t> found;
  database.Find(text, scratch, found);
  std::ranges::sort(found);
  return found;
}

const std::vector<std::string> kPatterns = {"abc", "bcd",
                                            std::string("x\0y", 3), "c"};

TEST(PatternDatabase, FindsEachPatternOnceWhateverItsCase) {
  const auto database = PatternDatabase::Compile(kPatterns, DatabaseCache(""));
  ASSERT_TRUE(database.ok()) << database.status();
  EXPECT_EQ(Found(*database, "aBCd abc"), (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(Found(*database, std::string("X\0Y", 3)),
            (std::vector<uint32_t>{2}));
  EXPECT_EQ(Found(*database, ""), std::vector<uint32_t>{});
  EXPECT_EQ(Found(*PatternDatabase::Compile({}, DatabaseCache("")), "abc"),
            std::vector<uint32_t>{});
}

TEST(DatabaseCache, GivesBackWhatWasCompiled) {
  const Folder folder;
  const DatabaseCache cache(folder.path());
  const auto first = PatternDatabase::Compile(kPatterns, cache);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->is_from_cache());
  ASSERT_EQ(folder.files().size(), 1u);
  const auto second = PatternDatabase::Compile(kPatterns, cache);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->is_from_cache());
  EXPECT_EQ(Found(*second, "aBCd"), (std::vector<uint32_t>{0, 1, 3}));
  // Other patterns are another file.
  const auto other = PatternDatabase::Compile({"abc"}, cache);
  EXPECT_FALSE(other->is_from_cache());
  EXPECT_EQ(folder.files().size(), 2u);
}

TEST(DatabaseCache, TakesNoFileThatIsDamaged) {
  const Folder folder;
  const DatabaseCache cache(folder.path());
  ASSERT_TRUE(PatternDatabase::Compile(kPatterns, cache).ok());
  ASSERT_EQ(folder.files().size(), 1u);
  const std::filesystem::path file = folder.files()[0];
  std::ifstream in(file, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  // Every place of the head and the key, and some of the database.
  for (size_t at = 0; at < whole.size(); at += at < 200 ? 1 : 97) {
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 0x20);
    std::ofstream(file, std::ios::binary) << other;
    const auto database = PatternDatabase::Compile(kPatterns, cache);
    ASSERT_TRUE(database.ok());
    EXPECT_FALSE(database->is_from_cache()) << "byte " << at;
    EXPECT_EQ(Found(*database, "aBCd"), (std::vector<uint32_t>{0, 1, 3}));
  }
  for (const size_t bytes : {size_t{0}, size_t{5}, whole.size() - 1}) {
    std::ofstream(file, std::ios::binary) << whole.substr(0, bytes);
    EXPECT_FALSE(PatternDatabase::Compile(kPatterns, cache)->is_from_cache())
        << bytes << " bytes";
  }
  // A damaged file is replaced.
  EXPECT_TRUE(PatternDatabase::Compile(kPatterns, cache)->is_from_cache());
}

TEST(DatabaseCache, IsAsIfEmptyWhereItCannotBeWritten) {
  const auto database =
      PatternDatabase::Compile(kPatterns, DatabaseCache("/dev/null/no"));
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(Found(*database, "abc"), (std::vector<uint32_t>{0, 3}));
}

}  // namespace
}  // namespace snf::snort
