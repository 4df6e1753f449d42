// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "traces/fixture_capture.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

TEST(PcapReader, ReadsBothResolutionsInBothByteOrders) {
  for (const bool swapped : {false, true}) {
    for (const bool nanos : {false, true}) {
      HandmadeCapture file(swapped);
      file.PcapHeader(nanos ? kPcapNanoseconds : kPcapMicroseconds)
          .PcapRecord(7, 999'999, "first", 5)
          .PcapRecord(8, 1, "second", 1'500);
      const Reading reading = ReadBytes(file.bytes());
      EXPECT_TRUE(reading.status.ok()) << reading.status;
      EXPECT_THAT(reading.warnings, IsEmpty());
      const int64_t tick = nanos ? 1 : 1'000;
      EXPECT_THAT(
          reading.packets,
          ElementsAre(KeptPacket{7 * kSecond + 999'999 * tick, "first", 5},
                      KeptPacket{8 * kSecond + tick, "second", 1'500}));
      EXPECT_EQ(reading.bytes_read, file.size());
      EXPECT_EQ(reading.total_bytes, file.size());
    }
  }
}

TEST(PcapReader, ReadsTheLongerRecordsOfModifiedPcap) {
  for (const bool swapped : {false, true}) {
    HandmadeCapture file(swapped);
    file.PcapHeader(kPcapModified)
        .Add32(3)
        .Add32(4)
        .Add32(2)
        .Add32(60)
        .AddText("ifixprty")  // interface, protocol, packet type
        .AddText("ok");
    EXPECT_THAT(ReadBytes(file.bytes()).packets,
                ElementsAre(KeptPacket{3 * kSecond + 4'000, "ok", 60}));
  }
}

TEST(PcapReader, MapsEveryLinkTypeThatWeParse) {
  const struct {
    uint32_t number;
    LinkType link;
  } kCases[] = {{0, LinkType::kNull},       {1, LinkType::kEthernet},
                {12, LinkType::kRawIp},     {14, LinkType::kRawIp},
                {101, LinkType::kRawIp},    {108, LinkType::kLoop},
                {113, LinkType::kLinuxSll}, {228, LinkType::kRawIp},
                {229, LinkType::kRawIp},    {276, LinkType::kLinuxSll2},
                {9, LinkType::kPpp},        {50, LinkType::kPpp},
                {239, LinkType::kNflog}};
  for (const auto& each : kCases) {
    HandmadeCapture file;
    file.PcapHeader(kPcapMicroseconds, each.number).PcapRecord(0, 0, "p", 1);
    EXPECT_THAT(ReadBytes(file.bytes()).packets,
                ElementsAre(KeptPacket{0, "p", 1, each.link}))
        << each.number;
  }
}

TEST(PcapReader, LeavesTheCheckSequenceLengthOutOfTheLinkType) {
  HandmadeCapture file;
  file.PcapHeader(kPcapMicroseconds, 0x2400'0001).PcapRecord(0, 0, "p", 1);
  EXPECT_EQ(ReadBytes(file.bytes()).packets.size(), 1u);
}

TEST(PcapReader, TakesAnOriginalLengthBelowTheCapturedForTheCaptured) {
  HandmadeCapture file;
  file.PcapHeader().PcapRecord(0, 0, "packet", 2).PcapRecord(0, 0, "zero", 0);
  EXPECT_THAT(
      ReadBytes(file.bytes()).packets,
      ElementsAre(KeptPacket{0, "packet", 6}, KeptPacket{0, "zero", 4}));
}

TEST(PcapReader, PutsTheSwappedLengthsOfVersion2Dot3Right) {
  HandmadeCapture file;
  file.PcapHeader(kPcapMicroseconds, 1, 2, 3)
      .Add64(0)
      .Add32(900)
      .Add32(3)
      .AddText("cut");
  EXPECT_THAT(ReadBytes(file.bytes()).packets,
              ElementsAre(KeptPacket{0, "cut", 900}));
}

TEST(PcapReader, TakesFractionsAboveASecondAsTheyStand) {
  HandmadeCapture file;
  file.PcapHeader().PcapRecord(0xffff'ffff, 0xffff'ffff, "p", 1);
  EXPECT_EQ(ReadBytes(file.bytes()).packets.at(0).ns,
            int64_t{0xffff'ffff} * kSecond + int64_t{0xffff'ffff} * 1'000);
}

TEST(PcapReader, TellsOfFractionsAboveASecond) {
  HandmadeCapture file;
  file.PcapHeader(kPcapMicroseconds, 1).PcapRecord(1, 999'999, "p", 1);
  const size_t offset = file.size();
  file.PcapRecord(1, 1'000'000, "q", 1).PcapRecord(1, 2'000'000, "r", 1);
  EXPECT_THAT(ReadBytes(file.bytes()).warnings,
              ElementsAre("FILE: offset " + std::to_string(offset) +
                          ": fraction of a second of 1000000 ticks or more, "
                          "packets: 2"));
}

TEST(PcapReader, CountsTimestampsThatGoBackwards) {
  HandmadeCapture file;
  file.PcapHeader();
  for (const uint32_t second : {5, 5, 4, 3, 6, 1}) {
    file.PcapRecord(second, 0, "p", 1);
  }
  EXPECT_EQ(ReadBytes(file.bytes()).timestamps_backwards, 3u);
}

TEST(PcapReader, EndsWithAWarningWhenTheLastPacketIsCutOff) {
  HandmadeCapture file;
  file.PcapHeader().PcapRecord(1, 0, "whole", 5).PcapRecord(2, 0, "cut off", 7);
  for (const size_t missing : {1, 7, 8, 22}) {
    const Reading reading =
        ReadBytes(file.bytes().substr(0, file.size() - missing));
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_EQ(reading.packets.size(), 1u);
    const std::string left = std::to_string(23 - missing);
    EXPECT_THAT(
        reading.warnings,
        ElementsAre(missing > 7 ? "FILE: offset 45: packet header cut short, "
                                  "bytes: " +
                                      left + " of 16"
                                : "FILE: offset 45: packet cut short, bytes: " +
                                      left + " of 23"));
  }
  EXPECT_THAT(ReadBytes(file.bytes().substr(0, file.size() - 23)).warnings,
              IsEmpty());
}

TEST(PcapReader, RefusesAFileWithoutAPacket) {
  HandmadeCapture file;
  file.PcapHeader();
  Reading reading = ReadBytes(file.bytes());
  EXPECT_EQ(reading.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(reading.message(), "FILE: offset 24: contains no packets");

  file.PcapRecord(0, 0, "packet", 6);
  reading = ReadBytes(file.bytes().substr(0, 43));
  EXPECT_EQ(reading.message(),
            "FILE: offset 24: contains no packets: packet cut short, bytes: "
            "19 of 22");
  reading = ReadBytes(file.bytes().substr(0, 23));
  EXPECT_EQ(reading.message(),
            "FILE: offset 0: contains no packets: pcap file header cut short, "
            "bytes: 23 of 24");
}

TEST(PcapReader, RefusesALengthAboveTheLimitAfterThePacketsBeforeIt) {
  HandmadeCapture file;
  file.PcapHeader().PcapRecord(0, 0, std::string(kMaxCapturedBytes, 'x'), 0);
  file.Add64(0).Add32(kMaxCapturedBytes + 1).Add32(60);
  const Reading reading = ReadBytes(file.bytes());
  EXPECT_EQ(reading.packets.size(), 1u);
  EXPECT_EQ(reading.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(reading.message(),
            "FILE: offset 262184: captured length exceeds 262144: 262145");
}

TEST(PcapReader, RefusesALinkTypeThatWeDoNotParse) {
  HandmadeCapture file;
  file.PcapHeader(kPcapMicroseconds, 127).PcapRecord(0, 0, "p", 1);
  const Reading reading = ReadBytes(file.bytes());
  EXPECT_EQ(reading.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(reading.message(),
            "FILE: offset 0: link type is not supported: 127");
}

TEST(PcapReader, RefusesAnotherMajorVersion) {
  HandmadeCapture file;
  file.PcapHeader(kPcapMicroseconds, 1, 1, 4).PcapRecord(0, 0, "p", 1);
  EXPECT_EQ(ReadBytes(file.bytes()).message(),
            "FILE: offset 0: pcap version is not 2.x: 1.4");
}

TEST(CaptureReader, RefusesWhatIsNoCapture) {
  EXPECT_EQ(ReadBytes("").message(), "FILE: offset 0: the file is empty");
  EXPECT_EQ(ReadBytes("\n\r").message(),
            "FILE: offset 0: neither pcap nor pcapng, first bytes: 0a0d");
  const Reading reading = ReadBytes("%PDF-1.4");
  EXPECT_EQ(reading.message(),
            "FILE: offset 0: neither pcap nor pcapng, first bytes: 25504446");
  EXPECT_EQ(reading.status.code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace snf
