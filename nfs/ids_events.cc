// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_events.h"

#include <algorithm>
#include <cstring>

#include "base/packet/l4_headers.h"
#include "base/rules/eve_text.h"
#include "nfs/ids_http_log.h"
#include "nfs/snort/option_text.h"

namespace snf {
namespace {

using snort::Append;
using Tcp = TcpHeader<const std::byte>;

constexpr std::string_view kStream = "stream";
constexpr std::string_view kDecode = "decode";
constexpr std::string_view kLayer = "applayer";

// Names are Suricata's, except stream.midstream, stream.reassembly_memcap and
// MALFORMED_BODY.
constexpr std::array<IdsAnomalyText, kIdsAnomalies> kAnomalies = {{
    {"midstream",
     "TCP connections whose SYN was not seen",
     kStream,
     {"stream.midstream", "stream.midstream"}},
    {"holes",
     "parts of streams that were missing",
     kStream,
     {"stream.reassembly_seq_gap", "stream.reassembly_seq_gap"}},
    {"memcap",
     "segments out of order, for which their flow has no room",
     kStream,
     {"stream.reassembly_memcap", "stream.reassembly_memcap"}},
    {"overlaps",
     "segments that differ from the bytes that came before",
     kStream,
     {"stream.reassembly_overlap_different_data",
      "stream.reassembly_overlap_different_data"}},
    {"http_headers_too_long",
     "HTTP headers longer than window and packet",
     kLayer,
     {"REQUEST_FIELD_TOO_LONG", "RESPONSE_FIELD_TOO_LONG"}},
    {"http_bodies_cut",
     "HTTP bodies beyond max_body",
     kLayer,
     {"COMPRESSION_BOMB", "COMPRESSION_BOMB"}},
    {"http_malformed",
     "HTTP bodies with wrong chunks or compression",
     kLayer,
     {"MALFORMED_BODY", "MALFORMED_BODY"}},
    {"fragment_overlaps",
     "fragments that differ from bytes or ends that came before",
     kDecode,
     {"decoder.ipv4.frag_overlap", "decoder.ipv6.frag_overlap"}},
    {"fragments_too_large",
     "fragments beyond 65,535 bytes",
     kDecode,
     {"decoder.ipv4.frag_pkt_too_large", "decoder.ipv6.frag_pkt_too_large"}},
    {"fragments_memcap",
     "fragments for which their flow has no room",
     kDecode,
     {"decoder.ipv4.frag_ignored", "decoder.ipv6.frag_ignored"}},
    {"too_many_extensions",
     "IPv6 packets with more than 8 extension headers, behind which nothing is "
     "read",
     kDecode,
     {"decoder.too_many_layers", "decoder.too_many_layers"}},
}};

std::string FlagsText(uint8_t flags) {
  static constexpr char kHex[] = "0123456789abcdef";
  return {kHex[flags / 16], kHex[flags % 16]};
}

// Suricata's "tcp", without the states of its own machine.
std::string TcpJson(const IdsConnection& connection) {
  const auto [there, back] = connection.tcp_flags;
  const auto all = static_cast<uint8_t>(there | back);
  std::string json = snort::Cat(
      ",\"tcp\":{\"tcp_flags\":\"", FlagsText(all), "\",\"tcp_flags_ts\":\"",
      FlagsText(there), "\",\"tcp_flags_tc\":\"", FlagsText(back), "\"");
  struct Name {
    uint8_t flag;
    std::string_view name;
  };
  static constexpr std::array<Name, 6> kNames = {{{Tcp::kSyn, "syn"},
                                                  {Tcp::kFin, "fin"},
                                                  {Tcp::kRst, "rst"},
                                                  {Tcp::kPsh, "psh"},
                                                  {Tcp::kAck, "ack"},
                                                  {Tcp::kUrg, "urg"}}};
  for (const Name& one : kNames) {
    if ((all & one.flag) != 0) Append(json, ",\"", one.name, "\":true");
  }
  return json + "}";
}

std::string_view StateOf(const IdsConnection& connection) {
  const auto [there, back] = connection.tcp_flags;
  if (((there | back) & Tcp::kRst) != 0 || (there & back & Tcp::kFin) != 0) {
    return "closed";
  }
  const bool is_established = connection.client.protocol == IpProtocol::kTcp
                                  ? connection.has(IdsConnection::kEstablished)
                                  : connection.packets[1] > 0;
  return is_established ? "established" : "new";
}

std::string FlowJson(const snort::RuleSet& set, const IdsConnection& connection,
                     std::span<const std::byte> bits) {
  std::string json;
  if (const std::string names = FlowbitsJson(set, bits); !names.empty()) {
    Append(json, ",\"metadata\":", names);
  }
  if (connection.has(IdsConnection::kHttp)) json += ",\"app_proto\":\"http\"";
  const uint64_t age_ns =
      connection.end_ns - std::min(connection.begin_ns, connection.end_ns);
  Append(json, ",\"flow\":{\"pkts_toserver\":", connection.packets[0],
         ",\"pkts_toclient\":", connection.packets[1],
         ",\"bytes_toserver\":", connection.bytes[0],
         ",\"bytes_toclient\":", connection.bytes[1], ",\"start\":\"",
         EveTime(connection.begin_ns), "\",\"end\":\"",
         EveTime(connection.end_ns), "\",\"age\":", age_ns / 1'000'000'000,
         ",\"state\":\"", StateOf(connection), "\"");
  if (connection.fate != IdsFate::kInspected) {
    Append(json, ",\"action\":\"", IsDrop(connection.fate) ? "drop" : "pass",
           "\"");
  }
  Append(json, ",\"alerted\":",
         connection.has(IdsConnection::kAlerted) ? "true" : "false", "}");
  if (connection.client.protocol == IpProtocol::kTcp) {
    json += TcpJson(connection);
  }
  return json;
}

std::string AnomalyJson(const IdsEventHead& head) {
  const IdsAnomalyText& text = TextOf(head.anomaly);
  const bool is_ipv6 = head.ends.form == FlowKeyForm::kIpv6;
  const bool is_second = text.type == kDecode ? is_ipv6 : head.to_client != 0;
  std::string json;
  if (text.type == kLayer) json += ",\"app_proto\":\"http\"";
  Append(json, ",\"anomaly\":{\"type\":\"", text.type, "\",\"event\":\"",
         text.events[is_second ? 1 : 0], "\"");
  if (text.type == kLayer) json += ",\"layer\":\"proto_parser\"";
  return json + "}";
}

}  // namespace

const IdsAnomalyText& TextOf(IdsAnomaly anomaly) {
  return kAnomalies.at(static_cast<size_t>(anomaly));
}

std::vector<std::byte> IdsEventRecord(const IdsEventHead& head,
                                      std::span<const std::byte> first,
                                      std::span<const std::byte> second) {
  std::vector<std::byte> record(sizeof head + first.size() + second.size());
  std::memcpy(record.data(), &head, sizeof head);
  const auto rest = record.begin() + sizeof head;
  std::ranges::copy(second, std::ranges::copy(first, rest).out);
  return record;
}

void WriteIdsEvent(const snort::RuleSet& set, const LogRecord& record,
                   std::string& lines) {
  IdsEventHead head;
  if (record.bytes.size() < sizeof head) return;
  std::memcpy(&head, record.bytes.data(), sizeof head);
  const std::span<const std::byte> rest = record.bytes.subspan(sizeof head);
  std::string_view type;
  std::string json;
  IdsConnection connection;
  switch (head.kind) {
    case IdsEventHead::kFlow:
      if (rest.size() < sizeof connection) return;
      std::memcpy(&connection, rest.data(), sizeof connection);
      type = "flow";
      json = FlowJson(set, connection, rest.subspan(sizeof connection));
      break;
    case IdsEventHead::kHttp:
      type = "http";
      json = snort::Cat(",\"tx_id\":", head.transaction,
                        ",\"http\":", IdsHttpJson(rest));
      break;
    case IdsEventHead::kAnomaly:
      if (static_cast<size_t>(head.anomaly) >= kIdsAnomalies) return;
      type = "anomaly";
      json = AnomalyJson(head);
      break;
    default:
      return;
  }
  Append(lines,
         EveBegin({.type = type,
                   .time_ns = static_cast<uint64_t>(record.time.ns),
                   .begin_ns = head.begin_ns,
                   .ends = head.ends}),
         json, "}\n");
}

std::string FlowbitsJson(const snort::RuleSet& set,
                         std::span<const std::byte> bits) {
  std::string json;
  for (size_t i = 0; i < set.flowbit_names.size() && i / 8 < bits.size(); ++i) {
    if ((bits[i / 8] >> (i % 8) & std::byte{1}) == std::byte{0}) continue;
    Append(json, json.empty() ? "{\"flowbits\":[" : ",",
           EveQuoted(set.flowbit_names[i]));
  }
  return json.empty() ? "" : json + "]}";
}

}  // namespace snf
