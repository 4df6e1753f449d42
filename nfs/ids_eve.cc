// SPDX-License-Identifier: Apache-2.0
#include "nfs/ids_eve.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>

#include "base/packet/ip_address_text.h"
#include "nfs/snort/option_text.h"

namespace snf {
namespace {

using snort::Append;
using snort::Rule;
using snort::Threshold;

constexpr uint64_t kSecond = 1'000'000'000;

// The counts of one rule and one address.
struct Period {
  uint64_t begin_ns = 0;
  uint64_t count = 0;
  bool is_new = true;
};

// Returns whether an event passes; events come in the order of time.
bool Passes(const Threshold& threshold, uint64_t now_ns, Period& period) {
  const bool is_over =
      !period.is_new && now_ns - period.begin_ns >= threshold.seconds * kSecond;
  if (period.is_new || is_over) {
    period = {.begin_ns = now_ns, .count = 0, .is_new = false};
  }
  ++period.count;
  switch (threshold.kind) {
    case Threshold::Kind::kLimit:
      return period.count <= threshold.count;
    case Threshold::Kind::kThreshold:
      if (period.count < threshold.count) return false;
      period.is_new = true;
      return true;
    case Threshold::Kind::kBoth:
      return period.count == threshold.count;
    case Threshold::Kind::kDetectionFilter:
      return period.count > threshold.count;
  }
  return true;
}

bool IsSuppressed(const snort::RuleSet& set, const Rule& rule,
                  const FlowKey& ends) {
  return std::ranges::any_of(
      set.suppressions, [&](const snort::RuleSet::Suppression& one) {
        if (one.gid != rule.gid || (one.sid != 0 && one.sid != rule.sid)) {
          return false;
        }
        const IpAddress& address =
            one.by_destination ? ends.destination : ends.source;
        return one.addresses == nullptr ||
               one.addresses->Contains(snort::NumberOf(address));
      });
}

// Days since 1970 as year, month, day (the proleptic Gregorian calendar).
std::array<int64_t, 3> DateOf(int64_t days) {
  const int64_t z = days + 719'468;
  const int64_t era = (z >= 0 ? z : z - 146'096) / 146'097;
  const int64_t day_of_era = z - era * 146'097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1'460 +
                               day_of_era / 36'524 - day_of_era / 146'096) /
                              365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t m = (5 * day_of_year + 2) / 153;
  const int64_t month = m < 10 ? m + 3 : m - 9;
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month,
          day_of_year - (153 * m + 2) / 5 + 1};
}

std::string Digits(int64_t value, size_t width) {
  std::string text = std::to_string(value);
  return std::string(width - std::min(width, text.size()), '0') + text;
}

// "2026-11-27T22:31:12.123456+0000".
std::string TimeText(uint64_t time_ns) {
  const auto ns = static_cast<int64_t>(time_ns);
  constexpr int64_t kDay = 86'400;
  int64_t seconds = ns / static_cast<int64_t>(kSecond);
  int64_t rest_ns = ns % static_cast<int64_t>(kSecond);
  if (rest_ns < 0) {
    rest_ns += static_cast<int64_t>(kSecond);
    --seconds;
  }
  const int64_t days = (seconds >= 0 ? seconds : seconds - kDay + 1) / kDay;
  const int64_t second = seconds - days * kDay;
  const auto [year, month, day] = DateOf(days);
  return snort::Cat(Digits(year, 4), "-", Digits(month, 2), "-", Digits(day, 2),
                    "T", Digits(second / 3'600, 2), ":",
                    Digits(second / 60 % 60, 2), ":", Digits(second % 60, 2),
                    ".", Digits(rest_ns / 1'000, 6), "+0000");
}

// Text as a string of JSON. Bytes that are not ASCII are taken as Latin-1, so
// that any rule file gives valid JSON.
std::string Quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      Append(out, "\\u00", std::string(1, kHex[byte / 16]),
             std::string(1, kHex[byte % 16]));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string AddressText(const FlowKey& ends, const IpAddress& address) {
  const bool is_ipv6 = ends.form == FlowKeyForm::kIpv6 ||
                       ends.form == FlowKeyForm::kIpv6Fragment;
  return is_ipv6 ? Ipv6Text(address) : Ipv4Text(address);
}

std::string ProtocolText(IpProtocol protocol) {
  switch (protocol) {
    case IpProtocol::kTcp:
      return "TCP";
    case IpProtocol::kUdp:
      return "UDP";
    case IpProtocol::kIcmp:
      return "ICMP";
    case IpProtocol::kIcmpv6:
      return "IPv6-ICMP";
    case IpProtocol::kSctp:
      return "SCTP";
    default:
      return std::to_string(static_cast<int>(protocol));
  }
}

// The rule's metadata as Suricata writes it: lists of values by key.
std::string MetadataJson(const Rule& rule) {
  std::map<std::string, std::vector<std::string>> values;
  for (const std::string& one : rule.metadata) {
    const size_t space = one.find(' ');
    const std::string value =
        space == std::string::npos ? "" : one.substr(space + 1);
    values[one.substr(0, space)].push_back(value);
  }
  std::string json;
  for (const auto& [key, list] : values) {
    Append(json, json.empty() ? "{" : ",", Quoted(key), ":[");
    for (size_t i = 0; i < list.size(); ++i) {
      Append(json, i == 0 ? "" : ",", Quoted(list[i]));
    }
    json += "]";
  }
  return json.empty() ? "" : json + "}";
}

}  // namespace

void FilterAlerts(const snort::RuleSet& set, IdsAlerts& alerts) {
  std::ranges::sort(alerts, {}, [](const auto& alert) {
    const IdsAlertKey& key = alert.first;
    return std::tuple(key.time_ns, key.ends, key.packet, key.rule);
  });
  std::map<std::pair<uint32_t, IpAddress>, Period> periods;
  std::erase_if(alerts, [&](const auto& alert) {
    const auto& [key, what] = alert;
    const Rule& rule = set.rules[key.rule];
    if (IsSuppressed(set, rule, key.ends)) return true;
    if (!rule.threshold.has_value()) return false;
    const IpAddress& address =
        rule.threshold->by_destination ? key.ends.destination : key.ends.source;
    return !Passes(*rule.threshold, key.time_ns,
                   periods[std::pair(key.rule, address)]);
  });
}

std::string EveLine(const snort::RuleSet& set, const IdsAlertKey& key,
                    const IdsAlert& alert) {
  const Rule& rule = set.rules[key.rule];
  const FlowKey& ends = key.ends;
  FlowKey flow = ends;
  Canonicalize(flow);
  // As Suricata's, an integer that JSON's readers keep exactly.
  const uint64_t flow_id =
      (Hash(flow) ^ alert.begin_ns * 0x9e3779b97f4a7c15) >> 13;
  const bool is_dropped = (alert.what & IdsAlert::kDropped) != 0;
  std::string line =
      snort::Cat("{\"timestamp\":\"", TimeText(key.time_ns),
                 "\",\"flow_id\":", flow_id, ",\"event_type\":\"alert\"",
                 ",\"src_ip\":\"", AddressText(ends, ends.source), "\"");
  const bool is_icmp = IsIcmp(ends.protocol);
  if (HasPorts(ends.protocol)) {
    Append(line, ",\"src_port\":", ends.source_port.host());
  }
  Append(line, ",\"dest_ip\":\"", AddressText(ends, ends.destination), "\"");
  if (HasPorts(ends.protocol)) {
    Append(line, ",\"dest_port\":", ends.destination_port.host());
  }
  Append(line, ",\"proto\":\"", ProtocolText(ends.protocol), "\"");
  if (is_icmp) {
    Append(line, ",\"icmp_type\":", alert.icmp / 256,
           ",\"icmp_code\":", alert.icmp % 256);
  }
  Append(line, ",\"alert\":{\"action\":\"", is_dropped ? "blocked" : "allowed",
         "\",\"gid\":", rule.gid, ",\"signature_id\":", rule.sid,
         ",\"rev\":", rule.revision, ",\"signature\":", Quoted(rule.message),
         ",\"category\":", Quoted(rule.category),
         ",\"severity\":", rule.priority);
  const std::string metadata = MetadataJson(rule);
  if (!metadata.empty()) Append(line, ",\"metadata\":", metadata);
  if (!rule.references.empty()) {
    line += ",\"references\":[";
    for (size_t i = 0; i < rule.references.size(); ++i) {
      const auto& [system, id] = rule.references[i];
      Append(line, i == 0 ? "" : ",", Quoted(snort::Cat(system, ":", id)));
    }
    line += "]";
  }
  line += "}";
  if ((alert.what & IdsAlert::kHttp) != 0) line += ",\"app_proto\":\"http\"";
  Append(line, ",\"direction\":\"",
         (alert.what & IdsAlert::kToServer) != 0 ? "to_server" : "to_client",
         "\",\"flow\":{\"start\":\"", TimeText(alert.begin_ns),
         "\"},\"verdict\":{\"action\":\"", is_dropped ? "drop" : "alert",
         "\"}}\n");
  return line;
}

}  // namespace snf
