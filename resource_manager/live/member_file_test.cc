// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/member_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resource_manager/live/test_child.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

std::string FileOfTest() {
  return fmt::format("{}/snf-members-{}",
                     std::filesystem::temp_directory_path().string(), getpid());
}

TEST(MemberFile, ReadsWhatItHasWritten) {
  const std::string file = FileOfTest();
  const MemberFile written = {
      .epoch = 7,
      .units = 8,
      .unit_capacity_bps = 200'000'000,
      .members = {{ControllerId{0}, {123, 4567}, "a"},
                  {ControllerId{63}, {99, 1}, "office-2", "boot/1/2"}},
      .follows_hosts = true,
      .sites = {{3, {"b", "10.0.0.2:7000"}}}};
  ASSERT_TRUE(written.Write(file).ok());
  const auto read = MemberFile::Read(file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(**read, written);
  unlink(file.c_str());
  const auto none = MemberFile::Read(file);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(MemberFile, NamesALineThatIsNoneOfItsOwn) {
  const std::string file = FileOfTest();
  for (const char* const line : {"epoch x", "member 300 1 1 a", "member 1 1",
                                 "nonsense", "units -", "site 1 b"}) {
    std::ofstream(file) << "epoch 1\nunits 1\nunit_capacity_bps 1\n"
                        << line << '\n';
    const auto read = MemberFile::Read(file);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << line;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(line));
  }
  std::ofstream(file) << "epoch 1\n";
  EXPECT_FALSE(MemberFile::Read(file).ok());
  unlink(file.c_str());
}

TEST(ProcessWatch, KnowsAProcessByItsStartTime) {
  TestChild child;
  EXPECT_TRUE(ProcessWatch(child.id()).is_alive());
  EXPECT_TRUE(ProcessWatch(OwnProcessId()).is_alive());
  ProcessId other = child.id();
  ++other.start_time;
  EXPECT_FALSE(ProcessWatch(other).is_alive());
  const ProcessWatch watch(child.id());
  child.Kill();
  EXPECT_FALSE(watch.is_alive());
}

}  // namespace
}  // namespace snf
