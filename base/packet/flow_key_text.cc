// SPDX-License-Identifier: Apache-2.0
#include "base/packet/flow_key_text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include "absl/status/status.h"
#include "base/packet/ip_address_text.h"

namespace snf {
namespace {

struct ProtocolName {
  IpProtocol protocol;
  std::string_view name;
};
constexpr ProtocolName kProtocolNames[] = {
    {IpProtocol::kTcp, "tcp"},         {IpProtocol::kUdp, "udp"},
    {IpProtocol::kIcmp, "icmp"},       {IpProtocol::kIcmpv6, "icmp6"},
    {IpProtocol::kSctp, "sctp"},       {IpProtocol::kDccp, "dccp"},
    {IpProtocol::kUdpLite, "udplite"}, {IpProtocol::kGre, "gre"},
    {IpProtocol::kEsp, "esp"},         {IpProtocol::kAuthentication, "ah"},
};

bool IsIpv4(FlowKeyForm form) {
  return form == FlowKeyForm::kIpv4 || form == FlowKeyForm::kIpv4Fragment ||
         form == FlowKeyForm::kIpv4Endpoint;
}

bool IsEndpoint(FlowKeyForm form) {
  return form == FlowKeyForm::kIpv4Endpoint ||
         form == FlowKeyForm::kIpv6Endpoint;
}

bool IsFragment(FlowKeyForm form) {
  return form == FlowKeyForm::kIpv4Fragment ||
         form == FlowKeyForm::kIpv6Fragment;
}

uint32_t FragmentId(const FlowKey& key) {
  return uint32_t{key.source_port.host()} << 16 | key.destination_port.host();
}

std::string AddressText(const IpAddress& address, FlowKeyForm form) {
  return IsIpv4(form) ? Ipv4Text(address) : "[" + Ipv6Text(address) + "]";
}

template <typename Number>
std::optional<Number> NumberIn(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

struct End {
  IpAddress address;
  be16 port;
  FlowKeyForm form = FlowKeyForm::kNone;
};

// Reads "10.0.0.1", "10.0.0.1:80", "[2001:db8::1]" or "[2001:db8::1]:80". If
// the text is none of them, `wrong` says why.
std::optional<End> EndIn(std::string_view text, std::string& wrong) {
  wrong = "no address \"" + std::string(text) + "\"";
  End end;
  std::string_view rest;
  std::optional<IpAddress> address;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    address = ParseIpv6(text.substr(1, close - 1));
    rest = text.substr(close + 1);
    end.form = FlowKeyForm::kIpv6;
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    address = ParseIpv4(text.substr(0, colon));
    rest = text.substr(colon);
    end.form = FlowKeyForm::kIpv4;
  }
  if (!address.has_value()) return std::nullopt;
  end.address = *address;
  if (rest.empty()) return end;
  if (rest.front() != ':') return std::nullopt;
  const auto port = NumberIn<uint16_t>(rest.substr(1));
  if (!port) {
    wrong = "port \"" + std::string(rest.substr(1)) + "\" is not 0 to 65535";
    return std::nullopt;
  }
  end.port = be16(*port);
  return end;
}

absl::Status Unreadable(const std::string& text, std::string_view what) {
  return absl::InvalidArgumentError(
      "flow \"" + text + "\": " + std::string(what) +
      "; want for example \"tcp 10.0.0.1:5000 > 192.0.2.9:53\"");
}

// Returns the words of a text one by one, and an empty word at its end.
class Words {
 public:
  explicit Words(const std::string& text) : stream_(text) {}

  std::string Next() {
    std::string word;
    stream_ >> word;
    return word;
  }

 private:
  std::istringstream stream_;
};

}  // namespace

std::string ToString(IpProtocol protocol) {
  for (const ProtocolName& known : kProtocolNames) {
    if (known.protocol == protocol) return std::string(known.name);
  }
  return std::to_string(static_cast<int>(protocol));
}

std::optional<IpProtocol> ParseProtocol(std::string_view text) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  for (const ProtocolName& known : kProtocolNames) {
    if (std::ranges::equal(text, known.name, {}, lower)) return known.protocol;
  }
  const auto number = NumberIn<uint8_t>(text);
  if (!number) return std::nullopt;
  return IpProtocol{*number};
}

std::string ToString(const FlowKey& key) {
  std::string text;
  if (key.vlan != be16(0)) {
    text += "vlan " + std::to_string(key.vlan.host()) + " ";
  }
  const bool is_fragment = IsFragment(key.form);
  if (is_fragment) text += "fragment " + std::to_string(FragmentId(key)) + " ";
  text += ToString(key.protocol) + " ";
  std::string source = AddressText(key.source, key.form);
  if (IsEndpoint(key.form)) {
    if (key.source_port == be16(0)) return text + source;
    return text + source + ":" + std::to_string(key.source_port.host());
  }
  std::string destination = AddressText(key.destination, key.form);
  const bool has_ports =
      key.source_port != be16(0) || key.destination_port != be16(0);
  if (has_ports && !is_fragment) {
    source += ":" + std::to_string(key.source_port.host());
    destination += ":" + std::to_string(key.destination_port.host());
  }
  return text + source + " > " + destination;
}

absl::StatusOr<FlowKey> ParseFlowKey(const std::string& text) {
  Words words(text);
  std::string word = words.Next();
  FlowKey key;
  if (word == "vlan") {
    const auto vlan = NumberIn<uint16_t>(words.Next());
    if (!vlan || *vlan > 4095) return Unreadable(text, "no VLAN id 0 … 4095");
    key.vlan = be16(*vlan);
    word = words.Next();
  }
  std::optional<uint32_t> fragment_id;
  if (word == "fragment") {
    fragment_id = NumberIn<uint32_t>(words.Next());
    if (!fragment_id) return Unreadable(text, "no fragment id");
    word = words.Next();
  }
  const auto protocol = ParseProtocol(word);
  if (!protocol) return Unreadable(text, "unknown protocol \"" + word + "\"");
  key.protocol = *protocol;

  const std::string from = words.Next(), arrow = words.Next(),
                    to = words.Next(), more = words.Next();
  std::string wrong;
  const auto source = EndIn(from, wrong);
  if (!source) return Unreadable(text, wrong);
  if (arrow.empty() && !fragment_id) {
    key.source = source->address;
    key.source_port = source->port;
    key.form = source->form == FlowKeyForm::kIpv4 ? FlowKeyForm::kIpv4Endpoint
                                                  : FlowKeyForm::kIpv6Endpoint;
    return key;
  }
  if (arrow != ">" && arrow != "<>") {
    return Unreadable(text, "no \">\" or \"<>\" but \"" + arrow + "\"");
  }
  const auto destination = EndIn(to, wrong);
  if (!destination) return Unreadable(text, wrong);
  if (!more.empty()) return Unreadable(text, "\"" + more + "\" is too much");
  if (source->form != destination->form) {
    return Unreadable(text, "IPv4 and IPv6 at once");
  }
  key.source = source->address;
  key.destination = destination->address;
  key.source_port = source->port;
  key.destination_port = destination->port;
  key.form = source->form;
  if (fragment_id) {
    if (arrow != ">" || key.source_port != be16(0) ||
        key.destination_port != be16(0)) {
      return Unreadable(text, "a fragment has one direction and no ports");
    }
    key.form = key.form == FlowKeyForm::kIpv4 ? FlowKeyForm::kIpv4Fragment
                                              : FlowKeyForm::kIpv6Fragment;
    key.source_port = be16(static_cast<uint16_t>(*fragment_id >> 16));
    key.destination_port = be16(static_cast<uint16_t>(*fragment_id));
  }
  if (arrow == "<>") Canonicalize(key);
  return key;
}

}  // namespace snf
