// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/variables.h"

#include <charconv>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/packet/ip_address_text.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

absl::Status Nothing(std::string_view list) {
  return absl::OutOfRangeError(
      Cat("\"", list, "\" is nothing, so the rule never matches"));
}

// Variables that name one another may be this many steps long.
constexpr int kMaxDepth = 32;

absl::Status Wrong(std::string_view what, std::string_view why) {
  return absl::InvalidArgumentError(Cat("\"", what, "\" ", why));
}

template <typename T>
std::optional<T> NumberIn(std::string_view text) {
  T value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      text.empty()) {
    return std::nullopt;
  }
  return value;
}

absl::StatusOr<AddressSet> ReadAddress(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view host = text.substr(0, slash);
  const std::optional<IpAddress> ipv4 = ParseIpv4(host);
  const std::optional<IpAddress> address = ipv4 ? ipv4 : ParseIpv6(host);
  if (!address.has_value()) return Wrong(text, "is no address");
  const int bits = ipv4 ? 32 : 128;
  int length = bits;
  if (slash != std::string_view::npos) {
    const std::string_view mask = text.substr(slash + 1);
    const std::optional<int> number = NumberIn<int>(mask);
    const std::optional<IpAddress> dotted = ParseIpv4(mask);
    if (number.has_value() && *number >= 0 && *number <= bits) {
      length = *number;
    } else if (ipv4 && dotted.has_value()) {
      const uint32_t ones = ~dotted->ipv4().host();
      if ((ones & (ones + 1)) != 0) return Wrong(text, "has no prefix mask");
      length = 32 - __builtin_popcount(ones);
    } else {
      return Wrong(text, "has a wrong prefix length");
    }
  }
  const int free_bits = bits - length;
  const AddressNumber mask =
      free_bits == 128 ? AddressSet::kMax : (AddressNumber{1} << free_bits) - 1;
  const AddressNumber first = NumberOf(*address) & ~mask;
  return AddressSet::Of(first, first | mask);
}

absl::StatusOr<PortSet> ReadPorts(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view first_text = StrippedView(text.substr(0, colon));
  const std::string_view last_text = colon == std::string_view::npos
                                         ? first_text
                                         : StrippedView(text.substr(colon + 1));
  uint16_t first = 0;
  uint16_t last = PortSet::kMax;
  const bool is_range = colon != std::string_view::npos;
  if (!first_text.empty() || !is_range) {
    const auto number = NumberIn<uint16_t>(first_text);
    if (!number.has_value()) return Wrong(text, "is no port or range of ports");
    first = *number;
  }
  if (!last_text.empty() || !is_range) {
    const auto number = NumberIn<uint16_t>(last_text);
    if (!number.has_value()) return Wrong(text, "is no port or range of ports");
    last = *number;
  }
  if (first > last || text == ":") return Wrong(text, "is an empty range");
  return PortSet::Of(first, last);
}

// Divides at commas outside of brackets. Returns nothing if they do not match.
std::optional<std::vector<std::string_view>> PartsOf(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') ++depth;
    if (list[i] == ']' && --depth < 0) return std::nullopt;
    if (list[i] == ',' && depth == 0) {
      parts.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (depth != 0) return std::nullopt;
  parts.push_back(list.substr(begin));
  return parts;
}

}  // namespace

Variables::Variables() {
  for (const auto& [name, text] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"HOME_NET", "any"},
           {"EXTERNAL_NET", "any"},
           {"DNS_SERVERS", "$HOME_NET"},
           {"SMTP_SERVERS", "$HOME_NET"},
           {"HTTP_SERVERS", "$HOME_NET"},
           {"SQL_SERVERS", "$HOME_NET"},
           {"TELNET_SERVERS", "$HOME_NET"},
           {"SSH_SERVERS", "$HOME_NET"},
           {"FTP_SERVERS", "$HOME_NET"},
           {"SIP_SERVERS", "$HOME_NET"},
           {"SNMP_SERVERS", "$HOME_NET"},
           {"DC_SERVERS", "$HOME_NET"},
           {"AIM_SERVERS",
            "[64.12.24.0/23,64.12.28.0/23,64.12.161.0/24,64.12.163.0/24,"
            "64.12.200.0/24,205.188.3.0/24,205.188.5.0/24,205.188.7.0/24,"
            "205.188.9.0/24,205.188.153.0/24,205.188.179.0/24,"
            "205.188.248.0/24]"},
           {"HTTP_PORTS",
            "[36,80:90,311,383,555,591,593,631,801,808,818,901,972,1158,1220,"
            "1414,1533,1741,1830,1942,2231,2301,2381,2809,2980,3029,3037,3057,"
            "3128,3443,3702,4000,4343,4848,5000,5117,5250,5600,5814,6080,6173,"
            "6988,7000,7001,7005,7071,7144,7145,7510,7770,7777:7779,8000,8001,"
            "8008,8014,8015,8020,8028,8040,8080:8082,8085,8088,8118,8123,8180,"
            "8181,8182,8222,8243,8280,8300,8333,8344,8400,8443,8500,8509,8787,"
            "8800,8888,8899,8983,9000,9002,9060,9080,9090,9091,9111,9290,9443,"
            "9447,9710,9788,9999,10000,11371,12601,13014,15489,19980,29991,"
            "33300,34412,34443,34444,40007,41080,44449,50000,50002,51423,53331,"
            "55252,55555,56712]"},
           {"SHELLCODE_PORTS", "!80"},
           {"ORACLE_PORTS", "1024:"},
           {"SSH_PORTS", "22"},
           {"FTP_PORTS", "[21,2100,3535]"},
           {"SIP_PORTS", "[5060,5061,5600]"},
           {"FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"},
           {"GTP_PORTS", "[2123,2152,3386]"}}) {
    variables_[name] = {text};
  }
}

void Variables::Set(const std::string& name, const std::string& text) {
  Variable& variable = variables_[name];
  if (variable.is_fixed) return;
  variable.text = text;
  addresses_.clear();
  ports_.clear();
}

void Variables::Fix(const std::string& name, const std::string& text) {
  Set(name, text);
  variables_[name].is_fixed = true;
}

template <typename Set, typename Leaf>
absl::StatusOr<Set> Variables::Read(std::string_view list, int depth,
                                    Leaf leaf) const {
  list = StrippedView(list);
  if (list.empty()) return absl::InvalidArgumentError("a list is empty");
  if (depth > kMaxDepth) {
    return Wrong(list, "leads back to itself, or is nested too deep");
  }
  if (list.front() == '!') {
    auto set = Read<Set>(list.substr(1), depth + 1, leaf);
    if (!set.ok()) return set.status();
    Set rest = set->Complement();
    if (rest.is_empty()) return Nothing(list);
    return rest;
  }
  if (list == "any") return Set::All();
  if (list.front() == '$') {
    std::string_view name = list.substr(1);
    if (name.size() > 2 && name.front() == '(' && name.back() == ')') {
      name = name.substr(1, name.size() - 2);
    }
    const auto found = variables_.find(name);
    if (found == variables_.end()) {
      return Wrong(list, "is not defined");
    }
    return Read<Set>(found->second.text, depth + 1, leaf);
  }
  if (list.front() != '[' && list.find(',') == std::string_view::npos) {
    return leaf(list);
  }
  if (list.front() == '[' && list.back() == ']') {
    list = list.substr(1, list.size() - 2);
  }
  const auto parts = PartsOf(list);
  if (!parts.has_value()) return Wrong(list, "has brackets that do not match");
  Set with;
  Set without;
  for (const std::string_view untrimmed : *parts) {
    const std::string_view part = StrippedView(untrimmed);
    const bool negated = part.starts_with('!');
    auto set = Read<Set>(negated ? part.substr(1) : part, depth + 1, leaf);
    if (!set.ok()) return set.status();
    (negated ? without : with).Add(*set);
  }
  if (with.is_empty()) with = Set::All();
  with.Remove(without);
  if (with.is_empty()) return Nothing(list);
  return with;
}

absl::StatusOr<std::shared_ptr<const AddressSet>> Variables::Addresses(
    std::string_view list) {
  const auto kept = addresses_.find(list);
  if (kept != addresses_.end()) return kept->second;
  auto set = Read<AddressSet>(list, 0, ReadAddress);
  if (!set.ok()) return set.status();
  return addresses_[std::string(list)] =
             std::make_shared<const AddressSet>(*std::move(set));
}

absl::StatusOr<std::shared_ptr<const PortSet>> Variables::Ports(
    std::string_view list) {
  const auto kept = ports_.find(list);
  if (kept != ports_.end()) return kept->second;
  auto set = Read<PortSet>(list, 0, ReadPorts);
  if (!set.ok()) return set.status();
  return ports_[std::string(list)] =
             std::make_shared<const PortSet>(*std::move(set));
}

}  // namespace snf::snort
