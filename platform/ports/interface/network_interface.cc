// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/interface/network_interface.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>

namespace snf {
namespace {

// Features that may be noted, by their names in ethtool(8).
constexpr std::string_view kGro = "gro", kLro = "lro", kTags = "rxvlan";

ifreq RequestFor(const std::string& name) {
  ifreq request = {};
  // The name was checked to fit, with its end (ParsePort).
  std::memcpy(request.ifr_name, name.data(), name.size());
  return request;
}

// The address of a claim. An abstract name (unix(7)) belongs to a network
// namespace, as interfaces do, and is free again as soon as nobody has the
// socket.
struct ClaimAddress {
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }
  sockaddr_un address;
  socklen_t bytes;
};

// Returns nothing if the name is too long.
std::optional<ClaimAddress> AddressOf(std::string_view interface,
                                      std::string_view frames) {
  ClaimAddress claim = {};
  claim.address.sun_family = AF_UNIX;
  const std::string name = fmt::format("snf-port-{}-{}", interface, frames);
  if (name.size() >= sizeof claim.address.sun_path) return std::nullopt;
  std::memcpy(&claim.address.sun_path[1], name.data(), name.size());
  claim.bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return claim;
}

}  // namespace

Descriptor::~Descriptor() {
  if (is_open()) close(number_);
}

NetworkInterface::NetworkInterface(std::string name)
    : name_(std::move(name)),
      socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

NetworkInterface::~NetworkInterface() {
  if (!note_.is_open()) return;
  // A process that comes now waits for the lock, and finds the file gone.
  if (flock(note_.number(), LOCK_EX | LOCK_NB) != 0) return;
  std::ifstream file(note_file_);
  for (std::string what; file >> what;) {
    uint32_t flags = 0;
    if (what == kGro) {
      Set(ETHTOOL_SGRO, 1);
    } else if (const uint32_t flag = what == kLro    ? ETH_FLAG_LRO
                                     : what == kTags ? ETH_FLAG_RXVLAN
                                                     : 0;
               flag != 0 && Ask(ETHTOOL_GFLAGS, flags)) {
      Set(ETHTOOL_SFLAGS, flags | flag);
    }
  }
  unlink(note_file_.c_str());
}

bool NetworkInterface::Claim(std::string_view frames) {
  if (claim_.is_open()) return true;
  Descriptor claim(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!claim.is_open()) return false;
  const std::optional<ClaimAddress> address = AddressOf(name_, frames);
  if (!address.has_value()) {
    errno = ENAMETOOLONG;
    return false;
  }
  if (bind(claim.number(), address->get(), address->bytes) != 0) return false;
  claim_ = std::move(claim);
  return true;
}

bool NetworkInterface::is_claimed(std::string_view frames) const {
  const Descriptor asks(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::optional<ClaimAddress> address = AddressOf(name_, frames);
  return asks.is_open() && address.has_value() &&
         connect(asks.number(), address->get(), address->bytes) == 0;
}

// An interface of the same name in another network has another address.
std::string NetworkInterface::NoteFile() const {
  std::string address = "none";
  if (ifreq request = RequestFor(name_);
      ioctl(socket_.number(), SIOCGIFHWADDR, &request) == 0) {
    const auto* const bytes =
        reinterpret_cast<const uint8_t*>(request.ifr_hwaddr.sa_data);
    address = fmt::format("{:02x}", fmt::join(bytes, bytes + ETH_ALEN, ""));
  }
  return fmt::format("/run/snf-port-{}-{}", name_, address);
}

void NetworkInterface::Join() {
  if (!note_file_.empty()) return;
  note_file_ = NoteFile();
  while (true) {
    note_ = Descriptor(
        open(note_file_.c_str(),
             O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    struct stat status = {};
    if (!note_.is_open()) return;
    if (flock(note_.number(), LOCK_SH) != 0 ||
        fstat(note_.number(), &status) != 0) {
      note_ = Descriptor();
      return;
    }
    if (status.st_nlink > 0)
      return;  // else the file was removed by a process that has ended
  }
}

void NetworkInterface::Note(std::string_view what) const {
  if (!note_.is_open()) return;
  const std::string line = fmt::format("{}\n", what);
  // If the disk is full it stays off.
  [[maybe_unused]] const ssize_t written =
      write(note_.number(), line.data(), line.size());
}

absl::Status NetworkInterface::Check() const {
  const auto bad = [this](const std::string& what) {
    return absl::FailedPreconditionError(fmt::format("{}{}", name_, what));
  };
  ifreq request = RequestFor(name_);
  if (ioctl(socket_.number(), SIOCGIFHWADDR, &request) != 0) {
    return bad(": there is no such interface (ip link lists them)");
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

std::array<std::byte, 6> NetworkInterface::mac() const {
  std::array<std::byte, 6> mac{};
  ifreq request = RequestFor(name_);
  if (ioctl(socket_.number(), SIOCGIFHWADDR, &request) == 0) {
    std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  }
  return mac;
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
  Join();
  // Without a note, no process would switch them on again. Merged frames are
  // cut, or stay whole.
  if (!note_.is_open()) return "";
  uint32_t on = 0;
  const bool had_gro = Ask(ETHTOOL_GGRO, on) && on != 0 && Set(ETHTOOL_SGRO, 0);
  if (had_gro) Note(kGro);
  const bool had_lro = SwitchOff(ETH_FLAG_LRO);
  if (had_lro) Note(kLro);
  if (had_gro && had_lro) return "gro, lro";
  return had_gro ? "gro" : had_lro ? "lro" : "";
}

std::string NetworkInterface::LeaveTags() {
  Join();
  if (!SwitchOff(ETH_FLAG_RXVLAN)) return "";
  Note(kTags);
  return "rxvlan";
}

bool NetworkInterface::SwitchOff(uint32_t flag) {
  uint32_t on = 0;
  return Ask(ETHTOOL_GFLAGS, on) && (on & flag) != 0 &&
         Set(ETHTOOL_SFLAGS, on & ~flag);
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
