// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_
#define SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_

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
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// Asks and sets an interface of this machine (netdevice(7)). Owner-thread only.
class NetworkInterface {
 public:
  explicit NetworkInterface(std::string name);
  // Switches on again what MergeNothing switched off.
  ~NetworkInterface();
  NetworkInterface(const NetworkInterface&) = delete;
  NetworkInterface& operator=(const NetworkInterface&) = delete;

  // Returns FailedPrecondition, which says what is missing, if it is not there,
  // not Ethernet, or down.
  absl::Status Check() const;
  int index() const;     // 0 if it is not there
  uint32_t mtu() const;  // 0 if it is not there
  bool SetUp();          // returns false, with errno, if it cannot be

  // Switches off that the driver merges packets that come in (gro, lro).
  // Returns the names of what was on, as "gro, lro"; "" if nothing was.
  std::string MergeNothing();

 private:
  bool Ask(uint32_t command, uint32_t& value) const;
  bool Set(uint32_t command, uint32_t value) const;

  const std::string name_;
  Descriptor socket_;
  bool had_gro_ = false;
  bool had_lro_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_LIVE_NETWORK_INTERFACE_H_
