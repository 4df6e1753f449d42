// SPDX-License-Identifier: Apache-2.0
#include "traces/merged_reader.h"

#include <string>
#include <vector>

#include "traces/fixture_capture.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string CaptureOf(const std::vector<uint32_t>& seconds) {
  HandmadeCapture file;
  file.PcapHeader();
  for (const uint32_t second : seconds) {
    file.PcapRecord(second, 0, std::to_string(second), 1);
  }
  return file.bytes();
}

// "file:second" for each packet.
std::vector<std::string> Order(const Reading& reading) {
  std::vector<std::string> order;
  for (const KeptPacket& packet : reading.packets) {
    order.push_back(std::to_string(packet.file) + ":" + packet.bytes);
  }
  return order;
}

TEST(MergedReader, MergesByTimeAndKeepsTheOrderWithinAFile) {
  const TestFolder folder;
  const Reading reading =
      ReadToEnd(MergedReader::Open({folder.Write("a", CaptureOf({1, 5, 3})),
                                    folder.Write("b", CaptureOf({2, 4, 5}))}));
  EXPECT_THAT(Order(reading),
              ElementsAre("0:1", "1:2", "1:4", "0:5", "0:3", "1:5"));
  EXPECT_EQ(reading.timestamps_backwards, 1u);
}

TEST(MergedReader, GivesAStrayPacketTheTimeOfTheNextWhereAsked) {
  const TestFolder folder;
  const auto times = [&](const std::vector<uint32_t>& seconds, bool mends) {
    auto reader =
        MergedReader::Open({folder.Write("a", CaptureOf(seconds))}, mends);
    const Reading reading = ReadToEnd(std::move(reader));
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    std::vector<std::string> found;
    for (const KeptPacket& packet : reading.packets) {
      found.push_back(packet.bytes + "@" +
                      std::to_string(packet.ns / 1'000'000'000));
    }
    found.insert(found.end(), reading.warnings.begin(), reading.warnings.end());
    return found;
  };
  const auto stray = [](int first) {
    return "1 stray time, first packet " + std::to_string(first) +
           ": more than 1 s later than the packets before and after; taken at "
           "the time of the next packet.";
  };
  EXPECT_THAT(times({900, 1, 2}, true),
              ElementsAre("900@1", "1@1", "2@2", stray(1)));
  EXPECT_THAT(times({1, 900, 2}, true),
              ElementsAre("1@1", "900@2", "2@2", stray(2)));
  EXPECT_THAT(times({1, 900, 901}, true),
              ElementsAre("1@1", "900@900", "901@901"));
  EXPECT_THAT(times({1}, true), ElementsAre("1@1"));
  EXPECT_THAT(times({1, 900}, true), ElementsAre("1@1", "900@900"));
  EXPECT_THAT(times({900, 1, 2}, false), ElementsAre("900@900", "1@1", "2@2"));
}

TEST(MergedReader, NumbersThePacketsThatItReturns) {
  const TestFolder folder;
  auto reader = MergedReader::Open({folder.Write("a", CaptureOf({1, 5})),
                                    folder.Write("b", CaptureOf({2}))});
  ASSERT_TRUE(reader.ok()) << reader.status();
  CapturedPacket packet;
  for (uint64_t number = 1; number <= 3; ++number) {
    ASSERT_EQ((*reader)->Next(packet), ReadResult::kPacket);
    EXPECT_EQ(packet.number, number);
  }
  EXPECT_EQ((*reader)->Next(packet), ReadResult::kEnd);
}

TEST(MergedReader, GivesTiesToTheFileNamedFirst) {
  const TestFolder folder;
  const std::string a = folder.Write("a", CaptureOf({1, 1, 2}));
  const std::string b = folder.Write("b", CaptureOf({1, 2}));
  const std::string c = folder.Write("c", CaptureOf({0, 1}));
  EXPECT_THAT(Order(ReadToEnd(MergedReader::Open({a, b, c}))),
              ElementsAre("2:0", "0:1", "0:1", "1:1", "2:1", "0:2", "1:2"));
  EXPECT_THAT(Order(ReadToEnd(MergedReader::Open({c, b, a}))),
              ElementsAre("0:0", "0:1", "1:1", "2:1", "2:1", "1:2", "2:2"));
}

TEST(MergedReader, ReadsOneFileAsTheCaptureReaderDoes) {
  const TestFolder folder;
  const std::string path = folder.Write("a", CaptureOf({3, 1, 2}));
  const Reading merged = ReadToEnd(MergedReader::Open({path}));
  const Reading alone = ReadCapture(path);
  EXPECT_EQ(merged.packets, alone.packets);
  EXPECT_EQ(merged.timestamps_backwards, alone.timestamps_backwards);
}

TEST(MergedReader, SumsProgressAndCollectsWarnings) {
  const TestFolder folder;
  const std::string whole = CaptureOf({1, 2});
  const std::string cut = CaptureOf({1, 2, 3}).substr(0, whole.size() + 5);
  const Reading reading = ReadToEnd(
      MergedReader::Open({folder.Write("a", cut), folder.Write("b", whole),
                          folder.Write("c", cut)}));
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.packets.size(), 6u);
  EXPECT_THAT(reading.warnings,
              ElementsAre(HasSubstr(folder.Path("a") + ": offset "),
                          HasSubstr(folder.Path("c") + ": offset ")));
  EXPECT_EQ(reading.total_bytes, 3 * whole.size() + 10);
  EXPECT_EQ(reading.bytes_read, 3 * whole.size());  // up to what was cut off
}

TEST(MergedReader, EndsAtTheFirstErrorOfAnyFile) {
  const TestFolder folder;
  const std::string good = folder.Write("good", CaptureOf({1, 2, 3, 4}));
  const std::string bad = folder.Write(
      "bad", CaptureOf({2}) + HandmadeCapture().Add64(0).Add64(~0ull).bytes());
  const Reading reading = ReadToEnd(MergedReader::Open({bad, good}));
  EXPECT_THAT(reading.message(),
              HasSubstr(bad + ": offset 41: captured length exceeds"));
  EXPECT_THAT(Order(reading), ElementsAre("1:1", "0:2"));
}

TEST(MergedReader, RefusesToOpenWhatItCannotMerge) {
  const TestFolder folder;
  const std::string good = folder.Write("good", CaptureOf({1}));
  const std::string none = folder.Write("none", CaptureOf({}));
  const auto error = [](const std::vector<std::string>& paths) {
    return MergedReader::Open(paths).status();
  };
  EXPECT_EQ(error({}).message(),
            "captures to read must be from 1 to 512, not: 0");
  EXPECT_EQ(error({good, "-", "-"}).message(), "stdin is named twice: -");
  EXPECT_EQ(error(std::vector<std::string>(513, good)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error({good, folder.Path("absent")}).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(error({none, none}).message(),
            none + ": offset 24: contains no packets");
  const std::string cut = folder.Write("cut", CaptureOf({}) + "cut");
  EXPECT_THAT(error({good, cut}).message(),
              HasSubstr("contains no packets: packet "));
}

TEST(MergedReader, WarnsOfACaptureWithoutPacketsBesideOthers) {
  const TestFolder folder;
  const std::string good = folder.Write("good", CaptureOf({1, 2}));
  const std::string none = folder.Write("none", CaptureOf({}));
  for (const bool is_first : {false, true}) {
    const Reading reading =
        ReadToEnd(is_first ? MergedReader::Open({none, good})
                           : MergedReader::Open({good, none}));
    EXPECT_EQ(reading.message(), "");
    EXPECT_EQ(reading.packets.size(), 2u);
    EXPECT_THAT(reading.warnings,
                ElementsAre(none + ": offset 24: contains no packets"));
  }
}

}  // namespace
}  // namespace snf
