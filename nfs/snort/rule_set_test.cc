// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/rule_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/packet/ip_address_text.h"
#include "nfs/snort/test_rules.h"

namespace snf::snort {
namespace {

class Files {
 public:
  Files() { std::filesystem::create_directories(folder_); }
  ~Files() { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

 private:
  std::string folder_ =
      testing::TempDir() + "rule_set_" + std::to_string(::getpid());
};

std::string ErrorOf(const std::string& text) {
  RuleSetReader reader;
  return std::string(reader.ReadText(text, "x").message());
}

bool Has(const AddressSet& set, const std::string& address) {
  const auto ipv4 = ParseIpv4(address);
  return set.Contains(NumberOf(ipv4 ? *ipv4 : *ParseIpv6(address)));
}

TEST(Variables, ReadsListsWithNegation) {
  Variables variables;
  variables.Set("A", "[10.0.0.0/8,!10.1.0.0/16,192.0.2.1]");
  variables.Set("B", "!$A");
  variables.Set("C", "[$A,2001:db8::/32]");
  const AddressSet a = **variables.Addresses("$A");
  EXPECT_TRUE(Has(a, "10.2.0.1"));
  EXPECT_FALSE(Has(a, "10.1.2.3"));
  EXPECT_TRUE(Has(a, "192.0.2.1"));
  const AddressSet b = **variables.Addresses("$B");
  EXPECT_FALSE(Has(b, "10.2.0.1"));
  EXPECT_TRUE(Has(b, "10.1.2.3"));
  EXPECT_TRUE(Has(b, "2001:db8::1"));
  EXPECT_TRUE(Has(**variables.Addresses("$C"), "2001:db8::1"));
  EXPECT_TRUE(
      Has(**variables.Addresses("192.0.2.0/255.255.255.0"), "192.0.2.9"));
  const PortSet ports = **variables.Ports("[80,8000:8010,!8005,:3]");
  for (const int port : {0, 3, 80, 8'000, 8'010}) {
    EXPECT_TRUE(ports.Contains(static_cast<uint16_t>(port))) << port;
  }
  for (const int port : {4, 81, 8'005, 8'011}) {
    EXPECT_FALSE(ports.Contains(static_cast<uint16_t>(port))) << port;
  }
}

TEST(Variables, EndsWhereTheyLeadBack) {
  Variables variables;
  variables.Set("A", "$B");
  variables.Set("B", "[$A]");
  EXPECT_EQ(variables.Addresses("$A").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Variables, KeepWhatIsFixed) {
  Variables variables;
  variables.Fix("HOME_NET", "10.0.0.0/8");
  variables.Set("HOME_NET", "any");
  EXPECT_FALSE(Has(**variables.Addresses("$HTTP_SERVERS"), "192.0.2.1"));
}

TEST(RuleSet, ReadsTheUsualFiles) {
  const Files files;
  files.Write("classification.config",
              "config classification: mine, My, own text,7\n");
  files.Write("threshold.conf",
              "event_filter gen_id 1, sig_id 2, type limit, track by_src, "
              "count 1, seconds 60\n"
              "suppress gen_id 1, sig_id 3\n"
              "suppress gen_id 1, sig_id 1, track by_dst, ip "
              "[10.0.0.0/8,192.0.2.1]\n");
  files.Write("a.rules",
              "alert tcp $MY any -> any $P (classtype:mine; sid:1;)\n"
              "alert tcp any any -> any any (content:\"x\"; sid:2;)\n");
  const std::string conf = files.Write(
      "snort.conf",
      "ipvar MY 10.0.0.0/8\nportvar P [80,81]\nvar RULES .\n"
      "config reference: cve http://cve.example/?\n"
      "config checksum_mode: all\npreprocessor frag3_global: max_frags 1\n"
      "include classification.config\ninclude threshold.conf\n"
      "include $RULES/a.rules\n");
  RuleSetReader reader;
  const absl::Status status = reader.ReadFile(conf);
  ASSERT_TRUE(status.ok()) << status;
  const RuleSet set = reader.Take();
  ASSERT_EQ(set.rules.size(), 2u);
  EXPECT_EQ(set.rules[0].category, "My, own text");
  EXPECT_EQ(set.rules[0].priority, 7u);
  EXPECT_EQ(set.rules[1].threshold->seconds, 60u);
  EXPECT_EQ(set.suppressions.size(), 2u);
  EXPECT_EQ(set.notes.size(), 2u);
}

TEST(RuleSet, RefusesFilesThatIncludeThemselves) {
  const Files files;
  const std::string one = files.Write("one", "include two\n");
  files.Write("two", "\n  include one\n");
  RuleSetReader reader;
  const absl::Status status = reader.ReadFile(one);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("two:2:3: include: "),
            std::string::npos)
      << status;
  EXPECT_NE(std::string(status.message()).find("includes itself"),
            std::string::npos);
}

TEST(RuleSet, TellsWhereALineIsWrong) {
  EXPECT_EQ(ErrorOf("\nipvar A 10.0.0\n"),
            "x:2:1: ipvar: \"10.0.0\" is no address");
  EXPECT_EQ(ErrorOf("portvar A\n"), "x:1:1: portvar: want a name and a value");
  EXPECT_EQ(ErrorOf("nonsense here\n"),
            "x:1:1: nonsense: \"nonsense\" begins no rule and no known line");
  EXPECT_EQ(ErrorOf("config classification: a,b\n"),
            "x:1:1: config: want NAME,TEXT,PRIORITY");
  EXPECT_EQ(ErrorOf("suppress gen_id 1, sig_id 2, track by_src\n"),
            "x:1:1: suppress: want track by_src or by_dst, and ip");
  EXPECT_EQ(ErrorOf("include $NO/x\n"), "x:1:1: include: $NO is not defined");
}

TEST(RuleSet, KeepsTheHigherRevisionOfASid) {
  const RuleSet set = RulesOf(
      "alert tcp any any -> any any (msg:\"new\"; sid:5; rev:2;)\n"
      "alert tcp any any -> any any (msg:\"old\"; sid:5; rev:1;)\n");
  ASSERT_EQ(set.rules.size(), 1u);
  EXPECT_EQ(set.rules[0].message, "new");
  EXPECT_EQ(set.notes.size(), 1u);
}

// The rules that real people wrote; they are not part of the repository.
TEST(RuleSet, SupportsRealRules) {
  const char* const given = std::getenv("SNF_RULES");
  const std::filesystem::path folder =
      given != nullptr ? given : "../shared/rules";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << "no rules in " << folder << " (SNF_RULES)";
  }
  for (const auto& set_folder : std::filesystem::directory_iterator(folder)) {
    if (!set_folder.is_directory()) continue;
    RuleSetReader reader({.with_commented = true});
    for (const auto& file :
         std::filesystem::directory_iterator(set_folder.path())) {
      if (file.path().extension() != ".rules") continue;
      const absl::Status status = reader.ReadFile(file.path().string());
      EXPECT_TRUE(status.ok()) << status;
    }
    const RuleSet set = reader.Take();
    EXPECT_GT(set.findings.size(), 1'000u) << set_folder.path();
    EXPECT_GE(set.CountOf(RuleParser::Outcome::kSupported) * 100,
              set.findings.size() * 95)
        << set_folder.path();
  }
}

}  // namespace
}  // namespace snf::snort
