// SPDX-License-Identifier: Apache-2.0
#include "platform/outcome/nf_log_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/messages/log_batch.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

// Writes its records as they are, or, of the log "times", with their time.
class LogsForFiles final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  void write_record(const LogRecord& record, std::string& lines) override {
    if (record.log == times_) lines += std::to_string(record.time.ns) + " ";
    NetworkFunction::write_record(record, lines);
  }

 private:
  LogId plain_ = declare_log("plain", "");
  LogId times_ = declare_log("times", "");
};
SNF_REGISTER_NF(LogsForFiles, "logs_for_files", "for tests");

class NfLogFilesTest : public ::testing::Test {
 protected:
  NfLogFilesTest() {
    char name[] = "/tmp/nf_log_files_XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~NfLogFilesTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<NfLogFiles> Open(NfLogFiles::Options options = {}) {
    options.directory = folder_ + "/logs";
    auto files = NfLogFiles::Open(options);
    EXPECT_TRUE(files.ok()) << files.status();
    return *std::move(files);
  }
  static NfLogFiles::Reader& ReaderOf(NfLogFiles& files) {
    auto reader = files.Read(NfSpec(registration_of_LogsForFiles));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return **reader;
  }
  static void Log(NfLogFiles::Reader& reader, int log, std::string_view text,
                  Instant at = {}) {
    std::vector<std::byte> room(LogBatch::kMaxBytes);
    LogBatch batch(room);
    batch.Add(LogId{static_cast<uint16_t>(log)},
              std::as_bytes(std::span(text)));
    reader.on_records(at, batch.bytes());
  }
  std::string PathOf(const std::string& log) const {
    return folder_ + "/logs/logs_for_files." + log + ".log";
  }
  std::string TextOf(const std::string& log) const {
    std::ifstream file(PathOf(log));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(NfLogFilesTest, HaveALineForEachRecordInOrder) {
  const auto files = Open();
  NfLogFiles::Reader& reader = ReaderOf(*files);
  EXPECT_TRUE(std::filesystem::exists(PathOf("plain")));  // from the start
  for (int i = 0; i < 1'000; ++i) Log(reader, 0, std::to_string(i));
  Log(reader, 1, "late", Instant{77});
  EXPECT_TRUE(files->Flush().ok());
  std::string expected;
  for (int i = 0; i < 1'000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(TextOf("plain"), expected);
  EXPECT_EQ(TextOf("times"), "77 late\n");
}

TEST_F(NfLogFilesTest, AreAppendedToOrBegunAnew) {
  for (const bool appends : {true, true, false}) {
    const auto files = Open({.directory = {}, .appends = appends});
    Log(ReaderOf(*files), 0, "a line");
    EXPECT_TRUE(files->Flush().ok());
    EXPECT_EQ(TextOf("plain").starts_with("a line\n"), true);
  }
  EXPECT_EQ(TextOf("plain"), "a line\n");
}

// Two chains of the same NF share its files.
TEST_F(NfLogFilesTest, TakeTheRecordsOfSeveralRuns) {
  const auto files = Open();
  NfLogFiles::Reader& one = ReaderOf(*files);
  NfLogFiles::Reader& two = ReaderOf(*files);
  Log(one, 0, "one");
  Log(two, 0, "two");
  EXPECT_TRUE(files->Flush().ok());
  EXPECT_EQ(TextOf("plain"), "one\ntwo\n");
}

TEST_F(NfLogFilesTest, AreOpenedAgainAfterARotation) {
  const auto files = Open();
  NfLogFiles::Reader& reader = ReaderOf(*files);
  Log(reader, 0, "before");
  EXPECT_TRUE(files->Flush().ok());
  std::filesystem::rename(PathOf("plain"), PathOf("plain") + ".1");
  Log(reader, 0, "still there");
  EXPECT_TRUE(files->Flush().ok());
  files->Reopen();
  Log(reader, 0, "after");
  EXPECT_TRUE(files->Flush().ok());
  EXPECT_EQ(TextOf("plain"), "after\n");
  std::ifstream rotated(PathOf("plain") + ".1");
  const std::string text(std::istreambuf_iterator<char>(rotated), {});
  EXPECT_EQ(text, "before\nstill there\n");
}

// A pipe without a reader stops the writer.
TEST_F(NfLogFilesTest, CountWhatTheQueueHasNoRoomFor) {
  std::filesystem::create_directories(folder_ + "/logs");
  ASSERT_EQ(mkfifo(PathOf("plain").c_str(), 0600), 0);
  const int reads = open(PathOf("plain").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reads, 0);
  constexpr int kRecords = 2'000;
  std::string read;
  NfLogFigures losses;
  {
    const auto files = Open({.directory = {}, .queue_bytes = 20'000});
    NfLogFiles::Reader& reader = ReaderOf(*files);
    const std::string record(500, 'x');
    for (int i = 0; i < kRecords; ++i) Log(reader, 0, record);
    files->AddLosses(losses);
    EXPECT_GT(losses.queue_full, 0u);
    EXPECT_EQ(losses.write_failed, 0u);
    // Now the rest is written.
    fcntl(reads, F_SETFL, 0);
    const size_t rest = (kRecords - losses.queue_full) * (record.size() + 1);
    std::string part(65'536, '\0');
    while (read.size() < rest) {
      const ssize_t n = ::read(reads, part.data(), part.size());
      ASSERT_GT(n, 0);
      read.append(part, 0, static_cast<size_t>(n));
    }
  }
  close(reads);
  EXPECT_EQ(static_cast<uint64_t>(std::ranges::count(read, '\n')),
            kRecords - losses.queue_full);
}

TEST_F(NfLogFilesTest, MakeTheRunWaitWhereNoRecordMayBeLost) {
  const auto files =
      Open({.directory = {}, .waits = true, .queue_bytes = 4'096});
  NfLogFiles::Reader& reader = ReaderOf(*files);
  for (int i = 0; i < 5'000; ++i) Log(reader, 0, std::string(100, 'x'));
  EXPECT_TRUE(files->Flush().ok());
  EXPECT_EQ(TextOf("plain").size(), 5'000u * 101);
  NfLogFigures losses;
  files->AddLosses(losses);
  EXPECT_EQ(losses.queue_full, 0u);
}

TEST_F(NfLogFilesTest, CountLinesThatTheirFileDoesNotTake) {
  std::filesystem::create_directories(folder_ + "/logs");
  std::filesystem::create_symlink("/dev/full", PathOf("plain"));
  const auto files = Open();
  NfLogFiles::Reader& reader = ReaderOf(*files);
  Log(reader, 0, "one");
  Log(reader, 0, "two");
  Log(reader, 1, "kept");
  EXPECT_THAT(std::string(files->Flush().message()),
              HasSubstr("plain.log: No space left on device"));
  NfLogFigures losses;
  files->AddLosses(losses);
  EXPECT_EQ(losses.write_failed, 2u);
  EXPECT_EQ(TextOf("times"), "0 kept\n");
}

TEST_F(NfLogFilesTest, SayWhichFileCannotBe) {
  std::ofstream(folder_ + "/logs") << "no directory";
  const auto files = NfLogFiles::Open({.directory = folder_ + "/logs"});
  EXPECT_THAT(std::string(files.status().message()),
              HasSubstr(folder_ + "/logs: "));
  std::filesystem::remove(folder_ + "/logs");
  std::filesystem::create_directories(PathOf("times"));
  const auto open = Open();
  EXPECT_THAT(
      std::string(
          open->Read(NfSpec(registration_of_LogsForFiles)).status().message()),
      HasSubstr(PathOf("times") + ": Is a directory"));
}

}  // namespace
}  // namespace snf
