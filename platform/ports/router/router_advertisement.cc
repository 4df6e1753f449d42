// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/router_advertisement.h"

#include <algorithm>

#include "base/answers/ip_writing.h"
#include "base/check.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "platform/ports/router/neighbour_messages.h"

namespace snf {
namespace {

using Byte = std::byte;

constexpr size_t kFrameHeadBytes = EthernetHeader<Byte>::kBytes;
constexpr size_t kIpAndLinkBytes = kFrameHeadBytes + Ipv6Header<Byte>::kBytes;
constexpr uint8_t kRouterAdvertisement = 134;
constexpr uint8_t kRouterMacOption = 1, kPrefixOption = 3, kMtuOption = 5;
constexpr uint8_t kDnsOption = 25;
constexpr uint8_t kOnLink = 0x80, kAutonomous = 0x40;
constexpr uint32_t kLeastIpv6Mtu = 1'280;
constexpr uint8_t kBitsOfHosts = 64;

IpAddress LinkLocalOf(const RouterConfig& config) {
  const auto found = std::ranges::find_if(config.addresses,
                                          [](const RouterConfig::Address& own) {
                                            return IsLinkLocal(own.address);
                                          });
  SNF_CHECK(found != config.addresses.end());
  return found->address;
}

}  // namespace

void AdvertisementTimes::on_question(Instant now) {
  Instant soon = now + Nanos{rng_.Uniform(0, kMostDelay.ns)};
  if (last_.has_value()) soon = std::max(soon, *last_ + kLeastBetween);
  next_ = std::min(next_, soon);
}

bool AdvertisementTimes::IsDue(Instant now) {
  if (now < next_) return false;
  sent_ = std::min(sent_ + 1, kInitial);
  const bool is_initial = sent_ < kInitial;
  const Nanos least = is_initial ? Nanos{kMostInitial.ns / 2} : kLeast;
  const Nanos most = is_initial ? kMostInitial : kMost;
  last_ = now;
  next_ = now + Nanos{rng_.Uniform(least.ns, most.ns)};
  return true;
}

AdvertisementFrame::AdvertisementFrame(const RouterConfig& config,
                                       const MacAddress& mac, uint32_t mtu,
                                       bool ends) {
  const IpAddress from = LinkLocalOf(config), to = AllNodes();
  std::ranges::copy(MacOfGroup(to), &bytes_[0]);
  std::ranges::copy(mac, &bytes_[6]);
  Store(&bytes_[12], be16(static_cast<uint16_t>(EtherType::kIpv6)));
  const std::span<Byte> ip = std::span(bytes_).subspan(kFrameHeadBytes);
  WriteIpv6Header(ip, 0, 0, IpProtocol::kIcmpv6, from, to);
  Byte* const icmp = &bytes_[kIpAndLinkBytes];
  icmp[0] = Byte{kRouterAdvertisement};
  icmp[4] = Byte{kOwnHops};
  Store(&icmp[6], be16(ends ? 0 : kLifetimeSeconds));
  std::ranges::copy(mac, Append(kRouterMacOption, 8).subspan(2).begin());
  if (mtu >= kLeastIpv6Mtu) {
    Store(&Append(kMtuOption, 8)[4], be32(mtu));
  }
  AddPrefixes(config);
  AddDns(config, ends);
  const auto header = Ipv6Header<Byte>::At(ip, 0);
  header.set_payload_bytes(static_cast<uint16_t>(size_ - kIpAndLinkBytes));
  header.set_hop_limit(255);
  Store(&icmp[2], L4Checksum(from, to, IpProtocol::kIcmpv6,
                             std::span(bytes_).subspan(
                                 kIpAndLinkBytes, size_ - kIpAndLinkBytes)));
}

void AdvertisementFrame::AddPrefixes(const RouterConfig& config) {
  const auto& all = config.addresses;
  for (size_t i = 0; i < all.size(); ++i) {
    const IpPrefix network = all[i].network();
    const auto is_same = [&network](const RouterConfig::Address& other) {
      return other.network() == network;
    };
    if (IsIpv4(all[i].address) || IsLinkLocal(all[i].address) ||
        std::any_of(all.begin(), all.begin() + static_cast<ptrdiff_t>(i),
                    is_same)) {
      continue;
    }
    const std::span<Byte> option = Append(kPrefixOption, kPrefixBytes);
    option[2] = Byte{network.length};
    option[3] = Byte{kOnLink};
    if (network.length == kBitsOfHosts) option[3] |= Byte{kAutonomous};
    Store(&option[4], be32(kValidSeconds));
    Store(&option[8], be32(kPreferredSeconds));
    std::ranges::copy(network.address.bytes, &option[16]);
  }
}

// Servers live as long as the router (RFC 8106 §5.1: three times the longest
// time between advertisements).
void AdvertisementFrame::AddDns(const RouterConfig& config, bool ends) {
  if (config.dns.empty()) return;
  const std::span<Byte> option = Append(kDnsOption, 8 + config.dns.size() * 16);
  Store(&option[4], be32(ends ? 0 : kLifetimeSeconds));
  for (size_t i = 0; i < config.dns.size(); ++i) {
    std::ranges::copy(config.dns[i].bytes, &option[8 + 16 * i]);
  }
}

std::span<std::byte> AdvertisementFrame::Append(uint8_t type, size_t bytes) {
  const std::span<Byte> option = std::span(bytes_).subspan(size_, bytes);
  option[0] = Byte{type};
  option[1] = static_cast<Byte>(bytes / 8);
  size_ += bytes;
  return option;
}

}  // namespace snf
