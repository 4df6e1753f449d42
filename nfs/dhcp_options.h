// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_DHCP_OPTIONS_H_
#define SNF_NFS_DHCP_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/ip_prefix.h"
#include "base/time.h"
#include "nfs/dhcp_message.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// The options of --nf dhcp:… . NfOptions::status() reports errors.
struct DhcpOptions {
  explicit DhcpOptions(NfOptions& options);

  static constexpr uint32_t kMostAddresses = 65'535;
  static constexpr size_t kMostReserved = 4'096;
  static constexpr size_t kMostListed = 8;

  // network=10.0.0.0/24: the hosts' network, whose mask they are told.
  IpPrefix network;
  // range=10.0.0.100-10.0.0.199: the addresses that are leased.
  be32 first{0x0a00'0064};
  be32 last{0x0a00'00c7};
  // server=10.0.0.1: the server's own address, by which clients name it.
  be32 server{0x0a00'0001};
  // mac=02:00:00:00:00:01: the Ethernet address that answers come from.
  MacAddress48 mac{};
  // router=10.0.0.1+…, dns=10.0.0.1+…: what hosts are told; none by default.
  std::vector<be32> routers;
  std::vector<be32> dns;
  // reserve=02:00:00:00:00:07@10.0.0.7+…: hosts that always get one address,
  // sorted by the hardware address. The addresses are outside of the range.
  struct Reserved {
    MacAddress48 hardware;
    be32 address;
  };
  std::vector<Reserved> reserved;
  // lease=1h, offer=60s, decline=10min: for how long a client has its address
  // without asking again, an offered address is kept, and an address that a
  // client found in use is leased to none.
  Nanos lease = Seconds(3'600);
  Nanos offer = Seconds(60);
  Nanos decline = Seconds(600);

  uint32_t addresses() const { return last.host() - first.host() + 1; }
  bool IsInRange(be32 address) const {
    return address.host() >= first.host() && address.host() <= last.host();
  }
  bool IsInNetwork(be32 address) const;
  be32 mask() const;
  std::optional<be32> ReservedFor(const MacAddress48& hardware) const;

 private:
  void AskAddresses(NfOptions& options);
  void AskReserved(NfOptions& options);
};

}  // namespace snf

#endif  // SNF_NFS_DHCP_OPTIONS_H_
