// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

// Returns packets of `sources` sources to 192.0.2.9, two flows of each, with an
// answer.
std::vector<std::string> Fan(uint32_t sources) {
  std::vector<std::string> packets;
  for (uint32_t i = 0; i < sources; ++i) {
    const std::string source =
        "10.1." + std::to_string(i / 200) + "." + std::to_string(1 + i % 200);
    for (const char* const port : {":5000", ":5001"}) {
      packets.push_back("udp " + source + port + " > 192.0.2.9:53 len=10");
    }
    packets.push_back("udp 192.0.2.9:53 > " + source + ":5000 len=10");
  }
  return packets;
}

NfReport::Table ReportOf(NfTest& nf) { return nf.nf().report().tables.at(0); }

uint64_t SourcesOf(const NfReport::Table& table, size_t row) {
  return std::get<uint64_t>(table.rows.at(row).at(1));
}

TEST(FanIn, EstimatesTheSourcesOfADestination) {
  for (const uint32_t sources : {1, 2, 10, 50, 200, 1'000}) {
    NfTest nf("fan_in");
    for (const std::string& packet : Fan(sources)) {
      EXPECT_EQ(nf.Send(packet), packet);
    }
    const NfReport::Table table = ReportOf(nf);
    ASSERT_EQ(table.rows.size(), 1u) << "answers are no sources";
    EXPECT_EQ(std::get<std::string>(table.rows[0][0]), "192.0.2.9");
    // Three standard errors.
    EXPECT_NEAR(static_cast<double>(SourcesOf(table, 0)), sources,
                0.28 * sources + 0.5);
  }
}

TEST(FanIn, CountsDestinationsWithoutRoomAsOne) {
  NfTest nf("fan_in:destinations=1,top=5");
  for (const char* const to : {"192.0.2.1", "192.0.2.2", "192.0.2.3"}) {
    for (int i = 1; i <= 3; ++i) {
      nf.Send("udp 10.0.0." + std::to_string(i) + ":5 > " + to + ":53 len=10");
    }
  }
  const NfReport::Table table = ReportOf(nf);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(SourcesOf(table, 0), 3u);
  EXPECT_EQ(std::get<std::string>(table.rows[1][0]), "(no room for)");
  EXPECT_EQ(SourcesOf(table, 1), 3u);  // three sources, whatever they sent to
}

// A unit's sketches have no inverse, and the mark is the home's: both are the
// same wherever packets run.
TEST(FanIn, ReportsTheSameOnManyUnits) {
  EXPECT_TRUE(RunEverywhere("fan_in:many=50", Packets(Fan(80))));
}

}  // namespace
}  // namespace snf
