// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_log.h"

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/packet/ip_address_text.h"
#include "base/rules/eve_text.h"

namespace snf {
namespace {

std::string_view NameOf(IpProtocol protocol) {
  return protocol == IpProtocol::kTcp   ? "TCP"
         : protocol == IpProtocol::kUdp ? "UDP"
                                        : "ICMP";
}

std::string_view NameOf(uint8_t event) {
  switch (event) {
    case NatBindingRecord::kCreated:
      return "created";
    case NatBindingRecord::kReleased:
      return "released";
    default:
      return "refused";
  }
}

std::optional<NatBindingRecord> Read(const LogRecord& record) {
  NatBindingRecord one;
  if (record.bytes.size() != sizeof one) return std::nullopt;
  std::memcpy(&one, record.bytes.data(), sizeof one);
  if (one.event > NatBindingRecord::kPortsExhausted) return std::nullopt;
  return one;
}

// The values of natEvent (RFC 8158), by NatBindingRecord::Event.
constexpr std::array<uint8_t, 4> kEvents = {8, 9, 13, 12};
constexpr std::array<uint8_t, 4> kEventsOfIpv6 = {10, 11, 13, 12};
// The value of natQuotaExceededEvent: maximum entries per user.
constexpr uint32_t kEntriesPerUser = 3;

// Returns the fields that all records begin with, then `more`.
template <typename... Fields>
constexpr std::array<IpfixField, 5 + sizeof...(Fields)> FieldsOf(
    IpfixField inside_address, Fields... more) {
  return {kIpfixTime,     kIpfixNatEvent,   kIpfixProtocol,
          inside_address, kIpfixSourcePort, more...};
}
// By is_ipv6.
constexpr std::array kBinding = {
    FieldsOf(kIpfixSource4, kIpfixPostNatSource4, kIpfixPostNaptSourcePort),
    FieldsOf(kIpfixSource6, kIpfixPostNatSource4, kIpfixPostNaptSourcePort)};
constexpr std::array kQuota = {
    FieldsOf(kIpfixSource4, kIpfixNatQuota, kIpfixMostOfUser),
    FieldsOf(kIpfixSource6, kIpfixNatQuota, kIpfixMostOfUser)};
constexpr std::array kExhausted = {
    FieldsOf(kIpfixSource4, kIpfixPostNatSource4),
    FieldsOf(kIpfixSource6, kIpfixPostNatSource4)};

}  // namespace

void WriteBinding(const LogRecord& record, std::string& lines) {
  const auto one = Read(record);
  if (!one.has_value()) return;
  absl::StrAppend(
      &lines, "{\"timestamp\":\"",
      EveTime(static_cast<uint64_t>(record.time.ns)),
      "\",\"event_type\":\"nat\",\"event\":\"", std::string(NameOf(one->event)),
      "\",\"proto\":\"", std::string(NameOf(one->protocol)),
      "\",\"inside_ip\":\"",
      one->is_ipv6 != 0 ? Ipv6Text(one->inside) : Ipv4Text(one->inside),
      "\",\"inside_port\":", one->inside_port.host(), ",\"external_ip\":\"",
      Ipv4Text(IpAddress::FromIpv4(one->external)), "\"");
  if (one->event == NatBindingRecord::kOverHostPorts) {
    absl::StrAppend(&lines,
                    ",\"reason\":\"host_ports\",\"limit\":", one->host_ports);
  } else if (one->event == NatBindingRecord::kPortsExhausted) {
    absl::StrAppend(&lines, ",\"reason\":\"ports_exhausted\"");
  } else {
    absl::StrAppend(&lines, ",\"external_port\":", one->external_port.host());
  }
  lines += "}\n";
}

std::span<const IpfixField> WriteBindingIpfix(const LogRecord& record,
                                              std::string& values) {
  const auto one = Read(record);
  if (!one.has_value()) return {};
  const bool is_ipv6 = one->is_ipv6 != 0;
  AppendIpfix(static_cast<uint64_t>(record.time.ns) / 1'000'000, 8, values);
  AppendIpfix((is_ipv6 ? kEventsOfIpv6 : kEvents)[one->event], 1, values);
  AppendIpfix(static_cast<uint8_t>(one->protocol), 1, values);
  if (is_ipv6) {
    for (const std::byte byte : one->inside.bytes) {
      values.push_back(static_cast<char>(byte));
    }
  } else {
    AppendIpfix(one->inside.ipv4().host(), 4, values);
  }
  AppendIpfix(one->inside_port.host(), 2, values);
  if (one->event == NatBindingRecord::kOverHostPorts) {
    AppendIpfix(kEntriesPerUser, 4, values);
    AppendIpfix(one->host_ports, 4, values);
    return kQuota[is_ipv6 ? 1 : 0];
  }
  AppendIpfix(one->external.host(), 4, values);
  if (one->event == NatBindingRecord::kPortsExhausted) {
    return kExhausted[is_ipv6 ? 1 : 0];
  }
  AppendIpfix(one->external_port.host(), 2, values);
  return kBinding[is_ipv6 ? 1 : 0];
}

}  // namespace snf
