// SPDX-License-Identifier: Apache-2.0
#include "traces/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "traces/fixture_capture.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip,
                                         Compression::kZstd};

// Too big for one window, and with packets as long as they may be.
std::string BigCapture() {
  HandmadeCapture file;
  file.PcapHeader();
  for (uint32_t i = 0; i < 50; ++i) {
    const auto bytes = i % 10 == 9 ? kMaxCapturedBytes : i * 300;
    file.PcapRecord(i, 0, std::string(bytes, static_cast<char>('a' + i % 26)),
                    0);
  }
  return file.bytes();
}

void ExpectBigCapture(const Reading& reading) {
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_THAT(reading.warnings, IsEmpty());
  const Reading plain = ReadBytes(BigCapture());
  EXPECT_EQ(plain.packets.size(), 50u);
  EXPECT_TRUE(reading.packets == plain.packets);
}

TEST(ByteSource, RecognisesCompressionByItsMagicAndNotByItsName) {
  for (const Compression compression : kCompressions) {
    const std::string bytes = Compressed(BigCapture(), compression);
    const Reading reading = ReadBytes(bytes);
    ExpectBigCapture(reading);
    EXPECT_EQ(reading.bytes_read, bytes.size());
    EXPECT_EQ(reading.total_bytes, bytes.size());
  }
}

TEST(ByteSource, ReadsMembersAndFramesInARow) {
  const std::string capture = BigCapture();
  for (const Compression compression :
       {Compression::kGzip, Compression::kZstd}) {
    ExpectBigCapture(ReadBytes(Compressed(capture.substr(0, 7), compression) +
                               Compressed("", compression) +
                               Compressed(capture.substr(7), compression)));
  }
}

TEST(ByteSource, PassesOverSkippableZstdFrames) {
  const std::string skippable =
      HandmadeCapture().Add32(0x184d2a53).Add32(4).AddText("skip").bytes();
  ExpectBigCapture(
      ReadBytes(skippable + Compressed(BigCapture(), Compression::kZstd)));
}

// Memory of this process that files are mapped into, in KiB.
uint64_t MappedResidentKib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  uint64_t kib = 0;
  while (status >> word && word != "RssFile:") {
  }
  status >> kib;
  return kib;
}

TEST(ByteSource, GivesBackTheMappedPagesThatItHasRead) {
  constexpr uint32_t kPacketBytes = 100'000;
  constexpr uint32_t kPackets = 640;  // 64 MB
  HandmadeCapture file;
  file.PcapHeader();
  for (uint32_t i = 0; i < kPackets; ++i) {
    file.PcapRecord(i, 0, std::string(kPacketBytes, static_cast<char>(i)), 0);
  }
  const TestFolder folder;
  auto reader = CaptureReader::Open(folder.Write("capture", file.bytes()));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const uint64_t before_kib = MappedResidentKib();
  CapturedPacket packet;
  uint32_t packets = 0;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    const std::string expected(kPacketBytes, static_cast<char>(packets++));
    ASSERT_EQ(TextOf(packet.bytes), expected);
  }
  EXPECT_EQ(packets, kPackets);
  EXPECT_LT(MappedResidentKib(), before_kib + 16'384);
}

TEST(ByteSource, ReadsAPipeWhoseSizeNobodyKnows) {
  HandmadeCapture file;
  file.PcapHeader().PcapRecord(1, 2, "packet", 6);
  for (const Compression compression : kCompressions) {
    const std::string bytes = Compressed(file.bytes(), compression);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    close(ends[1]);
    const Reading reading = ReadCapture("/dev/fd/" + std::to_string(ends[0]));
    close(ends[0]);
    EXPECT_EQ(reading.packets.size(), 1u) << reading.status;
    EXPECT_EQ(reading.bytes_read, bytes.size());
    EXPECT_EQ(reading.total_bytes, 0u);
  }
}

TEST(ByteSource, TakesADashForStdin) {
  const TestFolder folder;
  const int file =
      open(folder.Write("capture", BigCapture()).c_str(), O_RDONLY);
  const int saved = dup(STDIN_FILENO);
  ASSERT_EQ(dup2(file, STDIN_FILENO), STDIN_FILENO);
  ExpectBigCapture(ReadCapture("-"));
  EXPECT_EQ(ReadCapture("-").message(), "stdin: offset 0: the file is empty");
  dup2(saved, STDIN_FILENO);
  close(saved);
  close(file);
}

TEST(ByteSource, EndsWithAWarningWhereTheCompressedDataIsCutOff) {
  for (const Compression compression :
       {Compression::kGzip, Compression::kZstd}) {
    std::string bytes = Compressed(BigCapture(), compression);
    bytes.pop_back();
    Reading reading = ReadBytes(bytes);
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_EQ(reading.packets.size(), 50u);
    EXPECT_THAT(reading.warnings,
                ElementsAre(HasSubstr(": the compressed data is cut short")));

    reading = ReadBytes(bytes.substr(0, bytes.size() / 2));
    EXPECT_TRUE(reading.status.ok() || reading.packets.empty())
        << reading.status;

    reading = ReadBytes(bytes.substr(0, 12));
    EXPECT_EQ(reading.status.code(), absl::StatusCode::kDataLoss);
  }
}

TEST(ByteSource, IgnoresWhatFollowsTheCompressedDataWithAWarning) {
  for (const Compression compression :
       {Compression::kGzip, Compression::kZstd}) {
    const Reading reading = ReadBytes(Compressed(BigCapture(), compression) +
                                      std::string(512, '\0'));
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_EQ(reading.packets.size(), 50u);
    EXPECT_THAT(reading.warnings,
                ElementsAre(HasSubstr(
                    ": bytes after the compressed data are ignored")));
  }
}

TEST(ByteSource, RefusesDamagedCompressedDataWithTheReason) {
  for (const Compression compression :
       {Compression::kGzip, Compression::kZstd}) {
    std::string bytes = Compressed(BigCapture(), compression);
    bytes[bytes.size() - 6] = static_cast<char>(~bytes[bytes.size() - 6]);
    bytes[bytes.size() - 3] = static_cast<char>(~bytes[bytes.size() - 3]);
    const Reading reading = ReadBytes(bytes);
    EXPECT_EQ(reading.status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(reading.message(),
                HasSubstr("bad compressed data before byte " +
                          std::to_string(bytes.size())));
  }
  EXPECT_THAT(ReadBytes("\x1f\x8b oh no").message(),
              HasSubstr("FILE: offset 0: bad compressed data before byte 4 of "
                        "the file: "));
}

TEST(ByteSource, NamesFilesThatCannotBeRead) {
  const TestFolder folder;
  Reading reading = ReadCapture(folder.Path("absent"));
  EXPECT_EQ(reading.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(reading.message(),
            folder.Path("absent") + ": cannot open: No such file or directory");

  reading = ReadCapture(folder.Path(""));
  EXPECT_EQ(reading.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(reading.message(),
            folder.Path("") + ": cannot read: Is a directory");

  const std::string secret = folder.Write("secret", "x");
  chmod(secret.c_str(), 0);
  if (access(secret.c_str(), R_OK) != 0) {  // root may read everything
    reading = ReadCapture(secret);
    EXPECT_EQ(reading.status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(reading.message(), secret + ": cannot open: Permission denied");
  }
}

}  // namespace
}  // namespace snf
