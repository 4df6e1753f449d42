// SPDX-License-Identifier: Apache-2.0
#include "traces/pcapng_reader.h"

#include <limits>
#include <string>

#include "traces/fixture_capture.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint16_t kEthernet = 1;

TEST(InterfaceClock, CountsMicrosecondsUnlessToldOtherwise) {
  EXPECT_EQ(InterfaceClock().TimeOf(1'500'000), Instant{1'500'000'000});
}

TEST(InterfaceClock, KnowsPowersOfTenAndOfTwo) {
  const struct {
    uint8_t resolution;
    uint64_t ticks;
    int64_t ns;
  } kCases[] = {{0, 3, 3 * kSecond},
                {3, 1'500, 1'500'000'000},
                {9, 1'700'000'000'123'456'789, 1'700'000'000'123'456'789},
                {10, 19, 1},
                {12, 5'999, 5},
                {28, 10'000'000'000'000'000'000u, 1},
                {29, std::numeric_limits<uint64_t>::max(), 0},
                {127, std::numeric_limits<uint64_t>::max(), 0},
                {0x80, 3, 3 * kSecond},
                {0x81, 3, 1'500'000'000},
                {0x94, 1'572'864, 1'500'000'000},
                {0xa0, 0x1'8000'0000, 1'500'000'000},
                {0xff, std::numeric_limits<uint64_t>::max(), 0}};
  for (const auto& each : kCases) {
    InterfaceClock clock;
    clock.SetResolution(each.resolution);
    EXPECT_EQ(clock.TimeOf(each.ticks), Instant{each.ns})
        << static_cast<int>(each.resolution);
  }
}

TEST(InterfaceClock, AddsItsOffsetBeforeItLooksAtTheRange) {
  InterfaceClock clock;
  clock.SetResolution(0);
  EXPECT_EQ(clock.TimeOf(9'223'372'037), std::nullopt);
  clock.SetOffset(-1);
  EXPECT_EQ(clock.TimeOf(9'223'372'037), Instant{9'223'372'036 * kSecond});
  EXPECT_EQ(clock.TimeOf(0), Instant{-kSecond});
  clock.SetOffset(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(clock.TimeOf(0), std::nullopt);
  EXPECT_EQ(clock.TimeOf(uint64_t{1} << 63), Instant{0});
}

TEST(PcapngReader, ReadsMixedSectionsInterfacesAndPacketBlocks) {
  HandmadeCapture file(/*swapped=*/true);
  file.Section()
      .Interface(kEthernet)
      .Interface(101, 0,
                 file.Part().Resolution(9).Offset(100).Option(0, "").bytes())
      .EnhancedPacket(1, 5, "raw", 3)
      .Block(5, "statistics: ")                   // passed over
      .Block(0x8000'1234, std::string(100, 'x'))  // private: passed over
      .EnhancedPacket(0, 7, "ether", 60,
                      file.Part().Option(kOptionComment, "hello").bytes())
      .OldPacket(1, 9, "old", 0);
  HandmadeCapture second;
  second.Section(1, 2)
      .Interface(276, 4, second.Part().Resolution(0x81).bytes())
      .SimplePacket("simp", 1'000)
      .EnhancedPacket(0, 3, "", 0);
  const Reading reading = ReadBytes(file.bytes() + second.bytes());
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_THAT(
      reading.packets,
      ElementsAre(
          KeptPacket{100 * kSecond + 5, "raw", 3, LinkType::kRawIp, 1},
          KeptPacket{7'000, "ether", 60, LinkType::kEthernet, 0},
          KeptPacket{100 * kSecond + 9, "old", 3, LinkType::kRawIp, 1},
          KeptPacket{100 * kSecond + 9, "simp", 1'000, LinkType::kLinuxSll2},
          KeptPacket{1'500'000'000, "", 0, LinkType::kLinuxSll2}));
  const size_t simple_at =
      file.size() + 28 + 28;  // behind a section and an interface
  EXPECT_THAT(reading.warnings,
              ElementsAre("FILE: offset " + std::to_string(simple_at) +
                          ": a packet without a time takes that of the packet "
                          "before it, as all further ones do"));
}

TEST(PcapngReader, GivesASimplePacketWithoutPredecessorTimeZero) {
  HandmadeCapture file;
  file.Section().Interface(kEthernet).SimplePacket("whole", 5);
  EXPECT_THAT(ReadBytes(file.bytes()).packets,
              ElementsAre(KeptPacket{0, "whole", 5}));
}

TEST(PcapngReader, PassesOverPacketsOfALinkTypeThatIsNotRead) {
  HandmadeCapture file;
  file.Section().Interface(127).Interface(kEthernet).EnhancedPacket(1, 1, "p",
                                                                    1);
  EXPECT_THAT(ReadBytes(file.bytes()).warnings, IsEmpty());
  const size_t offset = file.size();
  file.EnhancedPacket(0, 2, "q", 1).EnhancedPacket(0, 3, "r", 1);
  file.EnhancedPacket(1, 4, "s", 1);
  const Reading reading = ReadBytes(file.bytes());
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.packets.size(), 2u);
  EXPECT_THAT(reading.warnings,
              ElementsAre("FILE: offset " + std::to_string(offset) +
                          ": link type 127 (802.11 radiotap) of interface 0 "
                          "is not read, packets: 2"));
}

TEST(PcapngReader, RefusesAFileWhosePacketsAreAllOfALinkTypeThatIsNotRead) {
  HandmadeCapture file;
  file.Section().Interface(127);
  const size_t offset = file.size();
  file.EnhancedPacket(0, 2, "q", 1).EnhancedPacket(0, 3, "r", 1);
  const Reading reading = ReadBytes(file.bytes());
  EXPECT_EQ(reading.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(reading.message(),
            "FILE: offset " + std::to_string(offset) +
                ": link type of interface 0 is not supported: 127");
}

TEST(PcapngReader, ReadsAClockBefore1970AndTellsOfIt) {
  HandmadeCapture file;
  file.Section().Interface(kEthernet).Interface(kEthernet);
  file.EnhancedPacket(0, 7, "p", 1);
  const size_t offset = file.size();
  file.EnhancedPacket(1, ~uint64_t{0} - 1, "q", 1);
  file.EnhancedPacket(1, ~uint64_t{0}, "r", 1);
  const Reading reading = ReadBytes(file.bytes());
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  ASSERT_EQ(reading.packets.size(), 3u);
  EXPECT_EQ(reading.packets[1].ns, -2'000);
  EXPECT_EQ(reading.packets[2].ns, -1'000);
  EXPECT_THAT(reading.warnings,
              ElementsAre("FILE: offset " + std::to_string(offset) +
                          ": timestamps of interface 1 are below 0: its clock "
                          "was before 1970, packets: 2"));
}

TEST(PcapngReader, PassesOverTimesThatDoNotFit) {
  HandmadeCapture file;
  file.Section().Interface(kEthernet, 0,
                           HandmadeCapture().Resolution(0).bytes());
  file.EnhancedPacket(0, 7, "p", 1);
  const size_t offset = file.size();
  file.EnhancedPacket(0, uint64_t{1} << 62, "q", 1);
  const Reading reading = ReadBytes(file.bytes());
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.packets.size(), 1u);
  EXPECT_THAT(reading.warnings,
              ElementsAre("FILE: offset " + std::to_string(offset) +
                          ": a time of interface 0 exceeds 64 bits of "
                          "nanoseconds: not read, packets: 1"));
}

TEST(PcapngReader, EndsWithAWarningWhenTheLastBlockIsCutOff) {
  HandmadeCapture file;
  file.Section().Interface(kEthernet).EnhancedPacket(0, 1, "whole", 5);
  const size_t offset = file.size();
  file.EnhancedPacket(0, 2, "cut off.", 8);  // 40 bytes
  for (const size_t missing : {1, 4, 28, 29, 39}) {
    const Reading reading =
        ReadBytes(file.bytes().substr(0, file.size() - missing));
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_EQ(reading.packets.size(), 1u);
    EXPECT_THAT(reading.warnings,
                ElementsAre("FILE: offset " + std::to_string(offset) +
                            ": block cut short, bytes: " +
                            std::to_string(40 - missing) + " of " +
                            (missing > 28 ? "12" : "40")));
  }
}

TEST(PcapngReader, RefusesAFileWithoutAPacket) {
  HandmadeCapture file;
  file.Section().Interface(kEthernet);
  const Reading reading = ReadBytes(file.bytes());
  EXPECT_EQ(reading.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(reading.message(), "FILE: offset 48: contains no packets");
  EXPECT_EQ(ReadBytes(file.bytes().substr(0, 27)).message(),
            "FILE: offset 0: contains no packets: block cut short, bytes: 27 "
            "of 28");
}

// Each is appended to a section (28 bytes) and an interface (20 bytes).
TEST(PcapngReader, NamesWhatIsWrongWithABlockAndWhere) {
  const HandmadeCapture part;
  const struct {
    std::string bytes;
    std::string message;
  } kCases[] = {
      {part.Part().Add32(6).Add32(8).Add32(8).bytes(),
       "block length is not a multiple of 4 from 12 to 16777216: 8"},
      {part.Part().Add32(6).Add32(33).Add32(33).bytes(),
       "block length is not a multiple of 4 from 12 to 16777216: 33"},
      {part.Part().Add32(77).Add32(kMaxBlockBytes + 4).Add32(0).bytes(),
       "block length is not a multiple of 4 from 12 to 16777216: 16777220"},
      {part.Part().Add32(77).Add32(12).Add32(16).bytes(),
       "block length 12 is repeated at the block's end as: 16"},
      {part.Part().Block(6, "sixteen bytes...").bytes(),
       "block of type 6 wants 20 bytes of fields, not: 16"},
      {part.Part().Block(3, "").bytes(),
       "block of type 3 wants 4 bytes of fields, not: 0"},
      {part.Part().Block(1, "four").bytes(),
       "block of type 1 wants 8 bytes of fields, not: 4"},
      {part.Part().Block(kSectionHeaderBlock, "\x4d\x3c\x2b\x1a").bytes(),
       "block of type 168627466 wants 16 bytes of fields, not: 4"},
      {part.Part().Block(kSectionHeaderBlock, "sixteen bytes...").bytes(),
       "byte-order magic of the section is not 1a2b3c4d in either order: "
       "73697874"},
      {part.Part().Section(1, 1).bytes(),
       "pcapng version is neither 1.0 nor 1.2: 1.1"},
      {part.Part().Section(2, 0).bytes(),
       "pcapng version is neither 1.0 nor 1.2: 2.0"},
      {part.Part().EnhancedPacket(1, 0, "p", 1).bytes(),
       "packet of an interface that its section lacks (it has 1): 1"},
      {part.Part().Section().SimplePacket("p", 1).bytes(),
       "packet of an interface that its section lacks (it has 0): 0"},
      {part.Part().SimplePacket("packet", 9).bytes(),
       "captured length exceeds 8: 9"},
      {part.Part()
           .Block(6, part.Part().Add64(0).Add32(0).Add32(5).Add32(5).bytes() +
                         "four")
           .bytes(),
       "captured length exceeds 4: 5"},
      {part.Part()
           .EnhancedPacket(0, 0, std::string(kMaxCapturedBytes + 1, 'x'), 1)
           .bytes(),
       "captured length exceeds 262144: 262145"},
      {part.Part().Interface(1, 0, part.Part().Option(9, "ab").bytes()).bytes(),
       "option 9 of interface 1 wants 1 bytes, not: 2"},
      {part.Part()
           .Interface(1, 0, part.Part().Option(14, "four").bytes())
           .bytes(),
       "option 14 of interface 1 wants 8 bytes, not: 4"},
      {part.Part()
           .Interface(1, 0,
                      part.Part().Add16(2).Add16(5).AddText("1234").bytes())
           .bytes(),
       "option 2 of interface 1 runs past its block, bytes: 5"},
  };
  for (const auto& each : kCases) {
    const std::string good =
        HandmadeCapture().Section().Interface(kEthernet).bytes();
    Reading reading = ReadBytes(good + each.bytes);
    EXPECT_THAT(reading.packets, IsEmpty());
    EXPECT_EQ(reading.status.code(), absl::StatusCode::kDataLoss);
    const size_t at =
        each.bytes.starts_with(part.Part().Section().bytes()) ? 76 : 48;
    EXPECT_EQ(reading.message(),
              "FILE: offset " + std::to_string(at) + ": " + each.message);
  }
}

TEST(PcapngReader, RefusesMoreInterfacesThanTheLimit) {
  HandmadeCapture file;
  file.Section();
  for (uint32_t i = 0; i <= kMaxSectionInterfaces; ++i) {
    file.Interface(kEthernet);
  }
  EXPECT_EQ(ReadBytes(file.bytes()).message(),
            "FILE: offset " + std::to_string(file.size() - 20) +
                ": more interfaces in a section than: 65536");
}

TEST(PcapngReader, ForgetsTheInterfacesOfTheSectionBefore) {
  HandmadeCapture file;
  file.Section().Interface(kEthernet).EnhancedPacket(0, 1, "p", 1).Section();
  const std::string before = file.bytes();
  file.EnhancedPacket(0, 2, "q", 1);
  const Reading reading = ReadBytes(file.bytes());
  EXPECT_EQ(reading.packets.size(), 1u);
  EXPECT_EQ(reading.message(),
            "FILE: offset " + std::to_string(before.size()) +
                ": packet of an interface that its section lacks (it has 0): "
                "0");
}

}  // namespace
}  // namespace snf
