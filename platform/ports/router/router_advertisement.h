// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_ROUTER_ADVERTISEMENT_H_
#define SNF_PLATFORM_PORTS_ROUTER_ROUTER_ADVERTISEMENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/rng.h"
#include "base/time.h"
#include "platform/ports/router/router_config.h"

namespace snf {

// Says when a router advertises itself to its hosts (RFC 4861 §6.2): at random
// times, at first more often, and soon after a host has asked. A value.
//
//   Worked example: it advertises at 0 s, and within 16 s of each other twice
//   more, 8 s or later, then each 200 to 600 s. A host asks at 100.0 s: the
//   next one is at 100.0 to 100.5 s. Another asks at 101 s: it is at 103 s or
//   later.
class AdvertisementTimes {
 public:
  static constexpr Nanos kLeast = Seconds(200), kMost = Seconds(600);
  static constexpr Nanos kMostInitial = Seconds(16);
  static constexpr uint32_t kInitial = 3;
  static constexpr Nanos kMostDelay = Milliseconds(500);
  static constexpr Nanos kLeastBetween = Seconds(3);

  explicit AdvertisementTimes(Rng rng) : rng_(rng) {}

  void on_question(Instant now);
  // Another process has advertised the router until now, and this one goes on:
  // as at the beginning, but not within kLeastBetween.
  void TakeOver(Instant now) {
    last_ = now;
    next_ = now + kLeastBetween;
    sent_ = 0;
  }
  // Returns true if an advertisement is due, which counts as sent then.
  bool IsDue(Instant now);

 private:
  Rng rng_;
  std::optional<Instant> last_;
  Instant next_ = Instant::min();
  uint32_t sent_ = 0;  // up to kInitial
};

// A frame by which a router tells all hosts of a link its link address, the
// MTU, the networks of its addresses, and DNS servers (RFC 8106). From networks
// whose length is 64 a host takes an address (RFC 4862).
class AdvertisementFrame {
 public:
  static constexpr uint16_t kLifetimeSeconds = 1'800;
  static constexpr uint32_t kValidSeconds = 2'592'000;
  static constexpr uint32_t kPreferredSeconds = 604'800;

  // `config` has a link-local address (RouterConfig::Completed). An MTU below
  // 1,280 is not told. `ends`: hosts shall no longer use the router and the DNS
  // servers.
  AdvertisementFrame(const RouterConfig& config, const MacAddress& mac,
                     uint32_t mtu, bool ends);

  std::span<const std::byte> bytes() const {
    return std::span(bytes_).first(size_);
  }

 private:
  static constexpr size_t kHeadBytes = 14 + 40 + 16, kPrefixBytes = 32;
  static constexpr size_t kMostBytes =
      kHeadBytes + 8 + 8 + (RouterConfig::kMostAddresses + 1) * kPrefixBytes +
      8 + RouterConfig::kMostDns * 16;

  std::span<std::byte> Append(uint8_t type, size_t bytes);
  void AddPrefixes(const RouterConfig& config);
  void AddDns(const RouterConfig& config, bool ends);

  std::array<std::byte, kMostBytes> bytes_{};
  size_t size_ = kHeadBytes;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_ROUTER_ADVERTISEMENT_H_
