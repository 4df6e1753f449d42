// SPDX-License-Identifier: Apache-2.0
#include "platform/live/network_interface.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace snf {
namespace {

ifreq RequestFor(const std::string& name) {
  ifreq request = {};
  // The name was checked to fit, with its end (ParsePort).
  std::memcpy(request.ifr_name, name.data(), name.size());
  return request;
}

}  // namespace

Descriptor::~Descriptor() {
  if (is_open()) close(number_);
}

NetworkInterface::NetworkInterface(std::string name)
    : name_(std::move(name)),
      socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

NetworkInterface::~NetworkInterface() {
  uint32_t flags = 0;
  if (changes_.gro) Set(ETHTOOL_SGRO, 1);
  if (changes_.flags != 0 && Ask(ETHTOOL_GFLAGS, flags)) {
    Set(ETHTOOL_SFLAGS, flags | changes_.flags);
  }
}

absl::Status NetworkInterface::Check() const {
  const auto bad = [this](const std::string& what) {
    return absl::FailedPreconditionError(fmt::format("{}{}", name_, what));
  };
  ifreq request = RequestFor(name_);
  if (ioctl(socket_.number(), SIOCGIFHWADDR, &request) != 0) {
    return bad(": there is no such interface (ip link shows which there are)");
  }
  const int type = request.ifr_hwaddr.sa_family;
  if (type != ARPHRD_ETHER) {
    return bad(fmt::format(
        " is not an Ethernet interface, but one of ARP hardware type {}",
        type));
  }
  if (ioctl(socket_.number(), SIOCGIFFLAGS, &request) != 0 ||
      (request.ifr_flags & IFF_UP) == 0) {
    return bad(fmt::format(" is down (ip link set {} up)", name_));
  }
  return absl::OkStatus();
}

int NetworkInterface::index() const {
  return static_cast<int>(if_nametoindex(name_.c_str()));
}

uint32_t NetworkInterface::mtu() const {
  ifreq request = RequestFor(name_);
  if (ioctl(socket_.number(), SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<uint32_t>(request.ifr_mtu);
}

bool NetworkInterface::SetUp() {
  ifreq request = RequestFor(name_);
  if (ioctl(socket_.number(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags |= IFF_UP;
  return ioctl(socket_.number(), SIOCSIFFLAGS, &request) == 0;
}

void NetworkInterface::QueueFrames(int frames) {
  ifreq request = RequestFor(name_);
  request.ifr_qlen = frames;
  ioctl(socket_.number(), SIOCSIFTXQLEN, &request);
}

uint64_t NetworkInterface::unsent() const {
  std::ifstream file("/sys/class/net/" + name_ + "/statistics/tx_dropped");
  uint64_t frames = 0;
  file >> frames;
  return frames;
}

std::string NetworkInterface::MergeNothing() {
  uint32_t on = 0;
  changes_.gro = Ask(ETHTOOL_GGRO, on) && on != 0 && Set(ETHTOOL_SGRO, 0);
  const bool had_lro = SwitchOff(ETH_FLAG_LRO);
  if (changes_.gro && had_lro) return "gro, lro";
  return changes_.gro ? "gro" : had_lro ? "lro" : "";
}

std::string NetworkInterface::LeaveTags() {
  return SwitchOff(ETH_FLAG_RXVLAN) ? "rxvlan" : "";
}

bool NetworkInterface::SwitchOff(uint32_t flag) {
  uint32_t on = 0;
  if (!Ask(ETHTOOL_GFLAGS, on) || (on & flag) == 0) return false;
  if (!Set(ETHTOOL_SFLAGS, on & ~flag)) return false;
  changes_.flags |= flag;
  return true;
}

bool NetworkInterface::Ask(uint32_t command, uint32_t& value) const {
  ethtool_value asked = {.cmd = command, .data = 0};
  ifreq request = RequestFor(name_);
  request.ifr_data = reinterpret_cast<char*>(&asked);
  if (ioctl(socket_.number(), SIOCETHTOOL, &request) != 0) return false;
  value = asked.data;
  return true;
}

bool NetworkInterface::Set(uint32_t command, uint32_t value) const {
  ethtool_value set = {.cmd = command, .data = value};
  ifreq request = RequestFor(name_);
  request.ifr_data = reinterpret_cast<char*>(&set);
  return ioctl(socket_.number(), SIOCETHTOOL, &request) == 0;
}

}  // namespace snf
