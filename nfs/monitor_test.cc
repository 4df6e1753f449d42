// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ipfix/ipfix_writer.h"
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

std::string Joined(const std::vector<std::string>& messages) {
  std::string all;
  for (const std::string& message : messages) all += message;
  return all;
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
  IpfixWriter file(1'234);
  const uint16_t number = file.AddTemplate({{8, 4}, Reverse({86, 8})});
  file.Begin(number);
  file.Put(0x0a000001, 4);
  file.Put(7, 8);
  file.Begin(number);
  file.Put(0x0a000002, 4);
  file.Put(9, 8);
  const std::string bytes = Joined(file.Take());
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
  IpfixWriter file(0);
  const uint16_t number = file.AddTemplate({{86, 8}});
  constexpr uint64_t kRecords = 10'000;
  for (uint64_t i = 0; i < kRecords; ++i) {
    file.Begin(number);
    file.Put(i, 8);
  }
  const std::string bytes = Joined(file.Take());
  Reader read(bytes);
  uint64_t records = 0;
  while (!read.at_end()) {
    ASSERT_EQ(read.Next(2), 10u);
    uint64_t left = read.Next(2) - 16;
    ASSERT_LE(left, 16'384u - 16);
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

// A record, by element. Elements of the other direction have 10,000 added.
using Record = std::map<uint64_t, std::string>;

std::string TextOf(Reader& read, uint64_t element, int bytes) {
  std::string text;
  const bool is_address =
      element == 8 || element == 12 || element == 27 || element == 28;
  if (!is_address) return std::to_string(read.Next(bytes));
  for (int i = 0; i < bytes; ++i) {
    text += (i > 0 ? "." : "") + std::to_string(read.Next(1));
  }
  return text;
}

// Reads messages by the templates in them.
std::vector<Record> RecordsOf(const std::string& messages) {
  std::map<uint64_t, std::vector<std::pair<uint64_t, int>>> templates;
  std::vector<Record> records;
  Reader read(messages);
  while (!read.at_end()) {
    EXPECT_EQ(read.Next(2), 10u);
    auto message = static_cast<int64_t>(read.Next(2)) - 16;
    read.Skip(4);
    EXPECT_EQ(read.Next(4), records.size());
    read.Skip(4);
    while (message > 0) {
      const uint64_t set = read.Next(2);
      const auto length = static_cast<int64_t>(read.Next(2));
      message -= length;
      int64_t left = length - 4;
      while (left > 0 && set == 2) {
        auto& fields = templates[read.Next(2)];
        fields.clear();
        left -= 4;
        for (uint64_t n = read.Next(2); n > 0; --n, left -= 4) {
          const uint64_t element = read.Next(2);
          const auto bytes = static_cast<int>(read.Next(2));
          const bool is_foreign = element >= 0x8000;
          if (is_foreign) {
            EXPECT_EQ(read.Next(4), 29'305u);
            left -= 4;
          }
          fields.emplace_back((element & 0x7fff) + (is_foreign ? 10'000 : 0),
                              bytes);
        }
      }
      while (left > 0) {
        Record& record = records.emplace_back();
        EXPECT_TRUE(templates.contains(set)) << set;
        if (!templates.contains(set)) return records;
        for (const auto& [element, bytes] : templates[set]) {
          record[element] = TextOf(read, element, bytes);
          left -= bytes;
        }
      }
    }
    EXPECT_EQ(message, 0);
  }
  return records;
}

std::string Value(const Record& record, uint64_t element) {
  const auto found = record.find(element);
  return found == record.end() ? "-" : found->second;
}

// Returns the flows of the file as "10.0.0.1 > 192.0.2.9 17:", followed by the
// values of `elements`.
Lines FlowsOf(NfTest& nf, const std::vector<uint64_t>& elements) {
  nf.EndFlows();
  Lines lines;
  for (const Record& record : RecordsOf(nf.nf().report().files.at(0).bytes)) {
    if (!record.contains(152)) continue;  // of a host
    const uint64_t v6 = record.contains(8) ? 0 : 1;
    std::string line = Value(record, v6 == 0 ? 8 : 27) + " > " +
                       Value(record, v6 == 0 ? 12 : 28) + " " +
                       Value(record, 4) + ":";
    for (const uint64_t element : elements) {
      line += " " + Value(record, element);
    }
    lines.push_back(line);
  }
  return lines;
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
  EXPECT_TRUE(report.exports.empty());
  EXPECT_EQ(report.files[0].path, "hosts.ipfix");
  Lines hosts;
  for (const Record& record : RecordsOf(report.files[0].bytes)) {
    if (record.contains(152)) continue;
    hosts.push_back(Value(record, 8) + " " + Value(record, 86) + " " +
                    Value(record, 353) + " " + Value(record, 10'086) + " " +
                    Value(record, 10'353));
  }
  EXPECT_EQ(hosts, (Lines{"10.0.0.1 2 200 1 200", "192.0.2.9 1 200 1 100",
                          "192.0.2.7 0 0 1 100"}));
  // Ports, packets, octets of IP and on the wire; why it ended.
  EXPECT_EQ(FlowsOf(nf, {7, 11, 2, 1, 352, 136}),
            (Lines{"10.0.0.1 > 192.0.2.9 17: 5000 53 1 86 100 1",
                   "192.0.2.9 > 10.0.0.1 17: 53 5000 1 186 200 1",
                   "10.0.0.1 > 192.0.2.7 6: 5000 80 1 86 100 1"}));
}

TEST(Monitor, ExportsTypeAndCodeOfIcmp) {
  NfTest nf("monitor:ipfix=x");
  nf.Send("icmp 10.0.0.5 > 198.51.100.7 echo id=7 seq=1");
  nf.Send("icmp 198.51.100.7 > 10.0.0.5 echo_reply id=7 seq=1");
  nf.Send("udp 10.0.0.5:5000 > 198.51.100.7:53 \"q\"");
  nf.Send(
      "icmp 203.0.113.250 > 10.0.0.5 time_exceeded "
      "about {udp 10.0.0.5:5000 > 198.51.100.7:53}");
  nf.Send(
      "icmp 198.51.100.7 > 10.0.0.5 unreachable code=3 "
      "about {udp 10.0.0.5:5000 > 198.51.100.7:53}");
  nf.Send("icmp6 [2001:db8::1] > [2001:db8::2] echo id=7 seq=1");
  // Two types of one flow.
  nf.Send("icmp6 [fe80::1] > [fe80::2] type=135");
  nf.Send("icmp6 [fe80::1] > [fe80::2] type=136 code=1");
  nf.Send("icmp6 [fe80::1] > [fe80::2] type=136 code=1");
  const std::string kDb8 = "32.1.13.184.0.0.0.0.0.0.0.0.0.0.0.";
  const std::string kLink = "254.128.0.0.0.0.0.0.0.0.0.0.0.0.0.";
  EXPECT_EQ(FlowsOf(nf, {32, 139, 2, 7}),
            (Lines{"10.0.0.5 > 198.51.100.7 17: - - 1 5000",
                   "10.0.0.5 > 198.51.100.7 1: 2048 - 1 -",
                   "198.51.100.7 > 10.0.0.5 1: 0 - 1 -",
                   "203.0.113.250 > 10.0.0.5 1: 2816 - 1 -",
                   "198.51.100.7 > 10.0.0.5 1: 771 - 1 -",
                   kDb8 + "1 > " + kDb8 + "2 58: - 32768 1 -",
                   kLink + "1 > " + kLink + "2 58: - 34560 1 -",
                   kLink + "1 > " + kLink + "2 58: - 34817 2 -"}));
}

TEST(Monitor, ExportsFlagsEndAndVlan) {
  NfTest nf("monitor:ipfix=x");
  const auto connection = [&nf](const std::string& port, bool fins) {
    nf.Send("tcp 10.0.0.1:" + port + " > 192.0.2.9:80 SYN vlan=12");
    nf.Send("tcp 192.0.2.9:80 > 10.0.0.1:" + port + " SYN ACK");
    nf.Send("tcp 10.0.0.1:" + port + " > 192.0.2.9:80 ACK PSH vlan=12");
    nf.Send("tcp 10.0.0.1:" + port + " > 192.0.2.9:80 FIN ACK vlan=12");
    if (fins) nf.Send("tcp 192.0.2.9:80 > 10.0.0.1:" + port + " FIN ACK");
  };
  connection("1", true);
  connection("2", false);
  nf.Send("tcp 10.0.0.1:3 > 192.0.2.9:80 SYN");
  nf.Send("tcp 192.0.2.9:80 > 10.0.0.1:3 RST ACK");
  // Flags, VLAN, why it ended: 3 end seen, 1 silence.
  EXPECT_EQ(
      FlowsOf(nf, {6, 58, 136}),
      (Lines{
          "10.0.0.1 > 192.0.2.9 6: 27 12 3", "192.0.2.9 > 10.0.0.1 6: 19 0 3",
          "10.0.0.1 > 192.0.2.9 6: 27 12 1", "192.0.2.9 > 10.0.0.1 6: 18 0 1",
          "10.0.0.1 > 192.0.2.9 6: 2 0 3", "192.0.2.9 > 10.0.0.1 6: 20 0 3"}));
}

TEST(Monitor, DividesALongFlowByTheActiveTimeout) {
  NfTest nf("monitor:ipfix=x,active_timeout=300s");
  for (int i = 0; i < 20; ++i) {
    nf.Send((i == 0 ? "+1s " : "+200s ") +
            std::string("udp 10.0.0.1:5000 > 192.0.2.9:53 len=58"));
  }
  uint64_t packets = 0;
  nf.EndFlows();
  const std::vector<Record> records =
      RecordsOf(nf.nf().report().files.at(0).bytes);
  uint64_t flows = 0;
  for (const Record& record : records) {
    if (!record.contains(152)) continue;
    ++flows;
    packets += std::stoull(Value(record, 2));
    const uint64_t first = std::stoull(Value(record, 152));
    const uint64_t last = std::stoull(Value(record, 153));
    EXPECT_LE(first, last);
    EXPECT_LT(last - first, 300'000u);
    EXPECT_EQ(Value(record, 136), flows == 13 ? "1" : "2");
  }
  EXPECT_EQ(flows, 13u);
  EXPECT_EQ(packets, 20u);
}

TEST(Monitor, TellsNoTimeThatGoesBack) {
  NfTest nf("monitor:ipfix=x");
  nf.Send("+2500ms tcp 10.0.0.5:5000 > 198.51.100.7:80 ACK");
  TestPacket early = *ParsePacket("tcp 198.51.100.7:80 > 10.0.0.5:5000 ACK");
  early.gap = Nanos{-61'000'000};
  nf.Send(early);
  nf.Send("+71ms tcp 10.0.0.5:5000 > 198.51.100.7:80 ACK");
  nf.EndFlows();
  const std::string bytes = nf.nf().report().files.at(0).bytes;
  Reader header(bytes);
  header.Skip(4);
  const uint64_t exported_ms = header.Next(4) * 1'000;
  int flows = 0;
  for (const Record& record : RecordsOf(bytes)) {
    if (!record.contains(152)) continue;
    ++flows;
    EXPECT_LE(std::stoull(Value(record, 152)), std::stoull(Value(record, 153)));
    EXPECT_LE(std::stoull(Value(record, 153)), exported_ms);
  }
  EXPECT_EQ(flows, 2);
}

TEST(Monitor, SendsFlowsToACollectorInMessagesThatNoPathCuts) {
  NfTest nf("monitor:ipfix=udp://192.0.2.9");
  for (int i = 1; i < 1'000; ++i) {
    nf.Send("udp 10.0.0.1:" + std::to_string(i) + " > 192.0.2.9:53 len=58");
  }
  nf.EndFlows();
  const NfReport report = nf.nf().report();
  EXPECT_TRUE(report.files.empty());
  ASSERT_EQ(report.exports.size(), 1u);
  EXPECT_EQ(report.exports[0].to,
            (NfReport::Collector{"192.0.2.9", 4739, true}));
  const std::vector<std::string>& messages = report.exports[0].messages;
  ASSERT_GT(messages.size(), 33u);
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_LE(messages[i].size(), 1'232u);
    // The templates stand in each sixteenth again.
    if (i % 16 == 0) {
      EXPECT_EQ(messages[i][17], 2) << i;
    }
  }
  std::vector<Record> records = RecordsOf(Joined(messages));
  EXPECT_EQ(records.size(), 999u);  // no hosts
  // From a message with templates on, later ones can be read.
  const size_t before = [&] {
    const std::string& message = messages[16];
    Reader read(message);
    read.Skip(8);
    return read.Next(4);
  }();
  EXPECT_GT(before, 100u);
}

TEST(Monitor, KnowsCollectorsByTheirForm) {
  const auto check = [](const std::string& to) {
    const auto parsed = NfOptions::Parse("ipfix=" + to);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return std::string(FindNf("monitor")->check(*parsed).message());
  };
  const auto to = [](const std::string& text) {
    NfTest nf("monitor:ipfix=" + text);
    return nf.nf().report().exports.at(0).to;
  };
  EXPECT_EQ(to("tcp://[2001:db8::9]:99"),
            (NfReport::Collector{"2001:db8::9", 99, false}));
  EXPECT_EQ(to("udp://[::1]"), (NfReport::Collector{"::1", 4739, true}));
  EXPECT_EQ(to("udp://collector.example:1"),
            (NfReport::Collector{"collector.example", 1, true}));
  for (const char* wrong :
       {"udp://", "udp://:1", "tcp://a:", "tcp://a:0", "tcp://a:65536",
        "tcp://a:1x", "tcp://[::1", "tcp://[::1]x", "udp://[]"}) {
    EXPECT_NE(check(wrong).find("a collector such as"), std::string::npos)
        << wrong;
  }
  EXPECT_EQ(check("file"), "");
}

TEST(Monitor, ExportsTheSameEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 12; ++i) {
    packets.insert(packets.end(),
                   {"+70s " + std::string(kQuery), kAnswer, kOther,
                    "icmp 203.0.113.250 > 10.0.0.1 time_exceeded "
                    "about {udp 10.0.0.1:5000 > 192.0.2.9:53}"});
  }
  EXPECT_TRUE(RunEverywhere("monitor:ipfix=" + testing::TempDir() +
                                "/monitor_test.ipfix,active_timeout=60s",
                            Packets(packets)));
}

}  // namespace
}  // namespace snf
