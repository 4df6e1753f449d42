// SPDX-License-Identifier: Apache-2.0
#include "nfs/vpn_tunnels.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/packet/endpoint.h"
#include "base/packet/headers.h"
#include "base/packet/ip_address_text.h"
#include "base/text_file.h"

namespace snf {
namespace {

using Byte = const std::byte;

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxNameBytes = 32;
constexpr size_t kMaxPrefixes = 64;  // of one side of a tunnel
constexpr uint32_t kLeastSpi = 256;  // the others are reserved (RFC 4303 §2.1)
constexpr size_t kSpiBytes = 4;

bool ParseNumber(std::string_view text, uint64_t least, uint64_t most,
                 uint64_t& value) {
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  const char* const end = text.data() + text.size();
  const auto [rest, error] =
      std::from_chars(text.data(), end, value, is_hex ? 16 : 10);
  return error == std::errc() && rest == end && value >= least && value <= most;
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::ranges::all_of(text, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '-' || c == '_';
         });
}

bool AreIn(std::span<const IpPrefix> prefixes, const IpAddress& address,
           bool is_ipv6) {
  return std::ranges::any_of(prefixes, [&](const IpPrefix& prefix) {
    return prefix.is_ipv4() != is_ipv6 && prefix.Contains(address);
  });
}

FlowKey FlowOf(const IpAddress& receiver, uint32_t spi, bool is_ipv6) {
  FlowKey key = EndpointKey(
      receiver, be16(static_cast<uint16_t>(spi >> 16)), IpProtocol::kEsp,
      is_ipv6 ? FlowKeyForm::kIpv6Endpoint : FlowKeyForm::kIpv4Endpoint);
  key.destination_port = be16(static_cast<uint16_t>(spi));
  return key;
}

// The words that a line has given so far.
enum Given : uint32_t {
  kLocal = 1,
  kPeer = 2,
  kSpiIn = 4,
  kSpiOut = 8,
  kKeyIn = 16,
  kKeyOut = 32,
  kInside = 64,
  kRemote = 128,
  kAllNeeded = 255,
  kUdp = 256,
  kEsn = 512,
  kFirst = 1'024,
};
struct Word {
  const char* name;
  Given given;
  const char* wanted;
};
constexpr std::array<Word, 11> kWords = {{
    {"local", kLocal, "our own outer address"},
    {"peer", kPeer, "the peer's outer address, of the same version of IP"},
    {"spi_in", kSpiIn, "a number from 256 to 0xffffffff"},
    {"spi_out", kSpiOut, "a number from 256 to 0xffffffff"},
    {"key_in", kKeyIn, "40 or 72 hexadecimal digits: key and salt"},
    {"key_out", kKeyOut, "40 or 72 hexadecimal digits: key and salt"},
    {"inside", kInside, "up to 64 prefixes with commas between them"},
    {"remote", kRemote, "up to 64 prefixes with commas between them"},
    {"udp", kUdp, "a port from 1 to 65535"},
    {"esn", kEsn, "on or off"},
    {"first", kFirst, "a number from 1"},
}};

bool ReadAddress(std::string_view text, bool other_is_given, VpnTunnel& tunnel,
                 IpAddress& address) {
  const auto v4 = ParseIpv4(text);
  const auto v6 = ParseIpv6(text);
  if (!v4.has_value() && !v6.has_value()) return false;
  if (other_is_given && tunnel.is_ipv6 != v6.has_value()) return false;
  tunnel.is_ipv6 = v6.has_value();
  address = v4.has_value() ? *v4 : *v6;
  return true;
}

bool ReadSpi(std::string_view text, uint32_t& spi) {
  uint64_t value = 0;
  if (!ParseNumber(text, kLeastSpi, 0xffff'ffff, value)) return false;
  spi = static_cast<uint32_t>(value);
  return true;
}

bool ReadKey(std::string_view text, EspKey& key) {
  const auto parsed = EspKey::Parse(text);
  if (parsed.has_value()) key = *parsed;
  return parsed.has_value();
}

bool ReadPrefixes(std::string_view text, std::vector<IpPrefix>& prefixes) {
  auto parsed = ParsePrefixes(text);
  if (!parsed.ok() || parsed->empty() || parsed->size() > kMaxPrefixes) {
    return false;
  }
  prefixes = *std::move(parsed);
  return true;
}

bool ReadValue(Given word, std::string_view text, uint32_t given,
               VpnTunnel& tunnel) {
  switch (word) {
    case kLocal:
      return ReadAddress(text, (given & kPeer) != 0, tunnel, tunnel.local);
    case kPeer:
      return ReadAddress(text, (given & kLocal) != 0, tunnel, tunnel.peer);
    case kSpiIn:
      return ReadSpi(text, tunnel.spi_in);
    case kSpiOut:
      return ReadSpi(text, tunnel.spi_out);
    case kKeyIn:
      return ReadKey(text, tunnel.key_in);
    case kKeyOut:
      return ReadKey(text, tunnel.key_out);
    case kInside:
      return ReadPrefixes(text, tunnel.inside);
    case kRemote:
      return ReadPrefixes(text, tunnel.remote);
    case kUdp: {
      uint64_t port = 0;
      if (!ParseNumber(text, 1, 65'535, port)) return false;
      tunnel.udp_port = static_cast<uint16_t>(port);
      return true;
    }
    case kEsn:
      tunnel.has_esn = text == "on";
      return text == "on" || text == "off";
    case kFirst:
      return ParseNumber(text, 1, ~uint64_t{0}, tunnel.first);
    default:
      return false;
  }
}

}  // namespace

size_t VpnTunnel::outer_bytes() const {
  return (is_ipv6 ? Ipv6Header<Byte>::kBytes : Ipv4Header<Byte>::kMinBytes) +
         (udp_port != 0 ? UdpHeader<Byte>::kBytes : 0);
}
FlowKey VpnTunnel::FlowIn() const { return FlowOf(local, spi_in, is_ipv6); }
FlowKey VpnTunnel::FlowOut() const { return FlowOf(peer, spi_out, is_ipv6); }

VpnEnds VpnEnds::Of(std::span<const std::byte> frame,
                    const ParsedPacket& headers) {
  if (headers.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<Byte>::At(frame, headers.l3_offset);
    return {.source = IpAddress::FromIpv4(ip.source()),
            .destination = IpAddress::FromIpv4(ip.destination())};
  }
  const auto ip = Ipv6Header<Byte>::At(frame, headers.l3_offset);
  return {
      .source = ip.source(), .destination = ip.destination(), .is_ipv6 = true};
}

// --- The file ----------------------------------------------------------------

absl::StatusOr<VpnTunnels> VpnTunnels::Load(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadTextFile(file, kMaxFileBytes);
  if (!text.ok()) return text.status();
  VpnTunnels tunnels;
  size_t number = 0;
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  for (const std::string& line : lines) {
    ++number;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0].starts_with('#')) continue;  // a comment
    absl::StatusOr<VpnTunnel> tunnel = tunnels.ParseTunnel(words);
    if (!tunnel.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ":", number, ": ", tunnel.status().message()));
    }
    tunnels.by_spi_.emplace_back(
        tunnel->spi_in, static_cast<uint32_t>(tunnels.tunnels_.size()));
    tunnels.tunnels_.push_back(*std::move(tunnel));
  }
  if (tunnels.tunnels_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": names no tunnel"));
  }
  std::ranges::sort(tunnels.by_spi_);
  return tunnels;
}

// A word that cannot be read may be a key that lost its name, so it is named by
// its place, and never quoted.
absl::StatusOr<VpnTunnel> VpnTunnels::ParseTunnel(
    std::span<const std::string> words) const {
  VpnTunnel tunnel;
  if (!IsName(words[0])) {
    return absl::InvalidArgumentError(
        "word 1: want a name of up to 32 letters, digits, - and _");
  }
  tunnel.name = words[0];
  uint32_t given = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const auto known = std::ranges::find_if(
        kWords, [&](const Word& word) { return word.name == name; });
    if (equals == std::string_view::npos || known == kWords.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "word ", i + 1,
          ": want local=, peer=, spi_in=, spi_out=, key_in=, key_out=, "
          "inside=, remote=, udp=, esn= or first="));
    }
    if ((given & known->given) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, "= is given twice"));
    }
    const std::string_view value =
        std::string_view(words[i]).substr(equals + 1);
    if (!ReadValue(known->given, value, given, tunnel)) {
      return absl::InvalidArgumentError(
          absl::StrCat("word ", i + 1, ", ", name, "=: want ", known->wanted));
    }
    given |= known->given;
  }
  for (const Word& word : kWords) {
    if ((word.given & kAllNeeded & ~given) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(word.name, "= is missing: ", word.wanted));
  }
  const std::string wrong = WrongWith(tunnel);
  if (!wrong.empty()) return absl::InvalidArgumentError(wrong);
  return tunnel;
}

// Two packets of one key might have the same IV, and both would be readable. So
// no two associations have the same key.
std::string VpnTunnels::WrongWith(const VpnTunnel& tunnel) const {
  if (tunnels_.size() == kMaxTunnels) {
    return absl::StrCat("more than ", kMaxTunnels, " tunnels");
  }
  if (tunnel.local == tunnel.peer) return "local= and peer= are the same";
  if (tunnel.first > tunnel.last()) return "first= of 64 bits without esn=on";
  if (tunnel.key_in == tunnel.key_out) return "key_in= and key_out= are equal";
  for (const VpnTunnel& other : tunnels_) {
    const auto is_shared = [&](const EspKey& key) {
      return key == other.key_in || key == other.key_out;
    };
    if (other.name == tunnel.name) {
      return absl::StrCat("a second tunnel ", tunnel.name);
    }
    if (other.spi_in == tunnel.spi_in) {
      return absl::StrCat("spi_in= is that of ", other.name);
    }
    if (other.FlowOut() == tunnel.FlowOut() ||
        other.FlowIn() == tunnel.FlowOut() ||
        other.FlowOut() == tunnel.FlowIn()) {
      return absl::StrCat("spi_out= and peer= are as in ", other.name);
    }
    if (is_shared(tunnel.key_in) || is_shared(tunnel.key_out)) {
      return absl::StrCat("a key is also that of ", other.name);
    }
  }
  return "";
}

// --- Packets -----------------------------------------------------------------

VpnTunnels::Found VpnTunnels::Find(std::span<const std::byte> frame,
                                   const ParsedPacket& headers) const {
  const VpnEnds ends = VpnEnds::Of(frame, headers);
  if (const auto found = FindEsp(frame, headers, ends)) return *found;
  bool is_unprotected = false;
  for (size_t i = 0; i < tunnels_.size(); ++i) {
    const VpnTunnel& tunnel = tunnels_[i];
    if (AreIn(tunnel.inside, ends.source, ends.is_ipv6) &&
        AreIn(tunnel.remote, ends.destination, ends.is_ipv6)) {
      return {.way = Way::kOut, .tunnel = static_cast<uint32_t>(i)};
    }
    is_unprotected = is_unprotected || Selects(tunnel, ends);
  }
  return {.way = is_unprotected ? Way::kUnprotected : Way::kOther};
}

bool VpnTunnels::Selects(const VpnTunnel& tunnel, const VpnEnds& inner) {
  return AreIn(tunnel.remote, inner.source, inner.is_ipv6) &&
         AreIn(tunnel.inside, inner.destination, inner.is_ipv6);
}

bool VpnTunnels::IsLocal(const VpnEnds& ends, bool with_udp) const {
  return std::ranges::any_of(tunnels_, [&](const VpnTunnel& tunnel) {
    return tunnel.local == ends.destination && tunnel.is_ipv6 == ends.is_ipv6 &&
           (tunnel.udp_port != 0) == with_udp;
  });
}

std::optional<VpnTunnels::Found> VpnTunnels::FindEsp(
    std::span<const std::byte> frame, const ParsedPacket& headers,
    const VpnEnds& ends) const {
  const bool is_udp = headers.l4_protocol == IpProtocol::kUdp;
  if (!is_udp && headers.l4_protocol != IpProtocol::kEsp) return std::nullopt;
  // Later fragments of UDP show no port, and count as other packets.
  if (is_udp && headers.result != ParseResult::kComplete) return std::nullopt;
  if (is_udp &&
      UdpHeader<Byte>::At(frame, headers.l4_offset).destination_port() !=
          be16(kUdpPort)) {
    return std::nullopt;
  }
  if (!IsLocal(ends, is_udp)) return std::nullopt;
  if (headers.fragment != Fragment::kNone) return Found{.way = Way::kFragment};
  const uint32_t at = is_udp ? headers.payload_offset : headers.l4_offset;
  const uint32_t bytes = headers.end_offset - at;
  if (is_udp && bytes == 1 && frame[at] == std::byte{0xff}) {
    return Found{.way = Way::kKeepalive};
  }
  if (bytes < kSpiBytes) return Found{.way = Way::kShort};
  const uint32_t spi = LoadBe32(&frame[at]).host();
  if (is_udp && spi == 0) return std::nullopt;  // IKE (RFC 3948 §2.2)
  const auto known =
      std::ranges::lower_bound(by_spi_, std::pair(spi, uint32_t{0}));
  if (known == by_spi_.end() || known->first != spi) {
    return Found{.way = Way::kUnknownSpi};
  }
  const VpnTunnel& tunnel = tunnels_[known->second];
  // The peer of UDP may have another address, behind a NAT.
  const bool is_its = tunnel.local == ends.destination &&
                      tunnel.is_ipv6 == ends.is_ipv6 &&
                      (tunnel.udp_port != 0) == is_udp &&
                      (is_udp || tunnel.peer == ends.source);
  if (!is_its) return Found{.way = Way::kUnknownSpi};
  return Found{.way = Way::kIn, .tunnel = known->second, .esp_offset = at};
}

}  // namespace snf
