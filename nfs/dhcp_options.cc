// SPDX-License-Identifier: Apache-2.0
#include "nfs/dhcp_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_address_text.h"

namespace snf {
namespace {

constexpr uint8_t kIpv4Bits = 96;  // those in front of an IPv4 address

std::optional<be32> ParseAddress(std::string_view text) {
  const std::optional<IpAddress> address = ParseIpv4(text);
  if (!address.has_value()) return std::nullopt;
  return address->ipv4();
}

std::optional<MacAddress48> ParseMac(std::string_view text) {
  MacAddress48 mac;
  constexpr size_t kText = 17;
  if (text.size() != kText) return std::nullopt;
  for (size_t i = 0; i < mac.size(); ++i) {
    const char* const begin = text.data() + 3 * i;
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(begin, begin + 2, byte, 16);
    const bool is_separated = i + 1 == mac.size() || begin[2] == ':';
    if (error != std::errc{} || end != begin + 2 || !is_separated) {
      return std::nullopt;
    }
    mac[i] = std::byte{byte};
  }
  // A group's address sends nothing.
  if ((mac[0] & std::byte{1}) != std::byte{}) return std::nullopt;
  return mac;
}

std::vector<be32> AskList(NfOptions& options, const char* key,
                          const char* help) {
  std::vector<be32> addresses;
  for (const std::string& part : options.List(key, "ADDRESS", help)) {
    const std::optional<be32> address = ParseAddress(part);
    if (address.has_value()) {
      addresses.push_back(*address);
    } else {
      options.Fail(
          key, absl::StrCat("IPv4 addresses, joined by +; not \"", part, "\""));
    }
  }
  if (addresses.size() > DhcpOptions::kMostListed) {
    options.Fail(key, absl::StrCat("at most ", DhcpOptions::kMostListed));
    addresses.clear();
  }
  return addresses;
}

}  // namespace

DhcpOptions::DhcpOptions(NfOptions& options) {
  AskAddresses(options);
  const std::string text =
      options.Text("mac", "02:00:00:00:00:01", "MAC",
                   "Ethernet address that answers come from");
  if (const auto parsed = ParseMac(text); parsed.has_value()) {
    mac = *parsed;
  } else {
    options.Fail("mac",
                 "an Ethernet address of one host, such as "
                 "02:00:00:00:00:01");
  }
  routers = AskList(options, "router", "routers that hosts are told");
  dns = AskList(options, "dns", "name servers that hosts are told");
  AskReserved(options);
  const auto time = [&options](const char* key, Nanos& value,
                               const char* help) {
    value = options.Duration(key, value, Seconds(1), Seconds(31'536'000), help);
  };
  time("lease", lease, "time for which a client has its address");
  time("offer", offer, "time for which an offered address is kept");
  time("decline", decline,
       "time for which an address that was found in use is not leased");
}

void DhcpOptions::AskAddresses(NfOptions& options) {
  const auto prefixes = ParsePrefixes(options.Text(
      "network", "10.0.0.0/24", "PREFIX", "network of the hosts, of IPv4"));
  if (prefixes.ok() && prefixes->size() == 1 && prefixes->front().is_ipv4() &&
      prefixes->front().length > kIpv4Bits) {
    network = prefixes->front();
  } else {
    options.Fail("network", "an IPv4 prefix, such as 10.0.0.0/24");
    network = ParsePrefixes("10.0.0.0/24")->front();
    return;
  }
  const std::string text =
      options.Text("range", "10.0.0.100-10.0.0.199", "ADDRESS-ADDRESS",
                   "addresses that are leased");
  const size_t dash = text.find('-');
  const auto from = ParseAddress(text.substr(0, dash));
  const auto to = dash == std::string::npos
                      ? from
                      : ParseAddress(std::string_view(text).substr(dash + 1));
  const bool is_range = from.has_value() && to.has_value() &&
                        IsInNetwork(*from) && IsInNetwork(*to) &&
                        from->host() <= to->host() &&
                        to->host() - from->host() < kMostAddresses;
  if (is_range) {
    first = *from;
    last = *to;
  } else {
    options.Fail("range", absl::StrCat("two addresses of the network, the "
                                       "smaller first, at most ",
                                       kMostAddresses, " in all"));
  }
  const auto own = ParseAddress(options.Text("server", "10.0.0.1", "ADDRESS",
                                             "the server's own address"));
  if (own.has_value() && !IsInRange(*own)) {
    server = *own;
  } else {
    options.Fail("server", "an IPv4 address outside of the range");
  }
}

void DhcpOptions::AskReserved(NfOptions& options) {
  for (const std::string& part :
       options.List("reserve", "MAC@ADDRESS",
                    "hosts that always get the same address")) {
    const size_t at = part.find('@');
    const auto hardware = ParseMac(std::string_view(part).substr(0, at));
    const auto address =
        at == std::string::npos
            ? std::nullopt
            : ParseAddress(std::string_view(part).substr(at + 1));
    const bool is_right = hardware.has_value() && address.has_value() &&
                          IsInNetwork(*address) && !IsInRange(*address) &&
                          *address != server;
    const bool is_new =
        is_right && std::ranges::none_of(reserved, [&](const Reserved& other) {
          return other.hardware == *hardware || other.address == *address;
        });
    if (!is_new || reserved.size() == kMostReserved) {
      options.Fail("reserve",
                   absl::StrCat("at most ", kMostReserved,
                                " hosts with addresses of the network outside "
                                "of the range, each once, such as "
                                "02:00:00:00:00:07@10.0.0.7; not \"",
                                part, "\""));
      break;
    }
    reserved.push_back({*hardware, *address});
  }
  std::ranges::sort(reserved, {}, &Reserved::hardware);
}

bool DhcpOptions::IsInNetwork(be32 address) const {
  return network.Contains(IpAddress::FromIpv4(address));
}

be32 DhcpOptions::mask() const {
  const int bits = network.length - kIpv4Bits;
  return be32(static_cast<uint32_t>(~uint64_t{0} << (32 - bits)));
}

std::optional<be32> DhcpOptions::ReservedFor(
    const MacAddress48& hardware) const {
  const auto found =
      std::ranges::lower_bound(reserved, hardware, {}, &Reserved::hardware);
  if (found == reserved.end() || found->hardware != hardware) {
    return std::nullopt;
  }
  return found->address;
}

}  // namespace snf
