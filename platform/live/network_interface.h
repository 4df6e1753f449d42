// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_
#define SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_

#include <sys/socket.h>

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
// What is switched off is noted in a file in /run, which is locked by all
// processes that use the interface (flock(2)). The last of them switches it on
// again and removes the file, whoever switched it off; so does a later one, if
// all were killed. Where there can be no such file, it stays off.
//
// Owner-thread only.
class NetworkInterface {
 public:
  explicit NetworkInterface(std::string name);
  // Switches on again what was switched off, if nobody else uses it.
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

  // Joins, and switches off that the driver merges packets that come in (gro,
  // lro). Returns the names of what was on, as "gro, lro"; "" if nothing was.
  std::string MergeNothing();
  // Joins, and switches off that the driver takes VLAN tags out of what comes
  // in, which not every reader is told. Returns what was on: "rxvlan", or "".
  std::string LeaveTags();

  // From now on this process is one that uses the interface as it was changed,
  // perhaps by another one: that is not undone while it lives.
  void Join();

 private:
  std::string NoteFile() const;
  bool SwitchOff(uint32_t flag);
  void Note(std::string_view what) const;
  bool Ask(uint32_t command, uint32_t& value) const;
  bool Set(uint32_t command, uint32_t value) const;

  const std::string name_;
  Descriptor socket_;
  std::string note_file_;  // "" before Join
  Descriptor note_;        // that file, locked; none if it cannot be
};

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_
