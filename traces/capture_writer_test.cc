// SPDX-License-Identifier: Apache-2.0
#include "traces/capture_writer.h"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/rng.h"
#include "traces/fixture_capture.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr CaptureWriter::Options kNanoseconds;
constexpr CaptureWriter::Options kMicroseconds{.microseconds = true};

std::unique_ptr<CaptureWriter> OpenWriter(
    const std::string& path, const CaptureWriter::Options& options) {
  auto writer = CaptureWriter::Open(path, options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  return *std::move(writer);
}

CapturedPacket PacketOf(const KeptPacket& kept) {
  return {.time = {kept.ns},
          .bytes = std::as_bytes(std::span(kept.bytes)),
          .original_bytes = kept.original_bytes,
          .link = kept.link};
}

bool Put(CaptureWriter& writer, const KeptPacket& packet,
         std::string_view comment = {}) {
  return writer.Write(PacketOf(packet), comment);
}

TEST(CaptureWriter, IsReadBackInEveryFormatResolutionAndCompression) {
  std::vector<KeptPacket> packets;
  for (uint32_t i = 0; i < 3'000; ++i) {
    packets.push_back({int64_t{i} * 1'000'000'123, std::string(i % 1'515, 'x'),
                       i % 1'515 + i % 2});
  }
  packets.push_back({1, std::string(kMaxCapturedBytes, 'y'), 300'000});
  for (const char* format : {".pcap", ".pcapng"}) {
    for (const char* suffix : {"", ".gz", ".zst"}) {
      for (const bool microseconds : {false, true}) {
        const TestFolder folder;
        const std::string path =
            folder.Path(std::string("out") + format + suffix);
        const auto writer = OpenWriter(path, {.microseconds = microseconds});
        std::vector<KeptPacket> expected;
        for (const KeptPacket& packet : packets) {
          ASSERT_TRUE(Put(*writer, packet)) << writer->status();
          expected.push_back(packet);
          expected.back().ns -= microseconds ? packet.ns % 1'000 : 0;
        }
        EXPECT_EQ(writer->packets_written(), packets.size());
        ASSERT_TRUE(writer->Close().ok());
        const Reading reading = ReadCapture(path);
        EXPECT_TRUE(reading.status.ok()) << reading.status;
        EXPECT_THAT(reading.warnings, IsEmpty());
        EXPECT_TRUE(reading.packets == expected) << path;
        const std::string stored = ReadFile(path);
        EXPECT_EQ(CompressionOfMagic(std::as_bytes(std::span(stored))),
                  CompressionOfName(path));
      }
    }
  }
}

TEST(CaptureWriter, WritesTheMagicOfItsResolution) {
  const TestFolder folder;
  for (const bool microseconds : {false, true}) {
    const auto writer =
        OpenWriter(folder.Path("out.pcap"), {.microseconds = microseconds});
    ASSERT_TRUE(Put(*writer, {1'000'000'500, "p", 1}));
    ASSERT_TRUE(writer->Close().ok());
    HandmadeCapture expected;
    expected.Add32(microseconds ? kPcapMicroseconds : kPcapNanoseconds)
        .Add16(2)
        .Add16(4)
        .Add64(0)
        .Add32(kMaxCapturedBytes)
        .Add32(1)
        .PcapRecord(1, microseconds ? 0 : 500, "p", 1);
    EXPECT_EQ(ReadFile(folder.Path("out.pcap")), expected.bytes());
  }
}

TEST(CaptureWriter, GivesEachLinkTypeAnInterfaceInPcapng) {
  const std::vector<KeptPacket> packets = {
      {1, "a", 1, LinkType::kLinuxSll2, 0}, {2, "b", 2, LinkType::kRawIp, 1},
      {3, "c", 3, LinkType::kLinuxSll2, 0}, {4, "d", 4, LinkType::kNull, 2},
      {5, "e", 5, LinkType::kEthernet, 3},  {6, "f", 6, LinkType::kLinuxSll, 4},
      {7, "g", 7, LinkType::kLoop, 5},      {8, "h", 8, LinkType::kRawIp, 1}};
  const TestFolder folder;
  const auto writer = OpenWriter(folder.Path("out"), kNanoseconds);
  for (const KeptPacket& packet : packets) {
    ASSERT_TRUE(Put(*writer, packet));
  }
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(ReadCapture(folder.Path("out")).packets, packets);
}

// Both formats tell readers this host's byte order, in which they will read it.
TEST(CaptureWriter, WritesTheFamilyOfLoopbackInTheByteOrderOfTheFile) {
  for (const char* name : {"out.pcap", "out.pcapng"}) {
    const TestFolder folder;
    const auto writer = OpenWriter(folder.Path(name), kNanoseconds);
    using std::string_literals::operator""s;
    for (const std::string& family :
         {"\x00\x00\x00\x1e"s, "\x1e\x00\x00\x00"s}) {
      ASSERT_TRUE(Put(*writer, {1, family + "ip", 6, LinkType::kNull}));
    }
    ASSERT_TRUE(Put(*writer, {2, "\x00\x1e"s, 2, LinkType::kNull}));
    ASSERT_TRUE(writer->Close().ok());
    const std::vector<KeptPacket> read = ReadCapture(folder.Path(name)).packets;
    ASSERT_EQ(read.size(), 3u);
    EXPECT_EQ(read[0].bytes, "\x1e\x00\x00\x00ip"s);
    EXPECT_EQ(read[1].bytes, read[0].bytes);
    EXPECT_EQ(read[2].bytes, "\x00\x1e"s);
  }
}

// Of raw IP there are several.
TEST(CaptureWriter, KeepsTheNumberOfALinkType) {
  for (const char* name : {"in.pcap", "in.pcapng"}) {
    const TestFolder folder;
    const auto writer = OpenWriter(folder.Path(name), kNanoseconds);
    const KeptPacket kept = {1, "p", 1, LinkType::kRawIp};
    CapturedPacket packet = PacketOf(kept);
    packet.link_number = 228;
    ASSERT_TRUE(writer->Write(packet));
    ASSERT_TRUE(writer->Close().ok());
    const auto reader = CaptureReader::Open(folder.Path(name));
    ASSERT_TRUE(reader.ok());
    ASSERT_EQ((*reader)->Next(packet), ReadResult::kPacket);
    EXPECT_EQ(packet.link, LinkType::kRawIp);
    EXPECT_EQ(packet.link_number, 228);
  }
}

TEST(CaptureWriter, SaysHowMuchOfAPacketItHolds) {
  for (const char* name : {"out.pcap", "out.pcapng"}) {
    const TestFolder folder;
    const auto writer = OpenWriter(folder.Path(name), {.snap_bytes = 96});
    ASSERT_TRUE(Put(*writer, {1, std::string(96, 'p'), 1'500}));
    EXPECT_FALSE(Put(*writer, {1, std::string(97, 'p'), 1'500}));
    EXPECT_THAT(writer->status().message(),
                HasSubstr("captured length exceeds 96: 97"));
    const auto again = OpenWriter(folder.Path(name), {.snap_bytes = 96});
    ASSERT_TRUE(Put(*again, {1, std::string(96, 'p'), 1'500}));
    ASSERT_TRUE(again->Close().ok());
    const auto reader = CaptureReader::Open(folder.Path(name));
    ASSERT_TRUE(reader.ok());
    CapturedPacket packet;
    ASSERT_EQ((*reader)->Next(packet), ReadResult::kPacket);
    ASSERT_EQ((*reader)->facts().interfaces.size(), 1u);
    EXPECT_EQ((*reader)->facts().interfaces[0].snap_bytes, 96u);
  }
}

TEST(CaptureWriter, WritesACommentBehindItsPacket) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder.Path("out.pcapng"), kNanoseconds);
  ASSERT_TRUE(Put(*writer, {3, "packet", 60}, "queue full"));
  ASSERT_TRUE(Put(*writer, {4, "next", 4}));
  ASSERT_TRUE(writer->Close().ok());
  HandmadeCapture expected;
  expected.Section()
      .Interface(1, 0,
                 expected.Part().Resolution(9).Option(kOptionEnd, "").bytes())
      .EnhancedPacket(0, 3, "packet", 60,
                      expected.Part()
                          .Option(kOptionComment, "queue full")
                          .Option(kOptionEnd, "")
                          .bytes())
      .EnhancedPacket(0, 4, "next", 4);
  EXPECT_EQ(ReadFile(folder.Path("out.pcapng")), expected.bytes());
}

TEST(CaptureWriter, AppearsUnderItsNameOnlyWhenComplete) {
  const TestFolder folder;
  const std::string path = folder.Write("out.pcap", "what was here before");
  {
    const auto writer = OpenWriter(path, kNanoseconds);
    ASSERT_TRUE(Put(*writer, {1, "p", 1}));
    EXPECT_TRUE(std::filesystem::exists(path + ".partial"));
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  EXPECT_EQ(ReadFile(path), "what was here before");

  const auto writer = OpenWriter(path, kNanoseconds);
  ASSERT_TRUE(Put(*writer, {1, "p", 1}));
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  EXPECT_EQ(ReadCapture(path).packets.size(), 1u);
}

TEST(CaptureWriter, LeavesTheNextWriterOfItsNameAloneOnceClosed) {
  const TestFolder folder;
  const std::string path = folder.Path("out.pcap");
  auto first = OpenWriter(path, kNanoseconds);
  ASSERT_TRUE(first->Close().ok());
  const auto second = OpenWriter(path, kNanoseconds);
  first.reset();
  ASSERT_TRUE(Put(*second, {1, "p", 1}));
  ASSERT_TRUE(second->Close().ok());
  EXPECT_EQ(ReadCapture(path).packets.size(), 1u);
}

TEST(CaptureWriter, WritesAValidFileWhenThereAreNoPackets) {
  const TestFolder folder;
  for (const char* name : {"none.pcap", "none.pcapng", "none.pcap.gz"}) {
    ASSERT_TRUE(OpenWriter(folder.Path(name), kNanoseconds)->Close().ok());
    EXPECT_THAT(ReadCapture(folder.Path(name)).message(),
                HasSubstr("contains no packets"));
  }
}

TEST(CaptureWriter, RefusesWhatTheFormatCannotHold) {
  const struct {
    const char* name;
    std::vector<KeptPacket> packets;
    std::string comment;
    std::string message;
  } kCases[] = {
      {"out.pcap",
       {{0, "p", 1}, {0, "q", 1, LinkType::kRawIp}},
       "",
       "packet 2: pcap has one link type, pcapng can have more; LINKTYPE 1 is "
       "followed by: 101"},
      {"out.pcap",
       {{4'294'967'296'000'000'000, "p", 1}},
       "",
       "packet 1: time does not fit the 32 bits of pcap, seconds: 4294967296"},
      {"out.pcap",
       {{0, "p", 1}},
       "lost",
       "packet 1: pcap has no place for comments, pcapng has: lost"},
      {"out.pcapng",
       {{-1, "p", 1}},
       "",
       "packet 1: time before 1970, nanoseconds: -1"},
      {"out.pcapng",
       {{0, "p", 1}},
       std::string(kMaxCommentBytes + 1, 'c'),
       "packet 1: length of the comment exceeds 4096: 4097"},
      {"out.pcapng",
       {{0, std::string(kMaxCapturedBytes + 1, 'x'), 1}},
       "",
       "packet 1: captured length exceeds 262144: 262145"},
  };
  for (const auto& each : kCases) {
    const TestFolder folder;
    const std::string path = folder.Path(each.name);
    {
      const auto writer = OpenWriter(path, kNanoseconds);
      for (size_t i = 0; i + 1 < each.packets.size(); ++i) {
        ASSERT_TRUE(Put(*writer, each.packets[i], each.comment));
      }
      EXPECT_FALSE(Put(*writer, each.packets.back(), each.comment));
      EXPECT_EQ(writer->status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(writer->status().message(), path + ": " + each.message);
      EXPECT_FALSE(Put(*writer, {0, "p", 1}));
      EXPECT_EQ(writer->packets_written(), each.packets.size() - 1);
      EXPECT_EQ(writer->Close(), writer->status());
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  }
}

TEST(CaptureWriter, NamesFilesThatCannotBeCreated) {
  const TestFolder folder;
  const std::string path = folder.Path("absent/out.pcap");
  const absl::Status status = CaptureWriter::Open(path, kMicroseconds).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            path + ": cannot create: No such file or directory");
}

TEST(CaptureWriter, ReportsAFullDeviceAtTheLatestWhenItCloses) {
  const auto writer = OpenWriter("/dev/full", kNanoseconds);
  EXPECT_TRUE(Put(*writer, {1, "fits the buffer", 15}));
  const absl::Status status = writer->Close();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            "/dev/full: cannot write: No space left on device");
}

// Caps the size of every file that this process writes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &saved_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = saved_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &saved_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit saved_{};
};

TEST(CaptureWriter, StopsWhereTheFileMayNotGrowAndLeavesNothingBehind) {
  constexpr uint64_t kSeed = 7;
  for (const char* name : {"out.pcap", "out.pcapng.gz", "out.pcapng.zst"}) {
    const TestFolder folder;
    const std::string path = folder.Path(name);
    {
      const auto writer = OpenWriter(path, kNanoseconds);
      const FileSizeLimit limit(1'000'000);
      Rng rng(kSeed);
      std::string noise(1'000, '\0');  // does not compress
      uint32_t packets = 0;
      do {
        ++packets;
        for (char& each : noise) {
          each = static_cast<char>(rng.Next());
        }
      } while (packets < 10'000 && Put(*writer, {packets, noise, 1'000}));
      EXPECT_GT(packets, 900u);
      EXPECT_LT(packets, 2'000u);
      EXPECT_EQ(writer->status().code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(writer->status().message(),
                path + ": cannot write: File too large");
      EXPECT_FALSE(Put(*writer, {1, "p", 1}));
      EXPECT_EQ(writer->Close(), writer->status());
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  }
}

}  // namespace
}  // namespace snf
