// SPDX-License-Identifier: Apache-2.0
#include "platform/modules/file_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "traces/fixture_folder.h"

namespace snf {
namespace {

using testing::Pair;
using testing::StartsWith;
using testing::UnorderedElementsAre;

class FileVersionsTest : public testing::Test {
 protected:
  static FileVersions Of(const std::string& nf) {
    const auto spec = NfSpec::Parse(nf);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return FileVersionsOf(*spec);
  }

  const TestFolder folder_;
};

TEST_F(FileVersionsTest, AreOfRulesAndOfSetsWhereverTheyAreNamed) {
  const std::string rules = folder_.Write("fw.txt", "deny from $bad\n");
  const std::string bad = folder_.Write("bad.txt", "10.0.0.1\n");
  const std::string nf =
      "firewall(rules=" + rules + ",set=web:80;bad:@" + bad + ") | monitor";
  const FileVersions before = Of(nf);
  EXPECT_THAT(
      before,
      UnorderedElementsAre(
          Pair(rules + " (firewall: rules)", StartsWith("15 bytes, hash ")),
          Pair(bad + " (firewall: set)", StartsWith("9 bytes, hash "))));
  EXPECT_EQ(Of(nf), before);
  folder_.Write("bad.txt", "10.0.0.2\n");  // of the same length
  const FileVersions after = Of(nf);
  EXPECT_NE(after.at(bad + " (firewall: set)"),
            before.at(bad + " (firewall: set)"));
  EXPECT_EQ(after.at(rules + " (firewall: rules)"),
            before.at(rules + " (firewall: rules)"));
}

TEST_F(FileVersionsTest, TellOfAFileThatIsGone) {
  const std::string gone = folder_.Path("gone");
  EXPECT_THAT(
      Of("firewall(rules=" + gone + ")"),
      UnorderedElementsAre(Pair(gone + " (firewall: rules)", "not readable")));
  EXPECT_TRUE(Of("firewall(set=web:80) | monitor").empty());
}

}  // namespace
}  // namespace snf
