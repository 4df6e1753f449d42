// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_
#define SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace snf {

// A descriptor that is closed when this ends; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }
  // Returns it, and leaves closing it to the caller.
  int Release() { return std::exchange(number_, -1); }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// Sets an option of a socket. Returns false, with errno, if it cannot be.
template <typename Value>
bool SetOption(const Descriptor& socket, int level, int option,
               const Value& value) {
  return setsockopt(socket.number(), level, option, &value, sizeof value) == 0;
}

// Asks and sets an interface of this machine (netdevice(7)). Owner-thread only.
class NetworkInterface {
 public:
  explicit NetworkInterface(std::string name);
  // Switches on again what was switched off.
  ~NetworkInterface();
  NetworkInterface(const NetworkInterface&) = delete;
  NetworkInterface& operator=(const NetworkInterface&) = delete;

  // Returns FailedPrecondition, which says what is missing, if it is not there,
  // not Ethernet, or down.
  absl::Status Check() const;
  int index() const;     // 0 if it is not there
  uint32_t mtu() const;  // 0 if it is not there
  bool SetUp();          // returns false, with errno, if it cannot be
  // Lets so many frames wait that the machine sends by it; if that cannot be,
  // it stays as it is.
  void QueueFrames(int frames);
  // Counts the frames that the machine sent by it and the kernel dropped.
  uint64_t unsent() const;

  // Switches off that the driver merges packets that come in (gro, lro).
  // Returns the names of what was on, as "gro, lro"; "" if nothing was.
  std::string MergeNothing();
  // Switches off that the driver takes VLAN tags out of what comes in, which
  // not every reader is told. Returns what was on: "rxvlan", or "".
  std::string LeaveTags();

  // Names what was switched off, which is switched on again in the end.
  struct Changes {
    bool gro = false;
    uint32_t flags = 0;  // ETH_FLAG_… of ethtool
  };
  // Another process is to do that, or this one instead of another.
  Changes GiveAway() { return std::exchange(changes_, {}); }
  void Take(const Changes& changes) { changes_ = changes; }

 private:
  bool SwitchOff(uint32_t flag);
  bool Ask(uint32_t command, uint32_t& value) const;
  bool Set(uint32_t command, uint32_t value) const;

  const std::string name_;
  Descriptor socket_;
  Changes changes_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_
