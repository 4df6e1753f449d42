// SPDX-License-Identifier: Apache-2.0
#include "base/rules/eve_text.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/packet/ip_address_text.h"

namespace snf {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

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

}  // namespace

std::string EveTime(uint64_t time_ns) {
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
  return absl::StrCat(Digits(year, 4), "-", Digits(month, 2), "-",
                      Digits(day, 2), "T", Digits(second / 3'600, 2), ":",
                      Digits(second / 60 % 60, 2), ":", Digits(second % 60, 2),
                      ".", Digits(rest_ns / 1'000, 6), "+0000");
}

std::string EveQuoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += "\\u00";
      out += kHex[byte / 16];
      out += kHex[byte % 16];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string EveBegin(const EveEvent& event) {
  const FlowKey& ends = event.ends;
  FlowKey flow = ends;
  Canonicalize(flow);
  // As Suricata's, an integer that JSON's readers keep exactly.
  const uint64_t flow_id =
      (Hash(flow) ^ event.begin_ns * 0x9e3779b97f4a7c15) >> 13;
  std::string line = absl::StrCat(
      "{\"timestamp\":\"", EveTime(event.time_ns), "\",\"flow_id\":", flow_id,
      ",\"event_type\":\"", std::string(event.type), "\",\"src_ip\":\"",
      AddressText(ends, ends.source), "\"");
  if (HasPorts(ends.protocol)) {
    absl::StrAppend(&line, ",\"src_port\":", ends.source_port.host());
  }
  absl::StrAppend(&line, ",\"dest_ip\":\"", AddressText(ends, ends.destination),
                  "\"");
  if (HasPorts(ends.protocol)) {
    absl::StrAppend(&line, ",\"dest_port\":", ends.destination_port.host());
  }
  absl::StrAppend(&line, ",\"proto\":\"", ProtocolText(ends.protocol), "\"");
  if (event.icmp.has_value()) {
    absl::StrAppend(&line, ",\"icmp_type\":", *event.icmp / 256,
                    ",\"icmp_code\":", *event.icmp % 256);
  }
  return line;
}

}  // namespace snf
