// SPDX-License-Identifier: Apache-2.0
#include "platform/process/command_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace snf {
namespace {

using testing::HasSubstr;

class CommandFiles : public testing::Test {
 protected:
  CommandFiles()
      : folder_(std::filesystem::temp_directory_path() /
                fmt::format("snf_command_files_{}", getpid())) {
    std::filesystem::create_directory(folder_);
    std::ofstream(folder_ / "in.pcap") << "x";
  }
  ~CommandFiles() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const {
    return (folder_ / name).string();
  }
  std::string Check(const std::vector<std::string>& read,
                    const std::vector<WrittenFile>& written) const {
    const absl::Status status = CheckFiles(read, written);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
    return std::string(status.message());
  }
  const std::filesystem::path folder_;
};

TEST_F(CommandFiles, MayAllBeDifferent) {
  EXPECT_EQ(Check({At("in.pcap"), "-"}, {{"--out", At("out.pcap")},
                                         {"--json", "-"},
                                         {"--drops", ""},
                                         {"", At("other.pcap")}}),
            "");
}

TEST_F(CommandFiles, AreNotBothReadAndWritten) {
  for (const std::string& name :
       {At("in.pcap"), At("./in.pcap"),
        At("../") + folder_.filename().string() + "/in.pcap"}) {
    EXPECT_EQ(Check({"none", At("in.pcap")}, {{"--json", name}}),
              fmt::format("--json={}: is also an input", name));
  }
  std::filesystem::create_hard_link(At("in.pcap"), At("link.pcap"));
  EXPECT_THAT(Check({At("in.pcap")}, {{"", At("link.pcap")}}),
              HasSubstr("link.pcap: is also an input"));
}

TEST_F(CommandFiles, AreNotWrittenTwiceWhetherTheyAreThereOrNot) {
  for (const char* name : {"in.pcap", "new.pcap"}) {
    EXPECT_THAT(Check({}, {{"--out", At(name)}, {"--drops", At("./") + name}}),
                HasSubstr("both would write the same file"));
  }
  EXPECT_EQ(Check({}, {{"--out", "nonesuch"}, {"", "./nonesuch"}}),
            "--out=nonesuch and ./nonesuch: both would write the same file");
}

TEST_F(CommandFiles, MayBeDevicesAnyNumberOfTimes) {
  EXPECT_EQ(Check({"/dev/null"}, {{"--out", "/dev/null"},
                                  {"--json", "/dev/null"},
                                  {"--drops", "-"},
                                  {"--plot", "-"}}),
            "");
  EXPECT_TRUE(CheckCaptureName({"--out", "/dev/null"}).ok());
}

TEST_F(CommandFiles, AreCapturesByTheirNames) {
  for (const char* name :
       {"a.pcap", "a.pcapng", "a.pcap.gz", "a.pcapng.zst", "-", ""}) {
    EXPECT_TRUE(CheckCaptureName({"--out", name}).ok()) << name;
  }
  for (const char* name : {"a", "pcap", "a.pcap.xz", "a.gz", "a.PCAP",
                           "a.pcap.gz.zst", "a.pcap/"}) {
    const absl::Status status = CheckCaptureName({"--out", name});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    EXPECT_THAT(status.message(), HasSubstr(fmt::format("--out={}", name)));
  }
  EXPECT_TRUE(NamesPcapng("a.pcapng"));
  EXPECT_TRUE(NamesPcapng("a.pcapng.zst"));
  EXPECT_FALSE(NamesPcapng("a.pcapng.pcap"));
  EXPECT_FALSE(NamesPcapng("a.pcapng/a.pcap"));
}

}  // namespace
}  // namespace snf
