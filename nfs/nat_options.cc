// SPDX-License-Identifier: Apache-2.0
#include "nfs/nat_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_address_text.h"
#include "base/packet/ip_prefix.h"
#include "nfs/nat_packet.h"

namespace snf {
namespace {

// Removes a number from the front of `text` and returns it, or nothing if there
// is none or it is above `max`.
std::optional<uint32_t> TakeNumber(std::string_view& text, uint32_t max) {
  uint32_t number = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > max) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return number;
}

// Reads "192.0.2.1", the address of one host.
std::optional<uint32_t> ParseAddress(std::string_view text) {
  uint32_t address = 0;
  for (int i = 0; i < 4; ++i) {
    if (i > 0) {
      if (!text.starts_with('.')) return std::nullopt;
      text.remove_prefix(1);
    }
    const std::optional<uint32_t> byte = TakeNumber(text, 255);
    if (!byte.has_value()) return std::nullopt;
    address = address << 8 | *byte;
  }
  if (!text.empty() || !IsHostAddress(be32(address))) return std::nullopt;
  return address;
}

struct Range {
  uint32_t first;
  uint32_t last;
};

// Reads "a-b", or "a" alone.
template <typename ParseOne>
std::optional<Range> ParseRange(std::string_view text, ParseOne parse_one) {
  const size_t dash = text.find('-');
  const std::optional<uint32_t> first = parse_one(text.substr(0, dash));
  if (dash == std::string_view::npos) {
    if (!first.has_value()) return std::nullopt;
    return Range{*first, *first};
  }
  const std::optional<uint32_t> last = parse_one(text.substr(dash + 1));
  if (!first.has_value() || !last.has_value() || *last < *first) {
    return std::nullopt;
  }
  return Range{*first, *last};
}

// Adds the addresses of a range; returns false if they are too many.
bool AddRange(const Range& range, std::vector<be32>& addresses) {
  if (range.last - range.first >=
      NatOptions::kMaxAddresses - addresses.size()) {
    return false;
  }
  for (uint32_t a = range.first; a <= range.last; ++a) {
    addresses.emplace_back(a);
  }
  return true;
}

std::vector<be32> ParseAddresses(NfOptions& options) {
  const std::string text = options.Text(
      "ip", "192.0.2.1", "ADDRESS[-ADDRESS][+…]", "the external addresses");
  std::vector<be32> addresses;
  std::string_view rest = text;
  for (bool is_last = false; !is_last;) {
    const size_t end = std::min(rest.find('+'), rest.size());
    is_last = end == rest.size();
    const std::optional<Range> range =
        ParseRange(rest.substr(0, end), ParseAddress);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!range.has_value()) {
      options.Fail("ip",
                   "addresses of hosts and ranges of them, the smaller first, "
                   "joined by +, such as 192.0.2.1-192.0.2.4+192.0.2.9");
      return {be32(0xc000'0201)};
    }
    if (!AddRange(*range, addresses)) {
      options.Fail("ip", "at most 256 addresses");
      return {be32(0xc000'0201)};
    }
  }
  std::ranges::sort(addresses);
  if (std::ranges::adjacent_find(addresses) != addresses.end()) {
    options.Fail("ip", "without overlap: each address once");
  }
  return addresses;
}

// Reads "10.1.0.0/16:192.0.2.1-192.0.2.4".
std::optional<NatOptions::Pool> ParsePool(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto inside = ParsePrefixes(text.substr(0, colon));
  const std::optional<Range> range =
      ParseRange(text.substr(colon + 1), ParseAddress);
  if (!inside.ok() || inside->size() != 1 || !inside->front().is_ipv4() ||
      !range.has_value()) {
    return std::nullopt;
  }
  NatOptions::Pool pool = {.inside = inside->front()};
  if (!AddRange(*range, pool.addresses)) return std::nullopt;
  return pool;
}

// Adds the pools that the option names. An error names the part that is wrong
// and its place.
void ParsePools(NfOptions& options, std::vector<NatOptions::Pool>& pools) {
  const std::vector<std::string> parts =
      options.List("pool", "PREFIX:ADDRESS[-ADDRESS]",
                   "external addresses of inside networks; ip has the others'");
  size_t at = 1;
  for (const std::string& part : parts) {
    const auto fail = [&](std::string_view want) {
      options.Fail("pool", absl::StrCat(std::string(want), "; not \"", part,
                                        "\" at character ", at));
    };
    const std::optional<NatOptions::Pool> pool = ParsePool(part);
    if (!pool.has_value()) {
      return fail(
          "networks of the inside, each with at most 256 external addresses, "
          "joined by +, such as 10.1.0.0/16:192.0.2.1-192.0.2.4");
    }
    if (std::ranges::find(pools, pool->inside, &NatOptions::Pool::inside) !=
        pools.end()) {
      return fail("each network once");
    }
    if (pools.size() == NatOptions::kMaxPools) {
      return fail("at most 256 networks");
    }
    pools.push_back(*pool);
    at += part.size() + 1;
  }
}

}  // namespace

const NatOptions::Pool& NatOptions::PoolOf(be32 inside) const {
  const IpAddress address = IpAddress::FromIpv4(inside);
  for (const Pool& pool : pools) {
    if (pool.inside.Contains(address)) return pool;
  }
  return pools.back();
}

void NatOptions::AskPools(NfOptions& options) {
  Pool others = {.inside = {}, .addresses = ParseAddresses(options)};
  ParsePools(options, pools);
  std::ranges::sort(pools, [](const Pool& a, const Pool& b) {
    return a.inside.length > b.inside.length;
  });
  pools.push_back(std::move(others));
  for (const Pool& pool : pools) {
    addresses.insert(addresses.end(), pool.addresses.begin(),
                     pool.addresses.end());
  }
  std::ranges::sort(addresses);
  const auto same = std::ranges::unique(addresses);
  addresses.erase(same.begin(), same.end());
  if (addresses.size() > kMaxAddresses) {
    options.Fail("pool", "at most 256 external addresses, ip included");
    pools.erase(pools.begin(), pools.end() - 1);
    addresses = pools.back().addresses;
  }
  for (Pool& pool : pools) {
    for (const be32 address : pool.addresses) {
      pool.indexes.push_back(static_cast<uint16_t>(
          std::ranges::lower_bound(addresses, address) - addresses.begin()));
    }
  }
}

void NatOptions::AskNat64(NfOptions& options) {
  const std::string text =
      options.Text("nat64", "", "PREFIX",
                   "IPv6 prefix of hosts of IPv4, such as 64:ff9b::/96; "
                   "none: no NAT64");
  mtu = static_cast<uint32_t>(
      options.Integer("mtu", 1'500, 1'280, 65'535,
                      "most bytes of an IPv6 packet that NAT64 makes"));
  if (text.empty()) return;
  const auto prefixes = ParsePrefixes(text);
  if (prefixes.ok() && prefixes->size() == 1) {
    nat64 = Ipv4InIpv6::Of(prefixes->front());
  }
  if (nat64.has_value()) return;
  options.Fail("nat64",
               "an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits whose bits 64 "
               "to 71 are zero, such as 64:ff9b::/96");
}

std::optional<uint32_t> NatOptions::SubscriberOf(be32 inside) const {
  if (!subscribers.Contains(IpAddress::FromIpv4(inside))) return std::nullopt;
  return inside.host() - subscribers.address.ipv4().host();
}

NatOptions::Block NatOptions::BlockOf(uint32_t subscriber) const {
  const uint32_t blocks = BlocksOfAnAddress();
  const uint32_t first = first_port + subscriber % blocks * port_block;
  return {.address = subscriber / blocks,
          .first = first,
          .last = first + port_block - 1};
}

void NatOptions::AskBlocks(NfOptions& options) {
  port_block = static_cast<uint32_t>(options.Integer(
      "port_block", 0, 0, 32'768,
      "external ports of each protocol that each address of subscribers has "
      "for itself, a multiple of 64; 0: they share them"));
  const std::string text =
      options.Text("subscribers", "", "PREFIX",
                   "inside network whose addresses have port_block ports each; "
                   "others have none");
  overflow = static_cast<uint32_t>(options.Integer(
      "overflow", 0, 0, 65'472,
      "ports of each address that subscribers with a full block share, a "
      "multiple of 64"));
  if (port_block == 0 && text.empty() && overflow == 0) return;
  const auto fail = [&](const char* key, const std::string& want) {
    options.Fail(key, want);
    port_block = overflow = 0;
  };
  if (port_block == 0) {
    return fail(text.empty() ? "overflow" : "subscribers",
                "only with port_block");
  }
  if (overflow % 64 != 0) return fail("overflow", "a multiple of 64");
  if (overflow >= last_port - first_port + 1u) {
    return fail("overflow", "fewer ports than there are");
  }
  if (port_block % 64 != 0) return fail("port_block", "a multiple of 64");
  if (pools.size() > 1 || nat64.has_value()) {
    return fail("port_block", "without pool and nat64");
  }
  const auto prefixes = ParsePrefixes(text);
  if (!prefixes.ok() || prefixes->size() != 1 || !prefixes->front().is_ipv4() ||
      prefixes->front().length < 119) {
    return fail("subscribers",
                "one network of IPv4 with at most 512 addresses, such as "
                "10.0.0.0/24");
  }
  subscribers = prefixes->front();
  const size_t blocks = addresses.size() * BlocksOfAnAddress();
  if (blocks >= subscriber_count()) return;
  fail("port_block", absl::StrCat("fewer ports, for ", subscriber_count(),
                                  " blocks, not ", blocks));
}

NatOptions::NatOptions(NfOptions& options) : fixed(options) {
  AskPools(options);
  AskNat64(options);
  for (const be32 address : addresses) {
    if (!fixed.HasWhole(address)) continue;
    options.Fail(
        "forward",
        absl::StrCat("for ip: an address that neither ip nor pool has; "
                     "not ",
                     Ipv4Text(IpAddress::FromIpv4(address))));
    break;
  }
  const std::optional<Range> ports = ParseRange(
      options.Text("ports", "1024-65535", "PORT[-PORT]",
                   "external ports and ICMP identifiers of each address"),
      [](std::string_view text) {
        std::optional<uint32_t> port = TakeNumber(text, 65'535);
        if (!text.empty() || port == 0u) port.reset();
        return port;
      });
  if (ports.has_value()) {
    first_port = static_cast<uint16_t>(ports->first);
    last_port = static_cast<uint16_t>(ports->last);
  } else {
    options.Fail("ports",
                 "two port numbers from 1 to 65535, the smaller first, such as "
                 "1024-65535");
  }
  AskBlocks(options);
  static constexpr std::array<std::string_view, 3> kFiltering = {
      "endpoint_independent", "address_dependent",
      "address_and_port_dependent"};
  filtering = NatFiltering{static_cast<uint8_t>(
      options.Choice("filtering", 0, kFiltering,
                     "remote ends from which a mapping accepts packets"))};
  host_ports = static_cast<uint32_t>(
      options.Integer("host_ports", host_ports, 0, 1'000'000,
                      "most mappings of one inside address; 0: no limit"));
  peers = static_cast<uint32_t>(options.Integer(
      "peers", 16, 1, kMaxPeers, "most peers that a mapping remembers"));

  const auto timeout = [&options](const char* key, Nanos& value,
                                  const char* help) {
    value = options.Duration(key, value, Milliseconds(1), Seconds(31'536'000),
                             help);
  };
  timeout("udp_timeout", udp_timeout, "life of a UDP mapping without packets");
  timeout("tcp_timeout", tcp_timeout,
          "life of an established TCP mapping without packets");
  timeout("tcp_transitory_timeout", tcp_transitory_timeout,
          "life of a TCP mapping before and after it is established");
  timeout("icmp_timeout", icmp_timeout, "life of the mapping of an ICMP query");

  static constexpr std::array<std::string_view, 2> kRefresh = {"outbound",
                                                               "both"};
  inbound_refreshes = options.Choice("refresh", 0, kRefresh,
                                     "packets that keep a mapping alive") == 1;
  static constexpr std::array<std::string_view, 2> kPooling = {"paired",
                                                               "arbitrary"};
  is_paired = options.Choice("pooling", 0, kPooling,
                             "whether all mappings of an inside host share one "
                             "external address") == 0;
  static constexpr std::array<std::string_view, 2> kOther = {"drop", "pass"};
  passes_other =
      options.Choice("other", 0, kOther,
                     "the fate of IPv6 packets; with pass they are "
                     "untouched, from the outside only answers") == 1;
  static constexpr std::array<std::string_view, 3> kLogged = {"false", "true",
                                                              "overflow"};
  const size_t logged = options.Choice(
      "log_bindings", 0, kLogged,
      "log each mapping that begins or ends (RFC 6888 REQ-12), or only those "
      "beyond the subscribers' blocks, for --nf_logs");
  logs_bindings = logged > 0;
  logs_overflow_alone = logged == 2;
  if (logs_overflow_alone && overflow == 0) {
    options.Fail("log_bindings", "overflow only with overflow");
  }
}

}  // namespace snf
