// SPDX-License-Identifier: Apache-2.0
// Exceptions, and events beside alerts. NfTest begins at 1,000 s.
#include "nfs/ids_events.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/packet/ip_headers.h"
#include "base/packet/test_packets.h"
#include "nfs/ids_http_log.h"
#include "nfs/test_ids.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

const std::string kEvil =
    "alert tcp any any -> any any (content:\"evil\"; sid:1;)";

// Returns the lines of the log of events, each from its member `member` on.
std::vector<std::string> EventsOf(NfTest& nf, const std::string& member) {
  std::vector<std::string> events;
  for (const std::string& line : nf.TakeLog("ids.events")) {
    const size_t at = line.find(",\"" + member + "\":");
    events.push_back(at == std::string::npos ? line : line.substr(at + 1));
  }
  return events;
}

std::string Anomaly(const std::string& type, const std::string& event) {
  return "\"anomaly\":{\"type\":\"" + type + "\",\"event\":\"" + event + "\"}}";
}

void SendHandshake(NfTest& nf) {
  for (const std::string& text : Connection::Handshake()) nf.Send(text);
}

// --- Exceptions --------------------------------------------------------------

TEST(IdsExceptions, ConnectionsFromTheMidstAreInspectedPassedOrDropped) {
  const std::string packet = kThere + "ACK seq=7 \"evil\"";
  NfTest alert(Ids(kEvil, "events=anomaly"));
  EXPECT_EQ(alert.Send(packet).text.substr(0, 7), "alerted");
  alert.Send(packet);
  EXPECT_EQ(EventsOf(alert, "anomaly"),
            std::vector{Anomaly("stream", "stream.midstream")});
  NfTest pass(Ids(kEvil, "midstream=pass"));
  EXPECT_EQ(pass.Send(packet), packet);
  EXPECT_EQ(pass.Send(kBack + "ACK seq=7 \"evil\""),
            kBack + "ACK seq=7 \"evil\"");
  EXPECT_EQ(pass.count("midstream"), 1u);
  EXPECT_EQ(pass.count("passed"), 2u);
  NfTest drop(Ids(kEvil, "midstream=drop"));
  EXPECT_EQ(drop.Send(packet), "drop midstream");
  EXPECT_EQ(drop.Send(kBack + "ACK seq=7 \"x\""), "drop midstream");
  EXPECT_EQ(drop.count("midstream"), 1u);
  // A new connection of the same ends has its begin.
  for (const std::string& text : Connection::Handshake()) {
    EXPECT_EQ(drop.Send(text), text);
  }
}

// The capture lacks a byte that the receiver acknowledges.
std::vector<std::string> WithGap() {
  return {kThere + "ACK seq=100 \"good\"",
          kThere + "ACK seq=105 \"more\"",
          kBack + "ACK seq=500 ack=109",
          kThere + "ACK seq=109 \"evil\"",
          kThere + "SYN seq=5",
          kThere + "ACK seq=6 \"evil\""};
}

TEST(IdsExceptions, ConnectionsWithAGapAreInspectedPassedOrDropped) {
  const auto results = [](NfTest& nf) {
    SendHandshake(nf);
    std::vector<std::string> texts;
    for (const std::string& text : WithGap()) {
      const std::string result = nf.Send(text).text;
      texts.push_back(result.substr(0, result.find(' ')) == "drop"
                          ? result
                          : result.substr(0, 4));
    }
    return texts;
  };
  NfTest alert(Ids(kEvil, "events=anomaly"));
  EXPECT_EQ(results(alert), (std::vector<std::string>{"tcp ", "tcp ", "tcp ",
                                                      "aler", "tcp ", "aler"}));
  EXPECT_EQ(EventsOf(alert, "anomaly"),
            std::vector{Anomaly("stream", "stream.reassembly_seq_gap")});
  NfTest pass(Ids(kEvil, "on_gap=pass"));
  // A SYN ends the pass.
  EXPECT_EQ(results(pass), (std::vector<std::string>{"tcp ", "tcp ", "tcp ",
                                                     "tcp ", "tcp ", "aler"}));
  EXPECT_EQ(pass.count("passed"), 1u);
  NfTest drop(Ids(kEvil, "on_gap=drop"));
  EXPECT_EQ(results(drop),
            (std::vector<std::string>{"tcp ", "tcp ", "drop gap", "drop gap",
                                      "drop gap", "drop gap"}));
  for (NfTest* const nf : {&alert, &pass, &drop}) {
    EXPECT_EQ(nf->count("holes"), 1u);
  }
}

TEST(IdsExceptions, AConnectionAfterAPassBeginsAnew) {
  NfTest nf(Ids(kEvil, "on_gap=pass"));
  SendHandshake(nf);
  for (const std::string& text : WithGap()) nf.Send(text);
  const uint64_t before = nf.count("alerts");
  for (const char* text : {"RST seq=10", "SYN seq=1000", "ACK seq=1001 \"ev\"",
                           "ACK seq=1003 \"il\""}) {
    nf.Send(kThere + text);
  }
  EXPECT_EQ(nf.count("alerts"), before + 1);
  // Right behind the pass, its stream is not known.
  NfTest other(Ids(kEvil, "on_gap=pass"));
  SendHandshake(other);
  const std::vector<std::string> gap = WithGap();
  for (size_t i = 0; i < 4; ++i) other.Send(gap[i]);
  for (const char* text :
       {"SYN seq=1000", "ACK seq=1001 \"ev\"", "ACK seq=1003 \"il\""}) {
    other.Send(kThere + text);
  }
  EXPECT_EQ(other.count("alerts"), 1u);
}

TEST(IdsExceptions, ConnectionsWithoutRoomAreInspectedPassedOrDropped) {
  const std::string far = kThere + "ACK seq=110 \"0123456789\"";
  const std::string next = kThere + "ACK seq=120 \"evil\"";
  NfTest alert(Ids(kEvil, "reorder=16,events=anomaly"));
  SendHandshake(alert);
  EXPECT_EQ(alert.Send(far), far);
  EXPECT_EQ(alert.Send(next).text.substr(0, 7), "alerted");
  // A segment without room makes a gap of the bytes before it.
  EXPECT_EQ(EventsOf(alert, "anomaly"),
            (std::vector{Anomaly("stream", "stream.reassembly_seq_gap"),
                         Anomaly("stream", "stream.reassembly_memcap")}));
  EXPECT_EQ(alert.count("memcap"), 1u);
  NfTest pass(Ids(kEvil, "reorder=16,on_memcap=pass"));
  SendHandshake(pass);
  EXPECT_EQ(pass.Send(far), far);
  EXPECT_EQ(pass.Send(next), next);
  EXPECT_EQ(pass.count("passed"), 1u);
  NfTest drop(Ids(kEvil, "reorder=16,on_memcap=drop"));
  SendHandshake(drop);
  EXPECT_EQ(drop.Send(far), "drop memcap");
  EXPECT_EQ(drop.Send(next), "drop memcap");
  // Other connections go on.
  EXPECT_EQ(drop.Send("tcp 10.0.0.1:5001 > 192.0.2.9:80 SYN").text.substr(0, 3),
            "tcp");
}

TEST(IdsExceptions, RunEverywhere) {
  for (const char* policy : {"pass", "drop"}) {
    std::vector<std::string> packets = WithHandshake(WithGap());
    for (const std::string& text : WithGap()) packets.push_back("+1s " + text);
    packets.push_back(kThere + "ACK seq=300 len=60");
    packets.push_back("tcp 10.0.0.9:5 > 192.0.2.9:80 ACK seq=3 \"evil\"");
    const std::string value = policy;
    EXPECT_TRUE(RunEverywhere(
        Ids(kEvil, "reorder=32,midstream=" + value + ",on_gap=" + value +
                       ",on_memcap=" + value + ",events=flow+anomaly"),
        Packets(packets)));
  }
}

// --- Events ------------------------------------------------------------------

TEST(IdsEvents, TellsFlowsAtTheirEnd) {
  NfTest nf(
      Ids("alert tcp any any -> any any (content:\"evil\"; "
          "flowbits:set,a.bit; sid:1;)",
          "events=flow+flowbits"));
  SendHandshake(nf);
  Connection connection;
  nf.Send("+2s " + connection.There("evil"));
  nf.Send(kThere + "FIN ACK seq=104");
  nf.Send(kBack + "FIN ACK seq=500 ack=105");
  nf.EndFlows();
  const std::vector<std::string> lines = nf.TakeLog("ids.events");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("\"event_type\":\"flow\",\"src_ip\":\"10.0.0.1\","
                          "\"src_port\":5000,\"dest_ip\":\"192.0.2.9\","
                          "\"dest_port\":80,\"proto\":\"TCP\","
                          "\"metadata\":{\"flowbits\":[\"a.bit\"]},"
                          "\"flow\":{\"pkts_toserver\":4,\"pkts_toclient\":2,"
                          "\"bytes_toserver\":220,\"bytes_toclient\":108,"
                          "\"start\":\"1970-01-01T00:16:40.001000+0000\","
                          "\"end\":\"1970-01-01T00:16:42.005000+0000\","
                          "\"age\":2,\"state\":\"closed\",\"alerted\":true},"
                          "\"tcp\":{\"tcp_flags\":\"13\",\"tcp_flags_ts\":"
                          "\"13\",\"tcp_flags_tc\":\"13\",\"syn\":true,"
                          "\"fin\":true,\"ack\":true}}"),
            std::string::npos)
      << lines[0];
  // The alert has the bits, too.
  const std::vector<std::string> alerts = nf.TakeLog("ids.alerts");
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_NE(alerts[0].find("\"metadata\":{\"flowbits\":[\"a.bit\"]},\"alert\""),
            std::string::npos)
      << alerts[0];
}

TEST(IdsEvents, TellsTheFateAndStateOfFlows) {
  NfTest nf(Ids(kEvil, "events=flow,midstream=drop"));
  nf.Send("udp 10.0.0.1:5 > 192.0.2.9:53 \"q\"");
  nf.Send("udp 10.0.0.2:5 > 192.0.2.9:53 \"q\"");
  nf.Send("udp 192.0.2.9:53 > 10.0.0.2:5 \"a\"");
  nf.Send("tcp 10.0.0.3:5 > 192.0.2.9:80 ACK \"q\"");
  nf.EndFlow("udp 10.0.0.1:5 > 192.0.2.9:53");
  nf.EndFlow("udp 10.0.0.2:5 > 192.0.2.9:53");
  nf.EndFlow("tcp 10.0.0.3:5 > 192.0.2.9:80");
  const std::vector<std::string> flows = EventsOf(nf, "state");
  ASSERT_EQ(flows.size(), 3u);
  EXPECT_EQ(flows[0], "\"state\":\"new\",\"alerted\":false}}");
  EXPECT_EQ(flows[1], "\"state\":\"established\",\"alerted\":false}}");
  EXPECT_EQ(flows[2].substr(0, 39),
            "\"state\":\"established\",\"action\":\"drop\",\"");
}

// A request and its answer are one event, wherever the streams are cut.
TEST(IdsEvents, TellsHttpTransactions) {
  const std::string request =
      "GET /a?b HTTP/1.1\r\nHost: h.example\r\nUser-Agent: \"x\"\r\n"
      "Referer: r\r\n\r\nHEAD /second HTTP/1.0\r\n\r\n";
  const std::string answer =
      "HTTP/1.1 100 Continue\r\n\r\n"
      "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n"
      "Content-Length: 2\r\n\r\nno";
  const std::vector<std::string> expected = {
      "\"tx_id\":0,\"http\":{\"hostname\":\"h.example\",\"url\":\"/a?b\","
      "\"http_user_agent\":\"\\\"x\\\"\",\"http_content_type\":\"text/html\","
      "\"http_refer\":\"r\",\"http_method\":\"GET\",\"protocol\":\"HTTP/1.1\","
      "\"status\":404,\"length\":2}}",
      "\"tx_id\":1,\"http\":{\"url\":\"/second\",\"http_method\":\"HEAD\","
      "\"protocol\":\"HTTP/1.0\"}}"};
  for (const size_t step : {1'000u, 1u, 7u}) {
    NfTest nf(Ids(kEvil, "events=http"));
    SendHandshake(nf);
    Connection connection;
    for (size_t i = 0; i < request.size(); i += step) {
      nf.Send(connection.There(request.substr(i, step)));
    }
    for (size_t i = 0; i < answer.size(); i += step) {
      const std::string segment = connection.Back(answer.substr(i, step));
      nf.Send(segment);
      nf.Send(segment);  // once more
    }
    nf.EndFlows();
    EXPECT_EQ(EventsOf(nf, "tx_id"), expected) << step;
  }
}

// All requests that wait fit one batch at the end of the flow.
TEST(IdsEvents, TellsRequestsThatHaveNoRoomToWait) {
  for (const size_t bytes : {400u, 1u}) {
    NfTest nf(Ids(kEvil, "events=flow+http"));
    SendHandshake(nf);
    Connection connection;
    for (int i = 0; i < 40; ++i) {
      nf.Send(connection.There("GET /" + std::to_string(i) +
                               std::string(bytes, 'x') + " HTTP/1.1\r\n\r\n"));
    }
    const std::vector<std::string> lines = EventsOf(nf, "tx_id");
    ASSERT_GT(lines.size(), 2u);
    EXPECT_LT(lines.size(), 40u);
    EXPECT_EQ(lines[1].substr(0, 29), "\"tx_id\":1,\"http\":{\"url\":\"/1x" +
                                          std::string(bytes == 1 ? "\"" : "x"));
    nf.EndFlows();
    // The flow is told behind its transactions.
    EXPECT_EQ(EventsOf(nf, "tx_id").size(), 41 - lines.size());
  }
}

TEST(IdsEvents, TellsAnomaliesOfStreamsAndMessages) {
  NfTest nf(Ids(kEvil, "events=anomaly,window=64"));
  SendHandshake(nf);
  nf.Send(kThere + "ACK seq=100 \"good\"");
  nf.Send(kThere + "ACK seq=100 \"evil\"");
  EXPECT_EQ(EventsOf(nf, "anomaly"),
            std::vector{
                Anomaly("stream", "stream.reassembly_overlap_different_data")});
  nf.Send(kBack + "ACK seq=500 " +
          HexText("HTTP/1.1 200 OK\r\nA: " + std::string(60, 'a')));
  nf.Send(kBack + "ACK seq=580 " + HexText(std::string(100, 'b')));
  const std::vector<std::string> lines = EventsOf(nf, "app_proto");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "\"app_proto\":\"http\",\"anomaly\":{\"type\":\"applayer\","
            "\"event\":\"RESPONSE_FIELD_TOO_LONG\",\"layer\":"
            "\"proto_parser\"}}");
}

TEST(IdsEvents, TellsBodiesAndFragmentsBeyondTheirBounds) {
  const auto body = [](const std::string& size, size_t bytes) {
    return kBack + "ACK seq=500 " +
           HexText("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                   size + "\r\n" + std::string(bytes, 'x'));
  };
  const auto told = [](const std::string& packet, const std::string& event) {
    NfTest nf(Ids(kEvil, "events=anomaly,max_body=256"));
    SendHandshake(nf);
    nf.Send(packet);
    const std::vector<std::string> lines = nf.TakeLog("ids.events");
    return lines.size() == 1 &&
           lines[0].find("\"event\":\"" + event + "\"") != std::string::npos;
  };
  EXPECT_TRUE(told(body("400", 300), "COMPRESSION_BOMB"));
  EXPECT_TRUE(told(body("what", 3), "MALFORMED_BODY"));
  EXPECT_TRUE(
      told("udp 10.0.0.1 > 192.0.2.9 ip_id=7 offset=65528 \"123456789\"",
           "decoder.ipv4.frag_pkt_too_large"));
}

// UDP behind 8 extension headers is read; behind 12 it is not, which is told.
TEST(IdsEvents, TellsPacketsWithTooManyExtensionHeaders) {
  constexpr uint8_t kOptions = 60;  // for the destination
  NfTest nf(Ids(kEvil, "events=anomaly"));
  const auto chain = [](int headers) {
    Frame bytes = Udp(5, 53);
    for (int i = 0; i < headers; ++i) {
      bytes = Ipv6Extension(i == 0 ? 17 : kOptions, 1, bytes);
    }
    return bytes;
  };
  const auto send = [&nf](uint8_t next, const Frame& payload) {
    const Frame packet = Ipv6({.next_header = next}, payload);
    nf.Send(TestPacket{.bytes = packet,
                       .original_length = static_cast<uint32_t>(packet.size()),
                       .link = LinkType::kRawIp});
  };
  send(kOptions, chain(kMaxIpv6Extensions));
  EXPECT_TRUE(EventsOf(nf, "anomaly").empty());
  send(kOptions, chain(12));
  EXPECT_EQ(EventsOf(nf, "anomaly"),
            std::vector{Anomaly("decode", "decoder.too_many_layers")});
  EXPECT_EQ(nf.count("too_many_extensions"), 1u);
  // A packet put together of fragments is told, too.
  const Frame whole = chain(12);
  const Frame first(whole.begin(), whole.begin() + 48);
  const Frame rest(whole.begin() + 48, whole.end());
  send(44, Ipv6Fragment(kOptions, 0, /*more=*/true, 7, first));
  send(44, Ipv6Fragment(kOptions, 48, /*more=*/false, 7, rest));
  EXPECT_EQ(nf.count("fragments_joined"), 1u);
  EXPECT_EQ(nf.count("too_many_extensions"), 2u);
}

TEST(IdsEvents, AreOnlyThoseThatAreChosen) {
  NfTest nf(Ids(kEvil, "events=http"));
  SendHandshake(nf);
  nf.Send(kThere + "ACK seq=100 \"good\"");
  nf.Send(kThere + "ACK seq=100 \"evil\"");
  nf.EndFlows();
  EXPECT_TRUE(nf.TakeLog("ids.events").empty());
}

// A segment that a rule drops completes no transaction.
TEST(IdsEvents, TellNoTransactionOfADroppedSegment) {
  NfTest nf(Ids("drop tcp any any -> any any (content:\"evil\"; sid:1;)",
                "events=http,action=rule"));
  SendHandshake(nf);
  Connection connection;
  const std::string segment = connection.There("GET /evil HTTP/1.1\r\n\r\n");
  EXPECT_EQ(nf.Send(segment), "drop rule");
  EXPECT_EQ(nf.Send(segment), "drop rule");
  nf.EndFlows();
  EXPECT_TRUE(nf.TakeLog("ids.events").empty());
}

TEST(IdsEvents, TakeRecordsOfAnyBytes) {
  const snort::RuleSet set;
  std::vector<std::byte> bytes;
  std::string lines;
  for (int kind = 0; kind < 256; ++kind) {
    for (size_t size = 0; size < 200; ++size) {
      bytes.assign(size, std::byte{static_cast<unsigned char>(kind)});
      WriteIdsEvent(set, {.log = LogId{1}, .time = {}, .bytes = bytes}, lines);
    }
  }
  EXPECT_FALSE(lines.empty());
}

TEST(IdsEvents, RunEverywhere) {
  std::vector<std::string> packets;
  for (int client = 1; client <= 4; ++client) {
    const std::string there =
        "tcp 10.0.0." + std::to_string(client) + ":5000 > 192.0.2.9:80 ";
    const std::string back =
        "tcp 192.0.2.9:80 > 10.0.0." + std::to_string(client) + ":5000 ";
    packets.push_back(there + "SYN seq=99");
    packets.push_back(back + "SYN ACK seq=499 ack=100");
    const std::string request = "GET /evil HTTP/1.1\r\nHost: h\r\n\r\n";
    const auto step = static_cast<size_t>(client);
    for (size_t i = 0; i < request.size(); i += step) {
      packets.push_back(there + "ACK seq=" + std::to_string(100 + i) + " " +
                        HexText(request.substr(i, step)));
    }
    packets.push_back(back + "ACK seq=500 " +
                      HexText("HTTP/1.1 200 OK\r\n\r\n"));
  }
  EXPECT_TRUE(RunEverywhere(Ids(kEvil, "events=flow+http+anomaly+flowbits"),
                            Packets(packets)));
}

TEST(IdsEvents, RefuseOtherTypes) {
  const auto options = NfOptions::Parse("events=flow+dns");
  const std::string error(FindNf("ids")->check(*options).message());
  EXPECT_NE(error.find("flow+dns"), std::string::npos) << error;
}

}  // namespace
}  // namespace snf
