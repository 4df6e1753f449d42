// SPDX-License-Identifier: Apache-2.0
#include "traces/byte_sink.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using testing::HasSubstr;

class WriteFileTest : public testing::Test {
 protected:
  WriteFileTest()
      : folder_(testing::TempDir() + "snf_write_file_" +
                std::to_string(getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~WriteFileTest() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  std::string Contents(const std::string& name) const {
    std::ifstream file(At(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_;
};

TEST_F(WriteFileTest, ReplacesTheWholeFile) {
  const std::string bytes("a\0b", 3);
  ASSERT_TRUE(WriteFile(At("file"), std::string(100'000, 'x')).ok());
  ASSERT_TRUE(WriteFile(At("file"), bytes).ok());
  EXPECT_EQ(Contents("file"), bytes);
  EXPECT_FALSE(std::filesystem::exists(At("file.partial")));
}

TEST_F(WriteFileTest, NamesPathAndReason) {
  const absl::Status missing = WriteFile(At("none/file"), "x");
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr(At("none/file") +
                        ": cannot create: No such file or directory"));
  std::filesystem::create_symlink("/dev/full", At("full"));
  EXPECT_THAT(std::string(WriteFile(At("full"), "x").message()),
              HasSubstr("No space left on device"));
}

TEST_F(WriteFileTest, LeavesNothingOfAFileThatItCannotName) {
  std::filesystem::create_directories(At("folder/in_it"));
  EXPECT_FALSE(WriteFile(At("folder"), "x").ok());
  EXPECT_FALSE(std::filesystem::exists(At("folder.partial")));
}

}  // namespace
}  // namespace snf
