// SPDX-License-Identifier: Apache-2.0
// Sets, counts, logs and warnings. nfs/firewall.md names these tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A file of text, which the destructor removes.
class FileOfText {
 public:
  FileOfText(const std::string& name, const std::string& text)
      : path_(testing::TempDir() + "/" + name) {
    std::ofstream(path_) << text;
  }
  ~FileOfText() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string SynOf(const std::string& from, const std::string& to) {
  return "tcp " + from + " > " + to + " SYN";
}

// Returns the error that the firewall has with the options.
std::string ErrorWith(const std::string& options) {
  const auto parsed = NfOptions::Parse(options);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return std::string(FindNf("firewall")->check(*parsed).message());
}

std::string TextOf(const NfReport::Cell& cell) {
  const auto* number = std::get_if<uint64_t>(&cell);
  return number != nullptr ? std::to_string(*number)
                           : std::get<std::string>(cell);
}

// Returns the rows of a report's table, cells with bars between them.
// The rows of a table, without the column "last".
std::vector<std::string> RowsOf(NfTest& nf, const std::string& title) {
  std::vector<std::string> rows;
  for (const NfReport::Table& table : nf.nf().report().tables) {
    if (table.title != title) continue;
    for (const auto& row : table.rows) {
      std::string& text = rows.emplace_back();
      for (size_t i = 0; i < row.size(); ++i) {
        if (table.columns[i] == "last") continue;
        text += (text.empty() ? "" : " | ") + TextOf(row[i]);
      }
    }
  }
  return rows;
}

// The column "last" of the rules, without the date.
std::vector<std::string> LastOfRules(NfTest& nf) {
  std::vector<std::string> last;
  const NfReport report = nf.nf().report();
  for (const auto& row : report.tables.front().rows) {
    const std::string text = TextOf(row.back());
    last.push_back(text.substr(std::min(text.find('T'), text.size())));
  }
  return last;
}

TEST(FirewallSets, AreOfAFileOrOfTheOption) {
  const FileOfText bad("firewall_bad.set", "10.0.0.0/8 # a comment\n::1\n");
  NfTest nf("firewall:set=bad:@" + bad.path() +
            ";web:80+8000-8999,deny=any from $bad;tcp to any port $web");
  EXPECT_EQ(nf.Send(SynOf("10.9.9.9:5000", "192.0.2.9:443")), "drop denied");
  EXPECT_EQ(nf.Send(SynOf("11.0.0.1:5000", "192.0.2.9:8500")), "drop denied");
  const std::string other = SynOf("11.0.0.1:5000", "192.0.2.9:443");
  EXPECT_EQ(nf.Send(other), other);
}

TEST(FirewallSets, StandInRulesOfTheFile) {
  const FileOfText rules("firewall_sets.rules",
                         "reject tcp from $bad to any port $web\n"
                         "allow  tcp from $bad\n"
                         "deny   any\n");
  NfTest nf("firewall:set=bad:10.0.0.1+10.0.0.2;web:80,rules=" + rules.path());
  EXPECT_EQ(nf.Send(SynOf("10.0.0.1:5000", "192.0.2.9:80")), "drop rejected");
  const std::string allowed = SynOf("10.0.0.2:5000", "192.0.2.9:81");
  EXPECT_EQ(nf.Send(allowed), allowed);
  EXPECT_EQ(nf.Send(SynOf("10.0.0.3:5000", "192.0.2.9:80")), "drop denied");
}

// An empty block list matches nothing, not everything.
TEST(FirewallSets, MayBeEmpty) {
  const FileOfText none("firewall_none.set", "# nothing today\n");
  NfTest nf("firewall:set=bad:@" + none.path() + ",deny=any from $bad");
  const std::string syn = SynOf("10.0.0.1:5000", "192.0.2.9:80");
  EXPECT_EQ(nf.Send(syn), syn);
}

TEST(FirewallSets, AreToldByNameWhenWrong) {
  const FileOfText bad("firewall_bad.set", "10.0.0.1\n\n10.0.0.256\n");
  EXPECT_THAT(ErrorWith("set=bad:@" + bad.path()),
              HasSubstr("firewall_bad.set:3: \"10.0.0.256\""));
  EXPECT_THAT(ErrorWith("set=bad:@/nowhere/bad.txt"),
              HasSubstr("/nowhere/bad.txt"));
  EXPECT_THAT(ErrorWith("set=bad"), HasSubstr("\"bad\": want a set as"));
  EXPECT_THAT(ErrorWith("deny=any from $bad"),
              HasSubstr("\"$bad\": there is no set of this name"));
  const FileOfText rules("firewall_sets.rules", "deny any\ndeny udp to $web\n");
  EXPECT_THAT(ErrorWith("set=web:80,rules=" + rules.path()),
              HasSubstr("firewall_sets.rules:2: \"$web\": a set of ports"));
}

// A client of the control API may not have files of the host read.
TEST(FirewallSets, AreOfNoFileWhereNoneMayBeNamed) {
  EXPECT_TRUE(
      NfSpec::CheckNamesNoFile("firewall(set=web:80,deny=tcp to any port $web)")
          .ok());
  EXPECT_FALSE(NfSpec::CheckNamesNoFile("firewall(set=bad:@bad.txt)").ok());
}

TEST(FirewallCounts, SumPacketsAndBytesOfEachRule) {
  const FileOfText rules("firewall_counts.rules",
                         "allow tcp to any port 80\n"
                         "deny  udp\n"
                         "allow tcp to any port 22\n");
  NfTest nf("firewall:counts=9,default=reject,rules=" + rules.path());
  const std::string ends = "10.0.0.1:5000 > 192.0.2.9:80 ";
  nf.Send("tcp " + ends + "SYN");                                // 54 bytes
  nf.Send("tcp 192.0.2.9:80 > 10.0.0.1:5000 SYN ACK");           // 54
  nf.Send("tcp " + ends + "ACK len=100");                        // 154
  for (int i = 0; i < 3; ++i) nf.Send("udp " + ends + "len=8");  // 50
  nf.Send("icmp 10.0.0.1 > 192.0.2.9 echo");                     // 42
  const std::string file = rules.path();
  EXPECT_THAT(
      RowsOf(nf, "Rules"),
      ElementsAre(file + ":1 | allow tcp from any to any port 80 | 1 | 3 | 262",
                  file + ":2 | deny udp from any to any | 1 | 3 | 150",
                  file + ":3 | allow tcp from any to any port 22 | 0 | 0 | 0",
                  "default | reject | 1 | 1 | 42"));
}

TEST(FirewallCounts, KeepTheRulesOfBothDirectionsApart) {
  NfTest nf("firewall:counts=9,deny=udp from 10.0.0.1;udp from 192.0.2.9");
  for (int i = 0; i < 3; ++i) nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53");
  for (int i = 0; i < 2; ++i) nf.Send("udp 192.0.2.9:53 > 10.0.0.1:5000");
  EXPECT_THAT(
      RowsOf(nf, "Rules"),
      ElementsAre("rule 1 | deny udp from 10.0.0.1 to any | 1 | 3 | 126",
                  "rule 2 | deny udp from 192.0.2.9 to any | 1 | 2 | 84",
                  "default | allow | 0 | 0 | 0"));
}

TEST(FirewallCounts, ShowTheRulesWithMostPackets) {
  NfTest nf("firewall:counts=1,deny=tcp;udp;icmp");
  nf.Send("tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN");
  for (int i = 0; i < 2; ++i) nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_THAT(RowsOf(nf, "Rules"),
              ElementsAre("rule 2 | deny udp from any to any | 1 | 2 | 84",
                          "default | allow | 0 | 0 | 0"));
}

TEST(FirewallCounts, TellWhenTheLastPacketOfARuleCame) {
  NfTest nf("firewall:counts=9,deny=udp,allow=tcp");
  EXPECT_THAT(LastOfRules(nf), ElementsAre("", "", ""));
  nf.Send("tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN");
  const std::string first = LastOfRules(nf)[1];
  nf.Send("+2s tcp 10.0.0.1:5000 > 192.0.2.9:80 ACK");
  const std::string second = LastOfRules(nf)[1];
  EXPECT_GT(second, first);
  nf.Send("+1s icmp 10.0.0.1 > 192.0.2.9 echo");
  EXPECT_EQ(LastOfRules(nf)[0], "");
  EXPECT_EQ(LastOfRules(nf)[1], second);
  EXPECT_GT(LastOfRules(nf)[2], second);
}

// Flows move between units, and the report stays the same.
TEST(FirewallCounts, AreTheSameEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 60; ++i) {
    const std::string host = "10.0.0." + std::to_string(1 + i % 7);
    packets.push_back("tcp " + host + ":5000 > 192.0.2.9:80 " +
                      (i < 7 ? "SYN" : "ACK"));
    packets.push_back("udp " + host + ":5000 > 192.0.2.9:53 len=9");
    packets.push_back("udp 192.0.2.9:53 > " + host + ":5000 len=99");
  }
  EXPECT_TRUE(RunEverywhere(
      "firewall:counts=9,deny=log udp from 10.0.0.3;udp to 10.0.0.4,"
      "allow=log tcp;udp",
      Packets(packets)));
}

TEST(FirewallLog, HasALineForEachDecisionOfItsRules) {
  NfTest nf("firewall:deny=log udp to any port 53;udp,log=never.json");
  nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53 len=8");
  nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53 len=8");  // not asked again
  nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:54 len=8");  // not logged
  EXPECT_THAT(RowsOf(nf, "Log of rules"), ElementsAre("1 | 0 | 0"));
  const NfReport report = nf.nf().report();
  ASSERT_EQ(report.files.size(), 1u);
  EXPECT_EQ(report.files[0].path, "never.json");
  const std::string& line = report.files[0].bytes;
  EXPECT_EQ(line.back(), '\n');
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(
      line,
      HasSubstr(
          "\"event_type\":\"firewall\",\"src_ip\":\"10.0.0.1\",\"src_port\":"
          "5000,\"dest_ip\":\"192.0.2.9\",\"dest_port\":53,\"proto\":\"UDP\","
          "\"firewall\":{\"action\":\"deny\",\"place\":\"rule 1\",\"rule\":"
          "\"deny log udp from any to any port 53\",\"times\":1,\"bytes\":50},"
          "\"verdict\":{\"action\":\"drop\"}}"));
}

TEST(FirewallLog, IsLimitedByRuleAndSecond) {
  NfTest nf("firewall:allow=log udp;log tcp,log_rate=2");
  for (int i = 0; i < 5; ++i) {
    const std::string port = std::to_string(5'000 + i);
    nf.Send("udp 10.0.0.1:" + port + " > 192.0.2.9:53");
  }
  nf.Send("tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN");
  nf.Send("+2s udp 10.0.0.1:6000 > 192.0.2.9:53");
  EXPECT_THAT(RowsOf(nf, "Log of rules"), ElementsAre("4 | 3 | 0"));
}

// The same lines, as they leave.
TEST(FirewallLog, IsALogOfTheNfAsWell) {
  NfTest nf("firewall:allow=log udp;log tcp,log=never.json,log_rate=2");
  for (int i = 0; i < 5; ++i) {
    const std::string port = std::to_string(5'000 + i);
    nf.Send("udp 10.0.0.1:" + port + " > 192.0.2.9:53");
  }
  nf.Send("tcp 10.0.0.1:5000 > 192.0.2.9:80 SYN");
  std::string lines;
  for (const std::string& line : nf.TakeLog("firewall.decisions")) {
    lines += line + "\n";
  }
  EXPECT_EQ(lines, nf.nf().report().files.at(0).bytes);
  // The next line of a rule counts what its limit has held back.
  nf.Send("+2s udp 10.0.0.1:6000 > 192.0.2.9:53");
  EXPECT_THAT(nf.TakeLog("firewall.decisions"),
              ElementsAre(HasSubstr(",\"bytes\":42,\"held_back\":3}")));
}

TEST(FirewallLog, CountsWhatItHasNoRoomFor) {
  NfTest nf("firewall:allow=log udp,max_log=2,log_rate=100");
  for (int i = 0; i < 5; ++i) {
    const std::string port = std::to_string(5'000 + i);
    nf.Send("udp 10.0.0.1:" + port + " > 192.0.2.9:53");
  }
  EXPECT_THAT(RowsOf(nf, "Log of rules"), ElementsAre("2 | 0 | 3"));
}

TEST(FirewallLog, IsAbsentWithoutRulesThatLog) {
  NfTest nf("firewall:deny=udp");
  nf.Send("udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_THAT(nf.nf().report().tables, IsEmpty());
  EXPECT_THAT(nf.nf().report().files, IsEmpty());
  EXPECT_THAT(nf.nf().tables(), IsEmpty());
}

TEST(FirewallWarnings, TellOfRulesThatNeverMatch) {
  const FileOfText rules("firewall_shadowed.rules",
                         "deny  udp from $bad\n"
                         "allow udp from 10.0.0.1\n"
                         "allow tcp to any port 22\n");
  NfTest nf("firewall:set=bad:10.0.0.0/9+10.128.0.0/9,deny=tcp,rules=" +
            rules.path());
  EXPECT_THAT(
      nf.nf().warnings(),
      ElementsAre(rules.path() +
                      ":2: \"allow udp from 10.0.0.1 to any\" never matches: " +
                      rules.path() +
                      ":1 \"deny udp from $bad to any\" has all its packets",
                  rules.path() +
                      ":3: \"allow tcp from any to any port 22\" never "
                      "matches: rule 1 \"deny tcp from any to any\" has all "
                      "its packets"));
  NfTest none("firewall:deny=tcp,allow=udp");
  EXPECT_THAT(none.nf().warnings(), IsEmpty());
}

TEST(FirewallWarnings, AreNotWithoutEnd) {
  std::string all = "firewall:deny=any";
  for (int i = 0; i < 30; ++i) all += ";tcp to any port " + std::to_string(i);
  NfTest nf(all);
  ASSERT_EQ(nf.nf().warnings().size(), 21u);
  EXPECT_EQ(nf.nf().warnings().back(), "and 10 more rules that never match");
}

}  // namespace
}  // namespace snf
