// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_log.h"

#include <cstring>
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

}  // namespace

void WriteBinding(const LogRecord& record, std::string& lines) {
  NatBindingRecord one;
  if (record.bytes.size() != sizeof one) return;
  std::memcpy(&one, record.bytes.data(), sizeof one);
  absl::StrAppend(
      &lines, "{\"timestamp\":\"",
      EveTime(static_cast<uint64_t>(record.time.ns)),
      "\",\"event_type\":\"nat\",\"event\":\"",
      one.event == NatBindingRecord::kReleased ? "released" : "created",
      "\",\"proto\":\"", std::string(NameOf(one.protocol)),
      "\",\"inside_ip\":\"",
      one.is_ipv6 != 0 ? Ipv6Text(one.inside) : Ipv4Text(one.inside),
      "\",\"inside_port\":", one.inside_port.host(), ",\"external_ip\":\"",
      Ipv4Text(IpAddress::FromIpv4(one.external)),
      "\",\"external_port\":", one.external_port.host(), "}\n");
}

}  // namespace snf
