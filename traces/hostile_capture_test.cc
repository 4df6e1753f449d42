// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "base/rng.h"
#include "traces/fixture_capture.h"

// Captures that nobody made for us: real ones, those that broke other programs,
// and our own with random damage.
namespace snf {
namespace {

// The collection of traces: $SNF_TRACES, else beside the source tree.
std::filesystem::path TracesFolder() {
  const char* named = std::getenv("SNF_TRACES");
  return named != nullptr ? named : "../shared/traces";
}

// Every damage must end in packets, or in an error that says where.
void ExpectAnAnswer(const Reading& reading, const std::string& path) {
  for (const std::string& warning : reading.warnings) {
    EXPECT_TRUE(warning.starts_with(path + ": offset ")) << warning;
  }
  if (reading.status.ok()) {
    EXPECT_FALSE(reading.packets.empty()) << path;
    return;
  }
  EXPECT_TRUE(absl::IsDataLoss(reading.status) ||
              absl::IsUnimplemented(reading.status))
      << reading.status;
  EXPECT_TRUE(reading.message().starts_with(path + ": offset "))
      << reading.message();
  EXPECT_EQ(reading.message().find('\n'), std::string::npos);
}

TEST(RealCaptures, HaveAsManyPacketsAsTheirManifestSays) {
  std::ifstream manifest(TracesFolder() / "MANIFEST.tsv");
  if (!manifest) {
    GTEST_SKIP() << "no MANIFEST.tsv in " << TracesFolder()
                 << "; SNF_TRACES names its folder";
  }
  std::string line;
  std::getline(manifest, line);  // the column names
  uint32_t files = 0;
  while (std::getline(manifest, line)) {
    std::istringstream columns(line);
    std::string file;
    std::string bytes;
    std::string sha256;
    uint64_t packets = 0;
    columns >> file >> bytes >> sha256 >> packets;
    auto reader = CaptureReader::Open((TracesFolder() / file).string());
    ASSERT_TRUE(reader.ok()) << reader.status();
    CapturedPacket packet;
    while ((*reader)->Next(packet) == ReadResult::kPacket) {
    }
    EXPECT_TRUE((*reader)->status().ok()) << (*reader)->status();
    EXPECT_EQ((*reader)->packets_read(), packets) << file;
    ++files;
  }
  std::printf("%u captures\n", files);
  EXPECT_GT(files, 50u);
}

TEST(FuzzSeeds, GiveEachPacketsOrAnErrorThatSaysWhere) {
  const std::filesystem::path seeds = TracesFolder() / "fuzz-seeds.tar.zst";
  if (!std::filesystem::exists(seeds)) {
    GTEST_SKIP() << "no " << seeds << "; SNF_TRACES names its folder";
  }
  const TestFolder folder;
  const std::string unpack = "zstd -dc '" + seeds.string() +
                             "' | tar -xf - -C '" + folder.Path("") + "'";
  ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;
  uint32_t files = 0;
  uint32_t with_packets = 0;
  uint64_t packets = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder.Path(""))) {
    if (!entry.is_regular_file()) {
      continue;
    }
    const Reading reading = ReadCapture(entry.path().string());
    ExpectAnAnswer(reading, entry.path().string());
    ++files;
    with_packets += reading.packets.empty() ? 0 : 1;
    packets += reading.packets.size();
  }
  std::printf("%u files, %u with packets, %llu packets\n", files, with_packets,
              static_cast<unsigned long long>(packets));
  EXPECT_GE(files, 3'000u);
  EXPECT_GE(with_packets, 2'800u);
}

// Captures of exactly one page: a read past the end of the mapping of one is a
// fault.
constexpr size_t kPageBytes = 4'096;

std::string OnePagePcap(uint32_t magic, bool swapped) {
  HandmadeCapture file(swapped);
  file.PcapHeader(magic);
  while (file.size() + 200 < kPageBytes) {
    file.PcapRecord(1, 2, "an ordinary packet", 60);
  }
  const size_t left = kPageBytes - file.size() - kPcapRecordBytes;
  return file.PcapRecord(3, 4, std::string(left, 'x'), 0).bytes();
}

std::string OnePagePcapng(bool swapped) {
  HandmadeCapture file(swapped);
  file.Section()
      .Interface(1, 0, file.Part().Resolution(9).Offset(5).bytes())
      .Interface(101, 40, file.Part().Option(2, "eth0").bytes());
  while (file.size() + 400 < kPageBytes) {
    file.EnhancedPacket(0, 1, "an ordinary packet", 60)
        .OldPacket(1, 2, "an old packet", 13)
        .SimplePacket("a simple packet", 15)
        .Block(5, "statistics: ");
  }
  const size_t left = kPageBytes - file.size() - 32;
  return file.EnhancedPacket(0, 1, std::string(left, 'x'), 0).bytes();
}

// Overwrites a few fields, mostly with values at the edges of what is checked.
void Damage(std::string& bytes, Rng& rng) {
  constexpr std::array<uint32_t, 14> kEdges = {
      0,           1,
      3,           4,
      11,          12,
      0x7fff'ffff, 4'096,
      0x8000'0000, 0xffff'fffc,
      0xffff'ffff, 262'144,
      262'145,     kSectionHeaderBlock};
  for (uint64_t times = 1 + rng.Below(4); times > 0; --times) {
    const size_t at = rng.Below(bytes.size() - 3) & ~size_t{rng.Below(2) * 3};
    uint32_t field = rng.Below(2) == 0
                         ? kEdges[rng.Below(kEdges.size())]
                         : static_cast<uint32_t>(rng.Below(bytes.size()));
    field = rng.Below(2) == 0 ? field : __builtin_bswap32(field);
    const size_t width = rng.Below(3) == 0 ? 1 : 4;
    bytes.replace(at, width, reinterpret_cast<const char*>(&field), width);
  }
}

TEST(DamagedCaptures, AreReadAlikeMappedAndThroughTheDecompressor) {
  constexpr uint64_t kSeed = 20'240'131;
  constexpr uint32_t kRounds = 10'000;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  const std::array<std::string, 5> originals = {
      OnePagePcap(kPcapMicroseconds, false),
      OnePagePcap(kPcapNanoseconds, true), OnePagePcap(kPcapModified, false),
      OnePagePcapng(false), OnePagePcapng(true)};
  for (const std::string& original : originals) {
    ASSERT_EQ(original.size(), kPageBytes);
  }
  const TestFolder folder;
  const std::string path = folder.Path("damaged");
  Rng rng(kSeed);
  uint32_t errors = 0;
  uint32_t warnings = 0;
  uint32_t with_packets = 0;
  for (uint32_t round = 0; round < kRounds && !testing::Test::HasFailure();
       ++round) {
    std::string bytes = originals[round % originals.size()];
    Damage(bytes, rng);
    if (rng.Below(8) == 0) {
      bytes.resize(4 + rng.Below(bytes.size() - 4));
    }
    folder.Write("damaged", bytes);
    const Reading mapped = ReadCapture(path);
    ExpectAnAnswer(mapped, path);
    folder.Write("damaged", Compressed(bytes, Compression::kZstd));
    const Reading streamed = ReadCapture(path);
    EXPECT_EQ(streamed.status, mapped.status) << "round " << round;
    EXPECT_EQ(streamed.packets, mapped.packets) << "round " << round;
    EXPECT_EQ(streamed.warnings, mapped.warnings) << "round " << round;
    errors += mapped.status.ok() ? 0 : 1;
    warnings += mapped.warnings.empty() ? 0 : 1;
    with_packets += mapped.packets.empty() ? 0 : 1;
  }
  std::printf("%u rounds: %u errors, %u warnings, %u with packets\n", kRounds,
              errors, warnings, with_packets);
  EXPECT_GT(errors, kRounds / 20);
  EXPECT_GT(warnings, kRounds / 20);
  EXPECT_GT(with_packets, kRounds / 2);
}

TEST(DamagedCaptures, HaveNoSayOverTheDecompressor) {
  constexpr uint64_t kSeed = 20'240'132;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  const TestFolder folder;
  const std::string path = folder.Path("damaged");
  Rng rng(kSeed);
  for (const Compression compression :
       {Compression::kGzip, Compression::kZstd}) {
    const std::string original = Compressed(OnePagePcapng(false), compression);
    uint32_t errors = 0;
    for (uint32_t round = 0; round < 2'000; ++round) {
      std::string bytes = original;
      Damage(bytes, rng);
      folder.Write("damaged", bytes);
      const Reading reading = ReadCapture(path);
      ExpectAnAnswer(reading, path);
      errors += reading.status.ok() ? 0 : 1;
    }
    EXPECT_GT(errors, 1'000u);
  }
}

}  // namespace
}  // namespace snf
