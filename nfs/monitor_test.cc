// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "nfs/monitor_ipfix.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

constexpr const char* kQuery = "udp 10.0.0.1:5000 > 192.0.2.9:53 len=58";
constexpr const char* kAnswer = "udp 192.0.2.9:53 > 10.0.0.1:5000 len=158";
constexpr const char* kOther = "tcp 10.0.0.1:5000 > 192.0.2.7:80 len=46";

// Returns lines as "10.0.0.1 sent 100 in 1, received 200 in 1".
std::vector<std::string> TopTalkers(NfTest& nf) {
  std::vector<std::string> lines;
  const NfReport report = nf.nf().report();
  for (const auto& row : report.tables.at(0).rows) {
    const auto number = [&](size_t i) {
      return std::to_string(std::get<uint64_t>(row[i]));
    };
    lines.push_back(std::get<std::string>(row[0]) + " sent " + number(1) +
                    " in " + number(3) + ", received " + number(2) + " in " +
                    number(4));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Monitor, ForwardsEverythingAsItCame) {
  NfTest nf("monitor");
  EXPECT_EQ(nf.Send(kQuery), kQuery);
  EXPECT_EQ(nf.Send(kAnswer), kAnswer);
  EXPECT_EQ(nf.count("bytes"), 300u);
}

TEST(Monitor, CountsBothHostsOfEachPacket) {
  NfTest nf("monitor");
  nf.Send(kQuery);
  nf.Send(kAnswer);
  nf.Send(kAnswer);
  nf.Send(kOther);
  EXPECT_EQ(TopTalkers(nf),
            (Lines{"10.0.0.1 sent 200 in 2, received 400 in 2",
                   "192.0.2.9 sent 400 in 2, received 100 in 1",
                   "192.0.2.7 sent 0 in 0, received 100 in 1"}));
}

TEST(Monitor, CountsIpv6HostsToo) {
  NfTest nf("monitor");
  nf.Send("udp [2001:db8::1]:5000 > [2001:db8::9]:53 len=38");
  EXPECT_EQ(TopTalkers(nf),
            (Lines{"2001:db8::1 sent 100 in 1, received 0 in 0",
                   "2001:db8::9 sent 0 in 0, received 100 in 1"}));
}

TEST(Monitor, CountsTheHostsOfAPrefixAlone) {
  NfTest nf("monitor:hosts=10.0.0.0/8");
  nf.Send(kQuery);
  nf.Send(kAnswer);
  EXPECT_EQ(TopTalkers(nf), (Lines{"10.0.0.1 sent 100 in 1, received 200 in "
                                   "1"}));
}

TEST(Monitor, TellsTheTopAndWhatHadNoRoom) {
  NfTest nf("monitor:top=1,max_hosts=2");
  nf.Send(kQuery);
  nf.Send(kOther);
  EXPECT_EQ(TopTalkers(nf),
            (Lines{"10.0.0.1 sent 200 in 2, received 0 in 0",
                   "(no room for) sent 0 in 0, received 100 in 1"}));
}

TEST(Monitor, IsTheSameEverywhere) {
  EXPECT_TRUE(RunEverywhere(
      "monitor", Packets({kQuery, kAnswer, kOther, kAnswer, kQuery, kOther})));
}

// Reads big-endian numbers one after the other.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  uint64_t Next(int bytes) {
    uint64_t value = 0;
    for (; bytes > 0; --bytes) {
      value = value << 8 | static_cast<uint8_t>(bytes_.at(at_++));
    }
    return value;
  }
  void Skip(size_t bytes) { at_ += bytes; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

TEST(Ipfix, IsAMessageOfTemplatesAndRecords) {
  IpfixFile file(1'234);
  const uint16_t number = file.AddTemplate({{8, 4}, Reverse({86, 8})});
  file.Begin(number);
  file.Put(0x0a000001, 4);
  file.Put(7, 8);
  file.Begin(number);
  file.Put(0x0a000002, 4);
  file.Put(9, 8);
  const std::string bytes = file.Take();
  Reader read(bytes);
  EXPECT_EQ(read.Next(2), 10u);  // version
  EXPECT_EQ(read.Next(2), bytes.size());
  EXPECT_EQ(read.Next(4), 1'234u);
  EXPECT_EQ(read.Next(4), 0u);  // records before
  EXPECT_EQ(read.Next(4), 1u);
  EXPECT_EQ(read.Next(2), 2u);  // templates
  EXPECT_EQ(read.Next(2), 4 + 4 + 4 + 8u);
  EXPECT_EQ(read.Next(2), number);
  EXPECT_EQ(read.Next(2), 2u);
  EXPECT_EQ(read.Next(4), 8u << 16 | 4u);
  EXPECT_EQ(read.Next(4), 0x8000'0000u | 86u << 16 | 8u);
  EXPECT_EQ(read.Next(4), 29'305u);
  EXPECT_EQ(read.Next(2), number);
  EXPECT_EQ(read.Next(2), 4 + 2 * 12u);
  EXPECT_EQ(read.Next(4), 0x0a000001u);
  EXPECT_EQ(read.Next(8), 7u);
  EXPECT_EQ(read.Next(4), 0x0a000002u);
  EXPECT_EQ(read.Next(8), 9u);
  EXPECT_TRUE(read.at_end());
}

TEST(Ipfix, BeginsAnotherMessageWhenOneIsFull) {
  IpfixFile file(0);
  const uint16_t number = file.AddTemplate({{86, 8}});
  constexpr uint64_t kRecords = 10'000;
  for (uint64_t i = 0; i < kRecords; ++i) {
    file.Begin(number);
    file.Put(i, 8);
  }
  const std::string bytes = file.Take();
  Reader read(bytes);
  uint64_t records = 0;
  while (!read.at_end()) {
    ASSERT_EQ(read.Next(2), 10u);
    uint64_t left = read.Next(2) - 16;
    ASSERT_LE(left, IpfixFile::kMaxMessageBytes - 16);
    read.Skip(4);
    ASSERT_EQ(read.Next(4), records);
    read.Skip(4);
    while (left > 0) {
      const uint64_t set = read.Next(2);
      const uint64_t length = read.Next(2);
      ASSERT_LE(length, left);
      left -= length;
      if (set == 2) {
        read.Skip(length - 4);
        continue;
      }
      ASSERT_EQ(set, number);
      for (uint64_t i = 4; i < length; i += 8) {
        ASSERT_EQ(read.Next(8), records++);
      }
    }
  }
  EXPECT_EQ(records, kRecords);
}

TEST(Monitor, ExportsHostsAndFlowsThatEnded) {
  NfTest nf("monitor:ipfix=hosts.ipfix");
  nf.Send(kQuery);
  nf.Send(kAnswer);
  nf.Send(kOther);
  nf.EndFlow(kQuery);
  EXPECT_EQ(nf.count("flows"), 1u);
  const NfReport report = nf.nf().report();
  ASSERT_EQ(report.files.size(), 1u);
  EXPECT_EQ(report.files[0].path, "hosts.ipfix");
  Reader read(report.files[0].bytes);
  read.Skip(16);
  std::vector<std::string> hosts;
  std::vector<std::string> flows;
  while (!read.at_end()) {
    const uint64_t set = read.Next(2);
    uint64_t left = read.Next(2) - 4;
    if (set != 256 && set != 258) {
      read.Skip(left);
      continue;
    }
    for (; left > 0; left -= set == 256 ? 36 : 61) {
      std::string line;
      const auto add = [&](int bytes) {
        line += std::to_string(read.Next(bytes)) + " ";
      };
      if (set == 258) read.Skip(16);
      for (int i = set == 256 ? 1 : 2; i > 0; --i) {
        for (int part = 0; part < 4; ++part) add(1);
      }
      if (set == 258) {
        for (const int bytes : {1, 2, 2}) add(bytes);
      }
      for (int i = 0; i < 4; ++i) add(8);
      (set == 256 ? hosts : flows).push_back(line);
    }
  }
  EXPECT_EQ(hosts, (Lines{"10 0 0 1 2 200 1 200 ", "192 0 2 9 1 200 1 100 ",
                          "192 0 2 7 0 0 1 100 "}));
  EXPECT_EQ(flows, (Lines{"10 0 0 1 192 0 2 9 17 5000 53 1 100 1 200 "}));
}

}  // namespace
}  // namespace snf
