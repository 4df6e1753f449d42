// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_INTERFACE_NETWORK_INTERFACE_H_
#define SNF_PLATFORM_PORTS_INTERFACE_NETWORK_INTERFACE_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

// Asks and sets an interface of this machine (netdevice(7)).
//
// Features that are switched off are noted in a file in /run, which all
// processes that use the interface lock (flock(2)). The last process switches
// them on again and removes the file; so does a later process, if all were
// killed. If there can be no such file, the features stay off.
//
// Owner-thread only.
class NetworkInterface {
 public:
  explicit NetworkInterface(std::string name);
  // Switches the features on again, if no other process uses the interface.
  ~NetworkInterface();
  NetworkInterface(const NetworkInterface&) = delete;
  NetworkInterface& operator=(const NetworkInterface&) = delete;

  // Returns FailedPrecondition, with the reason, if the interface does not
  // exist, is not Ethernet, or is down.
  absl::Status Check() const;
  int index() const;  // 0 if it is not there
  // Returns the link address; zeros if it is not there.
  std::array<std::byte, 6> mac() const;
  uint32_t mtu() const;  // 0 if it is not there
  bool SetUp();          // returns false, with errno, if it cannot be
  // Claims the frames of this interface, so that no other process forwards them
  // as well. `frames` is "" for all frames, or names a controller's share
  // ("0/2"). Equal claims exclude each other in a network namespace. A claim
  // ends with its process, or this object. Returns false, with errno, if
  // another process has the claim.
  bool Claim(std::string_view frames);
  // Gives the claim back.
  void Unclaim() { claim_ = Descriptor(); }
  // Returns true if a process of this network namespace has the claim. Claims
  // nothing, so a process that claims meanwhile is not refused.
  bool is_claimed(std::string_view frames) const;
  // Sets the length of the transmit queue, in frames. Failure is ignored.
  void QueueFrames(int frames);
  // Returns the frames that the machine sent by the interface and the kernel
  // dropped.
  uint64_t unsent() const;

  // Joins, and switches off that the driver merges packets that come in (gro,
  // lro), unless no note of it can be made. Returns the features that were on,
  // as "gro, lro"; "" if none was.
  std::string MergeNothing();
  // Joins, and keeps the driver from taking VLAN tags out of incoming frames,
  // because not every reader sees them then. Returns the feature that was on:
  // "rxvlan", or "".
  std::string LeaveTags();

  // Registers this process as a user of the changed interface: the changes,
  // also those of other processes, are not undone while it lives.
  void Join();

 private:
  std::string NoteFile() const;
  bool SwitchOff(uint32_t flag);
  void Note(std::string_view what) const;
  bool Ask(uint32_t command, uint32_t& value) const;
  bool Set(uint32_t command, uint32_t value) const;

  const std::string name_;
  Descriptor socket_;
  Descriptor claim_;
  std::string note_file_;  // "" before Join
  Descriptor note_;        // that file, locked; none if it cannot be
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_INTERFACE_NETWORK_INTERFACE_H_
